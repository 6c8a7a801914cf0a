//! libFuzzer's entry to [`quorate_fuzz::inflate_bound`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorate_fuzz::inflate_bound(data));
