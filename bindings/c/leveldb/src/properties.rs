//! The properties of a database: statistics as LevelDB names them.

use std::fmt::Write;

use crate::database::Database;

/// LevelDB's number of levels, which bounds the numbers of levels in names.
const LEVELS: usize = 7;

/// The property of this name; `None` if there is none.
pub(crate) fn property(database: &Database, name: &str) -> Option<String> {
    let name = name.strip_prefix("leveldb.")?;
    if let Some(level) = name.strip_prefix("num-files-at-level") {
        let level = level.bytes().all(|b| b.is_ascii_digit()).then_some(level)?;
        let level: usize = level.parse().ok().filter(|level| *level < LEVELS)?;
        let levels = database.keyspace.stats().levels;
        // LevelDB's last level has all tables that lie deeper here.
        let here = levels.iter().filter(|it| it.level.min(LEVELS - 1) == level);
        let tables: usize = here.map(|it| it.tables).sum();
        return Some(tables.to_string());
    }
    match name {
        "stats" => Some(stats(database)),
        "sstables" => Some(database.keyspace.shape()),
        "approximate-memory-usage" => Some(database.db.stats().memory.total().to_string()),
        _ => None,
    }
}

fn stats(database: &Database) -> String {
    let mut text = String::from("level   runs  tables     entries       bytes\n");
    for level in database.keyspace.stats().levels {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:>5} {:>6} {:>7} {:>11} {:>11}",
            level.level, level.runs, level.tables, level.entries, level.bytes
        );
    }
    text
}
