//! Visits: the entries of one call are those that steps find, and the cursor is where the visit
//! ended.

use std::time::Duration;

use hedgerow::io::sim::SimStorage;
use hedgerow::{Cursor, Db, ErrorKind, Expiry, Keyspace, Layout, PrefixRule, Scan, Slice};

use crate::asynchronous::steps;
use crate::support::{contents_unordered, key, open, plain, small, value};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn here(cursor: &Cursor) -> Option<(Vec<u8>, Vec<u8>)> {
    let key = cursor.key()?.to_vec();
    Some((key, cursor.value().unwrap()?.to_vec()))
}

fn by_steps(cursor: &mut Cursor) -> Entries {
    let mut entries = Vec::new();
    let mut goes_on = cursor.seek_first().unwrap();
    while goes_on {
        entries.extend(here(cursor));
        goes_on = cursor.next().unwrap();
    }
    entries
}

/// Visits that are refused at random, with steps between them.
fn by_visits(cursor: &mut Cursor, random: &mut impl FnMut(u64) -> u64) -> Entries {
    let mut entries = Vec::new();
    let mut goes_on = cursor.seek_first().unwrap();
    while goes_on {
        let lengths = [1, 5, 40, 1000];
        let length = lengths[random(4) as usize];
        let mut left = random(length);
        let mut refused = None;
        goes_on = cursor
            .visit(|key, value| {
                let entry = (key.to_vec(), value.to_vec());
                if left == 0 {
                    refused = Some(entry);
                    return false;
                }
                left -= 1;
                entries.push(entry);
                true
            })
            .unwrap();
        assert_eq!(goes_on, refused.is_some());
        assert_eq!(here(cursor), refused, "the cursor is on the refused entry");
        if goes_on && random(3) == 0 {
            entries.extend(refused.clone());
            goes_on = cursor.next().unwrap();
            if goes_on && random(2) == 0 {
                assert!(cursor.prev().unwrap());
                assert_eq!(here(cursor), refused);
                entries.pop();
            }
        }
    }
    assert_eq!(here(cursor), None);
    entries
}

fn change(keyspace: &Keyspace, random: &mut impl FnMut(u64) -> u64) {
    let (i, long) = (random(1500), vec![7; 1500]);
    let (name, hour) = (key(i), Expiry::In(Duration::from_secs(3600)));
    match random(100) {
        0..60 => keyspace.put(name, value(random(1000))).unwrap(),
        60..65 => keyspace.put(name, long).unwrap(),
        65..75 => keyspace.delete(name).unwrap(),
        75..80 => keyspace.put_expiring(name, value(i), hour).unwrap(),
        80..98 => keyspace.merge(name, "+").unwrap(),
        98 => keyspace.delete_range(name..key(i + 20)).unwrap(),
        _ if random(8) > 0 => {}
        _ if random(2) == 0 => keyspace.flush().unwrap(),
        _ => keyspace.compact::<&[u8]>(..).unwrap(),
    }
}

fn compare(db: &Db, layout: Layout, seed: u64) {
    let name = format!("{layout}");
    let keyspace = db.keyspace_with(&name, layout, small()).unwrap();
    let random = &mut steps(seed);
    let mut snapshot = db.snapshot().unwrap();
    for round in 0..4 {
        for _ in 0..700 {
            change(&keyspace, random);
        }
        for mut open in [
            Box::new(|| keyspace.cursor().unwrap()) as Box<dyn FnMut() -> Cursor>,
            Box::new(|| snapshot.cursor(&keyspace).unwrap()),
        ] {
            let expected = by_steps(&mut open());
            let found = by_visits(&mut open(), random);
            assert_eq!(found, expected, "seed {seed}, round {round}, {name}");
        }
        snapshot = db.snapshot().unwrap();
    }
    assert!(by_steps(&mut keyspace.cursor().unwrap()).len() > 500);
}

