//! The levels of LevelDB by the text of `leveldb.stats`, in MiB.

/// One level, sizes in MiB as LevelDB rounds them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Level {
    level: u32,
    files: u64,
    size: u64,
    read: u64,
    written: u64,
}

/// The levels that have files or have been written to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Levels(Vec<Level>);

/// Files in level 0 at which LevelDB merges them: `kL0_CompactionTrigger`.
const LEVEL_0_FILES: u64 = 4;
const MIB: u64 = 1 << 20;

impl Levels {
    pub(super) fn parse(text: &str) -> Levels {
        Levels(text.lines().filter_map(level).collect())
    }

    /// Returns true if a level is over its limit, and so is merged: 4 files in level 0, 10 MiB in
    /// level 1, ten times as much in each that follows.
    pub(super) fn is_full(&self) -> bool {
        self.0.iter().any(|level| match level.level {
            0 => level.files >= LEVEL_0_FILES,
            deeper => level.size > 10_u64.saturating_pow(deeper),
        })
    }

    /// The bytes written to level 0: flushes go nowhere else once there are tables.
    pub(super) fn flush_bytes(&self) -> u64 {
        self.sum(|level| if level.level == 0 { level.written } else { 0 })
    }

    pub(super) fn merge_write_bytes(&self) -> u64 {
        self.sum(|level| level.written) - self.flush_bytes()
    }

    pub(super) fn merge_read_bytes(&self) -> u64 {
        self.sum(|level| level.read)
    }

    pub(super) fn table_bytes(&self) -> u64 {
        self.sum(|level| level.size)
    }

    fn sum(&self, of: impl Fn(&Level) -> u64) -> u64 {
        self.0.iter().map(of).sum::<u64>() * MIB
    }
}

/// `level files size(MB) time(s) read(MB) written(MB)`, or a line of the heading.
fn level(line: &str) -> Option<Level> {
    let words: Vec<u64> = line
        .split_whitespace()
        .map(|word| word.parse().ok())
        .collect::<Option<_>>()?;
    let [level, files, size, _, read, written] = words[..] else {
        return None;
    };
    Some(Level {
        level: u32::try_from(level).ok()?,
        files,
        size,
        read,
        written,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATS: &str = "                               Compactions\n\
        Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n\
        --------------------------------------------------\n  \
          0        2       12         1        0       60\n  \
          1        5       10         0       70       68\n  \
          2       49       95         1       20       19\n";

    #[test]
    fn levels_are_read_from_the_text_of_leveldb() {
        let levels = Levels::parse(STATS);
        assert_eq!(levels.flush_bytes(), 60 * MIB);
        assert_eq!(levels.merge_write_bytes(), 87 * MIB);
        assert_eq!(levels.merge_read_bytes(), 90 * MIB);
        assert_eq!(levels.table_bytes(), 117 * MIB);
        assert!(!levels.is_full());
    }

    #[test]
    fn a_level_over_its_limit_is_full() {
        assert!(Levels::parse("0 4 8 0 0 8").is_full());
        assert!(Levels::parse("1 6 11 0 0 11").is_full());
        assert!(!Levels::parse("2 50 100 0 0 100").is_full());
    }
}
