//! Damaged bytes give errors and no panic.

use super::*;

/// Some tables, side by side and one in another.
fn some_columns() -> Vec<Columns> {
    let tables = tables(21);
    let columns = (2..)
        .zip(&tables[2..])
        .map(|(i, keys)| columns(i, keys, 8.0));
    columns.collect()
}

/// Changes up to four bytes behind a place: near it, or within a page.
fn damage(bytes: &mut [u8], from: usize, next: &mut impl FnMut() -> u64) {
    for _ in 0..1 + next() % 4 {
        let within = match next().is_multiple_of(2) {
            true => 64,
            false => PAGE_BYTES as u64,
        };
        let at = from + (next() % within) as usize;
        if let Some(byte) = bytes.get_mut(at) {
            *byte = next() as u8;
        }
    }
}

/// Asks a cluster for many keys, and makes another of it.
fn use_all(
    cluster: &Cluster,
    next: &mut impl FnMut() -> u64,
    fetch: impl Fn(PageId) -> Result<Page>,
) {
    let all = cluster.all_stripes();
    let marks: Vec<_> = all.iter().copied().map(Some).collect();
    for _ in 0..50 {
        let hash = hash(next(), next());
        if let Ok(Step::Read(id)) = cluster.probe(hash, None, &marks, |_| ()) {
            let page = fetch(id).unwrap();
            let _ = cluster.probe(hash, Some(&page), &marks, |_| ());
        }
    }
    let all = [Source::Cluster(cluster, all)];
    let _ = assemble(&all, PageEnds::Full, fetch, |_| Ok(1));
}

/// Bytes behind a checksum that agrees by accident, or under a fuzzer.
#[test]
fn damaged_pages_are_errors_or_answers() {
    let columns = some_columns();
    let sources: Vec<_> = columns.iter().map(Source::Table).collect();
    let (whole, bytes) = paged(1, &sources, no_fetch);
    let pages = bytes.len() / PAGE_BYTES;
    let mut next = numbers(22);
    for _ in 0..1000 {
        let mut bytes = bytes.clone();
        let page = next() as usize % pages;
        damage(&mut bytes, page * PAGE_BYTES, &mut next);
        use_all(&whole, &mut next, reads(&bytes));
    }
}

/// The same, where such a page was read into memory.
#[test]
fn damaged_filters_in_memory_are_errors_or_answers() {
    let columns = some_columns();
    let sources: Vec<_> = columns.iter().map(Source::Table).collect();
    let whole = cluster(1, &sources);
    let mut next = numbers(23);
    for _ in 0..1000 {
        let mut resident = whole.resident.clone().unwrap();
        let stretch = next() as usize % (resident.starts.len() - 1);
        let from = resident.starts[stretch] as usize;
        damage(&mut resident.bytes, from, &mut next);
        let damaged = Cluster {
            number: whole.number,
            directory: whole.directory.clone(),
            resident: Some(resident),
        };
        use_all(&damaged, &mut next, no_fetch);
    }
}

#[test]
fn damaged_directories_are_errors_or_directories() {
    let table = keys(&mut numbers(5), 3000, (0, u64::MAX));
    let (whole, _) = paged(9, &[Source::Table(&columns(4, &table, 16.0))], no_fetch);
    let (bytes, pages_bytes) = (whole.directory.encode(), whole.pages_bytes());
    let decoded = Directory::decode(&bytes, pages_bytes).unwrap();
    assert_eq!(decoded, *whole.directory);
    assert!(Directory::decode(&bytes, pages_bytes + PAGE_BYTES as u64).is_err());
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        if let Ok(decoded) = Directory::decode(&damaged, pages_bytes) {
            let again = Directory::decode(&decoded.encode(), pages_bytes);
            assert_eq!(again.unwrap(), decoded);
        }
    }
    for cut in 0..bytes.len() {
        assert!(Directory::decode(&bytes[..cut], pages_bytes).is_err());
    }
}
