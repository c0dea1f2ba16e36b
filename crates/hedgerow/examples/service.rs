//! A service: clients send a line over TCP, and get a line back.
//!
//! One `Db` serves all threads; a handle of a keyspace is cheap to share. A write is in the log
//! before its reply, so it survives the process; `sync` makes all of them survive the machine. The
//! service ends when a client says so: it closes the database, which makes everything durable.
//!
//! Run with `cargo run --example service`; it serves one client of its own, and ends.
#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]
#![allow(clippy::disallowed_methods, reason = "a program of a user has threads")]

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use hedgerow::{Db, Keyspace, Layout};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The reply to a line such as `put ada 1815`, `get ada`, `keys a`, `sync`.
fn reply(db: &Db, people: &Keyspace, line: &str) -> hedgerow::Result<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    Ok(match words[..] {
        ["put", key, value] => {
            people.put(key, value)?;
            "ok".to_owned()
        }
        ["get", key] => match people.get(key)? {
            Some(value) => format!("found {}", value.escape_ascii()),
            None => "absent".to_owned(),
        },
        ["keys", prefix] => {
            let keys = people.scan_prefix(prefix)?.take(100);
            let keys: Result<Vec<String>, _> = keys
                .map(|entry| Ok::<_, hedgerow::Error>(entry?.0.escape_ascii().to_string()))
                .collect();
            keys?.join(" ")
        }
        ["sync"] => {
            db.sync()?;
            "durable".to_owned()
        }
        _ => format!("expected put, get, keys, sync or end, found `{line}`"),
    })
}

/// Serves a client until it hangs up. Returns true if it has ended the service.
fn serve(db: &Db, people: &Keyspace, client: &TcpStream) -> Outcome<bool> {
    let mut replies = client;
    for line in BufReader::new(client).lines() {
        let line = line?;
        if line == "end" {
            return Ok(true);
        }
        // A failed call is the answer to this client, not the end of the service.
        let text = reply(db, people, &line).unwrap_or_else(|error| format!("failed: {error}"));
        writeln!(replies, "{text}")?;
    }
    Ok(false)
}

/// Accepts clients, each on a thread of its own, until one of them says `end`.
fn run(db: &Db, listener: &TcpListener) -> Outcome<()> {
    let people = db.keyspace("people", Layout::sorted())?;
    let address = listener.local_addr()?;
    let (is_ended, people) = (std::sync::atomic::AtomicBool::new(false), &people);
    thread::scope(|scope| {
        for client in listener.incoming() {
            let client = client?;
            if is_ended.load(std::sync::atomic::Ordering::Acquire) {
                return Ok(());
            }
            let is_ended = &is_ended;
            scope.spawn(move || {
                if serve(db, people, &client).unwrap_or(false) {
                    is_ended.store(true, std::sync::atomic::Ordering::Release);
                    // Wakes the thread that accepts.
                    let _ = TcpStream::connect(address);
                }
            });
        }
        Ok(())
    })
}

fn main() -> Outcome<()> {
    let dir = tempfile::tempdir()?;
    let db = Db::builder(dir.path()).memory_budget(64 << 20).open()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let client = thread::spawn(move || -> Outcome<Vec<String>> {
        let mut stream = TcpStream::connect(address)?;
        let mut replies = BufReader::new(stream.try_clone()?).lines();
        let mut said = Vec::new();
        for line in [
            "put ada 1815",
            "put alan 1912",
            "get ada",
            "keys a",
            "get bob",
            "sync",
        ] {
            writeln!(stream, "{line}")?;
            let reply = replies.next().ok_or("the service has hung up")??;
            println!("{line:>14}: {reply}");
            said.push(reply);
        }
        writeln!(stream, "end")?;
        Ok(said)
    });
    run(&db, &listener)?;
    db.close()?;

    let said = client.join().expect("no panic")?;
    assert_eq!(
        said,
        ["ok", "ok", "found 1815", "ada alan", "absent", "durable"]
    );
    // Everything is there after the end.
    let db = Db::open(dir.path())?;
    let people = db.existing_keyspace("people").ok_or("no people")?;
    assert_eq!(people.scan_all()?.count(), 2);
    Ok(())
}

#[test]
fn it_runs() -> Outcome<()> {
    main()
}
