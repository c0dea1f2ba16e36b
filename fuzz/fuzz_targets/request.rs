#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    assert!(
        hedgerow_server::is_parsed_alike(bytes),
        "expected the same requests in parts"
    );
});
