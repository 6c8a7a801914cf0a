//! libFuzzer's entry to [`quorate_fuzz::frame_header`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorate_fuzz::frame_header(data));
