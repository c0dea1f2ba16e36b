//! The places of blocks as *extents*: blocks of one size at equal distances. So the places of
//! consecutive pages take no space. A new extent begins after other bytes between two blocks, and
//! with a block of another size.

use crate::base::codec::{ByteReader, packed, varint};
use crate::base::error::{Error, Result};
use crate::base::page::Handle;

/// The number of fields of an extent in its page.
const FIELDS: usize = 4;

/// Consecutive blocks of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// The first block, counted from the first of the segment.
    first_block: usize,
    offset: u64,
    bytes: u32,
    /// The distance from one block's offset to the next one's.
    distance: u64,
}

impl Extent {
    #[cfg(test)]
    pub(super) const NOWHERE: Extent = Extent {
        first_block: 0,
        offset: 0,
        bytes: 0,
        distance: 0,
    };

    fn place(self, block: usize) -> Handle {
        let distance =
            (block.saturating_sub(self.first_block) as u64).saturating_mul(self.distance);
        Handle {
            offset: self.offset.saturating_add(distance),
            bytes: self.bytes,
        }
    }

    fn fields(self) -> [u64; FIELDS] {
        [
            self.first_block as u64,
            self.offset,
            self.bytes.into(),
            self.distance,
        ]
    }
}

/// Appends the place of the next block. `block` is the number of blocks before it.
pub(super) fn push(extents: &mut Vec<Extent>, block: usize, place: Handle) {
    if let Some(last) = extents.last_mut() {
        if block == last.first_block + 1 {
            last.distance = place.offset.saturating_sub(last.offset);
        }
        if last.place(block) == place {
            return;
        }
    }
    extents.push(Extent {
        first_block: block,
        offset: place.offset,
        bytes: place.bytes,
        distance: 0,
    });
}

/// Appends the number of extents, the bytes of each field, and then the fields of each extent.
pub(super) fn encode(extents: &[Extent], out: &mut Vec<u8>) {
    let rows = extents.iter().map(|extent| extent.fields());
    let most = rows.clone().fold([0; FIELDS], |most, row| {
        std::array::from_fn(|i| most[i].max(row[i]))
    });
    let widths = most.map(packed::width_for);
    varint::put(out, extents.len() as u64);
    out.extend(widths.map(|width| width as u8));
    for row in rows {
        for (field, width) in row.into_iter().zip(widths) {
            packed::put(out, field, width);
        }
    }
}

/// The places of a segment's extents in its page.
#[derive(Debug, Clone)]
pub(super) struct ExtentsLayout {
    count: usize,
    widths: [usize; FIELDS],
    start: usize,
}

impl ExtentsLayout {
    pub(super) fn parse(reader: &mut ByteReader<'_>) -> Result<ExtentsLayout> {
        let count: usize = reader.varint_as("number of extents")?;
        let widths = reader.take(FIELDS, "widths of extents")?;
        let widths = std::array::from_fn(|i| usize::from(widths[i]));
        if count == 0 || widths.iter().any(|&width| width > 8) {
            return Err(Error::corruption(format!(
                "expected extents of blocks, found {count} with widths {widths:?}"
            )));
        }
        let start = reader.position();
        reader.take(
            count.saturating_mul(widths.iter().sum()),
            "extents of blocks",
        )?;
        Ok(ExtentsLayout {
            count,
            widths,
            start,
        })
    }

    /// The place of a block.
    #[inline]
    pub(super) fn place(&self, page: &[u8], block: usize) -> Handle {
        let (mut low, mut high) = (0, self.count);
        while low + 1 < high {
            let middle = low.midpoint(high);
            if self.extent(page, middle).first_block <= block {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.extent(page, low).place(block)
    }

    #[inline]
    fn extent(&self, page: &[u8], number: usize) -> Extent {
        let row: usize = self.widths.iter().sum();
        let mut at = self.start + number * row;
        let [first_block, offset, bytes, distance] = self.widths.map(|width| {
            let field = packed::get(page, at, width);
            at += width;
            field
        });
        Extent {
            first_block: first_block as usize,
            offset,
            bytes: bytes as u32,
            distance,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_at_equal_distances_share_an_extent() {
        // Pages of one size, a value between two of them, a larger page, and a single one.
        let mut places: Vec<(u64, u32)> = (0..500).map(|i| (i * 4096, 4032)).collect();
        places.extend((0..70).map(|i| (2_050_000 + i * 4096, 4032)));
        places.push((2_500_000, 9000));
        places.extend((0..30).map(|i| (2_510_000 + i * 4032, 4032)));
        let mut extents = Vec::new();
        for (block, &(offset, bytes)) in places.iter().enumerate() {
            push(&mut extents, block, Handle { offset, bytes });
        }
        assert_eq!(extents.len(), 4);
        let mut page = vec![7; 3];
        encode(&extents, &mut page);
        page.extend([1; 9]);
        let mut reader = ByteReader::new(&page);
        reader.take(3, "what is before").unwrap();
        let layout = ExtentsLayout::parse(&mut reader).unwrap();
        assert_eq!(reader.remaining(), 9);
        for (block, &(offset, bytes)) in places.iter().enumerate() {
            assert_eq!(layout.place(&page, block), Handle { offset, bytes });
        }
    }

    #[test]
    fn garbage_has_some_places_or_is_refused() {
        assert!(ExtentsLayout::parse(&mut ByteReader::new(&[0, 1, 1, 1, 1])).is_err());
        assert!(ExtentsLayout::parse(&mut ByteReader::new(&[1, 9, 1, 1, 1, 0])).is_err());
        assert!(ExtentsLayout::parse(&mut ByteReader::new(&[9, 1, 1, 1, 1, 0, 0])).is_err());
        let page = [&[2, 8, 8, 8, 8][..], &[0xFF; 64]].concat();
        let layout = ExtentsLayout::parse(&mut ByteReader::new(&page)).unwrap();
        layout.place(&page, usize::MAX);
    }
}