#[test]
fn a_visit_sees_the_entries_that_steps_find() {
    let one: Option<u64> = std::env::var("HEDGEROW_SEED")
        .ok()
        .map(|seed| seed.parse().unwrap());
    for seed in one.map_or(1..4, |seed| seed..seed + 1) {
        let disk = SimStorage::new(seed);
        let db = open(&disk);
        let ranges = Layout::sorted().range([key(400), key(900)]);
        for layout in [Layout::sorted(), Layout::sorted().hash(2), ranges] {
            compare(&db, layout.merge_operator("append"), seed);
        }
        db.close().unwrap();
    }
}

#[test]
fn a_visit_ends_when_the_database_is_closed() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = plain(&db);
    for i in 0..2000 {
        keyspace.put(key(i), value(i)).unwrap();
    }
    let mut cursor = keyspace.cursor().unwrap();
    assert!(cursor.seek_first().unwrap());
    let (mut db, mut seen) = (Some(db), 0);
    let ended = cursor.visit(|_, _| {
        seen += 1;
        if seen == 100 {
            db.take().unwrap().close().unwrap();
        }
        true
    });
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Closed);
    assert!((100..2000).contains(&seen), "{seen} entries were seen");
    assert_eq!(cursor.key(), None);
    assert!(!cursor.visit(|_, _| panic!("there is no position")).unwrap());
}

/// Takes all entries of a scan by its iterators and by visits.
fn from_both_ends(scan: &mut Scan, random: &mut impl FnMut(u64) -> u64) -> Entries {
    let (mut front, mut back) = (Entries::new(), Entries::new());
    let owned = |(key, value): (Slice, Slice)| (key.to_vec(), value.to_vec());
    loop {
        let goes_on = match random(4) {
            0 => scan
                .next()
                .map(|it| front.push(owned(it.unwrap())))
                .is_some(),
            1 => scan
                .next_back()
                .map(|it| back.push(owned(it.unwrap())))
                .is_some(),
            _ => {
                let (mut left, before) = (random(30) + 1, front.len());
                let goes_on = scan
                    .visit(|key, value| {
                        front.push((key.to_vec(), value.to_vec()));
                        left -= 1;
                        left > 0
                    })
                    .unwrap();
                assert_eq!(goes_on, left == 0, "it took {}", front.len() - before);
                goes_on
            }
        };
        if !goes_on {
            break;
        }
    }
    assert!(scan.next().is_none() && scan.next_back().is_none());
    assert!(!scan.visit(|_, _| panic!("the scan is over")).unwrap());
    front.extend(back.into_iter().rev());
    front
}

#[test]
fn a_visit_of_a_scan_stays_within_its_range() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let semi_sorted = Layout::semi_sorted(PrefixRule::Bytes(5));
    for layout in [Layout::sorted(), semi_sorted] {
        let is_sorted = layout == Layout::sorted();
        let name = format!("{layout}");
        let keyspace = db.keyspace_with(&name, layout, small()).unwrap();
        let random = &mut steps(7);
        for _ in 0..1500 {
            // Keys of ten prefixes, which a semi-sorted keyspace has in the order of their hashes.
            let name = format!("{:05}{:03}", random(10), random(1000));
            keyspace.put(name, value(random(1000))).unwrap();
        }
        keyspace.flush().unwrap();
        let all: Entries = contents_unordered(&keyspace).into_iter().collect();
        for _ in 0..40 {
            let prefix = format!("{:05}", random(11));
            let expected: Entries = all
                .iter()
                .filter(|(key, _)| key.starts_with(prefix.as_bytes()))
                .cloned()
                .collect();
            let mut found = from_both_ends(&mut keyspace.scan_prefix(&prefix).unwrap(), random);
            // The keys of a prefix have an order of their own if it is not that of bytes.
            if !is_sorted {
                found.sort();
            }
            assert_eq!(found, expected, "{name}, prefix {prefix}");
            if !is_sorted {
                continue;
            }
            let bounds = (random(all.len() as u64), random(all.len() as u64));
            let (from, to) = (bounds.0.min(bounds.1), bounds.0.max(bounds.1));
            let range = all[from as usize].0.clone()..all[to as usize].0.clone();
            let found = from_both_ends(&mut keyspace.scan(range).unwrap(), random);
            assert_eq!(found, all[from as usize..to as usize], "{from}..{to}");
        }
    }
}
