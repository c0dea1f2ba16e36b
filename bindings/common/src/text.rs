//! Layouts, designs and options of a database as text.

use std::str::FromStr;

use engine::io::ReadMode;
use engine::{Builder, Design, Layout};

use crate::failure::Failure;

/// The merge operators that every database has, sorted.
pub const MERGE_OPERATORS: [&str; 9] = [
    "add_f64",
    "add_i64",
    "append",
    "bit_and",
    "bit_or",
    "bit_xor",
    "max",
    "min",
    "union_u64",
];

/// Reads a layout as `Layout` prints it: an order of keys, a partitioning and a merge operator, all
/// optional, with spaces between them. `semi-sorted:8 hash:4 merge:append`.
///
/// # Errors
/// `InvalidArgument`.
pub fn layout(text: &str) -> Result<Layout, Failure> {
    let mut layout = Layout::sorted();
    let mut words = text.split_whitespace().peekable();
    if let Some(order) = words.next_if(|word| is_order(word)) {
        layout.order = order.parse()?;
    }
    for word in words {
        match word.strip_prefix("merge:") {
            Some(name) => layout = layout.merge_operator(name),
            None => layout.partitioning = word.parse()?,
        }
    }
    Ok(layout)
}

fn is_order(word: &str) -> bool {
    ["sorted", "semi-sorted", "hashed"].contains(&word.split(':').next().unwrap_or_default())
}

/// Reads a design: one line for each choice, `filter = bloom:10`. Empty text is the default.
///
/// # Errors
/// `InvalidArgument`.
pub fn design(text: &str) -> Result<Design, Failure> {
    Ok(text.parse()?)
}

/// Sets an option of a database by its name.
///
/// | name | value |
/// |---|---|
/// | `memory_budget` | bytes, such as `64MiB`; `256MiB` by default |
/// | `create_if_missing` | `true` (the default) or `false` |
/// | `read_only` | `true` or `false` (the default) |
/// | `background_threads` | a number |
/// | `workers`, `worker_queue` | threads for asynchronous calls; calls in the queue of each |
/// | `io_bytes_per_second` | bytes that merges write at most |
/// | `log_bytes_max`, `log_segment_bytes` | bytes |
/// | `compress_log` | `true` or `false` (the default) |
/// | `level_paths` | `0-1=/fast;2-=/slow;log=/fast` |
/// | `read_mode` | `pread` (the default), `mmap` or `direct` |
///
/// # Errors
/// `InvalidArgument`. Bounds are checked when the database is opened.
pub fn option(builder: Builder, name: &str, value: &str) -> Result<Builder, Failure> {
    Ok(match name {
        "memory_budget" => builder.memory_budget(bytes(value)?),
        "create_if_missing" => builder.create_if_missing(read(name, value)?),
        "read_only" => builder.read_only(read(name, value)?),
        "background_threads" => builder.background_threads(read(name, value)?),
        "workers" => builder.workers(read(name, value)?),
        "worker_queue" => builder.worker_queue(read(name, value)?),
        "io_bytes_per_second" => builder.io_bytes_per_second(bytes(value)?),
        "log_bytes_max" => builder.log_bytes_max(bytes(value)?),
        "log_segment_bytes" => builder.log_segment_bytes(bytes(value)?),
        "compress_log" => builder.compress_log(read(name, value)?),
        "level_paths" => builder.level_paths(value.parse()?),
        "read_mode" => builder.read_mode(ReadMode::from_str(value).map_err(Failure::invalid)?),
        _ => {
            let message = format!("expected an option of a database, found `{name}`");
            return Err(Failure::invalid(message));
        }
    })
}

fn read<T: FromStr>(name: &str, value: &str) -> Result<T, Failure> {
    let parsed = value.trim().parse();
    parsed.map_err(|_| {
        let wanted = match size_of::<T>() {
            1 => "`true` or `false`",
            _ => "a number",
        };
        Failure::invalid(format!("expected {wanted} for `{name}`, found `{value}`"))
    })
}

/// Reads a number of bytes: `65536`, `64KiB`, `64MiB`, `1GiB`.
fn bytes(text: &str) -> Result<u64, Failure> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("", 0)];
    let (digits, shift) = units
        .iter()
        .find_map(|(unit, shift)| Some((text.trim().strip_suffix(unit)?, shift)))
        .unwrap_or((text, &0));
    let number: Option<u64> = digits.trim_end().parse().ok();
    number
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(|| Failure::invalid(format!("expected bytes such as `64MiB`, found `{text}`")))
}

#[cfg(test)]
mod tests {
    use engine::{Db, KeyOrder, PrefixRule};

    use super::*;

    #[test]
    fn a_layout_is_read_as_it_is_printed() {
        for layout in [
            Layout::sorted(),
            Layout::hashed().hash(8),
            Layout::sorted()
                .range(["a b", "m"])
                .merge_operator("append"),
            Layout::semi_sorted(PrefixRule::Bytes(8)).merge_operator("add_i64"),
        ] {
            assert_eq!(self::layout(&layout.to_string()).unwrap(), layout);
        }
        assert_eq!(layout("").unwrap(), Layout::sorted());
        assert_eq!(layout("hash:4").unwrap(), Layout::sorted().hash(4));
        assert_eq!(layout(" hashed ").unwrap().order, KeyOrder::Hashed);
        for wrong in ["ordered", "hash:0", "sorted hashed", "semi-sorted"] {
            assert!(layout(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_merge_operators_are_those_of_the_engine() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::builder(dir.path()).open().unwrap();
        let layout = Layout::sorted().merge_operator("another");
        let keyspace = db.keyspace("k", layout).unwrap();
        let found = keyspace.merge("k", "v").unwrap_err().to_string();
        let names = MERGE_OPERATORS.map(|name| format!("`{name}`")).join(", ");
        assert!(found.contains(&format!("but {names}: ")), "{found}");
    }

    #[test]
    fn options_are_read_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let mut builder = Db::builder(dir.path());
        for (name, value) in [
            ("memory_budget", "8 MiB"),
            ("create_if_missing", "true"),
            ("workers", "2"),
            ("read_mode", "mmap"),
        ] {
            builder = option(builder, name, value).unwrap();
        }
        let db = builder.open().unwrap();
        assert_eq!(db.stats().memory.budget, 8 << 20);
        assert_eq!(db.stats().workers.len(), 2);
        for (name, value) in [
            ("memory_budget", "much"),
            ("workers", "-1"),
            ("speed", "high"),
        ] {
            let failure = option(Db::builder("x"), name, value).err().unwrap();
            assert!(failure.message.contains(value) || failure.message.contains(name));
        }
    }

    #[test]
    fn bytes_have_units() {
        assert_eq!(bytes("65536").unwrap(), 65536);
        assert_eq!(bytes("64KiB").unwrap(), 65536);
        assert_eq!(bytes("2 GiB").unwrap(), 2 << 30);
        for wrong in ["", "MiB", "1.5MiB", "99999999999GiB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
