use super::*;
use crate::base::range_tombstones::tests::range;

/// A list that is made anew at the first search after each delete would hold n / 2 deletes on
/// average.
#[test]
fn deletes_and_searches_in_turn_merge_each_delete_a_few_times() {
    const COUNT: u64 = 4096;
    let stack = RangeStack::default();
    let mut searched = 0;
    let mut merged = 0;
    let mut newest = 0;
    for i in 0..COUNT {
        // Spread, so that no two ranges touch.
        let start = format!("{:08}", i * 7919 % COUNT * 2);
        let end = format!("{:08}", i * 7919 % COUNT * 2 + 1);
        assert_eq!(stack.add(range((&start, &end), i + 1)), i + 1);
        assert_eq!(
            stack.newest(start.as_bytes(), SeqNo::MAX),
            Some(SeqNo(i + 1))
        );
        assert_eq!(stack.newest(end.as_bytes(), SeqNo::MAX), None);
        let lists = stack.lists();
        searched = searched.max(lists.len());
        // The newest list holds what this delete was merged with.
        newest = lists.last().unwrap().count();
        merged += newest;
    }
    assert_eq!(newest, COUNT);
    assert!(searched <= 13, "a search passed {searched} lists");
    let each = merged / COUNT;
    assert!(each <= 13, "each delete was merged {each} times");
}

#[test]
fn the_newest_delete_up_to_a_number_is_found_in_any_list() {
    let stack = RangeStack::default();
    for (keys, seqno) in [
        (("a", "m"), 3),
        (("c", "z"), 5),
        (("b", "d"), 4),
        (("c", ""), 9),
    ] {
        stack.add(range(keys, seqno));
    }
    let newest = |key: &str, at| stack.newest(key.as_bytes(), SeqNo(at)).map(|it| it.0);
    assert_eq!(newest("c", 99), Some(9));
    assert_eq!(newest("c", 8), Some(5));
    assert_eq!(newest("c", 4), Some(4));
    assert_eq!(newest("a", 99), Some(3));
    assert_eq!(newest("a", 2), None);
    assert_eq!(newest("zzz", 99), Some(9));
}
