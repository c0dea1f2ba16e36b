//! Rules that hold for any tree.

use crate::base::options::{Design, FilterSpec, KeyOrder, PolicySpec, TableSpec};
use crate::design::advisor::{
    Advice, Capacities, Constraints, Device, Filter, Geometry, Index, Level, Merges, Mix,
    TreeModel, Workload, advise, expect,
};

fn filtered(entries: f64, false_positives: f64) -> Level {
    Level {
        entries,
        runs: 1,
        writes: 1.0,
        filter: Filter::Bloom,
        false_positives,
        versions: 1.0,
        index: Index::Fence,
        cached: 0.0,
    }
}

/// The sum of the rates of filters with `bits` per entry on average, divided in the best way over
/// runs of these sizes: the runs' entropy gives it.
fn false_positives(runs: &[f64], bits: f64) -> f64 {
    let all: f64 = runs.iter().sum();
    let entropy: f64 = runs.iter().map(|run| -run / all * (run / all).ln()).sum();
    (entropy - bits * std::f64::consts::LN_2.powi(2)).exp()
}

/// The closed form against rates proportional to sizes (the condition for a minimum) at the same
/// memory.
#[test]
fn the_best_division_of_filter_bits_has_the_closed_form() {
    for sizes in [
        &[1.0, 10.0, 100.0, 1000.0][..],
        &[1.0, 6.0, 30.0, 120.0, 360.0, 720.0],
        &[5.0, 5.0, 5.0, 5.0, 50.0, 50.0, 50.0, 500.0],
    ] {
        let all: f64 = sizes.iter().sum();
        for scale in [1e-2, 1e-3, 1e-4] {
            let levels: Vec<Level> = sizes
                .iter()
                .map(|it| filtered(*it, scale * it / all))
                .collect();
            let bits: f64 = levels.iter().map(|it| it.entries * it.filter_bits()).sum();
            let rates: f64 = levels.iter().map(|it| it.false_positives).sum();
            let closed = false_positives(sizes, bits / all);
            assert!((rates / closed - 1.0).abs() < 1e-9, "{rates} {closed}");
        }
    }
}

#[test]
fn the_search_divides_filter_bits_by_the_closed_form() {
    let workload = Workload::new("miss=1".parse().unwrap(), 1e8);
    let device = Device {
        seek_us: 0.0,
        probe_us: 0.0,
        ..Device::nvme()
    };
    let constraints = Constraints {
        runs_max: 1,
        geometries: vec![Geometry::Uniform],
        indexes: vec![Index::Paged],
        level0_runs: vec![1],
        ..Constraints::new(68 << 20)
    };
    let found = advise(&workload, &device, &constraints).unwrap();
    let three = found.iter().find(|it| it.tree.levels.len() == 3).unwrap();
    let sizes: Vec<f64> = three.tree.levels.iter().map(|it| it.entries).collect();
    let bits = three.prediction.memory.filters * 8.0 / sizes.iter().sum::<f64>();
    let rates: f64 = three.tree.levels.iter().map(|it| it.false_positives).sum();
    assert!(
        (rates / false_positives(&sizes, bits) - 1.0).abs() < 0.001,
        "{three:?}"
    );
}

#[test]
fn reading_alone_wants_one_run() {
    let workload = Workload::new("get=0.95,miss=0.05".parse().unwrap(), 1e8);
    for mib in [256, 512, 1024] {
        let found = advise(&workload, &Device::nvme(), &Constraints::new(mib << 20)).unwrap();
        assert_eq!(found[0].tree.levels.len(), 1, "{:?}", found[0]);
        assert_eq!(found[0].tree.levels[0].runs, 1);
    }
}

#[test]
fn writing_wants_runs_and_little_space_takes_them_from_the_last_level() {
    let workload = Workload::new("put=0.95,get=0.04,miss=0.01".parse().unwrap(), 1e8);
    let within = |space_max| {
        let constraints = Constraints {
            space_max,
            ..Constraints::new(512 << 20)
        };
        advise(&workload, &Device::nvme(), &constraints)
            .unwrap()
            .remove(0)
    };
    let loose = within(10.0);
    assert!(loose.tree.levels.iter().all(|level| level.runs > 1));
    assert!(
        (3.0..5.0).contains(&loose.prediction.entry_writes),
        "{loose:?}"
    );
    let tight = within(1.5);
    assert_eq!(tight.tree.levels.last().unwrap().runs, 1);
    assert!(tight.tree.levels[0].runs > 1);
    assert!(tight.prediction.space <= 1.5);
    assert!(tight.prediction.cost_us > loose.prediction.cost_us);
}

