//! A page of separators with the places of their children: a piece of the index, or the top that
//! separates the pieces. The format is in `docs/format/fence_pointers.md`.
//!
//! Separators are searched as integers. The bytes that all separators of the page share are stored
//! once. The next few bytes of each are an array of fixed width. If these bytes do not suffice for
//! every separator, their full rests follow in a heap and decide ties.

use std::hint::select_unpredictable;
use std::ops::Range;

use crate::base::codec::byte_reader::put_sized;
use crate::base::codec::packed;
use crate::base::codec::{ByteReader, shared_prefix, varint};
use crate::base::error::{Error, Result};
use crate::base::page::{DEVICE_PAGE_BYTES, Handle};

/// Flag: the rests of separators are in a heap.
const HEAP: u8 = 1;
/// Flag: some children begin with the last key of the child before.
const TOUCHING: u8 = 2;
/// Flag: there are gaps of any size between the children.
const GAPS: u8 = 4;
/// Flag: each child begins at the device's next page after the child before.
const ALIGNED: u8 = 8;
const FLAGS_KNOWN: u8 = 15;
/// The maximum of bytes of a separator's integer.
const PREFIX_BYTES_MAX: usize = 8;
/// With a heap the integers only have to make ties rare.
const HEAP_PREFIX_BYTES: usize = 4;

/// A child of a node: a block, or a page of the index.
#[derive(Debug, Clone)]
pub(super) struct Child {
    /// The child's first key, or a prefix of it that [`Child::cut`] left.
    pub(super) first_key: Vec<u8>,
    /// The number of its leading bytes that make it larger than the last key of the child before.
    pub(super) needed: usize,
    /// True if the last key of the child before is equal: versions of one key are in both.
    pub(super) touching: bool,
    pub(super) handle: Handle,
}

impl Child {
    /// Drops the bytes of the first key that no node will need, once the next child is known.
    pub(super) fn cut(&mut self, next_needed: usize) {
        let keep = self.needed.max(next_needed) + PREFIX_BYTES_MAX;
        self.first_key.truncate(keep);
        self.first_key.shrink_to_fit();
    }
}

/// Collects the children of one node.
#[derive(Debug, Default)]
pub(super) struct NodeBuilder {
    pub(super) children: Vec<Child>,
    needed_bytes: usize,
    key_bytes: usize,
}

impl NodeBuilder {
    pub(super) fn push(&mut self, child: Child) {
        self.needed_bytes += child.needed;
        self.key_bytes += child.first_key.capacity();
        self.children.push(child);
    }

    /// The approximate size of the page.
    pub(super) fn estimated_bytes(&self) -> usize {
        let (Some(first), Some(last)) = (self.children.first(), self.children.last()) else {
            return 0;
        };
        let shared = shared_prefix(&first.first_key, &last.first_key);
        let rests = self
            .needed_bytes
            .saturating_sub(shared * self.children.len());
        shared + rests + 4 * self.children.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.key_bytes + self.children.capacity() * size_of::<Child>()
    }

    /// Encodes the page. `first` is the number of the first child.
    pub(super) fn encode(&self, first: usize) -> Vec<u8> {
        let children = &self.children;
        let (Some(first_child), Some(last_child)) = (children.first(), children.last()) else {
            panic!("a node has at least one child");
        };
        let shared = shared_prefix(&first_child.first_key, &last_child.first_key);
        let rest_bytes = children.iter().map(|c| c.needed.saturating_sub(shared));
        let longest = rest_bytes.max().unwrap_or(0).max(1);
        let shortest_key = children.iter().map(|c| c.first_key.len()).min();
        let heap = longest > PREFIX_BYTES_MAX || shortest_key < Some(shared + longest);
        let prefix_bytes = if heap { HEAP_PREFIX_BYTES } else { longest };
        let touching = children.iter().any(|c| c.touching);
        let spans = Spans::of(children);

        let mut out = Vec::new();
        varint::put(&mut out, children.len() as u64);
        varint::put(&mut out, first as u64);
        out.push(if heap { HEAP } else { 0 } | if touching { TOUCHING } else { 0 } | spans.spacing);
        let rests = |c: &Child| c.needed.max(shared).min(c.first_key.len());
        let heap_bytes: usize = children.iter().map(|c| rests(c) - shared).sum();
        let end_bytes = match heap {
            true => packed::width_for(heap_bytes as u64).max(1),
            false => 0,
        };
        out.extend([
            prefix_bytes as u8,
            spans.offset_bytes as u8,
            spans.size_bytes as u8,
            end_bytes as u8,
        ]);
        varint::put(&mut out, spans.base);
        put_sized(&mut out, &first_child.first_key[..shared]);
        for child in children {
            let end = match heap {
                true => rests(child),
                false => shared + prefix_bytes,
            };
            let integer = packed::get_ordered(&child.first_key[..end], shared, prefix_bytes);
            out.extend_from_slice(&integer.to_be_bytes()[8 - prefix_bytes..]);
        }
        spans.put(children, &mut out);
        if heap {
            let mut end = 0;
            for child in children {
                end += rests(child) - shared;
                packed::put(&mut out, end as u64, end_bytes);
            }
        }
        if touching {
            out.extend(children.chunks(8).map(touching_bits));
        }
        if heap {
            for child in children {
                out.extend_from_slice(&child.first_key[shared..rests(child)]);
            }
        }
        out
    }
}

