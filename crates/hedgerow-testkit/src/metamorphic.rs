//! One script over many designs: the answers of a database must not depend on its storage.

use std::collections::BTreeSet;

use hedgerow::io::ReadMode;
use hedgerow::{
    Compression, CutSpec, Design, FilterSpec, IndexSpec, KeyOrder, LevelSpec, Partitioning,
    PolicySpec, PrefixRule, Residency, TableSpec,
};

use crate::generate;
use crate::ops::Op;
use crate::random::Random;
use crate::setup::{DiskSpec, Setup, suited};

/// The designs by name. Each takes one dimension to an extreme.
pub fn designs() -> Vec<(String, Design)> {
    let tiny = Setup::tiny(0).design;
    let mut designs = vec![
        ("default".to_owned(), Design::default()),
        ("tiny".to_owned(), tiny.clone()),
    ];
    designs.extend(with_policies(&tiny));
    designs.extend(with_filters(&tiny));
    designs.extend(with_indexes(&tiny));
    designs.extend(with_htables(&tiny));
    designs.extend(with_options(&tiny));
    designs.extend(with_clusters(&tiny));
    designs
}

/// A tiny design with a change, and its name.
fn changed(
    tiny: &Design,
    name: impl Into<String>,
    change: impl FnOnce(&mut Design),
) -> (String, Design) {
    let mut design = tiny.clone();
    change(&mut design);
    (name.into(), design)
}

fn with_policies(tiny: &Design) -> impl Iterator<Item = (String, Design)> {
    let leveling = [
        (2.0, CutSpec::OneTable),
        (2.0, CutSpec::WholeLevel),
        (4.0, CutSpec::PartitionedFull),
        (6.0, CutSpec::WholeLevel),
        (10.0, CutSpec::OneTable),
        (10.0, CutSpec::PartitionedFull),
    ];
    let leveling = leveling.map(|(ratio, cut)| PolicySpec::leveling(ratio).cut(cut));
    let all = leveling.into_iter().chain(policies());
    all.map(move |policy| changed(tiny, policy.to_string(), |design| design.policy = policy))
}

fn with_filters(tiny: &Design) -> Vec<(String, Design)> {
    let filter =
        |filter: FilterSpec| changed(tiny, filter.to_string(), |design| design.filter = filter);
    let blooms = [1.0, 2.7, 10.0, 32.0].map(|bits_per_key| FilterSpec::Bloom { bits_per_key });
    let cuckoos = [4, 12, 17].map(|fingerprint_bits| FilterSpec::Cuckoo { fingerprint_bits });
    let mut designs: Vec<_> = blooms.into_iter().chain(cuckoos).map(filter).collect();
    for (fingerprint_bits, unique) in [(4, false), (4, true), (12, false), (12, true)] {
        let filter = FilterSpec::MultiLevelCuckoo {
            fingerprint_bits,
            unique,
        };
        designs.push(changed(
            tiny,
            format!("tiering:3 with {filter}"),
            |design| {
                design.policy = PolicySpec::tiering(3);
                design.filter = filter;
            },
        ));
    }
    let monkeys = [0.2, 2.0, 8.0].map(|bits_per_key| FilterSpec::Monkey {
        bits_per_key: Some(bits_per_key),
    });
    designs.extend(monkeys.map(filter));
    designs
}

fn with_indexes(tiny: &Design) -> [(String, Design); 3] {
    let index = |index: IndexSpec| changed(tiny, index.to_string(), |design| design.index = index);
    [
        index(IndexSpec::ThreeLevel),
        index(IndexSpec::ThreeLevelArray),
        changed(tiny, "an index per level", |design| {
            design.policy = PolicySpec::levels([
                LevelSpec::tiering(2),
                LevelSpec::tiering(3).index(IndexSpec::ThreeLevelArray),
                LevelSpec::leveling(3.0).index(IndexSpec::ThreeLevel),
                LevelSpec::leveling(4.0).index(IndexSpec::Fence),
            ]);
        }),
    ]
}

fn with_htables(tiny: &Design) -> [(String, Design); 3] {
    [
        changed(tiny, "htable", |design| {
            design.table = TableSpec::HTable;
            design.filter = FilterSpec::Bloom { bits_per_key: 16.0 };
            design.compression = Compression::None;
        }),
        changed(tiny, "htables of a trie, paged", |design| {
            design.policy = PolicySpec::Trie { fan_out: 4 };
            design.table = TableSpec::HTable;
            design.block_bytes = 512;
            design.residency = Residency::Paged;
        }),
        changed(tiny, "htables with a shared filter", |design| {
            design.policy = PolicySpec::tiering(3);
            design.table = TableSpec::HTable;
            design.block_bytes = 1024;
            design.filter = FilterSpec::MultiLevelCuckoo {
                fingerprint_bits: 8,
                unique: false,
            };
        }),
    ]
}

