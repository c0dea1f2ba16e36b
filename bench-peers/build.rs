//! Links the RocksDB that `fetch-rocksdb` has fetched, or the library that `ROCKSDB` names.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-env-changed=ROCKSDB");
    let fetched = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("native/librocksdbjni-linux64.so");
    let library = env::var_os("ROCKSDB").map_or(fetched, PathBuf::from);
    println!("cargo:rerun-if-changed={}", library.display());
    let at = library
        .canonicalize()
        .unwrap_or_else(|e| panic!("{}: {e}; run bench-peers/fetch-rocksdb", library.display()));
    let (Some(folder), Some(file)) = (at.parent(), at.file_name()) else {
        panic!("expected a library of RocksDB, found {}", at.display());
    };
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-lib=dylib:+verbatim={}", file.display());
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.display());
}
