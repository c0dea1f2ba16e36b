//! Fence pointers: between each block and the next, the shortest key that separates the true
//! neighbours. The format is in `docs/format/fence_pointers.md`.
//!
//! There are two levels. Pages of about 4 KiB hold some hundreds of separators and places of blocks
//! each. One top page separates the pages. A resident index keeps all pages as they are stored, 6
//! to 12 bytes per block. A paged index keeps the top and reads one page per lookup.

mod node;

use std::ops::Range;

use crate::base::codec::byte_reader::put_sized;
use crate::base::codec::packed;
use crate::base::codec::{ByteReader, shared_prefix, varint};
use crate::base::error::{Error, Result};
use crate::base::page::{Handle, Page, PageClass, PageId, Step, TableId};

use super::resident::ResidentPages;
use super::{BlockRange, Bracket, Index};
use node::{Child, Node, NodeBuilder, NodeLayout, count_while};

/// The size at which a page of separators is finished, so that it fits 4 KiB in memory.
const PAGE_BYTES: usize = 3900;

/// Builds the index of one table. Keeps the finished pages in memory until `finish`: 6 to 12 bytes
/// per block.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    /// The last key added.
    last_key: Vec<u8>,
    /// The block that gets keys now. It has no place yet.
    open: Option<Child>,
    /// The block before, already stored. It waits for the separator after it.
    stored: Option<Child>,
    node: NodeBuilder,
    pages: Vec<FinishedPage>,
    page_bytes: usize,
    /// The number of blocks in `node` and `pages`.
    blocks: usize,
}

#[derive(Debug)]
struct FinishedPage {
    bytes: Vec<u8>,
    first_block: usize,
    first_child: Child,
}

impl super::Builder for Builder {
    fn add(&mut self, key: &[u8], block: usize) {
        if self.open.is_none() {
            self.open_block(key, block);
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
    }

    fn finish_block(&mut self, block: usize, handle: Handle) {
        let mut child = self.open.take().expect("a block has keys");
        assert!(
            block == self.blocks + usize::from(self.stored.is_some()),
            "blocks are finished in order"
        );
        child.handle = handle;
        self.store(child);
    }
}

impl Builder {
    /// The bytes of the index in the file if it were finished now.
    pub(crate) fn estimated_bytes(&self) -> usize {
        self.page_bytes + self.node.estimated_bytes()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.page_bytes
            + self.pages.capacity() * size_of::<FinishedPage>()
            + self.node.memory_bytes()
            + self.last_key.capacity()
    }

    /// Passes the pages, in order, and then the top to `write_page`, which returns their places.
    /// Returns the place of the top.
    pub(crate) fn finish(
        mut self,
        mut write_page: impl FnMut(&[u8]) -> Result<Handle>,
    ) -> Result<Handle> {
        assert!(self.open.is_none(), "the last block is finished");
        if let Some(mut last) = self.stored.take() {
            last.cut(0);
            self.node.push(last);
            self.blocks += 1;
        }
        self.finish_page();
        let mut top = NodeBuilder::default();
        let mut firsts = Vec::new();
        for page in self.pages {
            firsts.push(page.first_block as u64);
            top.push(Child {
                handle: write_page(&page.bytes)?,
                ..page.first_child
            });
        }
        let mut bytes = top.encode(0);
        varint::put(&mut bytes, self.blocks as u64);
        for first in firsts {
            packed::put(&mut bytes, first, packed::width_for(self.blocks as u64));
        }
        put_sized(&mut bytes, &self.last_key);
        write_page(&bytes)
    }

    fn open_block(&mut self, key: &[u8], block: usize) {
        let first = self.stored.is_none();
        assert!(
            block == self.blocks + usize::from(!first),
            "keys are added to blocks in order"
        );
        let shared = shared_prefix(&self.last_key, key);
        let touching = !first && shared == key.len();
        self.open = Some(Child {
            first_key: key.to_vec(),
            needed: if first { 0 } else { key.len().min(shared + 1) },
            touching,
            handle: Handle {
                offset: 0,
                bytes: 0,
            },
        });
    }

    fn store(&mut self, child: Child) {
        if let Some(mut before) = self.stored.take() {
            before.cut(child.needed);
            self.push(before);
        }
        self.stored = Some(child);
    }

    fn push(&mut self, child: Child) {
        // No page begins between versions of one key, so one page has all the blocks of a key.
        if self.node.estimated_bytes() >= PAGE_BYTES && !child.touching {
            self.finish_page();
        }
        self.node.push(child);
        self.blocks += 1;
    }

