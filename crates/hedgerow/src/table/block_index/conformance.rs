//! The contract of every block index. It finds the blocks of every key of the table. For an absent
//! key it finds the block from which an iterator continues. From memory and from pages the answers
//! are the same.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Bracket, Builder, Index};
use crate::base::page::{Handle, Page, Step, TableId};

/// Makes the forms of one index. The suite fills the builder.
pub(super) trait Subject {
    type Builder: Builder;
    fn builder(&self) -> Self::Builder;
    /// The order key of a key.
    fn order_key(&self, key: &[u8]) -> Vec<u8> {
        key.to_vec()
    }
    /// Returns true if a table with this index may end a block between two order keys.
    fn may_cut(&self, before: &[u8], after: &[u8]) -> bool {
        let _ = (before, after);
        true
    }
    /// True if the index searches every key, present or absent, in the block of its place.
    fn is_exact(&self) -> bool {
        true
    }
    /// The maximum of blocks that the index may name for a key beside those that hold it.
    fn excess_max(&self) -> usize {
        1
    }
    /// Returns the index in memory, and the same index paged with its pages by offset.
    fn finish(&self, builder: Self::Builder) -> Forms;
}

pub(super) struct Forms {
    pub(super) resident: Box<dyn Index>,
    pub(super) paged: Box<dyn Index>,
    pub(super) pages: BTreeMap<u64, Vec<u8>>,
}

impl Forms {
    /// Queries both forms. The paged one may read one page.
    fn probe<T: PartialEq + std::fmt::Debug>(
        &self,
        question: impl Fn(&dyn Index, Option<&Page>) -> Step<T>,
    ) -> T {
        let Step::Done(resident) = question(&*self.resident, None) else {
            panic!("a resident index asks for no page");
        };
        let paged = match question(&*self.paged, None) {
            Step::Done(answer) => answer,
            Step::Read(id) => {
                assert_eq!(id.table, TableId(9));
                let page = page_of(&self.pages[&id.handle.offset]);
                match question(&*self.paged, Some(&page)) {
                    Step::Done(answer) => answer,
                    Step::Read(_) => panic!("one page is enough"),
                }
            }
        };
        assert_eq!(resident, paged);
        resident
    }

    fn handle(&self, block: usize) -> Handle {
        self.probe(|index, page| index.handle(block, page).unwrap())
    }

    fn locate(&self, key: &[u8]) -> Range<usize> {
        let located = self.probe(|index, page| index.locate(key, page).unwrap());
        let blocks = located.blocks;
        let first = (!blocks.is_empty()).then(|| self.handle(blocks.start));
        assert_eq!(located.first, first);
        blocks
    }

    fn lower_bound(&self, key: &[u8]) -> Bracket {
        self.probe(|index, page| index.lower_bound(key, page).unwrap())
    }
}

pub(super) fn page_of(bytes: &[u8]) -> Page {
    Page::filled(bytes.len(), |page| {
        page.copy_from_slice(bytes);
        Ok(())
    })
    .unwrap()
}

/// The keys of each block. Versions of a key may be in several blocks.
type Blocks = Vec<Vec<Vec<u8>>>;

fn random(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    let word = *state ^ (*state >> 29);
    word.wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 7
}

/// Cuts sorted keys into blocks of 1 to `block_keys_max` keys, or more where no cut is allowed.
fn cut<S: Subject>(subject: &S, mut keys: Vec<Vec<u8>>, block_keys_max: u64) -> Blocks {
    keys.sort();
    let state = &mut 3;
    let mut blocks = Vec::new();
    let mut rest = &keys[..];
    while !rest.is_empty() {
        let mut count = (1 + random(state) % block_keys_max).min(rest.len() as u64) as usize;
        while count < rest.len() && !subject.may_cut(&rest[count - 1], &rest[count]) {
            count += 1;
        }
        blocks.push(rest[..count].to_vec());
        rest = &rest[count..];
    }
    blocks
}

fn random_keys(count: u64, bytes_max: u64, letters: u64, state: &mut u64) -> Vec<Vec<u8>> {
    (0..count)
        .map(|_| {
            let bytes = 1 + random(state) % bytes_max;
            (0..bytes)
                .map(|_| (random(state) % letters) as u8)
                .collect()
        })
        .collect()
}

fn subjects<S: Subject>(subject: &S) -> Vec<(&'static str, Blocks)> {
    let state = &mut 1;
    let mut unique = |count, bytes_max, letters| {
        let mut keys = random_keys(count, bytes_max, letters, state);
        keys.sort();
        keys.dedup();
        keys
    };
    let spread = unique(20_000, 16, 256);
    let short = unique(3000, 9, 3);
    let long: Vec<_> = unique(300, 9, 3)
        .into_iter()
        .map(|key| [vec![b'p'; 3000], key].concat())
        .collect();
    let decimal = (0..30_000)
        .map(|i| format!("user{:016}", i * 7).into_bytes())
        .collect();
    // Every key has many versions, so blocks begin and end with one key.
    let hot: Vec<_> = unique(200, 4, 3)
        .into_iter()
        .flat_map(|key| vec![key; 1 + random(&mut 77) as usize % 40])
        .collect();
    let endless = vec![b"hot".to_vec(); 20_000];
    let cut = |keys: Vec<Vec<u8>>, max| {
        let order_keys = keys.iter().map(|key| subject.order_key(key)).collect();
        cut(subject, order_keys, max)
    };
    vec![
        ("one key", vec![vec![b"k".to_vec()]]),
        ("spread", cut(spread, 5)),
        ("short", cut(short, 3)),
        ("long", cut(long, 2)),
        ("decimal", cut(decimal, 4)),
        ("hot", cut(hot, 7)),
        ("endless", cut(endless, 3)),
    ]
}

