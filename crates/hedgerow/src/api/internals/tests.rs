//! The corpora of the fuzzers, and whatever they have found, as ordinary tests.
//! `HEDGEROW_BLESS=1` writes the seeds anew, from the golden database.

use std::path::PathBuf;

use hedgerow_io::OsStorage;

use super::*;
use crate::base::entry::{KeyspaceId, PartitionId};
use crate::base::page::Handle;
use crate::group_filter::Owner;
use crate::group_filter::cluster::{self, PageEnds};
use crate::group_filter::frame;
use crate::group_filter::multi_level_cuckoo::{CuckooSize, Mode, hash_of};
use crate::table::block_index::Builder as _;
use crate::table::block_index::entropy_coded_trie::three_level::{Builder, Form};
use crate::table::block_index::hash_marks;

type Target = (&'static str, fn(&[u8]) -> Result<()>);

const TARGETS: [Target; 10] = [
    ("manifest", manifest),
    ("edit", edit),
    ("log_segment", log_segment),
    ("log_operations", log_operations),
    ("table", table),
    ("multi_level_cuckoo", multi_level_cuckoo),
    ("run_hashes", run_hashes),
    ("cluster", cluster),
    ("three_level", three_level),
    ("hash_marks", hash_marks),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read_dir(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let storage = OsStorage::new();
    let read = |name: &str| {
        let file = storage.open(&dir.join(name), ReadMode::Pread).unwrap();
        let mut bytes = vec![0; file.bytes() as usize];
        file.read_at(0, &mut bytes).unwrap();
        bytes
    };
    let files = storage.list(dir).unwrap();
    files
        .iter()
        .map(|f| (f.name.clone(), read(&f.name)))
        .collect()
}

fn write_seeds() {
    let golden = root().join("crates/hedgerow/testdata/format");
    let storage = OsStorage::new();
    let write = |target: &str, name: &str, bytes: &[u8]| {
        let dir = root().join("fuzz/corpus").join(target);
        storage.create_dir_all(&dir).unwrap();
        let _ = storage.remove(&dir.join(name));
        let mut file = storage.create(&dir.join(name)).unwrap();
        file.write(bytes).unwrap();
        file.sync().unwrap();
    };
    let (_, bytes) = read_dir(&golden.join("0.1/plain")).remove(0);
    write("manifest", "golden", &bytes);
    for (i, edit) in manifest::replay_bytes(&bytes)
        .unwrap()
        .edits
        .iter()
        .enumerate()
    {
        write("edit", &format!("golden-{i:02}"), &encode_edit(edit));
    }
    for (name, bytes) in read_dir(&golden.join("0.1/plain/log")) {
        write("log_segment", &name, &bytes);
        // Behind the two headers: docs/format.
        let payload = u32::from_le_bytes(bytes[68..72].try_into().unwrap()) as usize;
        let operations = [&bytes[76..77], &bytes[96..96 + payload]].concat();
        write("log_operations", &name, &operations);
    }
    for (name, bytes) in read_dir(&golden.join("0.1/plain/tables")) {
        write("table", &name, &bytes);
    }
    for (name, form) in [("tail", Form::Tail), ("array", Form::Array)] {
        write("three_level", name, &an_index(form));
    }
    write("hash_marks", "even", &marks());
    for (name, bytes) in read_dir(&golden) {
        if ["lz4", "three-level", "htable"]
            .iter()
            .any(|it| name.contains(it))
        {
            write("table", &name, &bytes);
        }
    }
    write("cluster", "golden", &a_cluster());
    for mode in [Mode::Set, Mode::Unique] {
        let (filter, hashes) = filter_of_two_runs(mode);
        write(
            "multi_level_cuckoo",
            &format!("{mode:?}").to_lowercase(),
            &filter,
        );
        write("run_hashes", "golden", &hashes);
    }
}

/// A cluster of two tables, as a file.
fn a_cluster() -> Vec<u8> {
    let columns = [(5, 0..300_u32), (6, 200..260)].map(|(table, keys)| {
        let mut hashes: Vec<_> = keys.map(|i| KeyHash::of(&i.to_le_bytes(), 7)).collect();
        hashes.sort_by_key(|hash| hash.order());
        let mut builder = cluster::Builder::new(8.0);
        hashes.into_iter().for_each(|hash| builder.push(hash));
        builder.columns(TableId(table)).unwrap()
    });
    let sources = columns.each_ref().map(Source::Table);
    let mut bytes = Vec::new();
    let number = TableId(FILTER_SEED);
    let fetch = |_| unreachable!("all is in memory");
    let directory = assemble(&sources, PageEnds::Full, fetch, |mut page| {
        page.resize(PageEnds::Full.bytes_max(), 0);
        page_io::seal(&mut page, 0, number, bytes.len() as u64);
        bytes.extend(page);
        Ok(1)
    });
    let owner = Owner {
        keyspace: KeyspaceId(1),
        partition: PartitionId(2),
        hash_seed: 7,
    };
    let (end, description) = (bytes.len() as u64, directory.unwrap().encode());
    bytes.extend(frame::encode(
        *b"hedgeclu",
        (number, end),
        owner,
        &description,
    ));
    bytes
}

/// The bytes of a filter and of the hashes of its newest run.
fn filter_of_two_runs(mode: Mode) -> (Vec<u8>, Vec<u8>) {
    let sizing = CuckooSize {
        fingerprint_bits: 6,
        runs_max: 4,
        entries: 60,
        mode,
    };
    let hash = |i: u32| hash_of(KeyHash::of(&i.to_le_bytes(), 7));
    let mut hashes: Vec<_> = (0..30).map(hash).collect();
    hashes.sort_unstable();
    let older = (20..50).map(hash).collect();
    let filter = MultiLevelCuckoo::build(sizing, [older, hashes.clone()]).unwrap();
    let (mut filter_bytes, mut hash_bytes) = (Vec::new(), Vec::new());
    let write = |piece: &[u8]| {
        filter_bytes.extend_from_slice(piece);
        Ok(())
    };
    filter.encode(FILTER_SEED, &FILTER_RUNS, write).unwrap();
    run_hashes::encode(&hashes, &mut hash_bytes);
    (filter_bytes, hash_bytes)
}

/// An index of 80 blocks, among them a group of many, as its decoder takes it.
fn an_index(form: Form) -> Vec<u8> {
    let mut keys: Vec<[u8; 16]> = (0..400u64)
        .map(|i| KeyHash::of(&i.to_le_bytes(), 3).0.to_be_bytes())
        .collect();
    keys[200..].iter_mut().for_each(|key| key[..8].fill(7));
    keys.sort_unstable();
    let mut builder = Builder::new(form);
    for (number, block) in keys.chunks(5).enumerate() {
        block.iter().for_each(|key| builder.add(key, number));
        let offset = number as u64 * 4096;
        builder.finish_block(
            number,
            Handle {
                offset,
                bytes: 4096,
            },
        );
    }
    let mut pages = Vec::new();
    let write_page = |page: &[u8]| {
        pages.push(page.to_vec());
        Ok(Handle {
            offset: 0,
            bytes: 0,
        })
    };
    builder.finish(write_page).unwrap();
    let top_bytes = (pages[1].len() as u16).to_le_bytes();
    [&top_bytes[..], &pages[1], &pages[0]].concat()
}

/// The marks of 80 buckets, as their decoder takes them.
fn marks() -> Vec<u8> {
    let mut builder = hash_marks::Builder::default();
    for bucket in 0..80_u64 {
        let [first, last] = [0, 1 << 56].map(|end| ((bucket << 57) + end).to_be_bytes());
        let handle = Handle {
            offset: bucket * 4096,
            bytes: 4032,
        };
        builder.add(&first, &last, handle);
    }
    builder.finish()
}

#[test]
fn corpora_make_no_decoder_panic() {
    if std::env::var_os("HEDGEROW_BLESS").is_some() {
        write_seeds();
    }
    for (target, decode) in TARGETS {
        let inputs = read_dir(&root().join("fuzz/corpus").join(target));
        assert!(!inputs.is_empty(), "{target}");
        for (name, bytes) in inputs {
            let result = decode(&bytes);
            let is_seed = !name.starts_with("found-");
            assert!(result.is_ok() || !is_seed, "{target}/{name}: {result:?}");
            // And near it: every cut of a small one, and some changed bytes.
            for at in (0..bytes.len()).step_by(1 + bytes.len() / 200) {
                let _ = decode(&bytes[..at]);
                let mut changed = bytes.clone();
                changed[at] ^= 1 << (at % 8);
                let _ = decode(&changed);
            }
        }
    }
}