    fn finish_page(&mut self) {
        let node = std::mem::take(&mut self.node);
        let Some(first_child) = node.children.first() else {
            return;
        };
        let first_block = self.blocks - node.children.len();
        let bytes = node.encode(first_block);
        self.page_bytes += bytes.len();
        self.pages.push(FinishedPage {
            bytes,
            first_block,
            first_child: first_child.clone(),
        });
    }
}

/// The index of one table.
#[derive(Debug)]
pub(crate) struct FencePointers {
    table: TableId,
    top: NodeLayout,
    top_page: Box<[u8]>,
    /// The place in `top_page` of the number of each page's first block.
    firsts: usize,
    first_bytes: usize,
    blocks: usize,
    last_key: Range<usize>,
    nodes: ResidentPages<NodeLayout>,
}

impl FencePointers {
    /// Opens a paged index from its top page.
    pub(crate) fn paged(table: TableId, top_page: &[u8]) -> Result<FencePointers> {
        let (top, parsed) = NodeLayout::parse(top_page)?;
        let mut rest = ByteReader::new(&top_page[parsed..]);
        let blocks: usize = rest.varint_as("number of blocks")?;
        let first_bytes = packed::width_for(blocks as u64);
        let firsts = parsed + rest.position();
        rest.take(top.count * first_bytes, "numbers of first blocks")?;
        let last_key_bytes = rest.sized("last key")?.len();
        let last_key_end = parsed + rest.position();
        rest.finish("the top of the index")?;
        let index = FencePointers {
            table,
            top,
            top_page: top_page.into(),
            firsts,
            first_bytes,
            blocks,
            last_key: last_key_end - last_key_bytes..last_key_end,
            nodes: ResidentPages::NONE,
        };
        let firsts = (0..=index.top.count).map(|page| index.first_block(page));
        if index.first_block(0) != 0 || !firsts.is_sorted_by(|a, b| a < b) {
            return Err(Error::corruption(
                "expected the numbers of first blocks to increase from 0",
            ));
        }
        Ok(index)
    }

    fn resident_or_top_first(&self) -> Vec<u8> {
        let first = self.resident_separator(0);
        first.unwrap_or_else(|| self.top().separator(0))
    }

    /// The first block that begins after `piece / pieces` of the bytes, if the index is resident.
    fn block_at_share(&self, piece: usize, pieces: usize) -> Option<usize> {
        let offset = |block: usize| {
            let page = self.page_of_block(block);
            let handle = self.resident(page)?.handle(block - self.first_block(page));
            Some(handle.offset)
        };
        let (start, end) = (offset(0)?, offset(self.blocks - 1)?);
        // A page from disk may say anything: offsets that do not ascend give some key, not a panic.
        let bytes = u128::from(end.saturating_sub(start));
        let wanted = start.saturating_add((bytes * piece as u128 / pieces as u128) as u64);
        let (mut low, mut high) = (0, self.blocks - 1);
        while low < high {
            let middle = low.midpoint(high);
            if offset(middle)? < wanted {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Some(low)
    }

    fn resident_separator(&self, block: usize) -> Option<Vec<u8>> {
        let page = self.page_of_block(block);
        let node = self.resident(page)?;
        Some(node.separator(block - self.first_block(page)))
    }

    fn top(&self) -> Node<'_> {
        Node {
            layout: &self.top,
            page: &self.top_page,
        }
    }

    /// The node of a page, if it is resident.
    #[inline]
    fn resident(&self, page: usize) -> Option<Node<'_>> {
        let (layout, page) = self.nodes.get(page)?;
        Some(Node { layout, page })
    }

    fn page_id(&self, page: usize) -> PageId {
        PageId {
            table: self.table,
            handle: self.top().handle(page),
            class: PageClass::Index,
        }
    }

    /// The number of the first block of a page. For the page after the last, the number of all
    /// blocks.
    fn first_block(&self, page: usize) -> usize {
        if page == self.top.count {
            return self.blocks;
        }
        let at = self.firsts + page * self.first_bytes;
        packed::get(&self.top_page, at, self.first_bytes) as usize
    }

    fn page_of_block(&self, block: usize) -> usize {
        let begun = count_while(0..self.top.count, |page| self.first_block(page) <= block);
        begun.saturating_sub(1)
    }

    fn last_key(&self) -> &[u8] {
        &self.top_page[self.last_key.clone()]
    }

