//! The stored form of blocks whose order keys begin with hashes. It has user keys alone, because
//! the hashes follow from them. The format is in `docs/format/block_based_table.md`.
//!
//! A block is restored when it is read from its file, as a compressed one is decompressed. So all
//! other code sees order keys. The cost and the gain are in `docs/design/0010-key-orders.md`.

use crate::base::codec::ByteReader;
use crate::base::error::Result;
use crate::base::key_order;
use crate::base::key_order::Order;
use crate::base::options::KeyOrder;

use super::block::{Block, BlockBuilder};

/// The mark beside a page's compression: the page is a block of user keys.
pub(crate) const SHORT_KEYS: u8 = 0x80;

/// Shortens blocks, one after the other.
pub(super) struct Shortener {
    order: Box<dyn Order>,
    /// The front of a short block: order and seed.
    front: Vec<u8>,
    builder: BlockBuilder,
    body: Vec<u8>,
    block: Vec<u8>,
}

impl Shortener {
    /// The shortening of a key order. `None` if its order keys are the user keys.
    pub(super) fn of(key_order: KeyOrder, seed: u64) -> Option<Shortener> {
        let order = key_order::open(key_order, seed);
        let (code, parameter) = key_order::code(key_order);
        let mut front = vec![code];
        front.extend(parameter.to_le_bytes());
        front.extend(seed.to_le_bytes());
        (order.added_bytes() > 0).then(|| Shortener {
            order,
            front,
            builder: BlockBuilder::default(),
            body: Vec::new(),
            block: Vec::new(),
        })
    }

    /// Returns the block with user keys instead of order keys.
    pub(super) fn shorten(&mut self, whole: &[u8]) -> Result<&[u8]> {
        let builder = &mut self.builder;
        Block::parse(whole)?.walk_all(|_, entry, key| {
            builder.add_stored(self.order.decode(key), &entry, &whole[entry.value()]);
            Ok(())
        })?;
        builder.finish(&mut self.body);
        self.block.clear();
        self.block.extend_from_slice(&self.front);
        self.block.extend_from_slice(&self.body);
        Ok(&self.block)
    }
}

/// Restores the block with order keys from a short one.
pub(crate) fn restore(short: &[u8]) -> Result<Vec<u8>> {
    let mut reader = ByteReader::new(short);
    let code = reader.u8("key order of a block")?;
    let parameter = reader.u32("parameter of the key order")?;
    let seed = reader.u64("hash seed of a block")?;
    let order = key_order::open(key_order::of_table(code, parameter)?, seed);
    let body = &short[reader.position()..];
    let mut builder = BlockBuilder::default();
    let mut order_key = Vec::new();
    Block::parse(body)?.walk_all(|_, entry, user_key| {
        let key = order.borrow(user_key, &mut order_key);
        builder.add_stored(key, &entry, &body[entry.value()]);
        Ok(())
    })?;
    let mut whole = Vec::with_capacity(short.len() + short.len() / 4);
    builder.finish(&mut whole);
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::entry::{SeqNo, Tag};
    use crate::base::options::PrefixRule;
    use crate::base::page::Handle;

    const ORDERS: [KeyOrder; 2] = [KeyOrder::SemiSorted(PrefixRule::Bytes(3)), KeyOrder::Hashed];

    /// A block of keys with and without values, some with several versions, one out of line.
    fn block(order: KeyOrder, keys: u32) -> Vec<u8> {
        let order = key_order::open(order, 9);
        let mut order_keys: Vec<Vec<u8>> = (0..keys)
            .map(|i| {
                let key = format!("{:03}{}", i / 20, "k".repeat(i as usize % 30));
                let mut order_key = Vec::new();
                order.encode(format!("{key}{i}").as_bytes(), &mut order_key);
                order_key
            })
            .collect();
        order_keys.sort();
        let mut builder = BlockBuilder::default();
        let place = Handle {
            offset: 1 << 33,
            bytes: 70_000,
        };
        for (i, key) in order_keys.iter().enumerate() {
            let seqno = SeqNo(5000 + i as u64 * 37 % 900);
            match i % 5 {
                0 => builder.add(key, seqno, Tag::DELETE, b""),
                1 => builder.add_out_of_line(key, seqno, Tag::PUT, place, 90_000),
                _ => builder.add(key, seqno, Tag::PUT, &vec![i as u8; i]),
            }
            if i % 7 == 0 {
                builder.add(key, SeqNo(3), Tag::PUT, b"older");
            }
        }
        let mut whole = Vec::new();
        builder.finish(&mut whole);
        whole
    }

    #[test]
    fn a_block_is_restored_byte_for_byte_and_shorter_before() {
        for order in ORDERS {
            let mut shortening = Shortener::of(order, 9).unwrap();
            for keys in [1, 2, 16, 17, 60] {
                let whole = block(order, keys);
                let short = shortening.shorten(&whole).unwrap();
                assert_eq!(restore(short).unwrap(), whole, "{order}, {keys} keys");
                assert!(keys < 16 || short.len() + 7 * keys as usize <= whole.len());
            }
        }
        assert!(Shortener::of(KeyOrder::Sorted, 9).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_block_or_corruption(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let _ = restore(&bytes);
            let whole = block(KeyOrder::Hashed, 20);
            let mut short = Shortener::of(KeyOrder::Hashed, 9).unwrap().shorten(&whole).unwrap().to_vec();
            for (at, byte) in flips {
                let at = at.index(short.len());
                short[at] ^= byte;
            }
            if let Err(error) = restore(&short) {
                prop_assert_eq!(error.kind(), crate::base::error::ErrorKind::Corruption);
            }
        }
    }
}
