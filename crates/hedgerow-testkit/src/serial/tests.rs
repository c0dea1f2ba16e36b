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
        times: 0..=0,
        steps: steps.to_vec(),
    });
    History {
        before: State::new(),
        actors: actors.collect(),
        after: after.collect(),
        time: 0,
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
        &[get("b", Some("1")), put("a", "2")],
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

#[test]
fn operands_and_expiry_have_their_order() {
    let merge = |name, operand| Step::Merge(0, key(name), key(operand));
    // Keys of an even length: operands are added at the end.
    let actors: [&[Step]; 3] = [
        &[merge("no", "1"), get("no", Some("21"))],
        &[merge("no", "2")],
        &[merge("no", "3")],
    ];
    let order = |after| history(&actors, &[("no", after)]).serial_order();
    assert_eq!(order("213"), Some(vec![1, 0, 2]));
    assert_eq!(order("123"), None);
    assert_eq!(order("23"), None);

    let expiring = Step::PutExpiring(0, key("no"), key("x"), 5);
    let update = Step::Update(0, key("no"), Some(key("x")), key("y"));
    let actors: [&[Step]; 3] = [
        &[expiring],
        &[get("no", None), put("seen", "gone")],
        &[update, merge("no", "1")],
    ];
    let mut found = history(&actors, &[("seen", "gone"), ("no", "1")]);
    found.time = 5;
    (found.actors[1].began, found.actors[1].ended) = (10, 11);
    assert_eq!(found.serial_order(), None, "it does not read its operand");
    found.actors[1].steps[0] = get("no", Some("1"));
    assert_eq!(found.serial_order(), None, "it reads at a time before");
    found.actors[1].times = 4..=5;
    assert_eq!(found.serial_order(), Some(vec![0, 2, 1]));
}
