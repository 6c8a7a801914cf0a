#!/bin/sh
# Proves that the tests of owners of logs bite; see plant.sh.
# usage: tests/mutants/log/run.sh [PATCH...]     default: all
export MUTANTS_CORE_OPT_LEVEL=0
exec "$(dirname "$0")/../plant.sh" log "$@"
