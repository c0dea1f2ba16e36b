//! Links the library so that it is never unloaded, because it has a handler of forks, and without
//! the tables of debuggers, which would be most of the jar.

fn main() {
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete,--strip-debug");
    }
}
