//! Development tasks. `cargo xtask tidy` checks the layer rule.
fn main() {}
