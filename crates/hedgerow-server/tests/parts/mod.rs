//! Requests that come in parts, also while the connection waits, and requests that are none of
//! Redis' protocol.

use std::io::{Read, Write};
use std::net::TcpStream;

use fastrand::Rng;

use crate::Served;
use crate::client::{Client, Value, bulk, int, request, request_of};

/// `HEDGEROW_SERVER_PARTS_SEED` replays one.
const SEEDS: [u64; 2] = [1, 2];

fn seeds() -> Vec<u64> {
    let given = std::env::var("HEDGEROW_SERVER_PARTS_SEED");
    given.map_or(SEEDS.to_vec(), |it| vec![it.parse().unwrap()])
}

/// Waits until the server says that this many clients wait.
fn wait_for_waiting(client: &mut Client, count: usize) {
    let waiting = format!("blocked_clients:{count}\r\n");
    while !client.call("INFO clients").to_string().contains(&waiting) {}
}

/// A value of some length that is like no other.
fn value(random: &mut Rng) -> String {
    let number = random.u64(..).to_string();
    number.repeat(random.usize(1..2_000)) + "."
}

/// A command waits while the rest of a request comes that was read in part before it: bytes of the
/// one got into the other once.
#[test]
fn requests_that_come_in_parts_behind_a_waiting_command_are_whole() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut other = served.client();
    for seed in seeds() {
        println!("HEDGEROW_SERVER_PARTS_SEED={seed}");
        let mut random = Rng::with_seed(seed);
        for round in 0..20 {
            let mut client = served.client();
            let waits = ["BLPOP queue 0", "XREAD BLOCK 0 STREAMS stream $"][round % 2];
            let values: Vec<String> = (0..12).map(|_| value(&mut random)).collect();
            let keys: Vec<String> = (0..values.len()).map(|i| format!("key{i}")).collect();
            let sets = keys.iter().zip(&values);
            let sets: Vec<u8> = sets
                .flat_map(|(key, value)| request_of(&["SET", key, value]))
                .collect();
            let cut = random.usize(0..=sets.len());
            let first = [&request(waits)[..], &sets[..cut]].concat();
            client.send_bytes(&first);
            wait_for_waiting(&mut other, 1);
            let again = random.usize(cut..=sets.len());
            client.send_bytes(&sets[cut..again]);
            client.send_bytes(&sets[again..]);
            match round % 2 {
                0 => other.call("RPUSH queue element"),
                _ => other.call("XADD stream * field value"),
            };
            assert!(matches!(client.receive(), Value::Array(_)), "round {round}");
            for key in &keys {
                let reply = client.receive();
                assert_eq!(reply, Value::status("OK"), "round {round}: {key}");
            }
            for (key, value) in keys.iter().zip(&values) {
                let found = other.call(&format!("GET {key}"));
                assert_eq!(found, bulk(value), "seed {seed}, round {round}: {key}");
            }
        }
    }
    served.end();
}

/// Whole requests that came while a command waited are run behind it, without more bytes.
#[test]
fn requests_that_come_while_a_command_waits_are_run() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut client, mut other) = (served.client(), served.client());
    client.send("BLPOP queue 0");
    wait_for_waiting(&mut other, 1);
    client.send_together(&["SET k v", "WAIT 1 30", "GET k"]);
    other.call("RPUSH queue element");
    assert_eq!(client.receive(), Value::bulks(["queue", "element"]));
    assert_eq!(client.receive(), Value::status("OK"));
    assert_eq!(client.receive(), int(0));
    assert_eq!(client.receive(), bulk("v"));
    served.end();
}

/// A page in a browser can send a request of HTTP to any port of its machine.
#[test]
fn a_request_of_http_is_not_executed() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    for head in ["POST / HTTP/1.1", "GET / HTTP/1.1\r\nHost: here"] {
        let mut stream = TcpStream::connect(served.address).unwrap();
        let bytes = format!("{head}\r\nX: y\r\n\r\nSET taken yes\r\n");
        stream.write_all(bytes.as_bytes()).unwrap();
        let mut replies = Vec::new();
        // The end may come as an error, since not all was read.
        let _ = stream.read_to_end(&mut replies);
        let replies = String::from_utf8(replies).unwrap();
        assert!(!replies.contains("OK"), "{head}: {replies}");
    }
    assert_eq!(served.client().call("EXISTS taken"), int(0));
    served.end();
}
