//! Measurements, not run by default:
//! `cargo test --release -p hedgerow --lib -- --ignored --nocapture --test-threads 1 speed`.

use super::*;
use std::time::Instant;

const TABLES: u64 = 8;
const VALUE_BYTES: usize = 100;

fn key(i: u64) -> [u8; 16] {
    KeyHash::of(&i.to_le_bytes(), 5).0.to_be_bytes()
}

/// All pages of a table, decoded once, as in a warm cache.
struct Cached(std::collections::HashMap<u64, Page>);

impl PageSource for Cached {
    fn page(&self, id: PageId) -> Result<Page> {
        Ok(self.0[&id.handle.offset].clone())
    }
}

#[allow(clippy::disallowed_methods, reason = "this measures real time")]
fn now() -> Instant {
    Instant::now()
}

fn ns(start: Instant, count: u64) -> f64 {
    start.elapsed().as_secs_f64() * 1e9 / count as f64
}

#[test]
#[ignore = "a measurement"]
fn speed() {
    let smoke = std::env::var_os("HEDGEROW_SMOKE").is_some();
    let keys_per_table: u64 = if smoke { 2000 } else { 5_000_000 / TABLES };
    let mut random = Random::new(1);
    let value = random.bytes(VALUE_BYTES as u64, 256);
    let (mut tables, mut keys) = (Vec::new(), Vec::new());
    let (mut file_bytes, mut memory, mut write_ns) = (0, (0, 0), 0.0);
    for table in 0..TABLES {
        let ids = table * keys_per_table..(table + 1) * keys_per_table;
        let mut own: Vec<_> = ids.map(|i| (key(i), i + 1)).collect();
        own.sort();
        let file = MemoryWrite::default();
        let mut options = options(4096);
        options.compression = Compression::None;
        let mut writer = writer(Box::new(file.clone()), Path::new("t"), options);
        let start = now();
        for (key, seqno) in &own {
            let entry = Entry {
                key,
                seqno: SeqNo(*seqno),
                tag: Tag::PUT,
                value: ValueSource::Inline(&value),
            };
            writer.add(&entry, &value, KeyHash::of(key, SEED)).unwrap();
        }
        let (meta, _) = writer.finish(&RangeTombstones::default()).unwrap();
        write_ns += ns(start, keys_per_table * TABLES);
        file_bytes += meta.file_bytes;
        let (table, pages) = open_bytes(file.contents(), RESIDENT).unwrap();
        memory.0 += table.memory_bytes().0;
        memory.1 += table.memory_bytes().1;
        let mut cached = Cached(std::collections::HashMap::new());
        for (key, seqno) in &own {
            let query = Query {
                key,
                hash: KeyHash::of(key, SEED),
                seqno: SeqNo(*seqno),
                is_alone: true,
            };
            let step = table.get(&query, &mut GetState::default(), None).unwrap();
            let Step::Read(id) = step else { panic!() };
            let page = || pages.page(id).unwrap();
            cached.0.entry(id.handle.offset).or_insert_with(page);
        }
        keys.extend(own.iter().map(|(key, _)| (tables.len(), *key)));
        tables.push((table, Arc::new(cached)));
    }
    let count = keys.len() as u64;
    println!(
        "{:.2} bytes of overhead per entry, written in {write_ns:.0} ns",
        file_bytes as f64 / count as f64 - 16.0 - VALUE_BYTES as f64
    );
    println!(
        "index {:.3} and filter {:.2} bytes per key in memory",
        memory.0 as f64 / count as f64,
        memory.1 as f64 / count as f64
    );
    let asked: Vec<_> = (0..count.min(1_000_000))
        .map(|_| keys[random.below(count) as usize])
        .collect();
    measure_gets(&tables, &asked);
    measure_scans(&tables, count);
}

fn measure_gets(tables: &[(Arc<dyn Reader>, Arc<Cached>)], asked: &[(usize, [u8; 16])]) {
    let mut found = 0;
    let (mut pages, mut hashing) = (Vec::new(), Vec::new());
    for (table, key) in asked {
        let query = Query {
            key,
            hash: KeyHash::of(key, SEED),
            seqno: SeqNo::MAX,
            is_alone: true,
        };
        let mut state = GetState::default();
        let Ok(Step::Read(id)) = tables[*table].0.get(&query, &mut state, None) else {
            panic!()
        };
        pages.push(tables[*table].1.page(id).unwrap());
        hashing.push(query.hash);
    }
    for _ in 0..3 {
        let start = now();
        for (i, (table, key)) in asked.iter().enumerate() {
            let query = Query {
                key,
                hash: hashing[i],
                seqno: SeqNo::MAX,
                is_alone: true,
            };
            let mut state = GetState::default();
            let _ = tables[*table].0.get(&query, &mut state, None).unwrap();
            let page = Some(pages[i].clone());
            let step = tables[*table].0.get(&query, &mut state, page).unwrap();
            found += u64::from(matches!(step, Step::Done(Lookup::Found { .. })));
        }
        let each = ns(start, asked.len() as u64);
        println!("{each:.0} ns per get, pages cold in the processor's cache");
    }
    assert_eq!(found, 3 * asked.len() as u64);
    let few = asked.len().min(100);
    let start = now();
    for round in 0..100_000 {
        for (i, (table, key)) in asked[..few].iter().enumerate() {
            let query = Query {
                key,
                hash: hashing[i],
                seqno: SeqNo(SeqNo::MAX.0 - round),
                is_alone: true,
            };
            let mut state = GetState::default();
            let _ = tables[*table].0.get(&query, &mut state, None).unwrap();
            let page = Some(pages[i].clone());
            let _ = tables[*table].0.get(&query, &mut state, page).unwrap();
        }
    }
    println!("{:.0} ns per get, warm", ns(start, 100_000 * few as u64));
    let start = now();
    for (i, (table, key)) in asked.iter().enumerate() {
        let query = Query {
            key,
            hash: KeyHash(hashing[i].0.rotate_left(17)),
            seqno: SeqNo::MAX,
            is_alone: true,
        };
        let mut state = GetState::default();
        let _ = tables[*table].0.get(&query, &mut state, None).unwrap();
    }
    println!("{:.0} ns per miss", ns(start, asked.len() as u64));
}

fn measure_scans(tables: &[(Arc<dyn Reader>, Arc<Cached>)], count: u64) {
    let (mut bytes, mut seen) = (0, 0);
    let start = now();
    for (table, pages) in tables {
        let mut iter = table.clone().iter(pages.clone());
        iter.seek_first().unwrap();
        while let Some(entry) = iter.entry() {
            bytes += entry.key.len() + entry.value.bytes();
            seen += 1;
            iter.advance().unwrap();
        }
    }
    println!("{:.1} ns per entry forwards", ns(start, count));
    let start = now();
    for (table, pages) in tables {
        let mut iter = table.clone().iter(pages.clone());
        iter.seek_last().unwrap();
        while let Some(entry) = iter.entry() {
            bytes += entry.key.len() + entry.value.bytes();
            seen += 1;
            iter.retreat().unwrap();
        }
    }
    println!("{:.1} ns per entry backwards", ns(start, count));
    assert_eq!(seen, 2 * count);
    assert_eq!(bytes as u64, 2 * count * (16 + VALUE_BYTES as u64));
    let start = now();
    let seeks = count.min(100_000);
    for i in 0..seeks {
        let (table, pages) = &tables[i as usize % tables.len()];
        let mut iter = table.clone().iter(pages.clone());
        iter.seek(&key(i * 31), SeqNo::MAX).unwrap();
    }
    println!("{:.0} ns per seek with a new iterator", ns(start, seeks));
}