/// Designs with other filters, memory, compression or sizes.
fn with_options(tiny: &Design) -> [(String, Design); 7] {
    let with = |name: &str, change: &dyn Fn(&mut Design)| changed(tiny, name, change);
    [
        with("no filter", &|design| design.filter = FilterSpec::None),
        with("paged", &|design| design.residency = Residency::Paged),
        with("resident", &|design| {
            design.residency = Residency::Resident;
        }),
        with("uncompressed", &|design| {
            design.compression = Compression::None;
        }),
        with("large blocks", &|design| {
            design.block_bytes = 64 << 10;
            design.compression = Compression::None;
            design.residency = Residency::Paged;
        }),
        with("large memtable", &|design| design.memtable_bytes = None),
        with("large tables", &|design| design.table_bytes = None),
    ]
}

/// Designs with clusters of filters, in memory and not, of nodes and of whole levels.
fn with_clusters(tiny: &Design) -> [(String, Design); 4] {
    [
        (PolicySpec::trie(4), 1.0, Residency::Paged),
        (PolicySpec::trie(8), 16.0, Residency::Auto),
        (PolicySpec::tiering(3), 7.3, Residency::Paged),
        (PolicySpec::trie(4), 16.0, Residency::Resident),
    ]
    .map(|(policy, bits_per_key, residency)| {
        let filter = FilterSpec::Cluster { bits_per_key };
        let name = format!("{policy} with {filter}, {residency:?}");
        let design = Design {
            policy,
            filter,
            residency,
            ..tiny.clone()
        };
        (name, design)
    })
}

/// The orders that take every key of scripts; the semi-sorted one all but the empty key.
pub const ORDERS: [KeyOrder; 3] = [
    KeyOrder::Sorted,
    KeyOrder::Hashed,
    KeyOrder::SemiSorted(PrefixRule::Bytes(1)),
];

/// Every other script has the empty key, and runs on the orders that take it.
fn has_empty_key(seed: u64) -> bool {
    seed.is_multiple_of(2)
}

/// The script of a seed.
pub fn script(seed: u64) -> Vec<Op> {
    generate::script(seed.wrapping_add(1 << 32), has_empty_key(seed))
}

/// A seed runs on one in `TURNS` designs, so that all have their turn.
const TURNS: usize = 3;

/// The setups of a script. The first is the plainest.
pub fn setups(seed: u64) -> Vec<(String, Setup)> {
    let mut random = Random::new(seed);
    let orders = &ORDERS[..if has_empty_key(seed) { 2 } else { 3 }];
    let mut setups = Vec::new();
    for (i, (name, design)) in designs().into_iter().enumerate() {
        if i > 0 && i % TURNS != seed as usize % TURNS {
            continue;
        }
        let mut setup = Setup::tiny(seed + i as u64);
        setup.design = design;
        setup.order = orders[i % orders.len() * usize::from(random.one_in(2))];
        if setup.design.check_order(setup.order).is_err() {
            let suits = |order: &KeyOrder| setup.design.check_order(*order).is_ok();
            let suited: Vec<KeyOrder> = orders.iter().copied().filter(suits).collect();
            setup.order = *random.pick(&suited);
        }
        if i > 0 {
            setup.partitioning = any_partitioning(&mut random, setup.order);
            setup.workers = any_workers(&mut random);
        }
        if random.one_in(3) {
            setup.budget_bytes = *random.pick(&[4 << 20, 64 << 20]);
        }
        if random.one_in(4) {
            setup.segment_bytes = None;
            setup.log_bytes_max = None;
        }
        setups.push((name, setup));
    }
    for i in 0..4 {
        let mut setup = Setup::tiny(seed.wrapping_mul(31) + i);
        setup.design = any_design(&mut random);
        setup.order = *random.pick(orders);
        setup.partitioning = any_partitioning(&mut random, setup.order);
        setup.workers = any_workers(&mut random);
        setup.design = suited(setup.design, setup.order);
        if i == 0 {
            setup.tune_itself();
        }
        setups.push((format!("random {i}"), setup));
    }
    for (name, read_mode) in [
        ("threads", ReadMode::Pread),
        ("threads, mmap", ReadMode::Mmap),
        ("threads, direct", ReadMode::Direct),
    ] {
        let mut setup = Setup::tiny(seed);
        setup.disk = DiskSpec::Directory;
        setup.read_mode = read_mode;
        setup.order = *random.pick(orders);
        setup.partitioning = any_partitioning(&mut random, setup.order);
        setup.workers = any_workers(&mut random);
        setups.push((name.to_owned(), setup));
    }
    setups
}

/// Draws a division of a keyspace of this order, mostly into 1 to 8 trees.
pub fn any_partitioning(random: &mut Random, order: KeyOrder) -> Partitioning {
    match random.below(4) {
        0 => Partitioning::Single,
        1 if order == KeyOrder::Sorted => by_range(random),
        1 | 2 => Partitioning::Hash(random.range(1, 8) as u16),
        _ => Partitioning::Hash(*random.pick(&[2, 3, 16])),
    }
}

