//! libFuzzer's entry to [`quorate_fuzz::gossip_merge`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorate_fuzz::gossip_merge(data));
