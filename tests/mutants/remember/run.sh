#!/bin/sh
# Proves that the tests of remembered entities bite; see plant.sh.
# usage: tests/mutants/remember/run.sh [PATCH...]     default: all
exec "$(dirname "$0")/../plant.sh" remember "$@"
