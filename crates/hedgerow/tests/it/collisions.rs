//! Keys whose hashes are equal because somebody chose them. XXH3 combines the words of a key with a
//! secret and the seed, and then multiplies them. Somebody who knows the seed makes one factor of
//! each product 0. The other factor then changes nothing. Nobody knows the seed of a keyspace. With
//! a known seed, reads are slow and right.

use std::path::Path;

use hedgerow::inspect;
use hedgerow::io::sim::SimStorage;
use hedgerow::{Db, FilterSpec, KeyOrder, Keyspace, Layout, PrefixRule, ScanToken, TableSpec};
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

use crate::support::{Contents, DIR, files, open, small};

/// The part of XXH3's secret to which it adds the seed for the even words of 64 bytes.
const SECRET: [[u8; 8]; 4] = [
    *b"\xb8\xfe\x6c\x39\x23\xa4\x4b\xbe",
    *b"\xcb\x79\xe6\x4e\xcc\xc0\xe5\x78",
    *b"\xb8\x08\x46\x74\xf7\x43\x24\x8e",
    *b"\xde\xd4\x6d\xe9\x83\x90\x97\xdb",
];

/// 64 bytes that differ by number and have the same XXH3, of 64 and of 128 bits, with this seed.
fn chosen(seed: u64, number: u64) -> Vec<u8> {
    let lane = |i: usize| {
        let even = u64::from_le_bytes(SECRET[i]).wrapping_add(seed);
        // The sums of the lanes cancel out in pairs.
        let sum = if i < 2 { !number } else { number };
        [even, sum.wrapping_sub(even)]
    };
    let words = (0..4).flat_map(lane);
    words.flat_map(u64::to_le_bytes).collect()
}

#[test]
fn chosen_bytes_collide() {
    for seed in [0, 7, u64::MAX] {
        let first = chosen(seed, 0);
        for other in (1..1000).map(|number| chosen(seed, number)) {
            assert_ne!(first, other);
            let hash = |bytes: &[u8]| {
                (
                    xxh3_64_with_seed(bytes, seed),
                    xxh3_128_with_seed(bytes, seed),
                )
            };
            assert_eq!(hash(&first), hash(&other));
        }
    }
}

const PREFIXES: u64 = 12;
const MEMBERS: u64 = 60;

/// A keyspace with keys that collide in all bytes of their order keys but the user key itself; each
/// key is of a prefix that collides with all others.
fn colliding(
    disk: &SimStorage,
    order: KeyOrder,
    (table, filter): (TableSpec, FilterSpec),
) -> (Db, Keyspace) {
    let db = open(disk);
    let layout = Layout {
        order,
        ..Layout::default()
    };
    let mut design = small();
    design.table = table;
    design.filter = filter;
    // Levels of several runs, which filters of several runs are for.
    design.policy = "tiering:8".parse().unwrap();
    let keyspace = db.keyspace_with("k", layout.clone(), design).unwrap();
    keyspace.put([7; 200], b"the first").unwrap();
    keyspace.flush().unwrap();
    (db, keyspace)
}

/// The seed, which is in the footer of every table.
fn seed(disk: &SimStorage) -> u64 {
    let path = format!("{DIR}/tables/{}", files(disk, "tables")[0]);
    let table = inspect::Table::open(disk, Path::new(&path)).unwrap();
    table.footer().hash_seed
}

fn key(order: KeyOrder, seed: u64, prefix: u64, member: u64) -> Vec<u8> {
    match order {
        KeyOrder::Hashed => chosen(seed, prefix << 32 | member),
        _ => [chosen(!seed, prefix), chosen(!seed, 1000 + member)].concat(),
    }
}

fn everything(keyspace: &Keyspace) -> Contents {
    let mut found = Contents::new();
    let mut token = ScanToken::default();
    loop {
        let mut scan = keyspace.scan_unordered_from(&token).unwrap();
        let before = found.len();
        for item in scan.by_ref().take(31) {
            let (key, value) = item.unwrap();
            assert!(found.insert(key.to_vec(), value.to_vec()).is_none());
        }
        token = scan.token();
        if found.len() == before {
            return found;
        }
    }
}

/// Those that an order can have.
fn filters(order: KeyOrder) -> impl Iterator<Item = &'static str> {
    let any = ["bloom:10", "cuckoo:12", "mlcf:12", "mlcf:12,unique"];
    let of_hashed = Some("cluster:10").filter(|_| order == KeyOrder::Hashed);
    any.into_iter().chain(of_hashed)
}

/// Two keys of one hash, each in a run of its own: a filter of both runs cannot tell them apart.
#[test]
fn keys_that_collide_are_found_in_runs_of_their_own() {
    for filter in filters(KeyOrder::Hashed) {
        let disk = SimStorage::new(5);
        let of_table = (TableSpec::BlockBased, filter.parse().unwrap());
        let (db, keyspace) = colliding(&disk, KeyOrder::Hashed, of_table);
        let seed = seed(&disk);
        let key = |number| key(KeyOrder::Hashed, seed, 0, number);
        for number in 0..3 {
            for other in 0..50_u8 {
                keyspace.put([number as u8, other], b"another").unwrap();
            }
            keyspace.put(key(number), number.to_be_bytes()).unwrap();
            keyspace.flush().unwrap();
        }
        let check = |keyspace: &Keyspace| {
            keyspace.wait_until_merged().unwrap();
            assert_eq!(keyspace.stats().levels[0].runs, 4, "{filter}");
            for number in 0..3 {
                let found = keyspace.get(key(number)).unwrap();
                let expected = Some(&number.to_be_bytes()[..]);
                assert_eq!(found.as_deref(), expected, "{filter}, key {number}");
            }
        };
        check(&keyspace);
        drop(keyspace);
        db.close().unwrap();
        check(&open(&disk).existing_keyspace("k").unwrap());
    }
}

