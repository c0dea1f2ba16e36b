use super::{KeyRange, KeyRanges};

fn range(start: &str, end: &str) -> KeyRange {
    KeyRange {
        start: start.into(),
        end: end.into(),
    }
}

#[test]
fn merged_ranges_hold_the_same_keys() {
    let keys: Vec<Vec<u8>> = (0..=26_u8).map(|i| vec![b'a' + i]).collect();
    let mut random = crate::base::random::Random::new(7);
    for _ in 0..2000 {
        let mut ranges = Vec::new();
        for _ in 0..random.below(6) {
            let from = random.below(26) as usize;
            let mut one = range("", "");
            one.start.clone_from(&keys[from]);
            if random.below(8) > 0 {
                let to = from + 1 + random.below(26 - from as u64) as usize;
                one.end.clone_from(&keys[to]);
            }
            ranges.push(one);
        }
        let merged = KeyRanges::of(ranges.clone());
        for key in &keys {
            let held = ranges
                .iter()
                .any(|it| it.start <= *key && it.ends_behind(key));
            let end = [key.as_slice(), &[0]].concat();
            let found = merged.first_in(key, &end);
            assert_eq!(found.is_some(), held, "{key:?} in {ranges:?}");
        }
        let disjoint = |pair: &[KeyRange]| !pair[0].end.is_empty() && pair[0].end < pair[1].start;
        assert!(merged.0.windows(2).all(disjoint), "{merged:?}");
    }
}

#[test]
fn the_first_common_key_is_named() {
    let ranges = KeyRanges::of(vec![range("d", "g"), range("m", "")]);
    assert_eq!(ranges.first_in(b"a", b"d"), None);
    assert_eq!(ranges.first_in(b"a", b"e").as_deref(), Some(&b"d"[..]));
    assert_eq!(ranges.first_in(b"e", b"").as_deref(), Some(&b"e"[..]));
    assert_eq!(ranges.first_in(b"g", b"m"), None);
    assert_eq!(ranges.first_in(b"g", b"").as_deref(), Some(&b"m"[..]));
    assert!(KeyRange::of_key(b"d").ends_behind(b"d"));
    assert!(!KeyRange::of_key(b"d").ends_behind(b"d\0"));
}