/// Runs the suite.
pub(super) fn check<S: Subject>(subject: &S) {
    // Blocks of one size without gaps, of several sizes, and with gaps between them.
    for gaps in [None, Some(0), Some(1000)] {
        for (name, blocks) in subjects(subject) {
            check_blocks(subject, name, &blocks, gaps);
        }
    }
}

fn check_blocks<S: Subject>(subject: &S, name: &str, blocks: &Blocks, gaps: Option<u64>) {
    let mut builder = subject.builder();
    let mut handles = Vec::new();
    let mut offset = 0;
    let mut state = 5;
    for (number, keys) in blocks.iter().enumerate() {
        keys.iter().for_each(|key| builder.add(key, number));
        let bytes = match gaps {
            None => 4096,
            Some(_) => 100 + (random(&mut state) % 4000) as u32,
        };
        let handle = Handle { offset, bytes };
        builder.finish_block(number, handle);
        offset += u64::from(bytes) + gaps.unwrap_or(0) * (random(&mut state) % 3);
        handles.push(handle);
    }
    let forms = subject.finish(builder);
    assert_eq!(forms.resident.blocks(), blocks.len());
    assert_eq!(forms.paged.blocks(), blocks.len());
    for (number, handle) in handles.iter().enumerate() {
        assert_eq!(forms.handle(number), *handle, "{name}: block {number}");
    }
    check_split_keys(&forms, name, blocks);
    let mut of_key: BTreeMap<&[u8], Range<usize>> = BTreeMap::new();
    for (number, keys) in blocks.iter().enumerate() {
        for key in keys {
            of_key.entry(key).or_insert(number..0).end = number + 1;
        }
    }
    for (&key, expected) in &of_key {
        let found = forms.locate(key);
        assert!(
            found.start <= expected.start && found.end >= expected.end,
            "{name}: {key:?} is in {expected:?}, located in {found:?}"
        );
        let most = expected.len() + subject.excess_max();
        assert!(found.len() <= most, "{name}: {found:?}");
        check_lower_bound(&forms, name, key, expected.start);
        let Bracket { likely, .. } = forms.lower_bound(key);
        assert!(likely == expected.start || likely + 1 == expected.start);
    }
    let mut asked = random_keys(2000, 12, 256, &mut state);
    asked.extend(random_keys(2000, 8, 3, &mut state));
    asked = asked.iter().map(|key| subject.order_key(key)).collect();
    for (&key, _) in of_key.iter().take(2000) {
        asked.push([key, &[0]].concat());
        asked.push(key[..key.len() - 1].to_vec());
    }
    for key in asked {
        let next = of_key.range(&key[..]..).next();
        let expected = next.map_or(blocks.len(), |(_, range)| range.start);
        check_lower_bound(&forms, name, &key, expected);
        let Bracket { first, last, .. } = forms.lower_bound(&key);
        assert!(first == last || !subject.is_exact(), "{name}: {key:?}");
    }
}

/// Checks that the bracket has the block of the first entry at or after `key`, or the block before
/// it: separators are shorter than keys.
fn check_lower_bound(forms: &Forms, name: &str, key: &[u8], expected: usize) {
    let found = forms.lower_bound(key);
    assert!(
        found.first <= expected && expected <= found.last + 1,
        "{name}: lower bound of {key:?} is {expected}, found {found:?}"
    );
    assert!(found.first <= found.likely && found.likely <= found.last);
}

/// Checks that split keys ascend and leave no piece much larger than the others. A paged index
/// knows them less exactly, and one key cannot be split.
fn check_split_keys(forms: &Forms, name: &str, blocks: &Blocks) {
    const PIECES: usize = 4;
    for (index, paged) in [(&forms.resident, false), (&forms.paged, true)] {
        let keys = index.split_keys(PIECES);
        assert!(
            keys.len() < PIECES && keys.is_sorted_by(|a, b| a < b),
            "{name}"
        );
        if paged || !["spread", "decimal"].contains(&name) {
            continue;
        }
        assert_eq!(keys.len(), PIECES - 1, "{name}");
        for (piece, key) in keys.iter().enumerate() {
            let before = blocks.partition_point(|block| block[0] < *key);
            let wanted = blocks.len() * (piece + 1) / PIECES;
            assert!(
                before.abs_diff(wanted) <= blocks.len() / 20,
                "{name}: {before} of {} blocks before cut {piece}",
                blocks.len()
            );
        }
    }
}
