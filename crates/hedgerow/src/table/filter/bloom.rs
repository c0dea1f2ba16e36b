//! A Bloom filter blocked by cache line: all probes of a key fall into one line of 64 bytes. A
//! probe costs one cache miss, or one page when the filter is paged. The format is in
//! `docs/format/bloom.md`.

use crate::base::bloom_lines::{
    LINE_BITS, LINE_BYTES, PAGE_BYTES, PAGE_LINES, PROBES_MAX, probes_for,
};
use crate::base::entry::KeyHash;
use crate::base::error::{Error, Result};
use crate::base::page::{
    Buffer, Handle, Page, PageClass, PageId, Step, TRAILER_BYTES, TableId, prefetch,
};

use super::hash_list::HashList;
use super::{Probe, RunMask, assert_bits_per_key, gather, remix};

/// Bits that choose one bit of a line.
const PROBE_BITS: u32 = LINE_BITS.trailing_zeros();
/// Probes that one remixed word serves: 7 x 9 bits of 64.
const PROBES_PER_WORD: u8 = 7;

type Line = [u8; LINE_BYTES];

/// The line of a key: the high 32 bits, scaled.
#[inline]
fn line_of(low: u64, lines: u32) -> usize {
    (((low >> 32) * u64::from(lines)) >> 32) as usize
}

/// The bits of a key within its line, from the low 32 bits.
#[derive(Debug, Clone, Copy)]
struct Probes {
    word: u64,
    rest: u64,
    left: u8,
}

impl Probes {
    #[inline]
    fn of(low: u64) -> Self {
        let word = remix(u64::from(low as u32) + 1);
        Probes {
            word,
            rest: word,
            left: PROBES_PER_WORD,
        }
    }

    #[inline]
    fn next(&mut self) -> usize {
        if self.left == 0 {
            self.word = remix(self.word);
            self.rest = self.word;
            self.left = PROBES_PER_WORD;
        }
        let bit = self.rest >> (64 - PROBE_BITS);
        self.rest <<= PROBE_BITS;
        self.left -= 1;
        bit as usize
    }
}

/// The place of a filter in its table file, and its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The lines of 64 bytes.
    pub lines: u32,
    /// The bits of a key in its line.
    pub probes: u8,
    /// The offset of the first page; the others follow it without gaps.
    pub offset: u64,
}

impl Description {
    pub(crate) fn pages(&self) -> usize {
        (self.lines as usize).div_ceil(PAGE_LINES)
    }

    /// The bytes that the filter takes in the file.
    pub fn file_bytes(&self) -> u64 {
        u64::from(self.lines) * LINE_BYTES as u64 + self.pages() as u64 * u64::from(TRAILER_BYTES)
    }

    /// The place of a page in the file.
    pub(crate) fn page_handle(&self, page: usize) -> Handle {
        let stored = PAGE_BYTES as u64 + u64::from(TRAILER_BYTES);
        let lines = (self.lines as usize - page * PAGE_LINES).min(PAGE_LINES);
        Handle {
            offset: self.offset.saturating_add(page as u64 * stored),
            bytes: (lines * LINE_BYTES) as u32 + TRAILER_BYTES,
        }
    }

    /// Checks a description from a file.
    pub(crate) fn check(&self) -> Result<()> {
        if self.lines == 0 || self.probes == 0 || self.probes > PROBES_MAX {
            return Err(Error::corruption(format!(
                "expected a filter with lines and 1 to {PROBES_MAX} probes, found {} lines and {} probes",
                self.lines, self.probes
            )));
        }
        Ok(())
    }
}

/// The filter of one table.
#[derive(Debug)]
pub(crate) struct Bloom {
    table: TableId,
    description: Description,
    /// All lines when the filter is resident, each a cache line; none when it is paged.
    lines: Buffer,
}

impl Bloom {
    /// A filter that asks for its pages when a probe needs them.
    pub(crate) fn paged(table: TableId, description: Description) -> Result<Bloom> {
        description.check()?;
        Ok(Bloom {
            table,
            description,
            lines: Buffer::allocate(0),
        })
    }

