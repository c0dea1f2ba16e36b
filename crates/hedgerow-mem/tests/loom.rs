//! Explores every interleaving of small cases up to a number of preemptions:
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p hedgerow-mem --release --test loom`
//!
//! Nodes have three slots under loom, so a fourth entry splits a node.
#![cfg(loom)]
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests stop at what they do not expect"
)]

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hedgerow_mem::{
    ChunkPool, OrderedMap, PAGE_HEADER_BYTES, PagePool, PageRef, Publisher, Refused, Signal,
    TaskQueue, Turn,
};
use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::thread;

/// The time after which a case is cut off. `--nocapture` shows which cases are.
const LONGEST: Duration = Duration::from_secs(45);

#[expect(clippy::disallowed_methods, reason = "loom stops by real time")]
fn explore(preemptions: usize, case: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    builder.max_duration = Some(LONGEST);
    let runs = AtomicU64::new(0);
    let runs: &'static AtomicU64 = Box::leak(Box::new(runs));
    let start = Instant::now();
    builder.check(move || {
        runs.fetch_add(1, Ordering::Relaxed);
        case();
    });
    let part = if start.elapsed() < LONGEST {
        "all"
    } else {
        "the first"
    };
    println!("{part} {} interleavings", runs.load(Ordering::Relaxed));
}

/// Runs two threads besides the model's first one: loom does not go back before a point at which
/// the first thread only waits for others.
fn race(one: impl FnOnce() + 'static, other: impl FnOnce() + 'static) {
    let (one, other) = (thread::spawn(one), thread::spawn(other));
    one.join().unwrap();
    other.join().unwrap();
}

fn map_of(keys: &[&str]) -> Arc<OrderedMap> {
    let map = Arc::new(OrderedMap::new(ChunkPool::new(4096, 0)));
    for key in keys {
        map.insert(key.as_bytes(), 1, 0, key.as_bytes());
    }
    map
}

/// Makes a map of `before`, inserts `new` in one thread, and runs `reader` in another.
fn insert_beside(
    before: &[&str],
    new: &'static [&str],
    reader: impl FnOnce(Arc<OrderedMap>) + 'static,
) {
    let map = map_of(before);
    let (writer, read) = (Arc::clone(&map), Arc::clone(&map));
    race(
        move || {
            for key in new {
                writer.insert(key.as_bytes(), 1, 0, key.as_bytes());
            }
        },
        move || reader(read),
    );
    let mut all = [before, new].concat();
    all.sort_unstable();
    assert_eq!(forward(&map), all);
    for key in all {
        check_get(&map, key);
    }
}

fn forward(map: &Arc<OrderedMap>) -> Vec<String> {
    let mut cursor = map.cursor();
    cursor.seek_first();
    let mut keys = Vec::new();
    while let Some(entry) = cursor.entry() {
        keys.push(String::from_utf8(entry.key.to_vec()).unwrap());
        cursor.advance();
    }
    keys
}

fn check_order(keys: &[String], present: &[&str]) {
    assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
    for key in present {
        assert!(keys.iter().any(|seen| seen == key), "{key} in {keys:?}");
    }
}

fn check_get(map: &OrderedMap, key: &str) {
    let entry = map
        .get(key.as_bytes(), 9)
        .unwrap_or_else(|| panic!("{key} is there"));
    assert_eq!(entry.value, key.as_bytes());
}

/// Its place is approached before others split the nodes on its way, and the root is replaced.
#[test]
fn an_entry_is_inserted_at_its_place_beside_splits() {
    // The second tree has two levels: its leaf is found, and split before it is looked at.
    for before in [&["b", "d", "f"][..], &["b", "d", "f", "h", "e1", "e3"]] {
        explore(2, move || {
            let map = map_of(before);
            let (one, other) = (Arc::clone(&map), Arc::clone(&map));
            race(
                move || {
                    one.insert(b"c", 1, 0, b"c");
                    one.insert(b"c2", 1, 0, b"c2");
                },
                move || {
                    let mut place = other.approach(b"e", 1);
                    place.step_to_end();
                    assert!(!place.step());
                    place.insert(0, b"e");
                },
            );
            let mut all = [before, &["c", "c2", "e"]].concat();
            all.sort_unstable();
            assert_eq!(forward(&map), all);
            check_get(&map, "e");
        });
    }
}

#[test]
fn an_entry_over_another_finds_it_beside_splits() {
    explore(2, || {
        let map = map_of(&["b", "d", "f"]);
        let (one, other) = (Arc::clone(&map), Arc::clone(&map));
        race(
            move || {
                one.insert(b"c", 1, 0, b"c");
                one.insert(b"e", 1, 0, b"e");
            },
            move || {
                other.insert_over(b"d", 2, |older| {
                    assert_eq!(older.map(|it| it.value), Some(&b"d"[..]));
                    (0, b"over"[..].into())
                });
            },
        );
        assert_eq!(forward(&map), ["b", "c", "d", "d", "e", "f"]);
        assert_eq!(map.get(b"d", 2).unwrap().value, b"over");
        assert_eq!(map.get(b"d", 1).unwrap().value, b"d");
    });
}

#[test]
fn tickets_finished_at_once_are_all_published() {
    explore(3, || {
        let publisher = Arc::new(Publisher::new(0, 2));
        let first = publisher.begin(5).unwrap();
        let second = publisher.begin(7).unwrap();
        let (one, other) = (Arc::clone(&publisher), Arc::clone(&publisher));
        race(
            move || other.finish(second),
            move || {
                one.finish(first);
                assert!(one.published() >= 5, "nothing was before it");
            },
        );
        assert_eq!(publisher.published(), 7);
    });
}

#[test]
fn the_newest_number_is_never_below_one_that_is_known_to_have_begun() {
    explore(3, || {
        let publisher = Arc::new(Publisher::new(0, 2));
        let begun = Arc::new(Mutex::new(0));
        let (one, known) = (Arc::clone(&publisher), Arc::clone(&begun));
        race(
            move || {
                let _first = one.begin(5).unwrap();
                *known.lock().unwrap() = 5;
                let _second = one.begin(7).unwrap();
            },
            move || {
                let known = *begun.lock().unwrap();
                assert!(publisher.begun() >= known);
            },
        );
    });
}

#[test]
fn a_waiter_is_woken() {
    explore(3, || {
        let publisher = Arc::new(Publisher::new(0, 2));
        let first = publisher.begin(1).unwrap();
        let second = publisher.begin(2).unwrap();
        let other = Arc::clone(&publisher);
        race(
            move || {
                other.finish(second);
                other.finish(first);
            },
            move || {
                publisher.wait(2);
                assert_eq!(publisher.published(), 2);
            },
        );
    });
}

#[test]
fn two_waiters_are_woken_by_two_finishers() {
    explore(2, || {
        let publisher = Arc::new(Publisher::new(0, 2));
        let first = publisher.begin(1).unwrap();
        let second = publisher.begin(2).unwrap();
        let (a, b) = (Arc::clone(&publisher), Arc::clone(&publisher));
        let a = thread::spawn(move || {
            a.finish(first);
            a.wait(2);
        });
        let b = thread::spawn(move || {
            b.finish(second);
            b.wait(1);
        });
        a.join().unwrap();
        b.join().unwrap();
        assert_eq!(publisher.published(), 2);
    });
}

#[test]
fn a_slot_becomes_free_and_is_used_again() {
    explore(3, || {
        let publisher = Arc::new(Publisher::new(0, 1));
        let first = publisher.begin(1).unwrap();
        let (one, other) = (Arc::clone(&publisher), Arc::clone(&publisher));
        race(
            move || other.finish(first),
            move || {
                one.wait_for_slot();
                let second = one.begin(2).expect("there is a slot");
                one.finish(second);
            },
        );
        assert_eq!(publisher.published(), 2);
    });
}

#[test]
fn what_was_applied_is_seen_with_the_published_number() {
    use loom::sync::atomic::AtomicU64;
    explore(3, || {
        let publisher = Arc::new(Publisher::new(0, 2));
        let applied = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let first = publisher.begin(1).unwrap();
        let second = publisher.begin(2).unwrap();
        let (other, by_other) = (Arc::clone(&publisher), Arc::clone(&applied));
        let finisher = thread::spawn(move || {
            by_other[1].store(1, Ordering::Relaxed);
            other.finish(second);
        });
        let (reader, read) = (Arc::clone(&publisher), Arc::clone(&applied));
        let reader = thread::spawn(move || {
            for slot in &read[..reader.published() as usize] {
                assert_eq!(slot.load(Ordering::Relaxed), 1);
            }
        });
        applied[0].store(1, Ordering::Relaxed);
        publisher.finish(first);
        finisher.join().unwrap();
        reader.join().unwrap();
    });
}

#[test]
fn gets_find_everything_while_the_root_splits() {
    explore(2, || {
        insert_beside(&["a", "c", "e"], &["b"], |map| {
            for key in ["c", "e"] {
                check_get(&map, key);
            }
        });
    });
}

fn backward(map: &Arc<OrderedMap>) -> Vec<String> {
    let mut cursor = map.cursor();
    cursor.seek_last();
    let mut keys = Vec::new();
    while let Some(entry) = cursor.entry() {
        keys.push(String::from_utf8(entry.key.to_vec()).unwrap());
        cursor.retreat();
    }
    keys.reverse();
    keys
}

/// A split for the smallest key must not leave the left leaf empty until the key is in it: a walk
/// from the front would find nothing in the whole map.
#[test]
fn walks_find_everything_while_the_first_leaf_splits_in_front() {
    explore(2, || {
        insert_beside(&["c", "b", "d"], &["a"], |map| {
            check_order(&forward(&map), &["b", "c", "d"]);
        });
    });
}

/// A split for the largest key must not leave the right leaf empty: a walk from the back would find
/// nothing.
#[test]
fn walks_find_everything_while_the_last_leaf_splits_behind() {
    explore(2, || {
        insert_beside(&["a", "b", "c"], &["d"], |map| {
            check_order(&backward(&map), &["a", "b", "c"]);
            let mut cursor = map.cursor();
            cursor.seek_before(b"z", 9);
            assert!(cursor.entry().is_some());
        });
    });
}

/// The split frees slots of the left leaf. The later insertions fill them.
#[test]
fn a_slot_is_used_again_under_a_reader() {
    explore(2, || {
        insert_beside(&["a", "c", "e"], &["d", "b"], |map| check_get(&map, "e"));
    });
}

#[test]
fn what_is_absent_stays_absent_under_a_split() {
    explore(2, || {
        insert_beside(&["a", "c", "e"], &["d", "b"], |map| {
            assert!(map.get(b"ca", 9).is_none());
        });
    });
}

#[test]
fn a_leaf_below_a_parent_splits_under_a_reader() {
    explore(2, || {
        insert_beside(&["a", "c", "e", "g", "b"], &["bb"], |map| {
            check_get(&map, "c");
            check_get(&map, "b");
        });
    });
}

#[test]
fn two_writers_split_one_leaf() {
    explore(2, || {
        let map = map_of(&["a", "c", "e"]);
        let (one, other) = (Arc::clone(&map), Arc::clone(&map));
        race(
            move || one.insert(b"b", 1, 0, b"b"),
            move || {
                other.insert(b"d", 1, 0, b"d");
                check_get(&other, "d");
            },
        );
        assert_eq!(forward(&map), ["a", "b", "c", "d", "e"]);
    });
}

#[test]
fn two_writers_split_neighbours_below_a_full_parent() {
    explore(2, || {
        // Ascending inserts make leaves of three and a full root.
        let map = map_of(&["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]);
        let (one, other) = (Arc::clone(&map), Arc::clone(&map));
        race(
            move || one.insert(b"bb", 1, 0, b"bb"),
            move || {
                other.insert(b"hh", 1, 0, b"hh");
                check_get(&other, "hh");
            },
        );
        let all = [
            "a", "b", "bb", "c", "d", "e", "f", "g", "h", "hh", "i", "j", "k", "l",
        ];
        assert_eq!(forward(&map), all);
        for key in all {
            check_get(&map, key);
        }
    });
}

#[test]
fn cursors_see_everything_in_order_while_a_leaf_splits() {
    explore(2, || {
        insert_beside(&["a", "c", "e"], &["b"], |map| {
            check_order(&forward(&map), &["a", "c", "e"]);
        });
    });
}

#[test]
fn cursors_go_back_while_a_leaf_splits() {
    explore(1, || {
        insert_beside(&["a", "c", "e"], &["b"], |map| {
            let keys = backward(&map);
            check_order(&keys, &["a", "c", "e"]);
        });
    });
}

/// The leaf that begins at `sharedby1` gets an upper bound with the same first bytes when it
/// splits, and omits these bytes from then on. The case is too large to be explored completely.
#[test]
fn prefixes_are_rewritten_under_a_reader() {
    explore(1, || {
        let before = ["a", "b", "c", "sharedby1", "sharedby2", "sharedby3"];
        insert_beside(&before, &["sharedby4"], |map| {
            check_get(&map, "sharedby3");
        });
    });
}

#[test]
fn an_absent_key_passes_a_rewriting() {
    explore(1, || {
        let before = ["a", "b", "c", "sharedby1", "sharedby2", "sharedby3"];
        insert_beside(&before, &["sharedby4"], |map| {
            assert!(map.get(b"t", 9).is_none());
        });
    });
}

/// A pool whose slabs have eight slots, each filled by a page of this size.
const SLAB_BYTES: usize = 32 << 10;
const BLOCK_BYTES: usize = (4 << 10) - PAGE_HEADER_BYTES;

/// The bytes of one slot, which loom does not know. loom reports a write to the cell that does not
/// come after every read. An atomic count would order them, so there is none.
#[derive(Clone)]
struct Slot {
    start: *const u8,
    bytes: Rc<UnsafeCell<()>>,
}

impl Slot {
    /// Takes a page of the pool and its slot.
    fn take(pool: &PagePool) -> (Slot, PageRef) {
        let page = block(pool, 1);
        let bytes = Rc::new(UnsafeCell::new(()));
        let start = page.as_ptr();
        bytes.with_mut(|_| ());
        (Slot { start, bytes }, page)
    }

    /// Reads the page as its owner and drops it.
    fn read_and_drop(&self, page: PageRef) {
        self.bytes.with(|_| assert_eq!(*page, [1; BLOCK_BYTES]));
        drop(page);
    }

    /// Writes a new page. It may be in the same memory.
    fn write(&self, pool: &PagePool) -> PageRef {
        let page = block(pool, 2);
        if page.as_ptr() == self.start {
            self.bytes.with_mut(|_| ());
        }
        page
    }

    /// Checks that all slots of the only slab are free, this one included.
    fn check_free(&self, pool: &PagePool) {
        let pages: Vec<_> = (0..8).map(|_| self.write(pool)).collect();
        assert_eq!(pool.slabs(), 1);
        assert!(pages.iter().any(|page| page.as_ptr() == self.start));
    }
}

fn block(pool: &PagePool, fill: u8) -> PageRef {
    let mut page = pool.allocate(BLOCK_BYTES, || {});
    page.fill(fill);
    page.share([0; 2])
}

#[test]
fn a_page_is_written_again_after_both_owners_have_read_it() {
    explore(3, || {
        let pool = Arc::new(PagePool::new(SLAB_BYTES));
        let (slot, page) = Slot::take(&pool);
        let (one, other) = (slot.clone(), slot.clone());
        let (second, writer) = (page.clone(), Arc::clone(&pool));
        race(
            move || one.read_and_drop(page),
            move || {
                other.read_and_drop(second);
                drop(other.write(&writer));
            },
        );
        slot.check_free(&pool);
    });
}

#[test]
fn a_page_is_written_again_by_who_never_owned_it() {
    explore(3, || {
        let pool = Arc::new(PagePool::new(SLAB_BYTES));
        let (slot, page) = Slot::take(&pool);
        let (reader, other, writer) = (slot.clone(), slot.clone(), Arc::clone(&pool));
        race(
            move || {
                reader.read_and_drop(page.clone());
                reader.read_and_drop(page);
            },
            move || drop(other.write(&writer)),
        );
        slot.check_free(&pool);
    });
}

#[test]
fn a_slab_is_drained_while_its_last_page_is_dropped() {
    explore(3, || {
        let pool = Arc::new(PagePool::new(SLAB_BYTES));
        let (slot, page) = Slot::take(&pool);
        let (reader, drainer, slab) = (slot.clone(), Arc::clone(&pool), page.slab());
        race(
            move || reader.read_and_drop(page),
            move || {
                assert_eq!(drainer.drain_emptiest(1).first().copied(), slab);
                // The page is in another slab, or in a later one of the same number.
                drop(slot.write(&drainer));
            },
        );
        assert_eq!(pool.slabs(), 1);
        assert_eq!(pool.drain_emptiest(2).len(), 1);
        assert_eq!(block(&pool, 3).slab(), slab, "all are gone");
    });
}

#[test]
fn two_drain_beside_one_who_drops() {
    explore(2, || {
        let pool = Arc::new(PagePool::new(SLAB_BYTES));
        let page = block(&pool, 1);
        let (one, other) = (Arc::clone(&pool), Arc::clone(&pool));
        let dropper = thread::spawn(move || drop(page));
        let one = thread::spawn(move || one.drain_emptiest(1).len());
        let other = thread::spawn(move || other.drain_emptiest(1).len());
        dropper.join().unwrap();
        assert_eq!(one.join().unwrap() + other.join().unwrap(), 1);
        assert_eq!(pool.slabs(), 0);
    });
}

#[test]
fn two_who_want_a_slab_get_different_pages() {
    explore(3, || {
        let pool = Arc::new(PagePool::new(SLAB_BYTES));
        let (one, other) = (Arc::clone(&pool), Arc::clone(&pool));
        let one = thread::spawn(move || block(&one, 1));
        let other = thread::spawn(move || block(&other, 2));
        let (one, other) = (one.join().unwrap(), other.join().unwrap());
        assert_eq!(
            (&*one, &*other),
            (&[1; BLOCK_BYTES][..], &[2; BLOCK_BYTES][..])
        );
        let slabs = pool.slabs();
        assert!(
            (1..=2).contains(&slabs),
            "each makes one that finds no free slot"
        );
        drop((one, other));
        assert_eq!(pool.drain_emptiest(9).len(), slabs);
    });
}

/// The worker of a queue. It takes tasks until the queue is closed and empty.
fn work(queue: &TaskQueue<u32>) -> Vec<u32> {
    let (mut all, mut tasks) = (Vec::new(), VecDeque::new());
    while queue.wait_and_take(1, &mut tasks) {
        all.extend(tasks.drain(..));
    }
    all
}

#[test]
fn tasks_of_a_thread_keep_their_order_in_a_full_queue() {
    explore(2, || {
        let queue = Arc::new(TaskQueue::new(1));
        let (a, b) = (queue.clone(), queue.clone());
        let client = thread::spawn(move || {
            for task in 0..3 {
                let place = a.push(task).unwrap();
                if task == 1 {
                    a.wait_until_accepted(place);
                }
            }
            a.close();
        });
        let worker = thread::spawn(move || work(&b));
        client.join().unwrap();
        assert_eq!(worker.join().unwrap(), [0, 1, 2]);
        assert_eq!(queue.depth(), (0, 0));
    });
}

/// Every accepted task is taken, no refused task is, and the worker ends.
#[test]
fn closing_a_queue_loses_no_task() {
    explore(3, || {
        let queue = Arc::new(TaskQueue::new(1));
        let (a, b, c) = (queue.clone(), queue.clone(), queue);
        let client = thread::spawn(move || {
            let mut expected = Vec::new();
            for task in 0..2 {
                match a.try_push(task) {
                    Ok(()) => expected.push(task),
                    Err(Refused::Full(task) | Refused::Closed(task)) => {
                        expected.extend(a.push(task).is_ok().then_some(task));
                    }
                }
            }
            expected
        });
        let closer = thread::spawn(move || c.close());
        let worker = thread::spawn(move || work(&b));
        closer.join().unwrap();
        assert_eq!(client.join().unwrap(), worker.join().unwrap());
    });
}

/// A call whose client waits for its result. A dropped call ends, too.
struct Call {
    is_done: bool,
    ended: Arc<Mutex<Option<bool>>>,
    signal: Arc<Signal>,
}

impl Drop for Call {
    fn drop(&mut self) {
        *self.ended.lock().unwrap() = Some(self.is_done);
        self.signal.give();
    }
}

/// Makes a call and waits as a future does: it checks for the result and, without one, waits for a
/// wake-up.
fn call(queue: &TaskQueue<Call>) -> bool {
    let (ended, signal) = (Arc::new(Mutex::new(None)), Arc::new(Signal::new()));
    let pushed = queue.push(Call {
        is_done: false,
        ended: ended.clone(),
        signal: signal.clone(),
    });
    let is_taken_on = pushed.is_ok();
    drop(pushed);
    loop {
        let result = *ended.lock().unwrap();
        match result {
            Some(is_done) => {
                assert_eq!(
                    is_done, is_taken_on,
                    "what is taken on is done, what is refused is not"
                );
                return is_done;
            }
            None => signal.wait(),
        }
    }
}

/// Every client that waits for a result is woken, even if the queue is closed meanwhile, by any
/// thread.
#[test]
fn every_call_ends_beside_a_shutdown() {
    explore(2, || {
        let queue = Arc::new(TaskQueue::new(1));
        let (a, b, c) = (queue.clone(), queue.clone(), queue);
        let client = thread::spawn(move || (call(&a), call(&a)));
        let closer = thread::spawn(move || b.close());
        let worker = thread::spawn(move || {
            let mut tasks = VecDeque::new();
            let mut done = 0;
            while c.wait_and_take(1, &mut tasks) {
                for mut task in tasks.drain(..) {
                    task.is_done = true;
                    done += 1;
                }
            }
            done
        });
        closer.join().unwrap();
        let (first, second) = client.join().unwrap();
        assert!(first || !second, "after the first refusal all are refused");
        assert_eq!(
            worker.join().unwrap(),
            usize::from(first) + usize::from(second)
        );
    });
}

/// A signal counts once, at whatever moment it is given.
#[test]
fn a_signal_is_not_lost() {
    explore(3, || {
        let signal = Arc::new(Signal::new());
        let step = Arc::new(Mutex::new(0));
        let (a, b) = (signal.clone(), step.clone());
        let giver = thread::spawn(move || {
            *b.lock().unwrap() = 1;
            a.give();
            a.give();
            *b.lock().unwrap() = 2;
            a.give();
        });
        while *step.lock().unwrap() < 2 {
            signal.wait();
        }
        giver.join().unwrap();
    });
}

#[test]
fn a_task_that_leaves_the_line_is_not_taken() {
    explore(3, || {
        let queue = Arc::new(TaskQueue::new(1));
        let (a, b) = (queue.clone(), queue);
        let client = thread::spawn(move || {
            a.push(0).unwrap();
            let place = a.push(1).unwrap();
            let left = a.leave(place).is_some();
            assert!(!left || place != Turn::Accepted);
            a.push(2).unwrap();
            a.close();
            left
        });
        let worker = thread::spawn(move || work(&b));
        let left = client.join().unwrap();
        let expected: &[u32] = if left { &[0, 2] } else { &[0, 1, 2] };
        assert_eq!(worker.join().unwrap(), expected);
    });
}
