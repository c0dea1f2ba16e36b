//! What every key order must do.

use super::semi_sorted::{PrefixRule, SemiSorted};
use super::{Order, Sorted};

fn orders() -> Vec<Box<dyn Order>> {
    let semi_sorted = |rule| Box::new(SemiSorted { rule, seed: 5 });
    vec![
        Box::new(Sorted),
        semi_sorted(PrefixRule::Bytes(2)),
        semi_sorted(PrefixRule::Delimiter(b':')),
        semi_sorted(PrefixRule::LengthPrefixed),
    ]
}

/// Keys that try the borders: bytes 0 and 255, prefixes of one another, the shortest and longest.
fn keys() -> Vec<Vec<u8>> {
    let mut keys = vec![
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
            let mut order_key = Vec::new();
            order.encode(&key, &mut order_key);
            assert_eq!(order.decode(&order_key), key, "{order:?}");
        }
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
        let mut encoded: Vec<_> = keys()
            .iter()
            .map(|key| {
                let mut order_key = Vec::new();
                order.encode(key, &mut order_key);
                order_key
            })
            .collect();
        let count = encoded.len();
        encoded.sort();
        encoded.dedup();
        assert_eq!(encoded.len(), count, "{order:?}");
    }
}

/// An order that serves ranges keeps the order of the user keys.
#[test]
fn ranges_are_served_in_the_order_of_user_keys() {
    for order in orders()
        .iter()
        .filter(|o| o.scans() == super::ScanSupport::Range)
    {
        let encode = |key: &[u8]| {
            let mut order_key = Vec::new();
            order.encode(key, &mut order_key);
            order_key
        };
        for a in keys() {
            for b in keys() {
                assert_eq!(a.cmp(&b), encode(&a).cmp(&encode(&b)), "{order:?}");
            }
        }
    }
}