/// A level of a tenth of the last one holds an operand of every tenth key, a lookup more each.
#[test]
fn a_get_looks_up_the_operands_above_its_value() {
    let mut workload = Workload::new("get=1,put=1".parse().unwrap(), 1.1e8);
    let device = Device::nvme();
    let tree = TreeModel {
        level0_runs: 4.0,
        levels: vec![filtered(1e7, 0.01), filtered(1e8, 0.01)],
        memtables_bytes: 0.0,
    };
    let puts = tree.predict(&workload, &device);
    workload.operands = 1.0;
    let operands = tree.predict(&workload, &device);
    assert!((operands.hit_reads / puts.hit_reads - 1.1).abs() < 1e-9);
    assert!((operands.miss_us, operands.put_us) == (puts.miss_us, puts.put_us));
    let more = 0.5 * 0.1 * puts.hit_us;
    let off = (operands.cost_us - puts.cost_us) / more - 1.0;
    assert!(off.abs() < 0.01, "{off}");
}

/// No entry is stored twice if no key is written twice.
#[test]
fn space_counts_overwrites_only() {
    let mut workload = Workload::new("put=1".parse().unwrap(), 1e8);
    workload.overwrites = 0.0;
    let constraints = Constraints {
        space_max: 1.0,
        ..Constraints::new(256 << 20)
    };
    let best = advise(&workload, &Device::nvme(), &constraints)
        .unwrap()
        .remove(0);
    assert!((best.prediction.space - 1.0).abs() < 1e-12);
    assert!(best.tree.levels.last().unwrap().runs > 1);
}

#[test]
fn more_memory_never_costs_more() {
    for mix in [
        "get=1",
        "miss=1",
        "scan=1",
        "put=1",
        "get=0.3,miss=0.1,scan=0.1,put=0.5",
    ] {
        let workload = Workload::new(mix.parse().unwrap(), 3e7);
        let mut last = f64::INFINITY;
        for mib in (5..13).map(|bits| 1_u64 << bits) {
            // A fixed memtable: one that changes with the budget would make other depths possible.
            let constraints = Constraints {
                memtable_bytes: Some(f64::from(4 << 20)),
                ..Constraints::new(mib << 20)
            };
            let best = &advise(&workload, &Device::nvme(), &constraints).unwrap()[0];
            let cost = best.prediction.cost_us;
            assert!(
                cost <= last * 1.002,
                "{mix} at {mib} MiB: {cost} after {last}"
            );
            last = cost;
        }
    }
}

/// Writes of the best leveled geometry for each number of levels, with 10^9 entries and one or four
/// runs of level 0 merged at a time (the reference's check 3).
#[test]
fn writes_of_leveled_geometries() {
    let memtable = f64::from(64 << 20) / 116.0;
    let writes = |geometry: Geometry, levels: usize, level0_runs: f64| {
        let capacities = Capacities::solve(geometry, levels, level0_runs, 1e9, memtable).unwrap();
        let first = (capacities.ratios[0] / level0_runs + 1.0) / 2.0;
        let others = capacities.ratios[1..]
            .iter()
            .map(|ratio| (ratio + 1.0) / 2.0);
        first + others.sum::<f64>()
    };
    let garnering = |scaling| Geometry::Garnering { scaling };
    for (geometry, levels, level0_runs, expected) in [
        (Geometry::Uniform, 2, 1.0, 42.1),
        (Geometry::Uniform, 4, 1.0, 14.3),
        (Geometry::Uniform, 8, 1.0, 13.5),
        (garnering(0.95), 6, 1.0, 12.7),
        (Geometry::Uniform, 3, 4.0, 14.6),
        (Geometry::FrontLoaded, 3, 4.0, 12.3),
        (garnering(0.4), 3, 4.0, 12.8),
        (Geometry::FrontLoaded, 4, 4.0, 10.5),
        (garnering(0.6), 4, 4.0, 11.0),
    ] {
        let found = writes(geometry, levels, level0_runs);
        assert!(
            (found - expected).abs() < 0.051,
            "{geometry:?} {levels}: {found}"
        );
    }
}

