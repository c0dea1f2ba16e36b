use proptest::prelude::*;

use super::*;
use crate::base::key_order;

/// A delete of the keys of a range; without end if the end is empty.
pub(crate) fn range((start, end): (&str, &str), seqno: u64) -> RangeTombstones {
    let order = KeyOrder::Sorted;
    let operation = (start.as_bytes(), end.as_bytes());
    let open = key_order::open(order, 0);
    RangeTombstones::of_operation(operation, SeqNo(seqno), (order, &*open)).unwrap()
}

/// Deletes such as `a-m:7 f-z:9`; `c-:5` has no end.
pub(crate) fn ranges(text: &str) -> RangeTombstones {
    let one = |word: &str| {
        let (keys, seqno) = word.split_once(':').unwrap();
        range(keys.split_once('-').unwrap(), seqno.parse().unwrap())
    };
    let lists: Vec<_> = text.split_whitespace().map(one).collect();
    RangeTombstones::merged(&lists)
}

/// Fragments such as `a-f:7 f-m:9,7`.
fn print(ranges: &RangeTombstones) -> String {
    let key = |key: &[u8]| String::from_utf8_lossy(key).replace('\0', "0");
    let fragment = |it: &Fragment| {
        let numbers: Vec<_> = it.deletes.iter().map(|d| d.seqno.0.to_string()).collect();
        format!("{}-{}:{}", key(&it.start), key(&it.end), numbers.join(","))
    };
    let fragments: Vec<_> = ranges.fragments().iter().map(fragment).collect();
    fragments.join(" ")
}

#[test]
fn overlapping_ranges_become_disjoint_fragments() {
    for (deletes, fragments) in [
        ("", ""),
        ("a-m:7", "a-m:7"),
        ("a-m:7 f-z:9", "a-f:7 f-m:9,7 m-z:9"),
        ("f-z:9 a-m:7", "a-f:7 f-m:9,7 m-z:9"),
        ("a-z:1 c-d:2", "a-c:1 c-d:2,1 d-z:1"),
        ("a-b:1 b-c:1", "a-c:1"),
        ("a-b:1 b-c:2", "a-b:1 b-c:2"),
        ("a-b:1 c-d:1", "a-b:1 c-d:1"),
        ("a-b:1 a-b:3 a-b:2", "a-b:3,2,1"),
        ("a-c:1 b-:2", "a-b:1 b-c:2,1 c-:2"),
        ("-:1 b-c:2", "-b:1 b-c:2,1 c-:1"),
    ] {
        assert_eq!(print(&ranges(deletes)), fragments, "{deletes}");
    }
}

#[test]
fn cutting_truncates_fragments() {
    for (deletes, cut, front, rest) in [
        ("a-m:7 m-z:9", "f", "a-f:7", "f-m:7 m-z:9"),
        ("a-m:7 m-z:9", "m", "a-m:7", "m-z:9"),
        ("a-m:7", "a", "", "a-m:7"),
        ("a-m:7", "z", "a-m:7", ""),
        ("b-c:1 d-:2", "e", "b-c:1 d-e:2", "e-:2"),
    ] {
        let mut ranges = ranges(deletes);
        assert_eq!(
            print(&ranges.take_before(cut.as_bytes())),
            front,
            "{deletes} at {cut}"
        );
        assert_eq!(print(&ranges), rest, "{deletes} at {cut}");
    }
    let all = ranges("a-m:7 m-z:9");
    assert_eq!(print(&all.within(Some(b"b"), Some(b"n"))), "b-m:7 m-n:9");
    assert_eq!(print(&all.within(None, None)), print(&all));
}

#[test]
fn tables_are_cut_where_their_ranges_do_not_touch() {
    let all = ranges("a-m:7");
    assert_eq!(all.cut_between(b"c", b"d"), Some(b"c\0".to_vec()));
    assert_eq!(all.cut_between(b"x", b"y"), Some(b"x\0".to_vec()));
    let longest = vec![b'b'; KEY_BYTES_MAX];
    assert_eq!(all.cut_between(&longest, b"c"), None);
    let mut rest = all.clone();
    let front = rest.take_before(b"c\0");
    assert_eq!(front.fragments()[0].last_key(), b"c");
    assert_eq!(rest.fragments()[0].start, b"c\0");
    // An end that no merge has made is a bound that holds one key too many.
    assert_eq!(rest.fragments()[0].last_key(), b"m");
}

