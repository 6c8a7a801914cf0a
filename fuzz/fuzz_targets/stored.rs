//! libFuzzer's entry to [`quorate_fuzz::stored`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorate_fuzz::stored(data));
