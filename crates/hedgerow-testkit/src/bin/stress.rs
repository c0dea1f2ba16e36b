//! Kills a writing process again and again, and checks what is left.
//!
//! A child writes from several threads to a database on a real directory and reports each
//! acknowledged commit over a pipe. The parent kills it with SIGKILL at a random moment, opens the
//! database, and compares. The parent alone keeps the expected contents.
//!
//! The seed, the thread and the number determine a commit, and a commit touches only its thread's
//! keys. So the keys of a thread must be as after its first `n` commits. `n` is at least the number
//! acknowledged and at most one more: nothing is lost, nothing is torn, and no batch is half there.
//!
//! ```text
//! stress --seconds 60 --seed 1 --threads 4 --partitions 3
//! ```
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program on the real machine, with its clock and processes"
)]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use hedgerow::{Db, Durability, KeyOrder, Keyspace, Layout, Partitioning, Result};
use hedgerow_testkit::random::Random;
use hedgerow_testkit::setup::Setup;

const KEYS: u64 = 300;
const NAMES: [&str; 2] = ["a", "b"];
/// The size of a report: thread and number of commits, 8 bytes each. A pipe writes it at once.
const REPORT_BYTES: usize = 16;

/// Kills a writing process again and again, and checks what is left.
#[derive(Debug, Parser)]
struct Options {
    /// The time to run, in seconds.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// The seed of the writes and of the moments of the kills.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The directory; a temporary one unless given. Kept after a failure.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The division of each keyspace.
    #[arg(long, default_value_t = Partitioning::Hash(3))]
    partitions: Partitioning,
    /// The order of their keys: sorted, semi-sorted:1, hashed.
    #[arg(long, default_value_t)]
    order: KeyOrder,
    /// The number of writing threads.
    #[arg(long, default_value_t = 4)]
    threads: u64,
    /// Runs the child instead. The values are the numbers of existing commits, by thread.
    #[arg(long, hide = true, value_delimiter = ',')]
    child: Vec<u64>,
}

/// A write: keyspace, key, value; `None` deletes.
type Change = (usize, Vec<u8>, Option<Vec<u8>>);
/// The keys of one thread, with the keyspace.
type State = BTreeMap<(usize, Vec<u8>), Vec<u8>>;

/// The changes of a thread's commit, by its number.
fn commit(seed: u64, thread: u64, number: u64) -> (Vec<Change>, Durability) {
    let mut random = Random::new(seed ^ thread << 48 ^ number);
    let count = match random.below(4) {
        0 => random.range(2, 12),
        _ => 1,
    };
    let changes = (0..count).map(|i| {
        let key = format!("{thread}/{:04}", random.skewed(KEYS)).into_bytes();
        let bytes = match random.below(20) {
            0 => random.below(40_000),
            1..=5 => random.below(3_000),
            _ => random.below(200),
        };
        let value = (!random.one_in(6)).then(|| {
            let mut value = format!("{thread} {number} {i} ").into_bytes();
            value.resize(value.len() + bytes as usize, (number + i) as u8);
            value
        });
        (random.below(2) as usize, key, value)
    });
    let changes = changes.collect();
    let durability = match random.one_in(100) {
        true => Durability::Synced,
        false => Durability::Buffered,
    };
    (changes, durability)
}

fn apply(state: &mut State, changes: Vec<Change>) {
    for (keyspace, key, value) in changes {
        match value {
            Some(value) => drop(state.insert((keyspace, key), value)),
            None => drop(state.remove(&(keyspace, key))),
        }
    }
}