/// A put costs its writes, a hit one read, a miss the false positives.
#[test]
fn one_level_by_hand() {
    let workload = Workload::new("get=1".parse().unwrap(), 1e6);
    let device = Device::nvme();
    let tree = TreeModel {
        level0_runs: 1.0,
        levels: vec![Level {
            runs: 3,
            writes: Merges::Full.writes(9.0, 3),
            versions: 3.0,
            cached: 0.5,
            ..filtered(1e6, 0.01)
        }],
        memtables_bytes: 1e6,
    };
    let found = tree.predict(&workload, &device);
    let visit = 0.5 * 90.0 + 0.9;
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
    near(found.miss_reads, 2.0 * 0.01 * 0.5);
    near(found.hit_reads, (1.0 + 0.005) * 0.5);
    near(found.seek_reads, 1.0);
    near(found.miss_us, 0.04 + 2.0 * 0.08 + 0.02 * visit);
    near(found.hit_us, 0.04 + 1.5 * 0.08 + 1.005 * visit);
    // Three runs arrive for each of three.
    near(found.entry_writes, 1.0 + (3.0 + 1.0) / 2.0);
    near(found.space, 3.0);
    near(found.memory.cached, 0.5 * 116e6);
    near(
        found.memory.filters,
        1e6 / 8.0 * 100_f64.ln() / std::f64::consts::LN_2.powi(2),
    );
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    for text in ["get", "get=x", "get=-1", "get=0,put=0", "swim=1", ""] {
        assert!(text.parse::<Mix>().is_err(), "{text}");
    }
    let mut workload = Workload::new("get=1".parse().unwrap(), 1e6);
    workload.entries = f64::NAN;
    let found = advise(&workload, &Device::nvme(), &Constraints::new(1 << 20));
    let error = found.unwrap_err().to_string();
    assert!(error.contains("expected entries of 1 to"), "{error}");
}

/// A budget without room for memtables has no tree. A small store in a large memory has one.
#[test]
fn what_does_not_fit_has_no_tree() {
    let workload = Workload::new("get=1".parse().unwrap(), 1e8);
    let none = advise(&workload, &Device::nvme(), &Constraints::new(1 << 20)).unwrap();
    assert!(none.is_empty());
    let small = Workload::new("get=1".parse().unwrap(), 1e6);
    let some = advise(&small, &Device::nvme(), &Constraints::new(1 << 30)).unwrap();
    assert!(some[0].prediction.hit_reads < 1e-9, "{:?}", some[0]);
}

/// With SlimDB's structures some store mixes them and is cheaper than without.
#[test]
fn semi_sorted_keys_get_the_designs_of_slimdb() {
    let order: KeyOrder = "semi-sorted:8".parse().unwrap();
    let mut shared = 0;
    for (mix, mib) in [
        ("miss=0.5,put=0.5", 128),
        ("miss=0.5,put=0.5", 256),
        ("get=0.5,put=0.5", 128),
        ("get=0.5,put=0.5", 256),
        ("get=0.5,miss=0.25,put=0.25", 256),
    ] {
        let workload = Workload::new(mix.parse().unwrap(), 1e8);
        let best = |constraints: Constraints| {
            let constraints = Constraints {
                space_max: 10.0,
                ..constraints
            };
            advise(&workload, &Device::preset("ssd").unwrap(), &constraints)
                .unwrap()
                .remove(0)
        };
        let plain = best(Constraints::new(mib << 20));
        let with = best(Constraints::new(mib << 20).of_order(order));
        println!(
            "{mix}, {mib} MiB: {} {:.2} | {} {:.2}",
            plain.tree, plain.prediction.cost_us, with.tree, with.prediction.cost_us
        );
        assert!(with.prediction.cost_us <= plain.prediction.cost_us * 1.001);
        let design = with.design(&Device::nvme());
        design.check_order(order).unwrap();
        assert!(
            with.tree
                .levels
                .iter()
                .any(|level| level.index == Index::ThreeLevel)
        );
        shared += { with.tree.levels.iter() }
            .filter(|level| level.filter == Filter::MultiLevelCuckoo)
            .count();
        // The expected tree of the design is the tree that the search found.
        let expected = expect(&design, &workload, &Device::nvme(), mib << 20).unwrap();
        let all_three_level = with
            .tree
            .levels
            .iter()
            .all(|it| it.index == Index::ThreeLevel);
        let indexes = expected.tree.levels.iter();
        assert!(!all_three_level || indexes.clone().all(|it| it.index == Index::ThreeLevel));
    }
    // The last store mixes them.
    assert!(shared > 0);
}

