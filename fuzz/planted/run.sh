#!/usr/bin/env bash
# Plants one decoder bug after the other in a copy and waits, at most a minute each, for the fuzzer to find it. Starts from the
# golden seeds only, not from what fuzzing found before. Needs a toolchain that builds libFuzzer (stable will do).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git -C "$root" archive HEAD | tar -x -C "$copy"
target_dir="$root/fuzz/target/planted"
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
  -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Ccodegen-units=1"
RUSTFLAGS=$(echo $RUSTFLAGS)
failed=0
for row in missing_bound:inflate_bound missing_index_check:gossip_decode missing_trailing_bytes_check:gossip_decode; do
  bug=${row%%:*} target=${row##*:}
  (cd "$copy" && patch -s -p1 <"$root/fuzz/planted/$bug.patch")
  (cd "$copy/fuzz" && cargo build --quiet --release --target x86_64-unknown-linux-gnu --target-dir "$target_dir" --bin "$target")
  seeds="$copy/seeds-$bug"
  mkdir "$seeds"
  for seed in "$copy/fuzz/corpus/$target"/*; do
    # Inputs that fuzzing found are named by 40 hex digits.
    [ ${#seed} -gt 0 ] && [ "$(basename "$seed" | wc -c)" -ne 41 ] && cp "$seed" "$seeds/"
  done
  begin=$(date +%s)
  if "$target_dir/x86_64-unknown-linux-gnu/release/$target" -max_total_time=60 -max_len=8192 \
    -artifact_prefix="$copy/" "$seeds" >"$copy/log" 2>&1; then
    echo "$bug: NOT found by $target within a minute"
    failed=1
  else
    echo "$bug: found by $target after $(($(date +%s) - begin)) s: $(grep -m1 -A1 -E 'panicked at|ERROR' "$copy/log" | tr '\n' ' ')"
  fi
  (cd "$copy" && patch -s -R -p1 <"$root/fuzz/planted/$bug.patch")
done
exit $failed
