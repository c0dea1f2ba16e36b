//! Versions (under construction).
pub(crate) mod edit;
pub(crate) mod encoding;
pub(crate) mod manifest;
pub(crate) mod options_encoding;
pub(crate) mod state;
