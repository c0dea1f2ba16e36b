//! The stores that are compared, by name.

use clap::ValueEnum;
use hedgerow_bench::{HedgerowStore, OpenOptions, Result, Store};
use heed::EnvFlags;

use crate::bf_tree::BfTree;
use crate::fjall::Fjall;
use crate::leveldb::LevelDb;
use crate::lmdb::Lmdb;
use crate::redb::Redb;
use crate::rocksdb::RocksDb;

/// A store that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Hedgerow,
    Rocksdb,
    Leveldb,
    Fjall,
    Lmdb,
    /// LMDB with a writable map
    LmdbWritemap,
    Redb,
    BfTree,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Hedgerow => "hedgerow",
            Kind::Rocksdb => "rocksdb",
            Kind::Leveldb => "leveldb",
            Kind::Fjall => "fjall",
            Kind::Lmdb => "lmdb",
            Kind::LmdbWritemap => "lmdb-writemap",
            Kind::Redb => "redb",
            Kind::BfTree => "bf-tree",
        }
    }

    /// Opens or creates a store; `rocksdb_options` are for RocksDB alone.
    pub(crate) fn open(
        self,
        options: &OpenOptions,
        rocksdb_options: &str,
    ) -> Result<Box<dyn Store>> {
        Ok(match self {
            Kind::Hedgerow => Box::new(HedgerowStore::open(options)?),
            Kind::Rocksdb => Box::new(RocksDb::open(options, rocksdb_options)?),
            Kind::Leveldb => Box::new(LevelDb::open(options)?),
            Kind::Fjall => Box::new(Fjall::open(options)?),
            Kind::Lmdb => Box::new(Lmdb::open(options, EnvFlags::empty())?),
            Kind::LmdbWritemap => Box::new(Lmdb::open(options, EnvFlags::WRITE_MAP)?),
            Kind::Redb => Box::new(Redb::open(options)?),
            Kind::BfTree => Box::new(BfTree::open(options)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hedgerow::io::ReadMode;
    use hedgerow::{Compression, Design, Layout};

    use super::*;

    const ENTRIES: u64 = 20_000;

    fn options(dir: &std::path::Path) -> OpenOptions {
        OpenOptions {
            dir: dir.join("db"),
            fresh: false,
            keyspace: "bench".to_owned(),
            memory_budget: 16 << 20,
            sync: false,
            entries: ENTRIES,
            key_bytes: 16,
            value_bytes: 100,
            threads: 1,
            layout: Layout::sorted(),
            design: Design {
                compression: Compression::None,
                ..Design::default()
            },
            self_tuning: false,
            read_mode: ReadMode::Pread,
            workers: 0,
            worker_queue: None,
        }
    }

    /// A bijection of the numbers below 2^64, so that keys come in no order.
    fn key(number: u64) -> Vec<u8> {
        format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into_bytes()
    }

    fn value(number: u64) -> Vec<u8> {
        let mut value = number.to_string().into_bytes();
        value.resize(100, b'v');
        value
    }

    fn get(store: &dyn Store, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = None;
        let found = store
            .get(key, &mut |bytes| value = Some(bytes.to_vec()))
            .unwrap();
        assert_eq!(found, value.is_some());
        value
    }

    /// Everything that a workload asks for, against a map.
    fn answers_like_a_map(store: &dyn Store, map: &BTreeMap<Vec<u8>, Vec<u8>>) {
        for number in (0..ENTRIES + 100).step_by(7) {
            assert_eq!(get(store, &key(number)).as_ref(), map.get(&key(number)));
        }
        let keys: Vec<_> = (ENTRIES - 16..ENTRIES + 16).map(key).collect();
        let mut found = BTreeMap::new();
        store
            .multi_get(&keys, &mut |i, value| drop(found.insert(i, value.to_vec())))
            .unwrap();
        for (i, key) in keys.iter().enumerate() {
            assert_eq!(found.get(&i), map.get(key));
        }
        for (from, limit) in [
            (key(17), 11),
            (Vec::from(*b"8"), 1),
            (Vec::from(*b"zzzz"), 5),
        ] {
            let mut entries = Vec::new();
            let mut keep = |k: &[u8], v: &[u8]| entries.push((k.to_vec(), v.to_vec()));
            store.scan(&from, limit, &mut keep).unwrap();
            let expected: Vec<_> = map.range(from..).take(limit).collect();
            assert!(entries.iter().map(|(k, v)| (k, v)).eq(expected));
        }
    }

    fn conforms(kind: Kind) {
        let dir = tempfile::tempdir().unwrap();
        let options = options(dir.path());
        let mut map = BTreeMap::new();
        let store = kind.open(&options, "").unwrap();
        for number in 0..ENTRIES - 100 {
            store.put(&key(number), &value(number)).unwrap();
            map.insert(key(number), value(number));
        }
        let batch: Vec<_> = (ENTRIES - 100..ENTRIES)
            .map(|n| (key(n), value(n)))
            .collect();
        store.write_batch(&batch).unwrap();
        map.extend(batch);
        for number in (0..ENTRIES).step_by(5) {
            store.delete(&key(number)).unwrap();
            map.remove(&key(number));
        }
        answers_like_a_map(&*store, &map);
        store.settle().unwrap();
        answers_like_a_map(&*store, &map);
        assert!(store.counters().table_bytes.unwrap() > 0);
        assert_eq!(store.describe().name, kind.name());
        drop(store);

        let store = kind.open(&options, "").unwrap();
        answers_like_a_map(&*store, &map);
        drop(store);
        let store = kind
            .open(
                &OpenOptions {
                    fresh: true,
                    ..options
                },
                "",
            )
            .unwrap();
        assert_eq!(get(&*store, &key(1)), None);
    }

    #[test]
    fn hedgerow_conforms() {
        conforms(Kind::Hedgerow);
    }

    #[test]
    fn rocksdb_conforms() {
        conforms(Kind::Rocksdb);
    }

    #[test]
    fn leveldb_conforms() {
        conforms(Kind::Leveldb);
    }

    #[test]
    fn fjall_conforms() {
        conforms(Kind::Fjall);
    }

    #[test]
    fn lmdb_conforms() {
        conforms(Kind::Lmdb);
    }

    #[test]
    fn lmdb_with_a_writable_map_conforms() {
        conforms(Kind::LmdbWritemap);
    }

    #[test]
    fn redb_conforms() {
        conforms(Kind::Redb);
    }

    #[test]
    fn bf_tree_conforms() {
        conforms(Kind::BfTree);
    }

    #[test]
    fn the_parts_of_a_budget_are_in_force_in_rocksdb() {
        let dir = tempfile::tempdir().unwrap();
        let others = "max_background_jobs=3;compaction_style=kCompactionStyleUniversal";
        let store = RocksDb::open(&options(dir.path()), others).unwrap();
        let settings = store.describe().settings;
        assert_eq!(settings["in_force"]["write_buffer_size"], "1048576");
        assert_eq!(settings["in_force"]["max_write_buffer_number"], "4");
        assert_eq!(
            settings["in_force"]["filter_policy"],
            "bloomfilter:10:false"
        );
        assert_eq!(settings["in_force"]["max_background_jobs"], "3");
        assert_eq!(
            settings["in_force"]["compaction_style"],
            "kCompactionStyleUniversal"
        );
    }
}
