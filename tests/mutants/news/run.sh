#!/bin/sh
# Proves that the tests of news of the membership bite; see plant.sh.
# usage: tests/mutants/news/run.sh [PATCH...]     default: all
export MUTANTS_CORE_OPT_LEVEL=0
exec "$(dirname "$0")/../plant.sh" news "$@"
