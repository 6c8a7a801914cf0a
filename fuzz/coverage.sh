#!/usr/bin/env bash
# Which regions of the codec the corpora reach. Needs rustup's component llvm-tools (asks for it) and replays every corpus once
# in an instrumented build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
rustup component add llvm-tools >/dev/null 2>&1 || true
tools=$(echo "$(rustc --print sysroot)"/lib/rustlib/*/bin)
if ! [ -x "$tools/llvm-cov" ]; then
  echo "skipped: rustup's component llvm-tools cannot be had here"
  exit 0
fi
out=target/coverage
rm -rf "$out/profiles"
export LLVM_PROFILE_FILE="$PWD/$out/profiles/%p-%m.profraw" RUSTFLAGS="-C instrument-coverage"
build=$(cargo test --test corpus --no-run --target-dir "$out" --message-format json 2>/dev/null |
  sed -n 's/.*"executable":"\([^"]*corpus-[^"]*\)".*/\1/p' | tail -1)
"$build" every_input >/dev/null
"$tools/llvm-profdata" merge -sparse "$out"/profiles/*.profraw -o "$out/merged.profdata"
"$tools/llvm-cov" report "$build" -instr-profile "$out/merged.profdata" ../core/src/wire ../core/src/membership "$@"
