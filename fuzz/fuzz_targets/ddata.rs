//! libFuzzer's entry to [`quorate_fuzz::ddata`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorate_fuzz::ddata(data));
