//! The first five minutes: open, write, read, scan, batch, snapshot, update, close, reopen.
//!
//! Run with `cargo run --example quick_start`.
#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use hedgerow::{Db, Durability, Layout, Result};

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = Db::open(dir.path())?;
    let fruit = db.keyspace("fruit", Layout::sorted())?;

    // Keys and values are bytes. Absence is no error.
    fruit.put("apple", "red")?;
    fruit.put("banana", "yellow")?;
    fruit.put("cherry", "red")?;
    assert_eq!(fruit.get("apple")?.as_deref(), Some(&b"red"[..]));
    assert_eq!(fruit.get("durian")?, None);

    // Scans go over a range, from both ends.
    for item in fruit.scan("b"..)? {
        let (name, colour) = item?;
        println!("{} is {}", name.escape_ascii(), colour.escape_ascii());
    }
    let (last, _) = fruit.scan::<&str>(..)?.next_back().expect("a last one")?;
    assert_eq!(last, "cherry");

    // A batch is all or nothing, over any keyspaces. Synced: it survives the end of the machine.
    let stock = db.keyspace("stock", Layout::sorted())?;
    let mut batch = db.batch();
    batch.delete(&fruit, "banana")?.put(&stock, "banana", "0")?;
    let before = db.snapshot()?;
    batch.commit(Durability::Synced)?;

    // A snapshot still sees what there was.
    assert!(!fruit.contains_key("banana")?);
    assert!(before.contains_key(&fruit, "banana")?);

    // The entries are there when the database is opened again.
    drop(before);
    db.close()?;
    let db = Db::open(dir.path())?;
    let fruit = db.keyspace("fruit", Layout::sorted())?;
    assert_eq!(fruit.scan::<&str>(..)?.count(), 2);
    println!("{:?} came back", db.keyspaces());
    Ok(())
}

#[test]
fn it_runs() -> Result<()> {
    main()
}
