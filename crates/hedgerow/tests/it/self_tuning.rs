//! A keyspace that tunes itself: it adopts what the advisor says of what was asked of it, tells so,
//! keeps it over a crash, and then leaves it alone.

use std::sync::{Arc, Mutex};

use hedgerow::io::sim::SimStorage;
use hedgerow::{Builder, Db, Design, Event, FilterSpec, Layout};

use crate::support::{builder, key, small};

const KEYS: u64 = 60_000;

/// Costly for who asks for absent keys: many runs, and no filters.
fn poor() -> Design {
    Design {
        policy: "tiering:16".parse().unwrap(),
        filter: FilterSpec::None,
        memtable_bytes: Some(256 << 10),
        table_bytes: Some(64 << 10),
        ..small()
    }
}

/// A budget that leaves the advisor memory for memtables.
fn open(disk: &SimStorage) -> Builder {
    builder(disk)
        .memory_budget(8 << 20)
        .log_segment_bytes(256 << 10)
}

#[test]
fn a_keyspace_adopts_a_design_and_keeps_it() {
    let disk = SimStorage::new(1);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hear = heard.clone();
    let listener = move |event: &Event| match event {
        Event::Adopted { us_before, us, .. } => {
            assert!(us_before >= us);
            hear.lock().unwrap().push("adopted".to_owned());
        }
        Event::Retuned { from, to, .. } => {
            hear.lock()
                .unwrap()
                .push(format!("{} > {}", from.policy, to.policy));
        }
        _ => {}
    };
    let db = open(&disk).listener(listener).open().unwrap();
    let keyspace = db.keyspace_with("plain", Layout::sorted(), poor()).unwrap();
    let put = |count: u64| {
        (0..count).for_each(|i| keyspace.put(key(i * 7919 % KEYS), [i as u8; 400]).unwrap());
        keyspace.flush().unwrap();
    };
    put(KEYS);
    for i in 0..80_000 {
        let mut absent = key(i * 31 % KEYS);
        absent.push(b'x');
        assert!(!keyspace.contains_key(absent).unwrap());
    }
    // It does nothing unless it is asked to.
    put(10);
    assert_eq!(keyspace.design(), poor());
    keyspace.set_self_tuning(true).unwrap();
    put(10);
    let adopted = keyspace.design();
    assert_ne!(adopted, poor());
    let expected = [
        "adopted".to_owned(),
        format!("{} > {}", poor().policy, adopted.policy),
    ];
    assert_eq!(*heard.lock().unwrap(), expected);
    let stats = keyspace.stats();
    assert!(
        stats.tunes_itself && stats.operations.since_retune < 20_000,
        "{stats:?}"
    );

    // The design and the wish are there after a crash; and nothing changes without new operations.
    let disk = disk.kill();
    let db: Db = open(&disk).open().unwrap();
    let keyspace = db.existing_keyspace("plain").unwrap();
    assert_eq!(
        (keyspace.design(), keyspace.stats().tunes_itself),
        (adopted.clone(), true)
    );
    for i in 0..KEYS {
        assert!(keyspace.contains_key(key(i)).unwrap(), "{i}");
    }
    keyspace.wait_until_merged().unwrap();
    assert_eq!(keyspace.design(), adopted);
    // An opening with the old design does not bring that back, unless it may not tune itself.
    let again = || db.keyspace_with("plain", Layout::sorted(), poor()).unwrap();
    assert_eq!(again().design(), adopted);
    keyspace.set_self_tuning(false).unwrap();
    assert_eq!(again().design(), poor());
    db.verify().unwrap();
}
