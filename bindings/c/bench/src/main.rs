//! The Rust side of the comparison with C; `calls.c` is the other one. Both print one line for each
//! measurement: its name and nanoseconds per operation. They are of the thread's own time, so that
//! other work on the machine matters little.
//!
//! ```text
//! hedgerow-c-bench load DIRECTORY ENTRIES
//! hedgerow-c-bench measure DIRECTORY ENTRIES GETS
//! hedgerow-c-bench repeat DIRECTORY ENTRIES get|cursor|visit TIMES
//! ```
//!
//! `repeat` makes one kind of call, as often as there are entries, TIMES times: to count
//! instructions.

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;

use engine::{Db, Keyspace, Layout};
use rustix::time::{ClockId, clock_gettime};

const BUDGET_BYTES: u64 = 1 << 30;
const VALUE_BYTES: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |i: usize| -> Result<u64, Box<dyn Error>> {
        Ok(arguments.get(i).ok_or("expected a number")?.parse()?)
    };
    let (what, dir) = match arguments.as_slice() {
        [_, what, dir, ..] => (what.as_str(), dir),
        _ => return Err("expected `load`, `measure` or `repeat`, and a directory".into()),
    };
    let db = Db::builder(dir).memory_budget(BUDGET_BYTES).open()?;
    let keyspace = db.keyspace("bench", Layout::sorted())?;
    match what {
        "load" => load(&db, &keyspace, number(3)?)?,
        "measure" => measure(&keyspace, number(3)?, number(4)?)?,
        "repeat" => {
            let name = arguments.get(4).map_or("", String::as_str);
            repeat(&keyspace, name, number(3)?, number(5)?)?;
        }
        _ => return Err(format!("expected `load`, `measure` or `repeat`, found `{what}`").into()),
    }
    Ok(db.close()?)
}

/// The key of an entry: 16 digits.
fn key(index: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    let mut rest = index;
    for digit in key.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// The same random numbers as in `calls.c`.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn load(db: &Db, keyspace: &Keyspace, entries: u64) -> engine::Result<()> {
    let mut state = 88_172_645_463_325_252;
    for index in 0..entries {
        let value: Vec<u8> = (0..VALUE_BYTES).map(|_| next(&mut state) as u8).collect();
        keyspace.put(key(index), value)?;
    }
    db.flush()?;
    keyspace.compact::<&[u8]>(..)?;
    keyspace.wait_until_merged()
}

/// The time that this thread has run.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[allow(clippy::print_stdout, reason = "it is a program")]
fn report(name: &str, began: Duration, operations: u64) {
    let nanoseconds = (now() - began).as_nanos() as f64 / operations as f64;
    println!("{name} {nanoseconds:.2}");
}

/// Reads all entries by a cursor.
#[inline(never)]
fn read_all(keyspace: &Keyspace) -> engine::Result<u64> {
    let (mut cursor, mut sum) = (keyspace.cursor()?, 0);
    let mut is_on_key = cursor.seek_first()?;
    while is_on_key {
        let (key, value) = (cursor.key(), cursor.value()?);
        let (key, value) = (key.unwrap_or_default(), value.unwrap_or_default());
        sum += u64::from(key[15]) + u64::from(value[0]) + value.len() as u64;
        is_on_key = cursor.next()?;
    }
    Ok(sum)
}

/// Reads all entries by one visit.
#[inline(never)]
fn visit_all(keyspace: &Keyspace) -> engine::Result<u64> {
    let (mut cursor, mut sum) = (keyspace.cursor()?, 0);
    cursor.seek_first()?;
    cursor.visit(|key, value| {
        sum += u64::from(key[15]) + u64::from(value[0]) + value.len() as u64;
        true
    })?;
    Ok(sum)
}

/// Gets values of random keys.
#[inline(never)]
fn get(keyspace: &Keyspace, entries: u64, gets: u64, state: &mut u64) -> engine::Result<u64> {
    let mut sum = 0;
    for _ in 0..gets {
        let value = keyspace.get(key(next(state) % entries))?;
        sum += value.map_or(0, |value| u64::from(value[0]));
    }
    Ok(sum)
}

fn repeat(keyspace: &Keyspace, name: &str, entries: u64, times: u64) -> Result<(), Box<dyn Error>> {
    let mut state = 42;
    for _ in 0..times {
        black_box(match name {
            "get" => get(keyspace, entries, entries, &mut state)?,
            "cursor" => read_all(keyspace)?,
            "visit" => visit_all(keyspace)?,
            _ => return Err(format!("expected `get`, `cursor` or `visit`, found `{name}`").into()),
        });
    }
    Ok(())
}

fn measure(keyspace: &Keyspace, entries: u64, gets: u64) -> engine::Result<()> {
    // The first scan fills the page cache.
    black_box(read_all(keyspace)?);

    let began = now();
    black_box(get(keyspace, entries, gets, &mut 42)?);
    report("Keyspace::get", began, gets);

    let began = now();
    black_box(read_all(keyspace)?);
    report("Cursor::next", began, entries);

    let began = now();
    black_box(visit_all(keyspace)?);
    report("Cursor::visit", began, entries);

    let began = now();
    let mut sum = 0;
    for entry in keyspace.scan_all()? {
        let (key, value) = entry?;
        sum += u64::from(key[15]) + u64::from(value[0]) + value.len() as u64;
    }
    black_box(sum);
    report("Keyspace::scan", began, entries);
    Ok(())
}
