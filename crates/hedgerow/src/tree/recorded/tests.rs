use super::*;
use crate::table::iter::model::{VecIter, version};

fn iter(reads: &Arc<RangesRead>) -> RangeRecorder {
    let keys = ["b", "d", "f", "h"];
    let entries = keys.map(|key| version(key.as_bytes(), 5)).to_vec();
    RangeRecorder::new(Box::new(VecIter::new(entries)), reads.clone())
}

/// The ranges as text: `b-f.` ends behind `f`, `-` alone has no end.
fn read(reads: &RangesRead) -> String {
    let text = |key: &[u8]| String::from_utf8_lossy(key).replace('\0', ".");
    let ranges = reads.ranges();
    let ranges = ranges
        .iter()
        .map(|it| format!("{}-{}", text(&it.start), text(&it.end)));
    ranges.collect::<Vec<_>>().join(" ")
}

/// The ranges that these steps read.
fn after(steps: impl FnOnce(&mut RangeRecorder) -> Result<()>) -> String {
    let reads = RangesRead::new(1 << 20);
    steps(&mut iter(&reads)).unwrap();
    read(&reads)
}

#[test]
fn forward_reads_end_behind_the_entry_reached() {
    assert_eq!(after(|it| it.seek(b"c", SeqNo::MAX)), "c-d.");
    assert_eq!(after(|it| it.seek(b"d", SeqNo(0))), "d.-f.");
    let steps = |it: &mut RangeRecorder| {
        it.seek_first()?;
        it.advance()
    };
    assert_eq!(after(steps), "-d.");
    assert_eq!(after(|it| it.seek(b"i", SeqNo::MAX)), "i-");
}

#[test]
fn forward_reads_end_at_the_limit() {
    let steps = |it: &mut RangeRecorder| {
        it.limit(b"i");
        it.seek(b"h", SeqNo::MAX)?;
        it.advance()
    };
    assert_eq!(after(steps), "h-i");
    // An iterator may go beyond its limit.
    let steps = |it: &mut RangeRecorder| {
        it.limit(b"e");
        it.seek(b"d", SeqNo::MAX)?;
        it.advance()
    };
    assert_eq!(after(steps), "d-e");
}

#[test]
fn backward_reads_begin_at_the_last_entry_left() {
    assert_eq!(after(|it| it.seek_before(b"e", SeqNo::MAX)), "d-e");
    assert_eq!(after(|it| it.seek_before(b"f", SeqNo(0))), "f-f.");
    let steps = |it: &mut RangeRecorder| {
        it.seek_last()?;
        it.retreat()?;
        it.retreat()
    };
    assert_eq!(after(steps), "f-");
    assert_eq!(after(|it| it.seek_before(b"b", SeqNo::MAX)), "-b");
}

#[test]
fn seeks_that_do_not_touch_are_ranges_of_their_own() {
    let steps = |it: &mut RangeRecorder| {
        it.seek(b"b", SeqNo::MAX)?;
        it.seek(b"g", SeqNo::MAX)?;
        it.seek(b"h", SeqNo::MAX)
    };
    assert_eq!(after(steps), "b-b. g-h.");
}

#[test]
fn too_many_ranges_are_refused() {
    let reads = RangesRead::new(120);
    let mut iter = iter(&reads);
    iter.seek(b"b", SeqNo::MAX).unwrap();
    iter.seek(b"d", SeqNo::MAX).unwrap();
    let error = iter.seek(b"h", SeqNo::MAX).unwrap_err();
    assert!(error.to_string().contains("at most 120 bytes"), "{error}");
}
