//! The counts that RocksDB keeps by default: the texts of its properties, to 1 or 10 MB.
//!
//! Its exact counters (`Statistics`) cost some speed, so they stay off.

/// Bytes of flushes and merges since the database was opened.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Family {
    pub(super) flush_bytes: Option<u64>,
    pub(super) merge_read_bytes: Option<u64>,
    pub(super) merge_write_bytes: Option<u64>,
}

impl Family {
    /// From `rocksdb.cfstats-no-file-histogram`, whose writes of compactions include flushes.
    pub(super) fn parse(text: &str) -> Family {
        let flush_bytes = bytes_after(text, "Flush(GB): cumulative ");
        let compaction = line_after(text, "Cumulative compaction: ");
        let mut parts = compaction.unwrap_or("").split(", ");
        let written = parts.next().and_then(leading_bytes);
        let read = parts.nth(1).and_then(leading_bytes);
        Family {
            flush_bytes,
            merge_read_bytes: read,
            merge_write_bytes: written.zip(flush_bytes).map(|(w, f)| w.saturating_sub(f)),
        }
    }
}

/// Bytes of the log, from `rocksdb.dbstats`.
pub(super) fn log_bytes(text: &str) -> Option<u64> {
    let line = line_after(text, "Cumulative WAL: ")?;
    bytes_after(line, "written: ")
}

fn line_after<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(label)?;
    rest.lines().next()
}

fn bytes_after(text: &str, label: &str) -> Option<u64> {
    leading_bytes(line_after(text, label)?)
}

/// The bytes of a number of GB (as RocksDB says for 2^30 bytes) at the beginning of a text.
fn leading_bytes(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let number: f64 = text[..end.unwrap_or(text.len())].parse().ok()?;
    Some((number * f64::from(1 << 30)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_the_texts_of_rocksdb() {
        let family = "Uptime(secs): 3.1 total, 3.1 interval\n\
            Flush(GB): cumulative 0.250, interval 0.034\n\
            Cumulative compaction: 0.75 GB write, 34.36 MB/s write, 0.50 GB read, 23.22 MB/s read, 1.1 seconds\n";
        let expected = Family {
            flush_bytes: Some(1 << 28),
            merge_read_bytes: Some(1 << 29),
            merge_write_bytes: Some(1 << 29),
        };
        assert_eq!(Family::parse(family), expected);
        let database = "Cumulative WAL: 300K writes, 0 syncs, 300000.00 writes per sync, written: 0.25 GB, 12.13 MB/s\n";
        assert_eq!(log_bytes(database), Some(1 << 28));
    }

    #[test]
    fn a_text_without_counters_has_none() {
        assert_eq!(Family::parse(""), Family::default());
        assert_eq!(log_bytes("Cumulative WAL: none"), None);
    }
}
