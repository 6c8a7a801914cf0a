#!/usr/bin/env bash
# Real processes, each in a network namespace of its own, and PostgreSQL, which all of them reach (singletons must-show): the network is split
# in every way, a minute each, under a singleton that writes into the database through its token. Prints a table; exit code 1 if a lower
# token was accepted, two instances acknowledged work at one token, something acknowledged is missing or there twice, or the five did
# not come back; 2 if there is no right to make namespaces (root, or user namespaces), or no PostgreSQL.
# usage: tests/chaos/tokens.sh [--row NAME] [--seconds N] [--default-profile]        needs Linux, cargo, ip, unshare and PostgreSQL
set -eu
cd "$(dirname "$0")/../.."
cargo build --quiet --release -p quorate-soak --bin chaos || exit 2
result=0
bash tests/with_postgres.sh "${CARGO_TARGET_DIR:-target}/release/chaos" tokens "$@" || result=$?
if [ $result = 77 ]; then exit 2; fi
exit $result
