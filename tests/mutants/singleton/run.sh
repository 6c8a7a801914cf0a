#!/bin/sh
# Proves that the tests of singletons bite; see plant.sh.
# usage: tests/mutants/singleton/run.sh [PATCH...]     default: all
exec "$(dirname "$0")/../plant.sh" singleton "$@"