#[test]
fn keys_that_collide_are_found_scanned_merged_and_deleted_by_their_own_bytes() {
    let semi_sorted = KeyOrder::SemiSorted(PrefixRule::Bytes(64));
    for (order, table, filter) in [
        (semi_sorted, TableSpec::BlockBased),
        (KeyOrder::Hashed, TableSpec::BlockBased),
        (KeyOrder::Hashed, TableSpec::HTable),
    ]
    .into_iter()
    .flat_map(|(order, table)| filters(order).map(move |filter| (order, table, filter)))
    {
        let disk = SimStorage::new(3);
        let (db, keyspace) = colliding(&disk, order, (table, filter.parse().unwrap()));
        let seed = seed(&disk);
        let mut expected = Contents::from([(vec![7; 200], b"the first".to_vec())]);
        for round in 0..3 {
            for number in 0..PREFIXES * MEMBERS {
                let key = key(order, seed, number % PREFIXES, number / PREFIXES);
                if (number + round) % 5 == 0 {
                    keyspace.delete(&key).unwrap();
                    expected.remove(&key);
                } else {
                    let value = format!("{number} of {round}").into_bytes();
                    keyspace.put(&key, &value).unwrap();
                    expected.insert(key, value);
                }
            }
            if round == 1 {
                keyspace.compact::<&[u8]>(..).unwrap();
            }
        }
        drop((keyspace, db));
        let db = open(&disk);
        let keyspace = db.existing_keyspace("k").unwrap();
        assert_eq!(everything(&keyspace), expected, "{order}");
        for number in 0..PREFIXES * MEMBERS {
            let key = key(order, seed, number % PREFIXES, number / PREFIXES);
            let found = keyspace.get(&key).unwrap();
            assert_eq!(found.as_deref(), expected.get(&key).map(Vec::as_slice));
        }
        let absent = key(order, seed, PREFIXES, MEMBERS);
        assert_eq!(keyspace.get(&absent).unwrap(), None);
        if order == semi_sorted {
            for prefix in 0..=PREFIXES {
                let prefix = chosen(!seed, prefix);
                let of_prefix = expected.iter().filter(|(key, _)| key.starts_with(&prefix));
                let scan = keyspace.scan_prefix(&prefix).unwrap();
                let mut found: Vec<_> = scan.map(Result::unwrap).collect();
                let backward = keyspace.scan_prefix(&prefix).unwrap().rev();
                assert!(backward.map(Result::unwrap).eq(found.iter().rev().cloned()));
                found.sort();
                assert!(
                    found
                        .iter()
                        .map(|(k, v)| (&**k, &**v))
                        .eq(of_prefix.map(|(k, v)| (&**k, &**v)))
                );
            }
        }
        db.verify().unwrap();
    }
}

/// Keys that have one hash without a seed are spread evenly. Chosen keys cannot unbalance anything.
#[test]
fn keys_chosen_against_an_unseeded_hash_are_spread_evenly() {
    const KEYS: u64 = 8000;
    const PARTITIONS: u16 = 4;
    for layout in [
        Layout::hashed().hash(PARTITIONS),
        Layout::semi_sorted(PrefixRule::Bytes(64)).hash(PARTITIONS),
    ] {
        let disk = SimStorage::new(4);
        let db = open(&disk);
        let keyspace = db.keyspace_with("k", layout.clone(), small()).unwrap();
        for number in 0..KEYS {
            keyspace.put(chosen(0, number), b"v").unwrap();
        }
        keyspace.compact::<&[u8]>(..).unwrap();
        let mut of_partition = [0_u64; PARTITIONS as usize];
        // The beginnings of tables, in quarters of all order keys.
        let mut of_quarter = [0_u64; 4];
        for file in files(&disk, "tables") {
            let path = format!("{DIR}/tables/{file}");
            let table = inspect::Table::open(&disk, Path::new(&path)).unwrap();
            let meta = table.facts().unwrap();
            of_partition[meta.partition as usize % of_partition.len()] += meta.entries;
            of_quarter[usize::from(meta.smallest_key[0] >> 6)] += 1;
        }
        // More than twenty standard deviations of the 2000 keys of a partition.
        let even = |count: &u64| (1000..3000).contains(count);
        assert!(
            of_partition.iter().all(even),
            "{layout:?}: {of_partition:?}"
        );
        let tables: u64 = of_quarter.iter().sum();
        assert!(tables > 80, "{tables} tables");
        let even = |count: &u64| (tables / 8..tables / 2).contains(count);
        assert!(of_quarter.iter().all(even), "{layout:?}: {of_quarter:?}");
    }
}
