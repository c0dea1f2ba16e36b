//! Format version and feature words: the knowledge that a reader of a file needs.

use crate::base::error::{Error, ErrorKind, Result};

use super::ByteReader;

/// The version and the three sets of features in the header of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Features {
    pub(crate) version: u32,
    /// A program that does not know these may read and write.
    pub(crate) compatible: u32,
    /// A program that does not know these may only read.
    pub(crate) read_only_compatible: u32,
    /// A program that does not know these must refuse the file.
    pub(crate) incompatible: u32,
}

impl Features {
    /// The words of a program that knows `version` and no features.
    pub(crate) const fn plain(version: u32) -> Features {
        Features {
            version,
            compatible: 0,
            read_only_compatible: 0,
            incompatible: 0,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for word in [
            self.version,
            self.compatible,
            self.read_only_compatible,
            self.incompatible,
        ] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Result<Features> {
        Ok(Features {
            version: reader.u32("format version")?,
            compatible: reader.u32("compatible features")?,
            read_only_compatible: reader.u32("read-only compatible features")?,
            incompatible: reader.u32("incompatible features")?,
        })
    }

    /// Refuses a file that a program with `version` and the incompatible features `known` cannot
    /// read.
    pub(crate) fn check_readable(&self, what: &str, version: u32, known: u32) -> Result<()> {
        check_version(what, version, self.version)?;
        let unknown = self.incompatible & !known;
        if unknown != 0 {
            return Err(refused(format!(
                "{what} uses unknown features {unknown:#x}"
            )));
        }
        Ok(())
    }

    /// Refuses a file that such a program can read but not write.
    pub(crate) fn check_writable(&self, what: &str) -> Result<()> {
        if self.read_only_compatible == 0 {
            return Ok(());
        }
        Err(refused(format!(
            "{what} uses features {:#x} that this version can only read: open it for reading only",
            self.read_only_compatible
        )))
    }
}

/// Refuses a file of another version: a later one, or 0, which programs before release 0.1 wrote.
pub(crate) fn check_version(what: &str, expected: u32, found: u32) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let hint = match found {
        0 => ": dump the database with the program that wrote it, and load it",
        _ => "",
    };
    Err(refused(format!(
        "expected {what} of version {expected}, found {found}{hint}"
    )))
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::FormatVersion, message)
}