    /// A filter in memory, from all its pages in order.
    pub(crate) fn resident<'a>(
        table: TableId,
        description: Description,
        pages: impl Iterator<Item = Result<&'a [u8]>>,
    ) -> Result<Bloom> {
        description.check()?;
        let lines = gather(pages, description.lines as usize * LINE_BYTES, 0)?;
        Ok(Bloom {
            table,
            description,
            lines,
        })
    }

    fn holds(&self, low: u64, line: &Line) -> bool {
        let mut probes = Probes::of(low);
        // Counts instead of leaving early: the branch would be mispredicted half of the time.
        let mut missing = 0;
        for _ in 0..self.description.probes {
            let bit = probes.next();
            missing |= !line[bit / 8] & (1 << (bit % 8));
        }
        missing == 0
    }

    fn line_in<'a>(&self, page: &'a Page, line: usize) -> Result<&'a Line> {
        let (lines, _) = page.as_chunks::<LINE_BYTES>();
        match lines.get(line % PAGE_LINES) {
            Some(line) => Ok(line),
            None => Err(Error::corruption(format!(
                "expected line {line} of a filter, found a page of {} lines",
                lines.len()
            ))),
        }
    }
}

impl Probe for Bloom {
    fn candidates(&self, hash: KeyHash, page: Option<&Page>) -> Result<Step<RunMask>> {
        let at = line_of(hash.low(), self.description.lines);
        let (lines, _) = self.lines.as_chunks::<LINE_BYTES>();
        let found = match (lines.get(at), page) {
            (Some(line), _) => self.holds(hash.low(), line),
            (None, Some(page)) => self.holds(hash.low(), self.line_in(page, at)?),
            (None, None) => {
                return Ok(Step::Read(PageId {
                    table: self.table,
                    handle: self.description.page_handle(at / PAGE_LINES),
                    class: PageClass::Filter,
                }));
            }
        };
        Ok(Step::Done(if found { RunMask(1) } else { RunMask::NONE }))
    }

    fn touch(&self, hash: KeyHash) {
        prefetch(
            &self.lines,
            line_of(hash.low(), self.description.lines) * LINE_BYTES,
        );
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.lines.len()
    }
}

/// The bytes of a filter for this many keys.
pub(super) fn bytes_for(keys: usize, bits_per_key: f32) -> u64 {
    u64::from(lines_for(keys, bits_per_key)) * LINE_BYTES as u64
}

fn lines_for(keys: usize, bits_per_key: f32) -> u32 {
    let bits = keys as f64 * f64::from(bits_per_key);
    // Saturates; no table has that many keys (over 10^10).
    (bits / LINE_BITS as f64).ceil().max(1.0) as u32
}

/// Builds the filter of these keys, with 1.0 to 32.0 bits for each, and hands its pages, in order,
/// to `write_page`. The first page will be stored at `offset`, each of the others after its
/// predecessor's trailer.
pub(crate) fn build(
    hashes: &HashList,
    bits_per_key: f32,
    offset: u64,
    write_page: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Description> {
    assert_bits_per_key(bits_per_key);
    let description = Description {
        lines: lines_for(hashes.len(), bits_per_key),
        probes: probes_for(bits_per_key),
        offset,
    };
    let mut filter = Buffer::allocate(description.lines as usize * LINE_BYTES);
    let (lines, _) = filter.as_chunks_mut::<LINE_BYTES>();
    for low in hashes.iter() {
        let line = &mut lines[line_of(low, description.lines)];
        let mut probes = Probes::of(low);
        for _ in 0..description.probes {
            let bit = probes.next();
            line[bit / 8] |= 1 << (bit % 8);
        }
    }
    filter.chunks(PAGE_BYTES).try_for_each(write_page)?;
    Ok(description)
}

#[cfg(test)]
mod tests;
