use super::*;

fn key(name: &str) -> Vec<u8> {
    name.into()
}

fn get(name: &str, found: Option<&str>) -> Step {
    Step::Get(0, key(name), found.map(key))
}

fn put(name: &str, value: &str) -> Step {
    Step::Put(0, key(name), Some(key(value)))
}

fn scan(found: &[(&str, &str)]) -> Step {
    let found = found.iter().map(|(k, v)| (key(k), key(v)));
    Step::Scan {
        keyspace: 0,
        range: (key("a"), key("z")),
        backward: false,
        limit: usize::MAX,
        found: found.collect(),
    }
}

/// Actors that overlap, and the contents after them.
fn history(actors: &[&[Step]], after: &[(&str, &str)]) -> History {
    let after = after.iter().map(|(k, v)| ((0, key(k)), key(v)));
    let actors = actors.iter().map(|steps| Actor {
        began: 0,
        ended: 9,
        steps: steps.to_vec(),
    });
    History {
        before: State::new(),
        actors: actors.collect(),
        after: after.collect(),
    }
}

#[test]
fn anomalies_have_no_serial_order() {
    let lost_update: [&[Step]; 2] = [
        &[get("n", None), put("n", "1")],
        &[get("n", None), put("n", "1")],
    ];
    assert_eq!(history(&lost_update, &[("n", "1")]).serial_order(), None);
    let write_skew: [&[Step]; 2] = [
        &[get("a", None), put("b", "1")],
        &[get("b", None), put("a", "1")],
    ];
    let both = [("a", "1"), ("b", "1")];
    assert_eq!(history(&write_skew, &both).serial_order(), None);
    let phantom: [&[Step]; 2] = [&[scan(&[]), put("a", "1")], &[scan(&[]), put("b", "1")]];
    assert_eq!(history(&phantom, &both).serial_order(), None);
    let read_only: [&[Step]; 3] = [
        &[
            get("checking", None),
            get("saving", None),
            put("checking", "-11"),
        ],
        &[get("saving", None), put("saving", "20")],
        &[get("saving", Some("20")), get("checking", None)],
    ];
    let after = [("checking", "-11"), ("saving", "20")];
    assert_eq!(history(&read_only, &after).serial_order(), None);
    // Without the reader there is an order.
    assert_eq!(
        history(&read_only[..2], &after).serial_order(),
        Some(vec![0, 1])
    );
}

#[test]
fn an_order_explains_reads_and_the_end() {
    let actors: [&[Step]; 3] = [
        &[
            get("a", Some("2")),
            Step::DeleteRange(0, (key("a"), key("b"))),
        ],
        &[
            put("a", "1"),
            put("b", "1"),
            scan(&[("a", "1"), ("b", "1")]),
        ],
        &[
            get("b", Some("1")),
            Step::Load(0, vec![(key("a"), key("2"))]),
        ],
    ];
    let found = history(&actors, &[("b", "1")]);
    assert_eq!(found.serial_order(), Some(vec![1, 2, 0]));
    assert_eq!(history(&actors, &[("b", "2")]).serial_order(), None);
    // The first one ends before the others begin.
    let mut late = found;
    for actor in &mut late.actors[1..] {
        actor.began = 10;
    }
    assert_eq!(late.serial_order(), None);
}
