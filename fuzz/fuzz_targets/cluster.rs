#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = hedgerow::internals::cluster(bytes);
});
