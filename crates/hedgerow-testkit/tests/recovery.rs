//! Openings with other options than the one before.

use hedgerow::io::Environment;
use hedgerow::io::sim::SimStorage;
use hedgerow::{Db, Layout};

/// The log may hold many times more than the memtables of the next process.
#[test]
fn a_small_budget_recovers_the_log_of_a_large_one() {
    let mut disk = SimStorage::new(1);
    let open = |disk: &SimStorage, budget: u64| {
        let environment = Environment::simulated(disk, 1);
        let builder = Db::builder("/db").memory_budget(budget);
        builder.environment(environment).open().unwrap()
    };
    let db = open(&disk, 256 << 20);
    let keyspace = db.keyspace("a", Layout::sorted().hash(3)).unwrap();
    let value = [7; 4000];
    for i in 0..8_000_u32 {
        keyspace.put(i.to_be_bytes(), value).unwrap();
    }
    disk = disk.kill();
    drop((db, keyspace));
    let db = open(&disk, 1 << 20);
    let keyspace = db.existing_keyspace("a").unwrap();
    assert_eq!(keyspace.scan::<&[u8]>(..).unwrap().count(), 8_000);
    assert_eq!(
        keyspace.get(7_u32.to_be_bytes()).unwrap().as_deref(),
        Some(&value[..])
    );
    db.verify().unwrap();
}