fn open(options: &Options, dir: &Path) -> Result<(Db, Vec<Keyspace>)> {
    let db = Db::builder(dir)
        .memory_budget(8 << 20)
        .log_segment_bytes(256 << 10)
        .open()?;
    let mut design = Setup::tiny(0).design;
    design.memtable_bytes = Some(128 << 10);
    design.table_bytes = Some(64 << 10);
    let layout = Layout {
        order: options.order,
        partitioning: options.partitions.clone(),
        ..Layout::default()
    };
    let keyspaces = NAMES.map(|name| db.keyspace_with(name, layout.clone(), design.clone()));
    let keyspaces = keyspaces.into_iter().collect::<Result<_>>()?;
    Ok((db, keyspaces))
}

// ---- the child ----

fn write(options: &Options, dir: &Path) -> Result<()> {
    let (db, keyspaces) = open(options, dir)?;
    thread::scope(|scope| {
        let writers = options.child.iter().enumerate().map(|(thread, &first)| {
            let (db, keyspaces) = (&db, &keyspaces);
            scope.spawn(move || write_thread(options.seed, thread as u64, first, db, keyspaces))
        });
        let writers: Vec<_> = writers.collect();
        // The writers run until they are killed or fail.
        for writer in writers {
            writer.join().unwrap_or(Ok(()))?;
        }
        Ok(())
    })
}

fn write_thread(seed: u64, thread: u64, first: u64, db: &Db, keyspaces: &[Keyspace]) -> Result<()> {
    for number in first.. {
        let (changes, durability) = commit(seed, thread, number);
        if let [(keyspace, key, Some(value))] = &changes[..] {
            keyspaces[*keyspace].put_with(key, value, durability)?;
        } else {
            let mut batch = db.batch();
            for (keyspace, key, value) in &changes {
                match value {
                    Some(value) => batch.put(&keyspaces[*keyspace], key, value)?,
                    None => batch.delete(&keyspaces[*keyspace], key)?,
                };
            }
            batch.commit(durability)?;
        }
        let mut report = [0; REPORT_BYTES];
        report[..8].copy_from_slice(&thread.to_le_bytes());
        report[8..].copy_from_slice(&(number + 1).to_le_bytes());
        if std::io::stdout().lock().write_all(&report).is_err() {
            break;
        }
        let _ = std::io::stdout().flush();
    }
    Ok(())
}

// ---- the parent ----

/// The state that the parent expects.
struct Known {
    /// By thread, the number of existing commits, and their contents.
    counts: Vec<u64>,
    states: Vec<State>,
}

/// Runs a child for a while. Returns the commits that it reported, by thread.
fn round(
    options: &Options,
    dir: &Path,
    known: &Known,
    time: Duration,
) -> std::result::Result<Vec<u64>, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let counts: Vec<_> = known.counts.iter().map(u64::to_string).collect();
    let mut child = Command::new(program)
        .args(["--dir".as_ref(), dir.as_os_str()])
        .args(["--seed", &options.seed.to_string()])
        .args(["--partitions", &options.partitions.to_string()])
        .args(["--order", &options.order.to_string()])
        .args(["--child", &counts.join(",")])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    let mut pipe = child.stdout.take().ok_or("no pipe")?;
    let mut acknowledged = known.counts.clone();
    let reader = thread::spawn(move || {
        let mut report = [0; REPORT_BYTES];
        while pipe.read_exact(&mut report).is_ok() {
            let word = |at: usize| {
                let bytes = report[at..at + 8].try_into().unwrap_or_default();
                u64::from_le_bytes(bytes)
            };
            acknowledged[word(0) as usize] = word(8);
        }
        acknowledged
    });
    thread::sleep(time);
    let ended = child.try_wait().map_err(|e| e.to_string())?;
    let _ = child.kill();
    let _ = child.wait();
    let acknowledged = reader.join().map_err(|_| "the reader panicked")?;
    match ended {
        None => Ok(acknowledged),
        Some(status) => Err(format!("the child ended by itself: {status}")),
    }
}

