//! The most memory of a process that makes replies.

use std::path::Path;

use super::{MEMBERS, VALUE_BYTES, add_members, is_refused};
use crate::client::{Client, Value};
use crate::kill::Served;

const BUDGET_BYTES: u64 = 64 << 20;
/// The memory of the process: the budget, a reply, the values that are read together before their
/// sizes are known, and what is beside them. The values and members below are more.
const PEAK_BYTES_MAX: u64 = BUDGET_BYTES + (64 << 20) + (128 << 20) + (64 << 20);
/// The values that are read by one command.
const VALUES: usize = 120;
const SETS: usize = 5;

fn refused_with_a_peak(served: &Served, client: &mut Client, call: &str) {
    served.forget_peak();
    let reply = client.call(call);
    assert!(is_refused(&reply), "{call:.20}: {:.100}", reply.to_string());
    let peak = served.peak_bytes();
    assert!(
        peak < PEAK_BYTES_MAX,
        "{call:.20}: {peak} of {PEAK_BYTES_MAX} bytes"
    );
}

/// A server with keys, of which nothing is in memory.
fn filled(dir: &Path, fill: impl Fn(&mut Client)) -> (Served, Client) {
    let served = Served::with_budget(dir, BUDGET_BYTES);
    let mut client = Client::connect(served.address);
    fill(&mut client);
    client.shut_down();
    drop(served);
    let served = Served::with_budget(dir, BUDGET_BYTES);
    let client = Client::connect(served.address);
    (served, client)
}

/// The members of all sets took 446 MB before the first was counted.
#[test]
fn members_take_the_memory_of_a_reply() {
    let dir = tempfile::tempdir().unwrap();
    let key = |i: usize| format!("s{i}");
    let (served, mut client) = filled(dir.path(), |client| {
        (0..SETS).for_each(|i| add_members(client, &key(i), i * MEMBERS..(i + 1) * MEMBERS));
    });
    let keys = (0..SETS).map(key).collect::<Vec<_>>().join(" ");
    refused_with_a_peak(&served, &mut client, &format!("SUNION {keys}"));
    served.kill();
}

/// A hundred values of 4 MiB took 455 MB.
#[test]
fn values_take_the_memory_of_a_reply() {
    let dir = tempfile::tempdir().unwrap();
    let value = "v".repeat(VALUE_BYTES);
    let (served, mut client) = filled(dir.path(), |client| {
        for i in 0..VALUES {
            client.call(&format!("SET k{i} {value}"));
            client.call(&format!("HSET h f{i} {value}"));
        }
    });
    let names = |letter: &str| {
        (0..VALUES)
            .map(|i| format!(" {letter}{i}"))
            .collect::<String>()
    };
    refused_with_a_peak(&served, &mut client, &format!("MGET{}", names("k")));
    refused_with_a_peak(&served, &mut client, &format!("HMGET h{}", names("f")));
    served.forget_peak();
    client.call("MULTI");
    (0..VALUES).for_each(|i| drop(client.call(&format!("GET k{i}"))));
    assert!(matches!(client.call("EXEC"), Value::Array(replies) if replies.len() == VALUES));
    let peak = served.peak_bytes();
    assert!(
        peak < PEAK_BYTES_MAX,
        "EXEC: {peak} of {PEAK_BYTES_MAX} bytes"
    );
    served.kill();
}