/// A very large set of small records with far more writes than reads, and memory for a small part
/// of the filters: LSM-trie is advised, but only for hashed keys.
#[test]
fn hashed_keys_get_the_design_of_lsm_trie() {
    let workload = Workload {
        overwrites: 0.0,
        ..Workload::new("put=1".parse().unwrap(), 1e10)
    };
    let device = Device::nvme();
    let memory = 4_u64 << 30;
    let best = |order| {
        let constraints = Constraints::new(memory).of_order(order);
        advise(&workload, &device, &constraints).unwrap().remove(0)
    };
    let sorted = best(KeyOrder::Sorted);
    let trie = best(KeyOrder::Hashed);
    println!(
        "{} {:.2} | {} {:.2}",
        sorted.tree, sorted.prediction.cost_us, trie.tree, trie.prediction.cost_us
    );
    assert!(trie.prediction.cost_us < sorted.prediction.cost_us);
    assert!(trie.prediction.memory.total() <= memory as f64);
    let design = trie.design(&device);
    design.check_order(KeyOrder::Hashed).unwrap();
    assert!(matches!(design.policy, PolicySpec::Trie { .. }), "{design}");
    assert_eq!(design.table, TableSpec::HTable);
    assert!(
        matches!(design.filter, FilterSpec::Cluster { .. }),
        "{design}"
    );
    // The expected tree of the design is the tree that the search found.
    let expected = expect(&design, &workload, &device, memory).unwrap();
    assert_eq!(expected.tree, trie.tree);
    assert!(
        expected
            .tree
            .levels
            .iter()
            .all(|level| level.index == Index::Marks)
    );
    // One page of filters for all runs of each of the last two levels, and the bucket. Other
    // designs probe dozens of runs.
    let reads = |advice: &Advice| advice.prediction.hit_reads;
    assert!((1.0..4.0).contains(&reads(&trie)), "{}", reads(&trie));
    assert!(reads(&sorted) > 4.0 * reads(&trie), "{}", reads(&sorted));
}

/// As memory shrinks, the last level's filters leave it: first all but those of the newest runs,
/// then these, too. Each step costs a get one page more.
#[test]
fn clusters_leave_the_memory_one_part_after_the_other() {
    let workload = Workload::new("get=1".parse().unwrap(), 1e9);
    let design = Design {
        policy: PolicySpec::trie(8),
        table: TableSpec::HTable,
        filter: "cluster:16".parse().unwrap(),
        memtable_bytes: Some(4 << 20),
        ..Design::default()
    };
    let last = |memory: u64| {
        let tree = expect(&design, &workload, &Device::nvme(), memory)
            .unwrap()
            .tree;
        let reads = tree.predict(&workload, &Device::nvme()).hit_reads;
        (tree.levels.last().unwrap().filter, reads)
    };
    let all = [32 << 30, 2 << 30, 128 << 20].map(last);
    println!("{all:?}");
    let filters = all.map(|it| it.0);
    assert_eq!(
        filters,
        [Filter::Bloom, Filter::Cluster, Filter::PagedCluster]
    );
    assert!(all[0].1 < all[1].1 && all[1].1 + 0.5 < all[2].1, "{all:?}");
}

/// Levels with equally many reads per byte keep equal parts in a page cache. False positives of
/// weak filters read small levels more, which keep more. Together the levels fill the memory that
/// is left.
#[test]
fn a_cache_keeps_what_is_asked_for_most() {
    let workload = Workload::new("get=1".parse().unwrap(), 1e7);
    let memory = 256 << 20;
    let cached = |filter: &str| -> Vec<f64> {
        let design = Design {
            policy: "leveling:10".parse().unwrap(),
            filter: filter.parse().unwrap(),
            memtable_bytes: Some(4 << 20),
            ..Design::default()
        };
        let device = Device::nvme();
        let tree = expect(&design, &workload, &device, memory).unwrap().tree;
        let taken = tree.predict(&workload, &device).memory.total();
        assert!((taken / memory as f64 - 1.0).abs() < 1e-6, "{taken}");
        tree.levels.iter().map(|level| level.cached).collect()
    };
    let (strong, weak) = (cached("bloom:20"), cached("bloom:2"));
    println!("{strong:?} {weak:?}");
    assert!(strong[0] < 1.01 * strong.last().unwrap(), "{strong:?}");
    assert!(weak[0] > 2.0 * weak.last().unwrap(), "{weak:?}");
}
