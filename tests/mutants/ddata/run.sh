#!/bin/sh
# Proves that the tests of the replicator bite; see plant.sh.
# usage: tests/mutants/ddata/run.sh [PATCH...]     default: all
exec "$(dirname "$0")/../plant.sh" ddata "$@"
