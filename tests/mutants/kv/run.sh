#!/bin/sh
# Proves that the keyed store's tests and campaign bite; see plant.sh.
# usage: tests/mutants/kv/run.sh [PATCH...]     default: all
exec "$(dirname "$0")/../plant.sh" kv "$@"
