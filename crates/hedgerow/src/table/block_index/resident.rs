//! The pages of a resident index.

use std::ops::Range;

use crate::base::error::{Error, Result};

/// Pages one after the other, each with its layout and range; none while the index is paged.
#[derive(Debug)]
pub(super) struct ResidentPages<L> {
    bytes: Vec<u8>,
    pages: Vec<(L, Range<usize>)>,
}

impl<L> ResidentPages<L> {
    pub(super) const NONE: ResidentPages<L> = ResidentPages {
        bytes: Vec::new(),
        pages: Vec::new(),
    };

    /// Copies all pages, in order, with the layout that `parse` makes of each. `parse` gets the
    /// page's number.
    ///
    /// # Errors
    /// `Corruption` if there are not `expected` pages, with `name` in the message; the errors of
    /// `parse`.
    pub(super) fn load(
        pages: &[&[u8]],
        (expected, name): (usize, &str),
        parse: impl Fn(usize, &[u8]) -> Result<L>,
    ) -> Result<ResidentPages<L>> {
        if pages.len() != expected {
            return Err(Error::corruption(format!(
                "expected an index of {expected} {name}, found {}",
                pages.len()
            )));
        }
        let mut loaded = ResidentPages {
            bytes: Vec::with_capacity(pages.iter().map(|page| page.len()).sum()),
            pages: Vec::with_capacity(pages.len()),
        };
        for (number, page) in pages.iter().enumerate() {
            let layout = parse(number, page)?;
            let start = loaded.bytes.len();
            loaded.bytes.extend_from_slice(page);
            loaded.pages.push((layout, start..loaded.bytes.len()));
        }
        Ok(loaded)
    }

    /// A page and its layout; `None` while the index is paged.
    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<(&L, &[u8])> {
        let (layout, range) = self.pages.get(number)?;
        Some((layout, &self.bytes[range.clone()]))
    }

    pub(super) fn layouts(&self) -> impl Iterator<Item = &L> {
        self.pages.iter().map(|(layout, _)| layout)
    }

    /// The bytes of memory, without the heap memory of layouts.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.pages.capacity() * size_of::<(L, Range<usize>)>()
    }
}
