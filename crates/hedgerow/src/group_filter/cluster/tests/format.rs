use super::*;
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
    let cluster = cluster(9, &[Source::Table(&five), Source::Table(&eight)]);
    assert_bytes(&cluster.pages, &documented_bytes(DOCUMENT, "page"));
    let owner = Owner {
        keyspace: KeyspaceId(1),
        partition: PartitionId(2),
        hash_seed: 0,
    };
    let end = cluster.directory.encode(TableId(9), owner);
    assert_bytes(&end, &documented_bytes(DOCUMENT, "end"));
}
