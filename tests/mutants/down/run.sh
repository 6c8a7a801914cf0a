#!/bin/sh
# Proves that the tests of downing bite; see plant.sh.
# usage: tests/mutants/down/run.sh [PATCH...]     default: all
exec "$(dirname "$0")/../plant.sh" down "$@"
