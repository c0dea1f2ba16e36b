use super::*;
use crate::base::entry::KeyHash;
use crate::base::error::ErrorKind;
use crate::table::block_index::conformance;
use crate::table::block_index::conformance::{Forms, Subject};

/// The builder of the suite: keys, then the place of their bucket.
#[derive(Default)]
struct Keys {
    builder: Builder,
    of_bucket: Option<(Vec<u8>, Vec<u8>)>,
}

impl crate::table::block_index::Builder for Keys {
    fn add(&mut self, key: &[u8], _block: usize) {
        let first = self
            .of_bucket
            .take()
            .map_or(key.to_vec(), |(first, _)| first);
        self.of_bucket = Some((first, key.to_vec()));
    }

    fn finish_block(&mut self, _block: usize, handle: Handle) {
        let (first, last) = self.of_bucket.take().unwrap();
        self.builder.add(&first, &last, handle);
    }
}

struct Marks;

impl Subject for Marks {
    type Builder = Keys;

    fn builder(&self) -> Keys {
        Keys::default()
    }

    fn order_key(&self, key: &[u8]) -> Vec<u8> {
        [&hashed(key).to_be_bytes()[..], key].concat()
    }

    fn is_exact(&self) -> bool {
        false
    }

    /// The suite has blocks of one key. Several of them may share a cell.
    fn excess_max(&self) -> usize {
        3
    }

    fn finish(&self, keys: Keys) -> Forms {
        let page = keys.builder.finish();
        let open = || Box::new(HashMarks::open(&page).unwrap());
        Forms {
            resident: open(),
            paged: open(),
            pages: [].into(),
        }
    }
}

fn hashed(key: &[u8]) -> u64 {
    KeyHash::of(key, 5).high()
}

#[test]
fn marks_are_an_index() {
    conformance::check(&Marks);
}

/// Makes the marks of `buckets` buckets with `keys` keys each, from the last 2^-`part` of the
/// hashes. Returns all heads, too.
fn marks_of(buckets: usize, keys: usize, part: u32) -> (HashMarks, Vec<u64>) {
    let count = (buckets * keys) as u64;
    let mut heads: Vec<u64> = (0..count)
        .map(|i| (u64::MAX << (64 - part)) | hashed(&i.to_le_bytes()) >> part)
        .collect();
    heads.sort_unstable();
    let mut builder = Builder::default();
    for (bucket, heads) in heads.chunks(keys).enumerate() {
        let handle = Handle {
            offset: bucket as u64 * 4096,
            bytes: 4037,
        };
        let [first, last] = [heads[0], heads[heads.len() - 1]].map(u64::to_be_bytes);
        builder.add(&first, &last, handle);
    }
    (HashMarks::open(&builder.finish()).unwrap(), heads)
}

/// I4 and I11 of LSM-trie, for marks in cells. Every lookup of a present key reads its bucket
/// first. At most one key in 200 makes it read a second bucket, and none a third.
#[test]
fn nearly_every_key_is_in_the_first_bucket_that_it_may_be_in() {
    for (buckets, keys, part) in [(8192, 33, 12), (2000, 9, 1), (2000, 3, 20), (500, 200, 3)] {
        let (marks, heads) = marks_of(buckets, keys, part);
        let mut reads = 0;
        for (i, &head) in heads.iter().enumerate() {
            let found = marks.buckets_of_head(head);
            assert!(found.contains(&(i / keys)) && found.len() <= 2, "{found:?}");
            reads += 1 + i / keys - found.start;
        }
        let reads_per_key = reads as f64 / heads.len() as f64;
        assert!(reads_per_key <= 1.005, "{reads_per_key} with {keys} keys");
        let bytes_per_bucket = marks.memory_bytes() as f64 / buckets as f64;
        assert!(
            bytes_per_bucket < 1.27 + 200.0 / buckets as f64,
            "{bytes_per_bucket}"
        );
    }
}

#[test]
fn cells_ascend_and_are_as_many_as_they_should_be() {
    let ranges = [
        (0, u64::MAX),
        (7, 7),
        (1 << 63, u64::MAX),
        (5, 6),
        (9, 1 << 40),
    ];
    for (first, last) in ranges {
        for buckets in [1, 2, 1000, 1 << 26] {
            let scale = Scale::new(first, last, buckets);
            assert_eq!(scale.cell(first), 0);
            assert!(scale.cell(last) < (buckets as u64) << CELL_BITS);
            let mut before = 0;
            for i in 0..=100 {
                let head = first + ((u128::from(last - first) * i) / 100) as u64;
                let cell = scale.cell(head);
                assert!(cell >= before);
                before = cell;
                assert!(scale.begin(cell).abs_diff(head) <= (last - first) / 100 + 1);
            }
        }
    }
}

#[test]
fn damaged_marks_are_refused_or_answer() {
    let mut builder = Builder::default();
    for bucket in 0..40u64 {
        let handle = Handle {
            offset: bucket * 512,
            bytes: 453,
        };
        let key = ((bucket << 56) | (bucket * 77)).to_be_bytes();
        builder.add(&key, &key, handle);
    }
    let page = builder.finish();
    for cut in 0..page.len() {
        let error = HashMarks::open(&page[..cut]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
    let mut refused = 0;
    for bit in 0..page.len() * 8 {
        let mut damaged = page.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        match HashMarks::open(&damaged) {
            Ok(marks) => {
                for head in [0, 1 << 60, 39 << 56, u64::MAX] {
                    let key = u64::to_be_bytes(head);
                    marks.locate(&key, None).unwrap();
                    marks.lower_bound(&key, None).unwrap();
                    marks.end_before(&key, None).unwrap();
                }
                marks.split_keys(7);
                marks.handle(usize::MAX, None).unwrap();
            }
            Err(error) => {
                refused += 1;
                assert_eq!(error.kind(), ErrorKind::Corruption);
            }
        }
    }
    assert!(refused > 40, "{refused}");
}
