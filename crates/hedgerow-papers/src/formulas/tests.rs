//! The tables of the two papers.

use hedgerow::advisor::Geometry;

use super::autumn::{PaperPolicy, capacities};
use super::entropy::{bits_for, bits_of_saturation, entropy, false_positives};
use super::slimdb::{SlimDb, SlimDbLayout, SlimDbMix};

const MIB: f64 = (1 << 20) as f64;

/// Figure 9: the cost at a budget in MiB, as far as the reference prints it.
#[test]
fn figure_9_of_slimdb() {
    let table = [
        (64.0, [1.5896, 1.4647, 2.7560, 2.1728]),
        (128.0, [1.0916, 1.0836, 1.9939, 1.5428]),
        (256.0, [0.5916, 0.6461, 1.1188, 0.8552]),
        (280.0, [0.5582, 0.5905, 1.0077, 0.7992]),
        (300.0, [0.5572, 0.5571, 1.0077, 0.7825]),
        (940.0, [0.5572, 0.5571, 1.0077, 0.7825]),
        (980.0, [0.0602, 0.5571, 1.0077, 0.7825]),
        (1100.0, [0.0305, 0.5571, 1.0077, 0.5497]),
        (1400.0, [0.0285, 0.5274, 1.0077, 0.5181]),
    ];
    let model = SlimDb::paper();
    for (mib, costs) in table {
        for (mix, expected) in SlimDbMix::ALL.iter().zip(costs) {
            let best = model.best(mix, mib * MIB).unwrap();
            let off = (best.cost - expected).abs();
            assert!(
                off < 0.000_051,
                "{} at {mib} MiB: {best:?}, expected {expected}",
                mix.name
            );
        }
    }
}

#[test]
fn exact_costs_and_layouts_of_slimdb() {
    let model = SlimDb::paper();
    for (mix, cost, designs) in [
        (0, 0.5572, [6, 6, 6, 6, 3]),
        (1, 0.5571, [6, 6, 6, 6, 3]),
        (2, 1.0077, [2, 2, 2, 2, 3]),
        (3, 0.7825, [6, 6, 6, 6, 3]),
    ] {
        let best = model.best(&SlimDbMix::ALL[mix], 300.0 * MIB).unwrap();
        assert!((best.cost - cost).abs() < 0.000_051, "{best:?}");
        assert_eq!(best.designs, designs);
    }
}

/// The layout printed in the paper is the best one between 267.4 and 281.1 MiB, and not above.
#[test]
fn the_papers_layout_of_figure_4() {
    let model = SlimDb::paper();
    let update = &SlimDbMix::ALL[1];
    let papers = vec![6, 6, 6, 2, 3];
    for (mib, is_best) in [(267.3, false), (267.5, true), (281.0, true), (281.2, false)] {
        let best = model.best(update, mib * MIB).unwrap();
        assert_eq!(best.designs == papers, is_best, "{mib} MiB: {best:?}");
    }
}

#[test]
fn the_frontier_is_what_enumeration_finds() {
    let model = SlimDb {
        levels: 3,
        ..SlimDb::paper()
    };
    let designs = model.designs();
    let entries = model.entries();
    let all: f64 = entries.iter().sum();
    for mix in &SlimDbMix::ALL {
        let frontier = model.frontier(mix);
        for code in 0..8_usize.pow(3) {
            let (mut bytes, mut cost) = (0.0, 0.0);
            for level in 0..3 {
                let it = designs[code / 8_usize.pow(level as u32) % 8];
                let here = entries[level] / all;
                let below = entries[level + 1..].iter().sum::<f64>() / all;
                bytes += entries[level] * it.bits / 8.0;
                cost += mix.hits * here * it.hit + mix.hits * below * it.miss;
                cost += mix.misses * it.miss + mix.writes * (here + below) * it.write;
            }
            let beaten = |it: &&SlimDbLayout| it.bytes <= bytes + 1e-6 && it.cost <= cost + 1e-9;
            assert!(frontier.iter().any(|it| beaten(&it)), "{code}");
        }
    }
}

/// Capacities in units of the memtable (specification 1.9).
#[test]
fn capacities_of_garnering() {
    for (scaling, expected) in [
        (0.8, [6.10, 29.8, 116.0, 364.0, 910.0, 1819.0]),
        (0.4, [195.0, 1.53e4, 4.77e5, 5.96e6, 2.98e7, 5.96e7]),
    ] {
        let ratios = Geometry::Garnering { scaling }.ratios(6, 2.0, 1.0);
        for (found, expected) in capacities(&ratios).into_iter().zip(expected) {
            assert!((found / expected - 1.0).abs() < 0.005, "{found} {expected}");
        }
    }
}

