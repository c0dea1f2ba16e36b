use super::*;
use crate::group_filter::{Owner, frame};
use crate::table::testing::{assert_bytes, documented_bytes};

const DOCUMENT: &str = include_str!("../../../../../../docs/format/cluster.md");

/// The worked example of `docs/format/cluster.md`.
#[test]
fn the_documented_example_is_what_is_written() {
    let hashes = |names: &[&str]| {
        let mut hashes: Vec<_> = names
            .iter()
            .map(|name| KeyHash::of(name.as_bytes(), 0))
            .collect();
        hashes.sort_by_key(|hash| hash.order());
        hashes
    };
    let five = columns(5, &hashes(&["hawthorn", "blackthorn", "hornbeam"]), 16.0);
    let eight = columns(8, &hashes(&["hawthorn"]), 16.0);
    let sources = [Source::Table(&five), Source::Table(&eight)];
    let mut pages = Vec::new();
    let directory = assemble(&sources, PageEnds::Full, no_fetch, |page| {
        pages.extend(page);
        Ok(1)
    });
    assert_bytes(&pages, &documented_bytes(DOCUMENT, "page"));
    let owner = Owner {
        keyspace: KeyspaceId(1),
        partition: PartitionId(2),
        hash_seed: 0,
    };
    let description = directory.unwrap().encode();
    let place = (TableId(9), PAGE_BYTES as u64);
    let end = frame::encode(stored_cluster::MAGIC, place, owner, &description);
    assert_bytes(&end, &documented_bytes(DOCUMENT, "end"));
}
