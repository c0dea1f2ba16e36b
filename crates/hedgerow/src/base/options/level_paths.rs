//! The directories of a database's files, and their text.

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::policy::LEVELS_MAX;
use crate::base::error::{Error, Result};

/// Directories, possibly on other disks, for the levels of all trees, for the log and for the
/// filters over several runs. Everything else is in the database's directory; the manifest always
/// is. A relative path starts at the database's directory.
///
/// The text is `0-1=/fast;2-=/slow;log=/fast;filters=/fast`, with levels counted from 0.
///
/// ```
/// use hedgerow::LevelPaths;
///
/// let paths: LevelPaths = "0-1=/fast;2-=/slow;log=/fast".parse()?;
/// let built = LevelPaths::new().levels(0..=1, "/fast").levels(2.., "/slow").log("/fast");
/// assert_eq!(paths, built);
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LevelPaths {
    /// First level, last level and their directory, ascending.
    pub(crate) levels: Vec<(u8, u8, PathBuf)>,
    pub(crate) log: Option<PathBuf>,
    pub(crate) filters: Option<PathBuf>,
}

/// The deepest level that a tree can have.
const LEVEL_LAST: u8 = LEVELS_MAX as u8 - 1;

impl LevelPaths {
    /// Everything in the database's directory.
    pub fn new() -> LevelPaths {
        LevelPaths::default()
    }

    /// Puts tables written into these levels into `dir`.
    pub fn levels(mut self, levels: impl RangeBounds<u8>, dir: impl Into<PathBuf>) -> LevelPaths {
        let from = match levels.start_bound() {
            Bound::Included(level) => *level,
            Bound::Excluded(level) => level.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let (from, to) = match levels.end_bound() {
            Bound::Included(level) => (from, *level),
            // A range without a level: refused with the others.
            Bound::Excluded(0) => (from.max(1), 0),
            Bound::Excluded(level) => (from, level - 1),
            Bound::Unbounded => (from, LEVEL_LAST),
        };
        self.levels.push((from, to, dir.into()));
        self.levels.sort();
        self
    }

    /// Puts the log into `dir`.
    pub fn log(mut self, dir: impl Into<PathBuf>) -> LevelPaths {
        self.log = Some(dir.into());
        self
    }

    /// Puts the filters over several runs into `dir`.
    pub fn filters(mut self, dir: impl Into<PathBuf>) -> LevelPaths {
        self.filters = Some(dir.into());
        self
    }

    /// All named directories, each once.
    pub(crate) fn dirs(&self) -> Vec<&Path> {
        let levels = self.levels.iter().map(|(.., dir)| dir);
        let all = levels.chain(&self.log).chain(&self.filters);
        let mut dirs: Vec<&Path> = all.map(PathBuf::as_path).collect();
        dirs.sort();
        dirs.dedup();
        dirs
    }

    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |(from, to, _): &&(u8, u8, PathBuf)| from > to || *to > LEVEL_LAST;
        if let Some((from, to, _)) = self.levels.iter().find(wrong) {
            return Err(Error::invalid(format!(
                "expected an ascending range of levels up to {LEVEL_LAST}, found {from} to {to}"
            )));
        }
        if let Some(pair) = self.levels.windows(2).find(|pair| pair[0].1 >= pair[1].0) {
            return Err(Error::invalid(format!(
                "expected one directory for level {}, found `{}` and `{}`",
                pair[1].0,
                pair[0].2.display(),
                pair[1].2.display()
            )));
        }
        let is_bad = |dir: &&Path| dir.as_os_str().is_empty() || dir.to_str().is_none();
        match self.dirs().into_iter().find(is_bad) {
            Some(dir) => Err(Error::invalid(format!(
                "expected a directory whose name is UTF-8, found `{}`",
                dir.display()
            ))),
            None => Ok(()),
        }
    }
}

impl fmt::Display for LevelPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels = self.levels.iter().map(|(from, to, dir)| {
            let levels = match (*from, *to) {
                (from, LEVEL_LAST) => format!("{from}-"),
                (from, to) if from == to => from.to_string(),
                (from, to) => format!("{from}-{to}"),
            };
            (levels, dir)
        });
        let log = self.log.iter().map(|dir| ("log".to_owned(), dir));
        let filters = self.filters.iter().map(|dir| ("filters".to_owned(), dir));
        for (i, (what, dir)) in levels.chain(log).chain(filters).enumerate() {
            let separator = if i == 0 { "" } else { ";" };
            write!(f, "{separator}{what}={}", dir.display())?;
        }
        Ok(())
    }
}

impl FromStr for LevelPaths {
    type Err = Error;

    fn from_str(text: &str) -> Result<LevelPaths> {
        let unknown = |part: &str| {
            Error::invalid(format!(
                "expected directories such as `0-1=/fast;2-=/slow;log=/fast`, found `{part}`"
            ))
        };
        let mut paths = LevelPaths::new();
        for part in text.split(';').filter(|part| !part.is_empty()) {
            let (what, dir) = part.split_once('=').ok_or_else(|| unknown(part))?;
            let level = |text: &str| text.parse::<u8>().map_err(|_| unknown(part));
            paths = match what.split_once('-') {
                _ if what == "log" => paths.log(dir),
                _ if what == "filters" => paths.filters(dir),
                None => {
                    let only = level(what)?;
                    paths.levels(only..=only, dir)
                }
                Some((from, "")) => paths.levels(level(from)?.., dir),
                Some((from, to)) => paths.levels(level(from)?..=level(to)?, dir),
            };
        }
        paths.check()?;
        Ok(paths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_read_as_they_are_printed() {
        for text in [
            "",
            "0=/a",
            "0-1=/fast;2-=/slow;log=/fast",
            "1-3=b c;7=d=e;log=../log;filters=f",
            "0-=x",
        ] {
            let paths: LevelPaths = text.parse().unwrap();
            assert_eq!(paths.to_string(), text);
        }
    }

    #[test]
    fn what_is_none_is_refused_with_what_was_expected() {
        for text in [
            "x",
            "0",
            "0-1-2=a",
            "-1=a",
            "2-1=a",
            "0-3=a;3=b",
            "0=",
            "32=a",
            "0-32=a",
            "300=a",
            "logs=a",
        ] {
            let error = text.parse::<LevelPaths>().unwrap_err();
            assert!(error.to_string().contains("expected"), "{text}: {error}");
        }
        let none = LevelPaths::new().levels(0..0, "a").check();
        assert!(none.is_err(), "a range without a level names no level 0");
    }
}