#[test]
fn a_range_without_end_ends_behind_the_last_key() {
    let mut some = ranges("a-b:1 c-:2");
    some.end_at(b"f\0");
    assert_eq!(print(&some), "a-b:1 c-f0:2");
    let mut none = ranges("g-:2");
    none.end_at(b"f\0");
    assert!(none.is_empty());
}

fn semi_sorted() -> (KeyOrder, Box<dyn Order>) {
    let order = KeyOrder::SemiSorted(PrefixRule::Delimiter(b'/'));
    (order, key_order::open(order, 1))
}

/// The list of two prefixes whose hashes are equal.
fn of_one_hash() -> (RangeTombstones, Vec<u8>) {
    let (spec, order) = semi_sorted();
    let mut ranges =
        RangeTombstones::of_operation((b"ash", b""), SeqNo(7), (spec, &*order)).unwrap();
    let prefix = Some((*b"elm").into());
    let deletes = &mut ranges.fragments[0].deletes;
    deletes.insert(
        0,
        RangeDelete {
            seqno: SeqNo(9),
            prefix,
        },
    );
    let start = ranges.fragments[0].start.clone();
    (ranges, start)
}

#[test]
fn prefixes_of_one_hash_are_told_apart() {
    let (ranges, hash) = of_one_hash();
    let key = |user_key: &str| [&hash[..], &[5; 8], user_key.as_bytes()].concat();
    let newest = |user_key: &str| {
        let key = key(user_key);
        ranges
            .newest(&key, SeqNo::MAX)
            .map(|(_, delete)| delete.seqno.0)
    };
    assert_eq!(newest("ash/1"), Some(7));
    assert_eq!(newest("elm/1"), Some(9));
    assert_eq!(newest("oak/1"), None);
    // So nothing is dropped unread.
    assert!(!ranges.cover(&key("ash/1"), &key("ash/2"), |_| true));
    // A newer delete of another prefix hides nothing.
    let [newer, older] = &ranges.fragments()[0].deletes[..] else {
        panic!("expected two deletes");
    };
    assert!(!newer.hides(older) && newer.hides(newer));
    assert_eq!(ranges.cut_between(&key("ash/1"), &key("ash/2")), None);
    let behind = [&ranges.fragments()[0].end[..], b"x"].concat();
    let end = ranges.fragments()[0].end.clone();
    assert_eq!(ranges.cut_between(&key("ash/1"), &behind), Some(end));
}

#[test]
fn operations_that_are_no_ranges_are_corruption() {
    let sorted = (KeyOrder::Sorted, key_order::open(KeyOrder::Sorted, 0));
    let hashed = (KeyOrder::Hashed, key_order::open(KeyOrder::Hashed, 0));
    for ((spec, order), key, value) in [
        (&sorted, "b", "a"),
        (&sorted, "a", "a"),
        (&hashed, "a", "b"),
        (&semi_sorted(), "a", "b"),
        (&semi_sorted(), "a/b", ""),
    ] {
        let operation = (key.as_bytes(), value.as_bytes());
        let read = RangeTombstones::of_operation(operation, SeqNo(1), (*spec, &**order));
        let error = read.unwrap_err();
        assert_eq!(error.kind(), crate::base::error::ErrorKind::Corruption);
    }
}

fn any_deletes() -> impl Strategy<Value = Vec<(u8, u8, u64)>> {
    prop::collection::vec((0..12_u8, 1..14_u8, 1..40_u64), 0..12)
}

/// A key of a number; the number 13 as an end is no end.
fn key(number: u8) -> String {
    match number {
        13 => String::new(),
        _ => char::from(b'a' + number).to_string(),
    }
}

