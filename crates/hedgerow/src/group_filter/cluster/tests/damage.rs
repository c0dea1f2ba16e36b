//! Damaged bytes give errors and no panic.

use super::*;
use crate::group_filter::Owner;

/// Bytes behind a checksum that agrees by accident, or under a fuzzer.
#[test]
fn damaged_pages_are_errors_or_answers() {
    let tables = tables(21);
    let columns: Vec<_> = (0..)
        .zip(&tables)
        .map(|(i, keys)| columns(i, keys, 8.0))
        .collect();
    let sources: Vec<_> = columns[2..].iter().map(Source::Table).collect();
    let whole = cluster(1, &sources);
    let mut next = numbers(22);
    for _ in 0..3000 {
        let pages = whole.pages.as_ref().unwrap();
        let (mut bytes, starts) = (pages.bytes.clone(), pages.starts.clone());
        let columns = pages.columns.clone();
        let page = starts[next() as usize % (starts.len() - 1)] as usize;
        for _ in 0..1 + next() % 4 {
            let within = if next().is_multiple_of(2) {
                64
            } else {
                PAGE_BYTES as u64
            };
            let at = page + (next() % within) as usize;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = next() as u8;
            }
        }
        let damaged = Cluster {
            number: whole.number,
            directory: whole.directory.clone(),
            pages: Some(Pages {
                bytes,
                starts,
                columns,
            }),
        };
        let all: Vec<_> = (0..whole.stripes().len()).collect();
        let marks: Vec<_> = all.iter().copied().map(Some).collect();
        for _ in 0..50 {
            let _ = damaged.ask(hash(next(), next()), None, &marks, |_| ());
        }
        let _ = assemble(
            &[Source::Cluster(&damaged, all)],
            FILE_PAGES,
            no_fetch,
            |_| Ok(1),
        );
    }
}

#[test]
fn damaged_directories_are_errors() {
    let owner = Owner {
        keyspace: KeyspaceId(1),
        partition: PartitionId(2),
        hash_seed: 3,
    };
    let table = keys(&mut numbers(5), 3000, (0, u64::MAX));
    let (whole, _) = paged(9, &[Source::Table(&columns(4, &table, 16.0))], no_fetch);
    let bytes = whole.directory.encode(TableId(9), owner);
    let (directory, tail) = bytes.split_last_chunk::<TAIL_BYTES>().unwrap();
    let read = Tail::decode(tail, TableId(9)).unwrap();
    assert_eq!(read.file_bytes(), whole.pages_bytes() + bytes.len() as u64);
    let decoded = Directory::decode(directory, TableId(9), read).unwrap();
    assert_eq!(decoded, (owner, (*whole.directory).clone()));
    assert!(Tail::decode(tail, TableId(8)).is_err());
    assert!(Directory::decode(directory, TableId(8), read).is_err());
    for bit in 0..TAIL_BYTES * 8 {
        let mut damaged = *tail;
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(Tail::decode(&damaged, TableId(9)).is_err());
    }
    for bit in 0..directory.len() * 8 {
        let mut damaged = directory.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(Directory::decode(&damaged, TableId(9), read).is_err());
    }
    for cut in 0..directory.len() {
        assert!(Directory::decode(&directory[..cut], TableId(9), read).is_err());
    }
}