    fn parse_page(&self, page: usize, bytes: &[u8]) -> Result<NodeLayout> {
        let (layout, parsed) = NodeLayout::parse(bytes)?;
        let expected = self.first_block(page)..self.first_block(page + 1);
        let found = layout.first..layout.first.saturating_add(layout.count);
        if page >= self.top.count || expected != found || parsed != bytes.len() {
            return Err(Error::corruption(format!(
                "expected the index page of blocks {expected:?}, found {found:?} and {} more bytes",
                bytes.len() - parsed
            )));
        }
        Ok(layout)
    }

    /// Queries the node of a page: a resident one, the given one, or one to be read.
    fn probe<T>(
        &self,
        page: usize,
        given: Option<&Page>,
        answer: impl FnOnce(Node<'_>) -> T,
    ) -> Result<Step<T>> {
        if let Some(node) = self.resident(page) {
            return Ok(Step::Done(answer(node)));
        }
        let Some(given) = given else {
            return Ok(Step::Read(self.page_id(page)));
        };
        let layout = self.parse_page(page, given)?;
        Ok(Step::Done(answer(Node {
            layout: &layout,
            page: given,
        })))
    }
}

/// The children of `node` that may hold `key`.
fn candidates(node: Node<'_>, key: &[u8]) -> Range<usize> {
    let first = node.layout.first;
    let end = node.at_or_below(key);
    if end == 0 {
        // The key is above the page's separator in the top, which may be shorter than the one here.
        return first..first;
    }
    let mut start = end - 1;
    while start > 0 && node.touches(start, key) {
        start -= 1;
    }
    first + start..first + end
}

impl Index for FencePointers {
    fn locate(&self, key: &[u8], page: Option<&Page>) -> Result<Step<BlockRange>> {
        let pages = self.top().at_or_below(key);
        if pages == 0 || key > self.last_key() {
            return Ok(Step::Done(BlockRange::NOWHERE));
        }
        self.probe(pages - 1, page, |node| {
            BlockRange::of(candidates(node, key), |block| {
                node.handle(block - node.layout.first)
            })
        })
    }

    fn lower_bound(&self, key: &[u8], page: Option<&Page>) -> Result<Step<Bracket>> {
        let pages = self.top().at_or_below(key);
        if pages == 0 {
            return Ok(Step::Done(Bracket::at(0)));
        }
        if key > self.last_key() {
            return Ok(Step::Done(Bracket::at(self.blocks)));
        }
        self.probe(pages - 1, page, |node| {
            Bracket::at(candidates(node, key).start)
        })
    }

    fn end_before(&self, key: &[u8], page: Option<&Page>) -> Result<Step<usize>> {
        let pages = self.top().at_or_below(key);
        if pages == 0 {
            return Ok(Step::Done(0));
        }
        self.probe(pages - 1, page, |node| candidates(node, key).end)
    }

    fn handle(&self, block: usize, page: Option<&Page>) -> Result<Step<Handle>> {
        assert!(
            block < self.blocks,
            "block {block} of {} blocks",
            self.blocks
        );
        let at = self.page_of_block(block);
        let within = block - self.first_block(at);
        self.probe(at, page, |node| node.handle(within))
    }

    fn blocks(&self) -> usize {
        self.blocks
    }

    fn page_ids(&self) -> Vec<PageId> {
        (0..self.top.count).map(|page| self.page_id(page)).collect()
    }

    fn load(&mut self, pages: &[&[u8]]) -> Result<()> {
        let expected = (self.top.count, "pages");
        self.nodes =
            ResidentPages::load(pages, expected, |page, bytes| self.parse_page(page, bytes))?;
        Ok(())
    }

    fn split_keys(&self, pieces: usize) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for piece in 1..pieces {
            let block = self.block_at_share(piece, pieces);
            let key = block.and_then(|block| self.resident_separator(block));
            let key = key.unwrap_or_else(|| self.top().separator(self.top.count * piece / pieces));
            let above_first = key > self.resident_or_top_first();
            if above_first && keys.last().is_none_or(|last| *last < key) {
                keys.push(key);
            }
        }
        keys
    }

    fn share_before(&self, key: &[u8]) -> f64 {
        let block = match self.lower_bound(key, None) {
            Ok(Step::Done(bracket)) => bracket.likely,
            // In the middle of the page that must be read.
            _ => {
                let page = self.top().at_or_below(key).saturating_sub(1);
                self.first_block(page).midpoint(self.first_block(page + 1))
            }
        };
        block as f64 / self.blocks as f64
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.top_page.len() + self.nodes.memory_bytes()
    }
}

#[cfg(test)]
mod tests;