/// Opens the database and compares it with the reports.
fn check(
    options: &Options,
    dir: &Path,
    known: &mut Known,
    acknowledged: &[u64],
) -> std::result::Result<(), String> {
    let failed = |e: hedgerow::Error| e.to_string();
    let (db, keyspaces) = open(options, dir).map_err(failed)?;
    db.verify().map_err(failed)?;
    let mut found = vec![State::new(); known.states.len()];
    for (index, keyspace) in keyspaces.iter().enumerate() {
        for item in keyspace.scan_unordered().map_err(failed)? {
            let (key, value) = item.map_err(failed)?;
            let thread = String::from_utf8_lossy(&key);
            let thread = thread.split('/').next().and_then(|t| t.parse().ok());
            let thread: usize = thread.ok_or("a key that nobody wrote")?;
            found[thread].insert((index, key.to_vec()), value.to_vec());
        }
    }
    for (thread, found) in found.iter().enumerate() {
        let (state, count) = (&mut known.states[thread], &mut known.counts[thread]);
        while *count < acknowledged[thread] {
            apply(state, commit(options.seed, thread as u64, *count).0);
            *count += 1;
        }
        if state != found {
            // The commit under way may be there.
            apply(state, commit(options.seed, thread as u64, *count).0);
            *count += 1;
        }
        if state != found {
            return Err(difference(thread, *count, state, found));
        }
    }
    db.close().map_err(failed)
}

fn difference(thread: usize, count: u64, state: &State, found: &State) -> String {
    let beginning = |value: Option<&Vec<u8>>| {
        value.map(|v| String::from_utf8_lossy(&v[..v.len().min(20)]).into_owned())
    };
    let keys = state.keys().chain(found.keys());
    let mut differing = keys.filter(|key| state.get(*key) != found.get(*key));
    let first = differing.next().map(|key| {
        format!(
            "`{}` {}: expected {:?}, found {:?}",
            NAMES[key.0],
            String::from_utf8_lossy(&key.1),
            beginning(state.get(key)),
            beginning(found.get(key))
        )
    });
    format!(
        "thread {thread} is neither as after {} nor as after {count} commits: {}",
        count - 1,
        first.unwrap_or_default()
    )
}

fn stress(options: &Options, dir: &Path) -> std::result::Result<(u64, u64), String> {
    let mut random = Random::new(options.seed);
    let threads = options.threads as usize;
    let mut known = Known {
        counts: vec![0; threads],
        states: vec![State::new(); threads],
    };
    let began = Instant::now();
    let mut rounds = 0;
    while began.elapsed() < Duration::from_secs(options.seconds) {
        rounds += 1;
        let longest = 2_000 / random.range(1, 10);
        let time = Duration::from_millis(random.range(20, longest));
        let wrong = |e| format!("round {rounds}, killed after {time:?}: {e}");
        let acknowledged = round(options, dir, &known, time).map_err(wrong)?;
        check(options, dir, &mut known, &acknowledged).map_err(wrong)?;
    }
    Ok((rounds, known.counts.iter().sum()))
}

fn main() -> ExitCode {
    let mut options = Options::parse();
    let temporary = tempfile::tempdir();
    let dir = match (options.dir.take(), &temporary) {
        (Some(dir), _) => dir,
        (None, Ok(dir)) => dir.path().join("db"),
        (None, Err(e)) => {
            eprintln!("no temporary directory: {e}");
            return ExitCode::FAILURE;
        }
    };
    if !options.child.is_empty() {
        return match write(&options, &dir) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("the child: {e}");
                ExitCode::FAILURE
            }
        };
    }
    match stress(&options, &dir) {
        Ok((rounds, commits)) => {
            println!("{rounds} kills, {commits} commits, nothing lost");
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            let kept = temporary.map(tempfile::TempDir::keep);
            eprintln!(
                "{wrong}\nthe database is kept in {} ({kept:?})",
                dir.display()
            );
            eprintln!(
                "again: stress --seconds {} --seed {} --order {} --partitions {} --threads {}",
                options.seconds, options.seed, options.order, options.partitions, options.threads
            );
            ExitCode::FAILURE
        }
    }
}
