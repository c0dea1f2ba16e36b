//! The memory of names that the server keeps for a client has the bound of the clients' buffers.

use crate::Served;
use crate::client::{Client, Value};

const NAME_BYTES: usize = 1 << 20;
/// Twice what all clients may have together with the least budget.
const NAMES: usize = 128;

/// The bytes that all clients have, by the server.
fn used_by_clients(client: &mut Client) -> usize {
    let info = client.call("INFO memory").to_string();
    let line = info
        .lines()
        .find_map(|it| it.strip_prefix("used_memory_clients:"));
    line.unwrap().parse().unwrap()
}

/// A name of 1 MiB, which begins with its number, so that none is the beginning of another.
fn name(number: usize) -> String {
    format!("{number:08}{}", "n".repeat(NAME_BYTES))
}

/// Waits until the server has given back what it kept for a client.
fn wait_until_given_back(client: &mut Client) {
    let mut looks = (0..100_000).map(|_| used_by_clients(client));
    assert!(looks.any(|it| it <= NAME_BYTES));
}

#[test]
fn a_client_with_too_many_long_names_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut other = served.client();
    for call in [
        "SUBSCRIBE",
        "PSUBSCRIBE",
        "SSUBSCRIBE",
        "WATCH",
        "CLIENT TRACKING ON BCAST PREFIX",
    ] {
        let mut client = served.client();
        let calls = (0..NAMES).map(|i| client.try_call(&format!("{call} {}", name(i))));
        let kept = calls.take_while(Option::is_some).count();
        // Each is kept twice or three times.
        assert!((16..64).contains(&kept), "{call}: {kept} names");
        assert_eq!(other.call("PING"), Value::status("PONG"), "{call}");
        wait_until_given_back(&mut other);
    }
    served.end();
}

/// One request asks for all of them.
#[test]
fn a_client_with_too_many_short_names_is_cut_off() {
    const COUNT: usize = 400_000;
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut other = served.client();
    let names: Vec<String> = (0..COUNT).map(|i| format!("{i:x}")).collect();
    for call in ["SUBSCRIBE", "WATCH"] {
        let mut client = served.client();
        client.send(&format!("{call} {}", names.join(" ")));
        client.send("PING");
        let replies = std::iter::from_fn(|| client.try_receive());
        let count = replies.take(COUNT + 1).count();
        assert!(count < COUNT / 2, "{call}: {count} replies");
        wait_until_given_back(&mut other);
    }
    served.end();
}

#[test]
fn names_that_are_given_up_make_room() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut client, mut other) = (served.client(), served.client());
    // One name that stays in each round is more than there is room for.
    for i in 0..40 {
        let name = name(i);
        for call in [
            &format!("SUBSCRIBE {name}"),
            // It is there already.
            &format!("SUBSCRIBE {name}"),
            &format!("UNSUBSCRIBE {name}"),
            "UNSUBSCRIBE none",
            &format!("PSUBSCRIBE {name}"),
            "RESET",
            &format!("WATCH {name} {name}"),
            "UNWATCH",
            &format!("CLIENT TRACKING ON BCAST PREFIX {name}"),
            "CLIENT TRACKING ON BCAST",
            "CLIENT TRACKING OFF",
        ] {
            assert!(client.try_call(call).is_some(), "{i}: {call:.40}");
        }
    }
    wait_until_given_back(&mut other);
    served.end();
}