/// A bit for each of eight children that touches the one before.
fn touching_bits(eight: &[Child]) -> u8 {
    let bits = eight.iter().enumerate();
    bits.fold(0, |byte, (i, c)| byte | u8::from(c.touching) << i)
}

/// The stored form of the children's offsets and sizes.
struct Spans {
    base: u64,
    /// Nothing, [`ALIGNED`] or [`GAPS`].
    spacing: u8,
    offset_bytes: usize,
    size_bytes: usize,
}

impl Spans {
    fn of(children: &[Child]) -> Spans {
        let end = |h: Handle| h.offset + u64::from(h.bytes);
        let all_begin_at = |place: fn(u64) -> u64| {
            let mut pairs = children.windows(2);
            pairs.all(|pair| place(end(pair[0].handle)) == pair[1].handle.offset)
        };
        let spacing = if all_begin_at(|end| end) {
            0
        } else if all_begin_at(device_page_after) {
            ALIGNED
        } else {
            GAPS
        };
        let base = children[0].handle.offset;
        let last = children[children.len() - 1].handle;
        let largest = children.iter().map(|c| u64::from(c.handle.bytes)).max();
        Spans {
            base,
            spacing,
            offset_bytes: packed::width_for(end(last) - base),
            size_bytes: match spacing {
                GAPS => packed::width_for(largest.unwrap_or(0)),
                _ => 0,
            },
        }
    }

    /// Appends the ends of the children; with gaps their offsets, then their sizes.
    fn put(&self, children: &[Child], out: &mut Vec<u8>) {
        let gaps = self.spacing == GAPS;
        for Child { handle, .. } in children {
            let at = handle.offset - self.base;
            let value = if gaps {
                at
            } else {
                at + u64::from(handle.bytes)
            };
            packed::put(out, value, self.offset_bytes);
        }
        if gaps {
            for child in children {
                packed::put(out, u64::from(child.handle.bytes), self.size_bytes);
            }
        }
    }
}

/// The offset of the first device page at or after `offset`, or the largest number.
fn device_page_after(offset: u64) -> u64 {
    let page = offset.checked_next_multiple_of(DEVICE_PAGE_BYTES);
    page.unwrap_or(u64::MAX)
}

/// The places of a node's parts in its page.
#[derive(Debug, Clone)]
pub(super) struct NodeLayout {
    pub(super) count: usize,
    pub(super) first: usize,
    flags: u8,
    prefix_bytes: u8,
    offset_bytes: u8,
    size_bytes: u8,
    end_bytes: u8,
    base: u64,
    shared: Range<u32>,
    prefixes: u32,
    offsets: u32,
    sizes: u32,
    ends: u32,
    touching: u32,
    heap: Range<u32>,
}

impl NodeLayout {
    /// Parses the node at the front of a page. The rest of the page is the caller's.
    pub(super) fn parse(page: &[u8]) -> Result<(NodeLayout, usize)> {
        let mut reader = ByteReader::new(page);
        let count: usize = reader.varint_as("number of index entries")?;
        let first = reader.varint_as("first number of an index page")?;
        let flags = reader.u8("flags of an index page")?;
        let widths = reader.take(4, "widths of an index page")?;
        let base = reader.varint("base offset of an index page")?;
        let heap = flags & HEAP != 0;
        let valid = flags & !FLAGS_KNOWN == 0
            && widths.iter().all(|&width| width <= 8)
            && widths[0] >= 1
            && heap == (widths[3] > 0);
        if !valid || count == 0 || count > page.len() {
            return Err(Error::corruption(format!(
                "expected an index page, found {count} entries, flags {flags:#04x} and widths {widths:?}"
            )));
        }
        let shared_bytes = reader.varint_as("shared bytes of separators")?;
        let shared_start = reader.position() as u32;
        reader.take(shared_bytes, "shared bytes of separators")?;
        let shared = shared_start..reader.position() as u32;
        let mut array = |bytes: usize, what| -> Result<u32> {
            let at = reader.position() as u32;
            reader.take(bytes, what).map(|_| at)
        };
        let sizes_count = if flags & GAPS != 0 { count } else { 0 };
        let bitmap_bytes = if flags & TOUCHING != 0 {
            count.div_ceil(8)
        } else {
            0
        };
        let mut layout = NodeLayout {
            count,
            first,
            flags,
            prefix_bytes: widths[0],
            offset_bytes: widths[1],
            size_bytes: widths[2],
            end_bytes: widths[3],
            base,
            shared,
            prefixes: array(count * usize::from(widths[0]), "separators")?,
            offsets: array(count * usize::from(widths[1]), "offsets")?,
            sizes: array(sizes_count * usize::from(widths[2]), "sizes")?,
            ends: array(count * usize::from(widths[3]), "ends of separators")?,
            touching: array(bitmap_bytes, "touching bits")?,
            heap: 0..0,
        };
        if heap {
            let last = layout.ends as usize + (count - 1) * usize::from(layout.end_bytes);
            let bytes = packed::get(page, last, usize::from(layout.end_bytes));
            let start = array(
                usize::try_from(bytes).unwrap_or(usize::MAX),
                "rests of separators",
            )?;
            layout.heap = start..start + bytes as u32;
        }
        Ok((layout, reader.position()))
    }
}

