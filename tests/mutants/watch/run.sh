#!/bin/sh
# Proves that the tests of watches and of a region's shutdown bite; see plant.sh.
# usage: tests/mutants/watch/run.sh [PATCH...]     default: all
export MUTANTS_CORE_OPT_LEVEL=0
exec "$(dirname "$0")/../plant.sh" watch "$@"
