#!/bin/sh
# Proves that the tests of watches and of a region's shutdown bite; see plant.sh.
# usage: tests/mutants/watch/run.sh [PATCH...]     default: all
exec "$(dirname "$0")/../plant.sh" watch "$@"
