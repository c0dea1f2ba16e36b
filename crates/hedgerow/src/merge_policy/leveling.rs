//! Leveling: one run per level, each level `T` times the one above.
