//! (under construction)
pub(crate) mod reader;
pub(crate) mod record;
