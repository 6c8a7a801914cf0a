//! libFuzzer's entry to [`quorate_fuzz::message_decode`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorate_fuzz::message_decode(data));
