//! One script, many designs: what a database answers must not depend on how it stores things.

use hedgerow::io::ReadMode;
use hedgerow::{Compression, CutSpec, Design, FilterSpec, PolicySpec, Residency};

use crate::random::Random;
use crate::setup::{DiskSpec, Setup};

/// Designs by name: each takes one dimension to an end; the last ones are drawn from a seed.
pub fn designs() -> Vec<(String, Design)> {
    let tiny = Setup::tiny(0).design;
    let mut designs = vec![
        ("default".to_owned(), Design::default()),
        ("tiny".to_owned(), tiny),
    ];
    let mut add = |name: &str, change: &dyn Fn(&mut Design)| {
        let mut design = tiny;
        change(&mut design);
        designs.push((name.to_owned(), design));
    };
    for (ratio, cut) in [
        (2, CutSpec::OneTable),
        (2, CutSpec::WholeLevel),
        (4, CutSpec::PartitionedFull),
        (6, CutSpec::WholeLevel),
        (10, CutSpec::OneTable),
        (10, CutSpec::PartitionedFull),
    ] {
        let policy = PolicySpec::Leveling { ratio, cut };
        add(&policy.to_string(), &|design| design.policy = policy);
    }
    for bits_per_key in [1.0, 2.7, 10.0, 32.0] {
        let filter = FilterSpec::Bloom { bits_per_key };
        add(&filter.to_string(), &|design| design.filter = filter);
    }
    for fingerprint_bits in [4, 12, 17] {
        let filter = FilterSpec::Cuckoo { fingerprint_bits };
        add(&filter.to_string(), &|design| design.filter = filter);
    }
    add("no filter", &|design| design.filter = FilterSpec::None);
    add("paged", &|design| design.residency = Residency::Paged);
    add("resident", &|design| design.residency = Residency::Resident);
    add("uncompressed", &|design| {
        design.compression = Compression::None;
    });
    add("large blocks", &|design| {
        design.block_bytes = 64 << 10;
        design.compression = Compression::None;
        design.residency = Residency::Paged;
    });
    add("large memtable", &|design| design.memtable_bytes = None);
    add("large tables", &|design| design.table_bytes = None);
    designs
}

/// The setups that a script is run on; the first is the plainest.
pub fn setups(seed: u64) -> Vec<(String, Setup)> {
    let mut random = Random::new(seed);
    let mut setups = Vec::new();
    for (i, (name, design)) in designs().into_iter().enumerate() {
        let mut setup = Setup::tiny(seed + i as u64);
        setup.design = design;
        setup.partitions = [0, 1, 3, 16][i % 4];
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
        setup.partitions = *random.pick(&[0, 1, 2, 3, 7, 16]);
        setups.push((format!("random {i}"), setup));
    }
    for (name, read_mode) in [
        ("threads", ReadMode::Pread),
        ("threads, mmap", ReadMode::Mmap),
    ] {
        let mut setup = Setup::tiny(seed);
        setup.disk = DiskSpec::Directory;
        setup.read_mode = read_mode;
        setup.partitions = *random.pick(&[0, 3]);
        setups.push((name.to_owned(), setup));
    }
    setups
}

/// Any design, mostly of small parts.
pub fn any_design(random: &mut Random) -> Design {
    let size = |random: &mut Random| match random.below(4) {
        0 => None,
        _ => Some(random.range(4 << 10, 40 << 10)),
    };
    Design {
        policy: PolicySpec::Leveling {
            ratio: random.range(2, 10) as u32,
            cut: *random.pick(&[
                CutSpec::OneTable,
                CutSpec::PartitionedFull,
                CutSpec::WholeLevel,
            ]),
        },
        compression: *random.pick(&[Compression::None, Compression::Lz4]),
        filter: match random.below(4) {
            0 => FilterSpec::None,
            1 => FilterSpec::Cuckoo {
                fingerprint_bits: random.range(4, 24) as u8,
            },
            _ => FilterSpec::Bloom {
                bits_per_key: random.range(10, 160) as f32 / 10.0,
            },
        },
        residency: *random.pick(&[Residency::Auto, Residency::Paged, Residency::Resident]),
        block_bytes: *random.pick(&[512, 700, 1024, 4096]),
        table_bytes: size(random),
        memtable_bytes: size(random),
        ..Design::default()
    }
}