fn list_of(deletes: &[(u8, u8, u64)]) -> Vec<(RangeTombstones, (u8, u8, u64))> {
    let is_range = |(start, end, _): &&(u8, u8, u64)| start < end;
    let one = |it: &(u8, u8, u64)| (range((&key(it.0), &key(it.1)), it.2), *it);
    deletes.iter().filter(is_range).map(one).collect()
}

proptest! {
    #[test]
    fn fragments_answer_like_the_deletes(deletes in any_deletes()) {
        let list = list_of(&deletes);
        let merged = RangeTombstones::merged(list.iter().map(|(it, _)| it));
        for number in 0..12 {
            for at in 0..40 {
                let key = key(number);
                let covers = |(start, end, seqno): &(u8, u8, u64)| {
                    *start <= number && number < *end && *seqno <= at
                };
                let deletes = list.iter().map(|(_, it)| it);
                let expected = deletes.filter(|it| covers(it)).map(|it| it.2).max();
                let found = merged.newest(key.as_bytes(), SeqNo(at));
                prop_assert_eq!(found.map(|(_, delete)| delete.seqno.0), expected);
                prop_assert_eq!(merged.gap(key.as_bytes()).is_none(), merged
                    .of(key.as_bytes()).next().is_some());
            }
        }
        let ordered = merged.fragments().windows(2).all(|pair| pair[0].end <= pair[1].start);
        prop_assert!(ordered);
    }

    #[test]
    fn merging_in_steps_or_in_pieces_is_merging(deletes in any_deletes(), at in 0..12_usize) {
        let list: Vec<_> = list_of(&deletes).into_iter().map(|(it, _)| it).collect();
        let merged = RangeTombstones::merged(&list);
        let step = |sum: RangeTombstones, it: &RangeTombstones| RangeTombstones::merged([&sum, it]);
        prop_assert_eq!(&list.iter().rev().fold(RangeTombstones::default(), step), &merged);
        let mut rest = merged.clone();
        let front = rest.take_before(key(at as u8).as_bytes());
        prop_assert_eq!(&RangeTombstones::merged([&rest, &front]), &merged);
    }

    #[test]
    fn pages_round_trip(deletes in any_deletes()) {
        let list: Vec<_> = list_of(&deletes).into_iter().map(|(it, _)| it).collect();
        let mut merged = RangeTombstones::merged(&list);
        merged.end_at(b"zz");
        let mut page = Vec::new();
        merged.encode(&mut page);
        prop_assert_eq!(&RangeTombstones::decode(&page, KeyOrder::Sorted).unwrap(), &merged);
        prop_assert!(RangeTombstones::decode(&page, KeyOrder::Hashed).is_err());
        for cut in 0..page.len() {
            prop_assert!(RangeTombstones::decode(&page[..cut], KeyOrder::Sorted).is_err());
        }
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        for order in [KeyOrder::Sorted, semi_sorted().0] {
            if let Ok(ranges) = RangeTombstones::decode(&bytes, order) {
                let _ = ranges.newest(b"k", SeqNo(1));
            }
        }
    }
}

#[test]
fn a_page_with_prefixes_round_trips() {
    let (ranges, _) = of_one_hash();
    let mut page = Vec::new();
    ranges.encode(&mut page);
    assert_eq!(
        RangeTombstones::decode(&page, semi_sorted().0).unwrap(),
        ranges
    );
    assert!(RangeTombstones::decode(&page, KeyOrder::Sorted).is_err());
}

#[test]
fn covering_needs_every_key() {
    let all = ranges("a-f:9 f-m:5 n-z:9");
    let cover = |lo: &str, hi: &str, least| {
        all.cover(lo.as_bytes(), hi.as_bytes(), |at| at >= SeqNo(least))
    };
    assert!(cover("a", "l", 5));
    assert!(cover("b", "e", 9));
    assert!(!cover("b", "f", 9));
    assert!(!cover("b", "m", 1), "m is in no range");
    assert!(!cover("b", "p", 1), "the ranges leave a gap");
    assert!(!cover("0", "b", 1));
    assert!(ranges("a-:3").cover(b"b", b"zzz", |_| true));
}
