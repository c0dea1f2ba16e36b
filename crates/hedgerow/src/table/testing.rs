//! Files in memory and bytes in documents, for the tests of table formats.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hedgerow_io::{RandomRead, SequentialWrite};
use hedgerow_mem::PageMut;

use super::page_io;
use crate::base::error::Result;
use crate::base::page::{Page, PageClass, PageId, PageSource};

/// A file being written. The test keeps a second handle of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryWrite(Arc<Mutex<Vec<u8>>>);

impl MemoryWrite {
    pub(crate) fn contents(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl SequentialWrite for MemoryWrite {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }

    fn memory_bytes(&self) -> usize {
        0
    }
}

/// An immutable file.
#[derive(Debug)]
pub(crate) struct MemoryRead(pub(crate) Vec<u8>);

impl RandomRead for MemoryRead {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let start = offset as usize;
        match self.0.get(start..start + buf.len()) {
            Some(bytes) => buf.copy_from_slice(bytes),
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }
}

/// Reads every page from the file and counts the reads.
#[derive(Debug)]
pub(crate) struct FilePages {
    file: Arc<dyn RandomRead>,
    reads: Mutex<Vec<PageClass>>,
}

impl FilePages {
    pub(crate) fn new(file: Arc<dyn RandomRead>) -> FilePages {
        FilePages {
            file,
            reads: Mutex::default(),
        }
    }

    /// The classes of the pages read since the last call.
    pub(crate) fn take_reads(&self) -> Vec<PageClass> {
        std::mem::take(&mut self.reads.lock().unwrap())
    }
}

impl PageSource for FilePages {
    fn page(&self, id: PageId) -> Result<Page> {
        self.reads.lock().unwrap().push(id.class);
        page_io::read(&*self.file, Path::new("table"), id, PageMut::allocate)
    }
}

/// The bytes of a worked example. The code block begins with `` ```hex NAME ``. Each line is
/// hexadecimal up to a semicolon.
pub(crate) fn documented_bytes(document: &str, name: &str) -> Vec<u8> {
    document
        .lines()
        .skip_while(|line| *line != format!("```hex {name}"))
        .skip(1)
        .take_while(|line| !line.starts_with("```"))
        .flat_map(|line| line.split(';').next().unwrap().split_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

/// Compares bytes, and prints the found ones in a form for the document.
pub(crate) fn assert_bytes(found: &[u8], documented: &[u8]) {
    if found != documented {
        let lines: Vec<String> = found
            .chunks(16)
            .map(|line| line.iter().map(|b| format!("{b:02x} ")).collect())
            .collect();
        panic!(
            "the document differs from what is written:\n{}",
            lines.join("\n")
        );
    }
}

/// The directory of the golden files.
pub(crate) fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata/format")
        .join(name)
}

impl crate::table::iter::ValueSource<'_> {
    /// The size of the value in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            crate::table::iter::ValueSource::Inline(bytes) => bytes.len(),
            crate::table::iter::ValueSource::OutOfLine { bytes, .. } => *bytes as usize,
        }
    }

    /// Copies the value. Reads it if it is out of line.
    pub(crate) fn read(&self, pages: &dyn PageSource) -> Result<Vec<u8>> {
        match self {
            crate::table::iter::ValueSource::Inline(bytes) => Ok(bytes.to_vec()),
            crate::table::iter::ValueSource::OutOfLine { page, .. } => {
                Ok(pages.page(*page)?.to_vec())
            }
        }
    }
}