/// Levels, with the last merge delayed, and worst-case writes for 10^7 to 10^12 entries of 116
/// bytes over memtables of 64 MiB (specification 1.9).
#[test]
fn levels_and_writes_as_data_grows() {
    type Cells = [(usize, usize, f64); 6];
    #[rustfmt::skip]
    let table: [(f64, f64, Cells); 9] = [
        (2.0, 1.0, [(4, 4, 8.0), (7, 7, 14.0), (10, 10, 20.0), (14, 14, 28.0), (17, 17, 34.0), (20, 20, 40.0)]),
        (5.0, 1.0, [(2, 2, 10.0), (4, 4, 20.0), (5, 5, 25.0), (6, 6, 30.0), (8, 8, 40.0), (9, 9, 45.0)]),
        (10.0, 1.0, [(2, 2, 20.0), (3, 3, 30.0), (4, 4, 40.0), (5, 5, 50.0), (6, 6, 60.0), (7, 7, 70.0)]),
        (2.0, 0.8, [(3, 3, 8.0), (5, 4, 16.0), (6, 6, 23.0), (7, 7, 30.0), (8, 8, 40.0), (9, 9, 52.0)]),
        (3.0, 0.8, [(3, 2, 11.0), (4, 4, 17.0), (5, 5, 25.0), (6, 6, 34.0), (7, 7, 45.0), (8, 8, 60.0)]),
        (5.0, 0.8, [(2, 2, 11.0), (3, 3, 19.0), (4, 4, 29.0), (5, 5, 41.0), (6, 6, 56.0), (7, 6, 75.0)]),
        (2.0, 0.6, [(3, 2, 11.0), (4, 3, 20.0), (5, 4, 36.0), (6, 5, 61.0), (6, 6, 61.0), (7, 6, 104.0)]),
        (2.0, 0.4, [(3, 2, 20.0), (3, 3, 20.0), (4, 3, 51.0), (5, 4, 129.0), (5, 4, 129.0), (6, 5, 324.0)]),
        (5.0, 0.4, [(2, 2, 18.0), (3, 2, 49.0), (3, 3, 49.0), (4, 3, 127.0), (4, 4, 127.0), (5, 4, 322.0)]),
    ];
    for (ratio, scaling, cells) in table {
        let policy = match scaling {
            1.0 => PaperPolicy::Leveling(ratio),
            scaling => PaperPolicy::Garnering(ratio, scaling),
        };
        for (exponent, (levels, delayed, writes)) in (7..).zip(cells) {
            let data = 10_f64.powi(exponent) * 116.0 / (64.0 * MIB);
            let growth = policy.growth(data, 0.0);
            assert_eq!(
                (growth.levels, growth.levels_delayed),
                (levels, delayed),
                "{policy:?} 1e{exponent}"
            );
            assert!(
                (growth.writes - writes).abs() <= 0.501,
                "{policy:?} 1e{exponent}: {growth:?}"
            );
        }
    }
}

/// Runs, and reads of an absent key at 5, 8 and 10 bits per entry.
#[test]
fn runs_and_reads_of_policies() {
    let cases: [(PaperPolicy, usize, f64, [f64; 3]); 9] = [
        (PaperPolicy::Leveling(5.0), 6, 6.0, [0.1691, 0.0400, 0.0153]),
        (
            PaperPolicy::Leveling(10.0),
            5,
            5.0,
            [0.1299, 0.0307, 0.0118],
        ),
        (
            PaperPolicy::Garnering(2.0, 0.8),
            7,
            7.0,
            [0.2727, 0.0645, 0.0247],
        ),
        (
            PaperPolicy::Garnering(5.0, 0.8),
            5,
            5.0,
            [0.1621, 0.0383, 0.0147],
        ),
        (
            PaperPolicy::Garnering(2.0, 0.4),
            5,
            5.0,
            [0.2137, 0.0506, 0.0193],
        ),
        (PaperPolicy::Tiering(5.0), 6, 30.0, [0.8453, 0.2000, 0.0765]),
        (
            PaperPolicy::LazyLeveling(5.0),
            6,
            26.0,
            [0.2333, 0.0552, 0.0211],
        ),
        (PaperPolicy::Bush(2.0), 4, 23.0, [0.4268, 0.1010, 0.0386]),
        (PaperPolicy::Bush(3.0), 4, 94.0, [0.3284, 0.0777, 0.0297]),
    ];
    for (policy, levels, runs, reads) in cases {
        // The data that fills this many levels.
        let data = (1..1_000_000).map(|i| 1.01_f64.powi(i));
        let data = data
            .take_while(|it| policy.levels(*it, false) <= levels)
            .last()
            .unwrap();
        let growth = policy.growth(data, 0.0);
        assert_eq!(
            (growth.levels, growth.runs, growth.reads),
            (levels, runs, runs)
        );
        for (bits, expected) in [5.0, 8.0, 10.0].into_iter().zip(reads) {
            let found = policy.growth(data, bits).reads;
            assert!(
                (found - expected).abs() < 0.000_051,
                "{policy:?}: {found} {expected}"
            );
        }
    }
}

/// The numbers that specification 1.2 gives in place of the paper's 1.52 bits.
#[test]
fn bits_at_which_filters_become_worth_nothing() {
    for (ratio, scaling, saturated, one_read) in [
        (2.0, 0.8, 1.09, Some(2.30)),
        (2.0, 0.6, 0.93, None),
        (2.0, 0.4, 0.80, Some(1.79)),
        (3.0, 0.8, 0.98, None),
        (5.0, 0.8, 0.77, Some(1.21)),
    ] {
        let ratios = Geometry::Garnering { scaling }.ratios(12, ratio, 1.0);
        let runs = capacities(&ratios);
        let found = bits_of_saturation(&runs);
        assert!((found - saturated).abs() < 0.006, "{found} {saturated}");
        if let Some(bits) = one_read {
            assert!((bits_for(&runs, 1.0) - bits).abs() < 0.006);
            assert!((false_positives(&runs, bits_for(&runs, 1.0)) - 1.0).abs() < 1e-9);
        }
    }
    assert!((entropy(&[1.0; 8]).exp() - 8.0).abs() < 1e-9);
}
