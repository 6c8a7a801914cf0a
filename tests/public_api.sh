#!/usr/bin/env bash
# Compares the public API of every published crate with its file in docs/api/; with `--bless` it writes the files. A change that is
# wanted is committed with them, so that a review sees it. Needs cargo-public-api, and a nightly compiler for rustdoc's JSON. Another
# version of either may print the same API in another way, so docs/api/made-with.txt names both. Exit code 77: one of them is missing,
# or is another one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$PWD/${CARGO_TARGET_DIR:-target}/tools/bin:$PATH"
crates=(core links driver tokio smol async-std quinn store-redb store-postgres lease-etcd lease-postgres conformance)

if ! cargo public-api --version >/dev/null 2>&1; then
  echo "cargo-public-api is not installed (cargo install --locked cargo-public-api)" >&2
  exit 77
fi
if ! cargo +nightly --version >/dev/null 2>&1; then
  echo "there is no nightly compiler (rustup toolchain install nightly)" >&2
  exit 77
fi

with=$(cargo public-api --version && rustc +nightly --version)
if [ "${1:-}" = --bless ]; then
  printf '%s\n' "$with" >docs/api/made-with.txt
elif [ "$with" != "$(cat docs/api/made-with.txt)" ]; then
  echo "docs/api was made with other tools (docs/api/made-with.txt): compare with --bless and git diff" >&2
  exit 77
fi
target=${CARGO_TARGET_DIR:-target}/api
# All in one pass: one for each would build the driver again for each choice of its features.
RUSTDOCFLAGS="-Z unstable-options --output-format json --cap-lints allow" cargo +nightly doc --quiet --no-deps --lib --all-features \
  --target-dir "$target" "${crates[@]/#/-pquorate-}"
changed=0
for crate in "${crates[@]}"; do
  file=docs/api/quorate-$crate.txt
  api=$(cargo public-api -sss --rustdoc-json "$target/doc/quorate_${crate//-/_}.json")
  if [ "${1:-}" = --bless ]; then
    printf '%s\n' "$api" >"$file"
  elif ! diff -u "$file" <(printf '%s\n' "$api"); then
    changed=1
  fi
done
if [ "$changed" = 1 ]; then
  echo "the public API is not the one in docs/api: write it with tests/public_api.sh --bless if the change is wanted" >&2
fi
exit "$changed"
