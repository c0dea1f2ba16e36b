//! Counters with labels: sums that are changed without being read.
//!
//! A key is the labels of a counter. Each request adds one by an operand of the merge operator
//! `add_i64`: a write that reads nothing and waits for nobody. A scan of a prefix sums over labels.
//!
//! Run with `cargo run --example labelled_counters`.
#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use hedgerow::{Db, Durability, Keyspace, Layout, Result};

const THREADS: u64 = 4;
const REQUESTS: u64 = 5_000;
const METHODS: [&str; 2] = ["get", "post"];
const CODES: [u64; 3] = [200, 404, 500];

/// The key of a counter. A `/` ends each label, so that a prefix is whole labels.
fn key(method: &str, code: u64) -> String {
    format!("requests/{method}/{code}/")
}

fn sum(counters: &Keyspace, prefix: &str) -> Result<i64> {
    let counts = counters.scan_prefix(prefix)?.map(|item| {
        let (_, count) = item?;
        Ok(i64::from_le_bytes(
            count.as_bytes().try_into().expect("a sum has 8 bytes"),
        ))
    });
    counts.sum()
}

fn serve(db: &Db, counters: &Keyspace, thread: u64) -> Result<()> {
    for request in 0..REQUESTS {
        let method = METHODS[(request % 5 == 0) as usize];
        let code = CODES[(thread + request) as usize % CODES.len()];
        // All that a request changes becomes visible together.
        let mut batch = db.batch();
        batch.merge(counters, key(method, code), 1_i64.to_le_bytes())?;
        batch.merge(counters, format!("bytes/{method}/"), 512_i64.to_le_bytes())?;
        batch.commit(Durability::Buffered)?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = Db::open(dir.path())?;
    let layout = Layout::sorted().merge_operator("add_i64");
    let counters = db.keyspace("counters", layout)?;

    std::thread::scope(|scope| {
        let (db, counters) = (&db, &counters);
        let servers: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || serve(db, counters, thread)))
            .collect();
        servers
            .into_iter()
            .try_for_each(|server| server.join().expect("no panic"))
    })?;

    let all = sum(&counters, "requests/")?;
    let posts = sum(&counters, "requests/post/")?;
    println!("{all} requests, {posts} of them posts");
    assert_eq!(all as u64, THREADS * REQUESTS);
    assert_eq!(posts as u64, THREADS * REQUESTS / 5);
    assert_eq!(sum(&counters, "bytes/")?, 512 * all);

    // A counter begins anew with a put or a delete.
    counters.delete("bytes/get/")?;
    counters.merge("bytes/get/", 512_i64.to_le_bytes())?;
    assert_eq!(sum(&counters, "bytes/get/")?, 512);
    Ok(())
}

#[test]
fn it_runs() -> Result<()> {
    main()
}
