#!/bin/sh
# Proves that the simulator's liar bites; see plant.sh.
# usage: tests/mutants/liar/run.sh [PATCH...]     default: all
exec "$(dirname "$0")/../plant.sh" liar "$@"
