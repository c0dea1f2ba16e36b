#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = hedgerow_server::is_rdb_file(bytes);
});
