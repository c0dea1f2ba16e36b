//! In-memory structures.
