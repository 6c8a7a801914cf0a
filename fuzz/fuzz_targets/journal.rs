//! libFuzzer's entry to [`quorate_fuzz::journal`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorate_fuzz::journal(data));
