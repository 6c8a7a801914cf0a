#!/usr/bin/env bash
# Real processes, each in a network namespace of its own (downing must-show): links are cut 3|2, one way and on and off, the
# leader and the coordinator are stopped, each for a minute. Prints a table; exit code 1 if an entity answered on two sides at once, an
# answer was wrong, somebody ended who should not have, or the five did not come back; 2 if there is no right to make namespaces.
# usage: tests/chaos/splits.sh [--row NAME] [--seconds N] [--default-profile]        needs Linux, cargo, ip and unshare
set -eu
cd "$(dirname "$0")/../.."
cargo build --quiet --release -p quorate-soak --bin chaos || exit 2
exec "${CARGO_TARGET_DIR:-target}/release/chaos" splits "$@"
