//! Sorted sets against a model, and the cost of those whose ends are taken.

use std::collections::BTreeMap;

use super::*;
use crate::commands::world::World;
use crate::store::Scores;

#[test]
fn scores_sort_as_their_bytes() {
    let scores = [
        f64::NEG_INFINITY,
        -1.5,
        -1e-300,
        0.0,
        1e-300,
        2.0,
        f64::INFINITY,
    ];
    assert!(scores.windows(2).all(|it| ordered(it[0]) < ordered(it[1])));
    assert!(scores.iter().all(|it| of_ordered(ordered(*it)) == *it));
    assert_eq!(ordered(-0.0), ordered(0.0));
}

/// The sums of floating-point numbers depend on the order in which they are added up.
#[test]
fn scores_are_added_up_as_by_redis() {
    let world = World::new();
    for words in [
        "ZADD a .1 x 1 p 1 q",
        "ZADD b .2 x 1 p",
        "ZADD c .3 x",
        "ZADD low -inf x",
        "ZADD high inf x 1 p",
        "ZADD zero 0 x",
        "ZADD other 0 y",
    ] {
        world.run(words);
    }
    for (words, expected) in [
        ("ZINTER 3 a b c WITHSCORES", "x 0.6"),
        ("ZINTER 3 c b a WITHSCORES", "x 0.6"),
        ("ZUNION 2 c a WEIGHTS 10 0 WITHSCORES", "p 0 q 0 x 3"),
        ("ZINTER 3 a high low WITHSCORES", "x 0.1"),
        ("ZINTER 2 c high WEIGHTS 1 0 WITHSCORES", "x 0"),
        (
            "ZINTER 2 c high WEIGHTS 1 0 AGGREGATE MAX WITHSCORES",
            "x 0.3",
        ),
        // Both zeros are one score.
        ("ZUNION 2 zero other WEIGHTS 1 -1", "x y"),
        ("ZDIFF 2 a b WITHSCORES", "q 1"),
        ("ZDIFF 3 a none c WITHSCORES", "p 1 q 1"),
    ] {
        assert_eq!(world.run(words), expected, "{words}");
    }
}

fn bounds(world: &World, key: &str) -> Option<Scores> {
    let mut txn = world.txn();
    let entry = txn.lookup(key.as_bytes()).unwrap();
    entry.meta().map(|meta| meta.scores)
}

/// Random commands, against a map; and the bounds of the scores are those of the members.
#[test]
fn sorted_sets_are_those_of_a_model() {
    let mut random = fastrand::Rng::with_seed(7);
    let world = World::new();
    let mut model: BTreeMap<String, i32> = BTreeMap::new();
    for _ in 0..4_000 {
        let member = format!("m{}", random.u32(..12));
        let score = random.i32(-4..8);
        let mut sorted: Vec<_> = model.iter().map(|it| (*it.1, it.0.clone())).collect();
        sorted.sort();
        let names =
            |it: &[(i32, String)]| -> Vec<String> { it.iter().map(|it| it.1.clone()).collect() };
        let (words, gone) = match random.u32(..9) {
            0..3 => {
                model.insert(member.clone(), score);
                (format!("ZADD z {score} {member}"), Vec::new())
            }
            3 => {
                *model.entry(member.clone()).or_insert(0) += score;
                (format!("ZINCRBY z {score} {member}"), Vec::new())
            }
            4 => (format!("ZREM z {member}"), vec![member]),
            5 => (
                "ZPOPMIN z 2".to_owned(),
                names(&sorted[..sorted.len().min(2)]),
            ),
            6 => (
                "ZPOPMAX z".to_owned(),
                names(&sorted[sorted.len().saturating_sub(1)..]),
            ),
            7 => {
                let below = sorted.partition_point(|it| it.0 <= score - 4);
                let words = format!("ZREMRANGEBYSCORE z -inf {}", score - 4);
                (words, names(&sorted[..below]))
            }
            _ => (
                "ZREMRANGEBYRANK z 9 -1".to_owned(),
                names(&sorted[sorted.len().min(9)..]),
            ),
        };
        model.retain(|member, _| !gone.contains(member));
        world.run(&words);
        let mut sorted: Vec<_> = model.iter().map(|it| (*it.1, it.0)).collect();
        sorted.sort();
        let expected: Vec<_> = sorted
            .iter()
            .map(|it| format!("{} {}", it.1, it.0))
            .collect();
        assert_eq!(
            world.run("ZRANGE z 0 -1 WITHSCORES"),
            expected.join(" "),
            "{words}"
        );
        let all = world.run("ZREVRANGEBYSCORE z +inf -inf LIMIT 0 1");
        assert_eq!(all, sorted.last().map_or("", |it| it.1), "{words}");
        let ends = sorted.first().zip(sorted.last());
        let expected = ends.map(|(first, last)| Scores {
            first: ordered(first.0.into()),
            last: ordered(last.0.into()),
        });
        assert_eq!(bounds(&world, "z"), expected, "{words}");
    }
}

