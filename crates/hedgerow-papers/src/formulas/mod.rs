//! The formulas of the publications, as far as the engine does not use them itself.

pub mod autumn;
pub mod entropy;
pub mod slimdb;

#[cfg(test)]
mod tests;
