#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let limits = hedgerow_server::Limits {
        argument_bytes: 1 << 20,
        arguments: 1 << 10,
    };
    let mut parser = hedgerow_server::Parser::default();
    while let Ok(Some(_)) = parser.next(bytes, limits) {}
});
