//! The rules that every key order must keep.

use super::{Order, code, has_parameter, of_code, open};
use crate::base::options::{KeyOrder, PrefixRule};

const ORDERS: [KeyOrder; 5] = [
    KeyOrder::Sorted,
    KeyOrder::SemiSorted(PrefixRule::Bytes(2)),
    KeyOrder::SemiSorted(PrefixRule::Delimiter(b':')),
    KeyOrder::SemiSorted(PrefixRule::LengthPrefixed),
    KeyOrder::Hashed,
];

fn orders() -> impl Iterator<Item = Box<dyn Order>> {
    ORDERS.into_iter().map(|order| open(order, 5))
}

fn encode(order: &dyn Order, key: &[u8]) -> Vec<u8> {
    let mut order_key = Vec::new();
    order.encode(key, &mut order_key);
    order_key
}

/// Keys at the bounds: bytes 0 and 255, prefixes of one another, the shortest and the longest.
fn keys() -> Vec<Vec<u8>> {
    let mut keys = vec![
        vec![],
        vec![0],
        vec![255],
        vec![0, 0],
        vec![255; 300],
        vec![7; 64 << 10],
    ];
    for text in ["a", "ab", "abc", "b", "user:17", "user:171"] {
        keys.push(text.as_bytes().to_vec());
    }
    keys
}

#[test]
fn decoding_gives_back_the_user_key() {
    for order in orders() {
        for key in keys() {
            let order_key = encode(&*order, &key);
            assert_eq!(order.decode(&order_key), key, "{order:?}");
            assert_eq!(order_key.len(), order.added_bytes() + key.len());
        }
        assert!(order.decode(b"").is_empty());
    }
}

#[test]
fn borrowing_gives_what_encoding_appends() {
    for order in orders() {
        for key in keys() {
            let (mut appended, mut scratch) = (b"kept".to_vec(), b"dropped".to_vec());
            order.encode(&key, &mut appended);
            assert_eq!(
                order.borrow(&key, &mut scratch),
                &appended[4..],
                "{order:?}"
            );
        }
    }
}

#[test]
fn different_keys_have_different_order_keys() {
    for order in orders() {
        let mut encoded: Vec<_> = keys().iter().map(|key| encode(&*order, key)).collect();
        let count = encoded.len();
        encoded.sort();
        encoded.dedup();
        assert_eq!(encoded.len(), count, "{order:?}");
    }
}

#[test]
fn keys_out_of_bounds_are_refused() {
    for order in orders() {
        let error = order.check(&[7; (64 << 10) + 1]).unwrap_err();
        assert_eq!(
            error.kind(),
            crate::base::error::ErrorKind::InvalidArgument,
            "{order:?}"
        );
    }
}

/// An order that serves ranges keeps the order of the user keys.
#[test]
fn ranges_are_served_in_the_order_of_user_keys() {
    for order in orders().filter(|order| order.check_ranges().is_ok()) {
        for a in keys() {
            for b in keys() {
                let encoded = encode(&*order, &a).cmp(&encode(&*order, &b));
                assert_eq!(a.cmp(&b), encoded, "{order:?}");
            }
        }
    }
}

/// Order keys of a prefix begin with its group. The refusal of an order without ranges names other
/// scans.
#[test]
fn the_keys_of_a_prefix_begin_with_its_group() {
    for order in orders() {
        let refusal = order.check_ranges().err();
        assert!(refusal.is_none_or(|e| e.to_string().contains("scan_unordered")));
        for prefix in [&b"ab"[..], b"user", b"", b"\xFF\xFF"] {
            let Ok(group) = order.group(prefix) else {
                continue;
            };
            for key in keys().iter().filter(|key| order.has_prefix(key, prefix)) {
                order.check(key).unwrap();
                assert!(encode(&*order, key).starts_with(&group), "{order:?}");
            }
        }
    }
}

#[test]
fn orders_are_what_their_codes_name() {
    for order in ORDERS {
        let (number, parameter) = code(order);
        assert_eq!(of_code(number, parameter).unwrap(), Some(order));
        assert_eq!(has_parameter(number), parameter != 0);
    }
    assert_eq!(of_code(5, 0).unwrap(), None);
    for (number, parameter) in [(0, 1), (1, 0), (1, 1 << 17), (2, 256), (3, 1), (4, 1)] {
        let error = of_code(number, parameter).unwrap_err();
        assert_eq!(error.kind(), crate::base::error::ErrorKind::Corruption);
    }
}
