#!/bin/sh
# Proves that the tests of the rule of the fewest nodes bite; see plant.sh.
# usage: tests/mutants/judgement/run.sh [PATCH...]     default: all
exec "$(dirname "$0")/../plant.sh" judgement "$@"
