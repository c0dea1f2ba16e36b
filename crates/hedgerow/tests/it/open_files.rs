//! More tables than files may be open.

use std::sync::Arc;

use hedgerow::io::{Environment, OsStorage, ReadMode};
use hedgerow::{Compression, Db, Design, Layout};

const KEYS: u64 = 6000;

fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn value(i: u64) -> Vec<u8> {
    i.to_le_bytes().repeat(12)
}

/// Every table is read, merged and looked through with four files open, in each way to read.
#[test]
fn all_tables_are_read_however_few_files_may_be_open() {
    for mode in [ReadMode::Pread, ReadMode::Mmap, ReadMode::Direct] {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment {
            storage: Arc::new(OsStorage::new().open_files(4)),
            ..Environment::os()
        };
        let builder = Db::builder(dir.path()).environment(environment);
        let db = builder.memory_budget(2 << 20).read_mode(mode).open();
        // The file system has no direct reads.
        let Ok(db) = db else { continue };
        let design = Design {
            compression: Compression::None,
            memtable_bytes: Some(64 << 10),
            table_bytes: Some(16 << 10),
            ..Design::default()
        };
        let keyspace = db.keyspace_with("plain", Layout::sorted(), design).unwrap();
        for i in 0..KEYS {
            keyspace.put(key(i), value(i)).unwrap();
        }
        keyspace.flush().unwrap();
        keyspace.wait_until_merged().unwrap();
        let tables: usize = keyspace.stats().levels.iter().map(|it| it.tables).sum();
        assert!(tables > 30, "{tables}");
        for i in (0..KEYS).step_by(7) {
            let found = keyspace.get(key(i)).unwrap();
            assert_eq!(found.as_deref(), Some(value(i).as_slice()), "{mode} {i}");
        }
        let keys: Vec<[u8; 8]> = (0..200).map(|i| key(i * 29)).collect();
        let found = keyspace.multi_get(&keys).unwrap();
        assert!(found.iter().all(Option::is_some));
        assert_eq!(keyspace.scan::<[u8; 8]>(..).unwrap().count() as u64, KEYS);
    }
}