/// A queue's next element is found without walking over those that were taken before.
#[test]
fn taking_from_the_ends_walks_over_nothing() {
    const MEMBERS: u64 = 1_000;
    let world = World::new();
    for member in 0..MEMBERS {
        world.run(&format!("ZADD z {member} m{member}"));
    }
    let skipped = || {
        let keyspaces = world.db.stats().keyspaces;
        keyspaces.iter().map(|it| it.skipped).sum::<u64>()
    };
    let before = skipped();
    for turn in 0..MEMBERS / 4 {
        assert_eq!(
            world.run("ZPOPMIN z"),
            format!("m{} {}", 2 * turn, 2 * turn)
        );
        let (next, last) = (2 * turn + 1, MEMBERS - 1 - turn);
        assert_eq!(
            world.run("ZRANGEBYSCORE z -inf +inf LIMIT 0 1"),
            format!("m{next}")
        );
        assert_eq!(world.run(&format!("ZREM z m{next}")), "1");
        assert_eq!(world.run("ZPOPMAX z"), format!("m{last} {last}"));
    }
    let walked = skipped() - before;
    assert!(
        walked < 8 * MEMBERS,
        "expected few skipped entries, found {walked}"
    );
}

/// One member is drawn at the cost of few, whatever the number of members.
#[test]
fn drawing_few_members_walks_over_few() {
    let world = World::new();
    let members: Vec<_> = (0..2_000).map(|it| format!("m{it}")).collect();
    world.run(&format!("SADD s {}", members.join(" ")));
    let before = world.db.stats().nexts;
    for _ in 0..10 {
        world.run("SRANDMEMBER s");
        let picked = world.run("SPOP s 3");
        let mut names: Vec<_> = picked.split(' ').collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 3, "{picked}");
        assert_eq!(world.run("SRANDMEMBER s -2").split(' ').count(), 2);
    }
    assert_eq!(world.run("SCARD s"), "1970");
    let walked = world.db.stats().nexts - before;
    assert!(walked < 4_000, "expected few entries, found {walked}");
}

#[test]
fn scores_out_of_range_are_refused() {
    let world = World::new();
    let (score, weight) = (
        "ERR value is not a valid float",
        "ERR weight value is not a float",
    );
    for (words, expected) in [
        ("ZADD z 1e309 a", score),
        ("ZADD z 1e-400 a", score),
        ("ZADD z 0x1p3 e -0x10 f -inf i", "3"),
        ("ZINCRBY z 1e309 e", score),
        ("ZUNION 1 z WEIGHTS 1e309", weight),
        ("ZRANGE z 0 -1 WITHSCORES", "i -inf f -16 e 8"),
        // Bounds may be.
        ("ZCOUNT z -1e309 1e309", "3"),
        ("ZCOUNT z 1e-400 9", "1"),
    ] {
        assert_eq!(world.run(words), expected, "{words}");
    }
}

#[test]
fn ranks_take_a_limit_that_leaves_out_nothing() {
    let world = World::new();
    let refused = "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or \
                   BYLEX";
    for (words, expected) in [
        ("ZADD z 1 a 2 b", "2"),
        ("ZRANGE z 0 -1 LIMIT 0 -1", "a b"),
        ("ZRANGE z 0 0 LIMIT 7 -1", "a"),
        ("ZREVRANGE z 0 -1 LIMIT 1 -1", "b a"),
        ("ZRANGESTORE d z 0 -1 LIMIT 1 -1", "2"),
        ("ZRANGE z 0 -1 LIMIT 0 -2", refused),
        ("ZRANGE z 0 -1 LIMIT 0 1", refused),
    ] {
        assert_eq!(world.run(words), expected, "{words}");
    }
}
