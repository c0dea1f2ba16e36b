//! Counters: threads that add to the same keys, and lose nothing.
//!
//! `update` reads and writes a key as one: no other write comes between. Where two collide, one of
//! them is called again, so the closure must only compute. It returns `None` to remove the key.
//!
//! Run with `cargo run --example counter`.
#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use hedgerow::{Db, Keyspace, Layout, Result};

const THREADS: u64 = 4;
const VISITS: u64 = 5_000;
const PAGES: u64 = 10;

fn count(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("a count has 8 bytes"))
}

/// Adds to a counter, which is removed at zero. Returns the new value.
fn add(counters: &Keyspace, name: &str, difference: i64) -> Result<u64> {
    let new = counters.update(name, |old| {
        let sum = old.map_or(0, count).saturating_add_signed(difference);
        (sum > 0).then(|| sum.to_le_bytes().to_vec())
    })?;
    Ok(new.as_deref().map_or(0, count))
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = Db::open(dir.path())?;
    let counters = db.keyspace("visits", Layout::sorted().hash(2))?;

    std::thread::scope(|scope| {
        let visit = |thread: u64| {
            let counters = &counters;
            move || -> Result<()> {
                for visit in 0..VISITS {
                    add(counters, &format!("page/{}", (visit + thread) % PAGES), 1)?;
                }
                Ok(())
            }
        };
        let visitors: Vec<_> = (0..THREADS).map(|t| scope.spawn(visit(t))).collect();
        visitors
            .into_iter()
            .try_for_each(|visitor| visitor.join().expect("no panic"))
    })?;

    let mut sum = 0;
    for item in counters.scan_prefix("page/")? {
        let (page, visits) = item?;
        assert_eq!(count(&visits), THREADS * VISITS / PAGES);
        println!("{} {}", page.escape_ascii(), count(&visits));
        sum += count(&visits);
    }
    assert_eq!(sum, THREADS * VISITS);
    println!("{} updates began again", db.stats().update_retries);

    assert_eq!(add(&counters, "page/0", -2_000)?, 0);
    assert!(!counters.contains_key("page/0")?);
    Ok(())
}

#[test]
fn it_runs() -> Result<()> {
    main()
}
