//! Pieces that fit the cache, merged in memory. Entries go into a small tree. A full tree becomes a
//! sorted array. Arrays of one size class are merged four at a time.

use std::sync::{Arc, RwLock};

use super::{Pools, Structure};
use crate::arena::Arena;
use crate::entry::{Entry, Position, prefix};
use crate::pool::ChunkPool;
use crate::tree::{Run, Tree};

/// The bytes of a piece: a quarter of the second-level cache.
const PIECE_BYTES: usize = 256 << 10;
/// The number of arrays of one class that are merged into one of the next.
const FAN_IN: usize = 4;

type Array = Vec<(u64, Entry<'static>)>;

struct State {
    active: Arc<Tree>,
    /// The arrays by size class.
    classes: Vec<Vec<Array>>,
    /// The full pieces. The arrays point into their memory.
    full: Vec<Arc<Tree>>,
}

/// The pieces; see the module.
pub(crate) struct Pieces {
    // Declared before the pool, and the arrays inside before the trees that they point into.
    state: RwLock<State>,
    pool: Arc<ChunkPool>,
}

fn is_less(a: &(u64, Entry<'_>), b: &(u64, Entry<'_>)) -> bool {
    if a.0 != b.0 {
        a.0 < b.0
    } else {
        a.1.cmp_position(&b.1.position()).is_lt()
    }
}

fn merge(left: &Array, right: &Array) -> Array {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut l, mut r) = (0, 0);
    while l < left.len() && r < right.len() {
        let from_right = is_less(&right[r], &left[l]);
        merged.push(if from_right { right[r] } else { left[l] });
        r += usize::from(from_right);
        l += usize::from(!from_right);
    }
    merged.extend_from_slice(&left[l..]);
    merged.extend_from_slice(&right[r..]);
    merged
}

fn tree_ref(tree: &Arc<Tree>) -> &'static Tree {
    let tree: *const Tree = Arc::as_ptr(tree);
    // SAFETY: the trees are kept in `State` as long as anything points into them.
    unsafe { &*tree }
}

impl State {
    fn freeze(&mut self, pool: &Arc<ChunkPool>) {
        let new = Arc::new(Tree::new(Arena::new(Arc::clone(pool))));
        let full = std::mem::replace(&mut self.active, new);
        let mut run = Run::new();
        tree_ref(&full).seek_first(&mut run);
        let mut array = Array::new();
        while let Some(entry) = run.entry() {
            array.push((prefix(entry.key(), 0), entry));
            run.advance();
        }
        self.full.push(full);
        let mut class = 0;
        loop {
            if self.classes.len() == class {
                self.classes.push(Vec::new());
            }
            self.classes[class].push(array);
            if self.classes[class].len() < FAN_IN {
                return;
            }
            let arrays = std::mem::take(&mut self.classes[class]);
            array = merge(
                &merge(&arrays[0], &arrays[1]),
                &merge(&arrays[2], &arrays[3]),
            );
            class += 1;
        }
    }

    fn arrays(&self) -> impl Iterator<Item = &Array> {
        self.classes.iter().flatten()
    }
}

fn lower_bound(array: &Array, position: &Position<'_>) -> usize {
    let wanted = prefix(position.key, 0);
    array.partition_point(|(prefix, entry)| {
        *prefix < wanted || (*prefix == wanted && entry.cmp_position(position).is_lt())
    })
}

impl Structure for Pieces {
    const NAME: &'static str = "merged pieces";

    fn new(pools: &Pools) -> Self {
        let pool = Arc::clone(&pools.of_pieces);
        let active = Arc::new(Tree::new(Arena::new(Arc::clone(&pool))));
        let state = State {
            active,
            classes: Vec::new(),
            full: Vec::new(),
        };
        Self {
            state: RwLock::new(state),
            pool,
        }
    }

    fn insert(&self, key: &[u8], seqno: u64, value: &[u8]) {
        let full = {
            let state = self.state.read().unwrap();
            let tree = &state.active;
            tree.insert(Entry::write(tree.arena(), key, seqno, 1, value));
            tree.arena().bytes() > PIECE_BYTES
        };
        if full {
            let mut state = self.state.write().unwrap();
            if state.active.arena().bytes() > PIECE_BYTES {
                state.freeze(&self.pool);
            }
        }
    }

    fn get(&self, key: &[u8]) -> Option<usize> {
        let state = self.state.read().unwrap();
        let position = Position {
            key,
            seqno: u64::MAX,
        };
        let in_active = state
            .active
            .get(&position)
            .filter(|entry| entry.key() == key);
        let in_arrays = || {
            state.arrays().find_map(|array| {
                let entry = array.get(lower_bound(array, &position))?.1;
                (entry.key() == key).then_some(entry)
            })
        };
        in_active
            .or_else(in_arrays)
            .map(|entry| entry.get().value.len())
    }

    fn scan(&self, key: &[u8], count: usize) -> usize {
        let state = self.state.read().unwrap();
        let position = Position {
            key,
            seqno: u64::MAX,
        };
        let mut run = Run::new();
        tree_ref(&state.active).seek(&position, &mut run);
        let mut sources: Vec<_> = state
            .arrays()
            .map(|array| array[lower_bound(array, &position)..].iter())
            .collect();
        let mut heads: Vec<_> = sources
            .iter_mut()
            .map(|source| source.next().copied())
            .collect();
        let of_run = |run: &Run<'static>| run.entry().map(|entry| (prefix(entry.key(), 0), entry));
        heads.push(of_run(&run));
        let mut sum = 0;
        for _ in 0..count {
            let mut smallest: Option<usize> = None;
            for (at, head) in heads.iter().enumerate() {
                let Some(head) = head else { continue };
                if smallest
                    .and_then(|at| heads[at])
                    .is_none_or(|other| is_less(head, &other))
                {
                    smallest = Some(at);
                }
            }
            let Some(at) = smallest else { break };
            sum += heads[at].map_or(0, |(_, entry)| entry.get().value.len());
            heads[at] = if let Some(source) = sources.get_mut(at) {
                source.next().copied()
            } else {
                run.advance();
                of_run(&run)
            };
        }
        sum
    }

    fn memory_bytes(&self) -> usize {
        let state = self.state.read().unwrap();
        let trees: usize = state.full.iter().map(|tree| tree.arena().bytes()).sum();
        let arrays: usize = state
            .arrays()
            .map(|array| array.capacity() * size_of::<(u64, Entry<'_>)>())
            .sum();
        trees + arrays + state.active.arena().bytes()
    }
}