/// Draws synchronous calls, or asynchronous ones with 0 to 3 workers.
pub fn any_workers(random: &mut Random) -> Option<usize> {
    *random.pick(&[None, None, Some(0), Some(1), Some(2), Some(3)])
}

/// Draws a division at one to seven of the keys that scripts write.
fn by_range(random: &mut Random) -> Partitioning {
    let keys = (0..random.range(1, 8)).map(|_| generate::key(random.below(150)).bytes());
    let splits: BTreeSet<_> = keys.filter(|key| (1..=1024).contains(&key.len())).collect();
    Partitioning::range(splits)
}

/// One policy of each kind beside leveling.
fn policies() -> [PolicySpec; 13] {
    let paged = FilterSpec::Bloom { bits_per_key: 14.0 };
    let shared = |unique| FilterSpec::MultiLevelCuckoo {
        fingerprint_bits: 9,
        unique,
    };
    [
        PolicySpec::tiering(3),
        PolicySpec::tiering(16),
        PolicySpec::garnering(2.0, 0.6),
        PolicySpec::lazy_leveling(3),
        PolicySpec::front_loaded(3.0),
        PolicySpec::bush(2.0),
        PolicySpec::garnering_paper(2.0, 0.8),
        PolicySpec::trie(4),
        PolicySpec::trie(8),
        PolicySpec::slimdb(),
        PolicySpec::levels([
            LevelSpec::tiering(2),
            LevelSpec::tiering(3).filter(paged),
            LevelSpec::fluid(2, 5.0).filter(FilterSpec::None),
            LevelSpec::leveling(4.0),
        ]),
        PolicySpec::levels([LevelSpec::tiering(3), LevelSpec::tiering(4)]),
        PolicySpec::levels([
            LevelSpec::tiering(4).filter(shared(false)),
            LevelSpec::tiering(3).filter(shared(true)),
            LevelSpec::leveling(4.0),
        ]),
    ]
}

fn any_policy(random: &mut Random) -> PolicySpec {
    let ratio = random.range(20, 100) as f64 / 10.0;
    let scaling = random.range(1, 10) as f64 / 10.0;
    let runs = random.range(2, 8) as u32;
    let cut = *random.pick(&[
        CutSpec::Auto,
        CutSpec::OneTable,
        CutSpec::PartitionedFull,
        CutSpec::WholeLevel,
    ]);
    match random.below(9) {
        0 => PolicySpec::leveling(ratio).cut(cut),
        1 => PolicySpec::tiering(runs),
        2 => PolicySpec::garnering(ratio, scaling).cut(cut),
        3 => PolicySpec::lazy_leveling(runs),
        4 => PolicySpec::front_loaded(ratio),
        5 => PolicySpec::bush(ratio),
        6 => PolicySpec::garnering_paper(ratio, scaling),
        7 => PolicySpec::trie(random.range(4, 16) as u32),
        _ => {
            let level = |random: &mut Random| {
                let runs = random.range(1, 5) as u32;
                let ratio = f64::from(runs.max(2)) * random.range(10, 40) as f64 / 10.0;
                LevelSpec::fluid(runs, ratio).cut(cut)
            };
            let count = random.range(2, 7);
            PolicySpec::levels((0..count).map(|_| level(random)).collect::<Vec<_>>())
        }
    }
}

/// Draws a design, mostly of small parts.
pub fn any_design(random: &mut Random) -> Design {
    let size = |random: &mut Random| match random.below(4) {
        0 => None,
        _ => Some(random.range(4 << 10, 40 << 10)),
    };
    let indexes = [
        IndexSpec::Fence,
        IndexSpec::ThreeLevel,
        IndexSpec::ThreeLevelArray,
    ];
    let (table, index) = match random.one_in(3) {
        true => (TableSpec::HTable, IndexSpec::Fence),
        false => (TableSpec::BlockBased, *random.pick(&indexes)),
    };
    Design {
        policy: any_policy(random),
        compression: *random.pick(&[Compression::None, Compression::Lz4]),
        table,
        index,
        filter: match random.below(7) {
            0 => FilterSpec::None,
            1 => FilterSpec::Cuckoo {
                fingerprint_bits: random.range(4, 24) as u8,
            },
            2 => FilterSpec::MultiLevelCuckoo {
                fingerprint_bits: random.range(4, 24) as u8,
                unique: random.one_in(2),
            },
            3 => FilterSpec::Monkey {
                bits_per_key: random
                    .one_in(2)
                    .then_some(random.range(1, 100) as f32 / 10.0),
            },
            4 => FilterSpec::Cluster {
                bits_per_key: random.range(10, 320) as f32 / 10.0,
            },
            _ => FilterSpec::Bloom {
                bits_per_key: random.range(10, 160) as f32 / 10.0,
            },
        },
        residency: *random.pick(&[Residency::Auto, Residency::Paged, Residency::Resident]),
        block_bytes: *random.pick(&[512, 700, 1024, 4096]),
        table_bytes: size(random),
        memtable_bytes: size(random),
    }
}
