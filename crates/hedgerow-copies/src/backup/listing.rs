//! The list of a backup, a text (`docs/format/backup.md`): the time when it was made, the number of
//! the last write, the files with their sizes and checksums, and the checksum of all lines before.

use std::path::{Path, PathBuf};

use hedgerow::{Error, ErrorKind, Result};

use super::{checksum, is_inside};

const VERSION: &str = "hedgerow backup 1";

/// A moment of a database in a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// Its number in the repository; the newest one has the largest.
    pub id: u64,
    /// The time when it was made, in seconds since 1970.
    pub made_unix_seconds: u64,
    /// The sequence number of the last write in it.
    pub last: u64,
    /// Its files.
    pub files: Vec<StoredFile>,
}

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredFile {
    /// The path in the directory of the database.
    pub path: PathBuf,
    /// The size in bytes.
    pub bytes: u64,
    /// The checksum of the bytes.
    pub checksum: u64,
}

impl StoredFile {
    /// The name in the repository.
    pub(super) fn name(&self) -> String {
        format!("{:016x}-{}", self.checksum, self.bytes)
    }
}

impl Backup {
    /// The bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The file with this path and size.
    pub(super) fn like(&self, path: &Path, bytes: u64) -> Option<&StoredFile> {
        let is_like = |file: &&StoredFile| file.path == path && file.bytes == bytes;
        self.files.iter().find(is_like)
    }

    pub(super) fn encode(&self) -> String {
        let mut text = format!(
            "{VERSION}\nmade {}\nlast {}\n",
            self.made_unix_seconds, self.last
        );
        for file in &self.files {
            let path = file.path.display();
            text += &format!("{path} {} {:016x}\n", file.bytes, file.checksum);
        }
        let sum = checksum(text.as_bytes());
        text + &format!("end {sum:016x}\n")
    }

    pub(super) fn decode(bytes: &[u8], id: u64, path: &Path) -> Result<Backup> {
        let failed = |kind, what: String| {
            let message = format!("{what} in {}", path.display());
            Err(Error::new(kind, message))
        };
        let damaged = || {
            let what = "expected the whole list of a backup, found a damaged one";
            failed(ErrorKind::Corruption, what.to_owned())
        };
        let Ok(text) = std::str::from_utf8(bytes) else {
            return damaged();
        };
        let first = text.lines().next().unwrap_or_default();
        if first != VERSION && first.starts_with("hedgerow backup ") {
            let what = format!("expected `{VERSION}`, found `{first}`");
            return failed(ErrorKind::FormatVersion, what);
        }
        match decode(text, id) {
            Some(backup) => Ok(backup),
            None => damaged(),
        }
    }
}

fn decode(text: &str, id: u64) -> Option<Backup> {
    let (listed, end) = text.strip_suffix('\n')?.rsplit_once("\nend ")?;
    let covered = &text[..listed.len() + 1];
    if end != format!("{:016x}", checksum(covered.as_bytes())) {
        return None;
    }
    let mut lines = listed.lines();
    (lines.next()? == VERSION).then_some(())?;
    let made_unix_seconds = lines.next()?.strip_prefix("made ")?.parse().ok()?;
    let last = lines.next()?.strip_prefix("last ")?.parse().ok()?;
    let file = |line: &str| {
        let mut words = line.split(' ');
        let file = StoredFile {
            path: PathBuf::from(words.next()?),
            bytes: words.next()?.parse().ok()?,
            checksum: u64::from_str_radix(words.next()?, 16).ok()?,
        };
        (words.next().is_none() && is_inside(&file.path)).then_some(file)
    };
    let files = lines.map(file).collect::<Option<Vec<_>>>()?;
    // So that the sum of all sizes is a number.
    let mut sizes = files.iter().map(|file| file.bytes);
    sizes.try_fold(0_u64, u64::checked_add)?;
    Some(Backup {
        id,
        made_unix_seconds,
        last,
        files,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backup() -> Backup {
        let file = |path: &str, bytes| StoredFile {
            path: PathBuf::from(path),
            bytes,
            checksum: bytes * 0x9E37_79B9,
        };
        Backup {
            id: 7,
            made_unix_seconds: 1_764_066_000,
            last: 81_234,
            files: vec![
                file("MANIFEST", 4096),
                file("log/00000003.log", 65_536),
                file("tables/0000000012.table", 8 << 20),
            ],
        }
    }

    /// The worked example of `docs/format/backup.md`.
    #[test]
    fn the_documented_example_is_what_is_written() {
        let document = include_str!("../../../../docs/format/backup.md");
        let (_, example) = document.rsplit_once("```text\n").unwrap();
        assert_eq!(
            Some(backup().encode().as_str()),
            example.strip_suffix("```\n")
        );
    }

    #[test]
    fn lists_round_trip_and_changed_bits_are_corruption() {
        let text = backup().encode();
        let decode = |bytes: &[u8]| Backup::decode(bytes, 7, Path::new("list"));
        assert_eq!(decode(text.as_bytes()).unwrap(), backup());
        for bit in 0..text.len() * 8 {
            let mut bytes = text.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let kind = decode(&bytes).map(|_| ()).unwrap_err().kind();
            let is_version = kind == ErrorKind::FormatVersion && matches!(bit / 8, 16 | 17);
            assert!(kind == ErrorKind::Corruption || is_version, "bit {bit}");
        }
        for bytes in 0..text.len() {
            assert!(decode(&text.as_bytes()[..bytes]).is_err());
        }
    }

    #[test]
    fn sizes_that_no_number_counts_are_corruption() {
        let mut backup = backup();
        backup.files[0].bytes = u64::MAX;
        let text = backup.encode();
        let error = Backup::decode(text.as_bytes(), 7, Path::new("list")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }

    #[test]
    fn a_list_names_no_file_outside_of_the_database() {
        for path in [
            "../x",
            "/etc/x",
            "tables/../../x",
            "other/x",
            "tables/a/b",
            "",
            ".",
        ] {
            let mut backup = backup();
            backup.files[0].path = PathBuf::from(path);
            let text = backup.encode();
            assert!(
                Backup::decode(text.as_bytes(), 7, Path::new("list")).is_err(),
                "{path}"
            );
        }
    }
}
