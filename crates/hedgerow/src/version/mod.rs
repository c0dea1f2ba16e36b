//! Versions (under construction).
pub(crate) mod edit;
