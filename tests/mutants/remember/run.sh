#!/bin/sh
# Proves that the tests of remembered entities bite; see plant.sh.
# usage: tests/mutants/remember/run.sh [PATCH...]     default: all
export MUTANTS_CORE_OPT_LEVEL=0
exec "$(dirname "$0")/../plant.sh" remember "$@"