/// A node and its bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'a> {
    pub(super) layout: &'a NodeLayout,
    pub(super) page: &'a [u8],
}

impl<'a> Node<'a> {
    /// The number of separators at or below `key`.
    pub(super) fn at_or_below(&self, key: &[u8]) -> usize {
        let shared = self.shared();
        let Some(rest) = key.strip_prefix(shared) else {
            return if key < shared { 0 } else { self.layout.count };
        };
        let width = usize::from(self.layout.prefix_bytes);
        let wanted = packed::get_ordered(rest, 0, width);
        if self.layout.flags & HEAP == 0 {
            // A key that is too short for the integer's bytes is below a separator of equal
            // integer.
            return if rest.len() >= width {
                count_while(0..self.layout.count, |i| self.prefix(i) <= wanted)
            } else {
                count_while(0..self.layout.count, |i| self.prefix(i) < wanted)
            };
        }
        let below = count_while(0..self.layout.count, |i| self.prefix(i) < wanted);
        let ties = count_while(below..self.layout.count, |i| self.prefix(i) == wanted);
        count_while(below..ties, |i| self.rest(i) <= rest)
    }

    /// Returns true if child `i` begins with `key` and the child before ends with it.
    pub(super) fn touches(&self, i: usize, key: &[u8]) -> bool {
        self.is_touching(i) && self.separator(i) == key
    }

    fn is_touching(&self, i: usize) -> bool {
        let at = self.layout.touching as usize + i / 8;
        self.layout.flags & TOUCHING != 0
            && self
                .page
                .get(at)
                .is_some_and(|byte| byte & (1 << (i % 8)) != 0)
    }

    /// A key above everything before child `i` and at or below everything in it.
    pub(super) fn separator(&self, i: usize) -> Vec<u8> {
        let mut key = self.shared().to_vec();
        if self.layout.flags & HEAP != 0 {
            key.extend_from_slice(self.rest(i));
        } else {
            let width = usize::from(self.layout.prefix_bytes);
            key.extend_from_slice(&self.prefix(i).to_be_bytes()[8 - width..]);
        }
        key
    }

    /// The place of child `i`.
    pub(super) fn handle(&self, i: usize) -> Handle {
        let layout = self.layout;
        let width = usize::from(layout.offset_bytes);
        let place = |i: usize| packed::get(self.page, layout.offsets as usize + i * width, width);
        if layout.flags & GAPS != 0 {
            let width = usize::from(layout.size_bytes);
            let bytes = packed::get(self.page, layout.sizes as usize + i * width, width);
            return handle(layout.base.saturating_add(place(i)), bytes);
        }
        let end = layout.base.saturating_add(place(i));
        let before = match i.checked_sub(1) {
            Some(before) => layout.base.saturating_add(place(before)),
            None => layout.base,
        };
        let start = match layout.flags & ALIGNED != 0 && i > 0 {
            true => device_page_after(before),
            false => before,
        };
        handle(start, end.saturating_sub(start))
    }

    fn shared(&self) -> &'a [u8] {
        let Range { start, end } = self.layout.shared;
        self.page
            .get(start as usize..end as usize)
            .unwrap_or_default()
    }

    #[inline]
    fn prefix(&self, i: usize) -> u64 {
        let width = usize::from(self.layout.prefix_bytes);
        packed::get_ordered(self.page, self.layout.prefixes as usize + i * width, width)
    }

    /// The bytes after the shared ones of separator `i`; only with a heap.
    fn rest(&self, i: usize) -> &'a [u8] {
        let layout = self.layout;
        let width = usize::from(layout.end_bytes);
        let end = |i: usize| packed::get(self.page, layout.ends as usize + i * width, width);
        let start = if i == 0 { 0 } else { end(i - 1) };
        let heap = &self.page[layout.heap.start as usize..layout.heap.end as usize];
        heap.get(start as usize..end(i) as usize)
            .unwrap_or_default()
    }
}

/// The end of the leading part of `range` for which `holds` is true. Nobody can predict what holds
/// for a key, so the steps select instead of branching. More places per step would need fewer
/// steps, but would touch more cache lines.
#[inline]
pub(super) fn count_while(range: Range<usize>, holds: impl Fn(usize) -> bool) -> usize {
    let (mut at, mut size) = (range.start, range.len());
    while size > 1 {
        let half = size / 2;
        at = select_unpredictable(holds(at + half - 1), at + half, at);
        size -= half;
    }
    at + usize::from(size == 1 && holds(at))
}

/// Makes a place of numbers from disk, which may be anything: a number that is too large stays too
/// large.
fn handle(offset: u64, bytes: u64) -> Handle {
    Handle {
        offset,
        bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
    }
}
