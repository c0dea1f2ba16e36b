//! The headers are written by hand, for people. The tests compare each with the one that cbindgen
//! makes of the Rust sources: the same functions, the same structures, the same numbers.

#[cfg(test)]
mod tests;
