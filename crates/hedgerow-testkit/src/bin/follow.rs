//! Kills a writing process and a following one again and again, and compares them at the end.
//!
//! One child writes a database. Another child keeps a replica: it reads the writer's files, whether
//! the writer runs or not, and applies its changes to a database of its own, over a pipe within the
//! process. The parent kills one of them every second with SIGKILL. It follows the writer's files
//! itself, and must never see less than before. When enough is written, the replica catches up, and
//! all must have the same contents.
//!
//! ```text
//! follow --mib 1024 --seed 1
//! ```
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program on the real machine, with its clock and processes"
)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use hedgerow::{Builder, Db, Durability, Error, ErrorKind, Expiry, Follower, Layout, Result};
use hedgerow_copies::replica::{OWN_KEYSPACE, Replica, send};
use hedgerow_testkit::random::{Random, hash};

const NAMES: [&str; 2] = ["a", "b"];
const SLOT: &str = "replica";
const KEYS: u64 = 200_000;
const DAY: Duration = Duration::from_secs(86400);
/// The slot keeps everything: the parent lets nobody confirm.
const LOG_BYTES_MAX: u64 = 1 << 40;

/// Kills a writer and a follower again and again, and compares them.
#[derive(Debug, Clone, Parser)]
struct Options {
    /// The mebibytes of keys and values to write.
    #[arg(long, default_value_t = 64)]
    mib: u64,
    /// The seed of the writes and of the kills.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The milliseconds between two kills.
    #[arg(long, default_value_t = 1000)]
    every_ms: u64,
    /// The mebibytes of writes between two kills, at least. So slow machines have as many kills as
    /// fast ones.
    #[arg(long, default_value_t = 0)]
    every_mib: u64,
    /// The directory; a temporary one unless given.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Runs a child instead: `write` or `follow`.
    #[arg(long, hide = true)]
    child: Option<String>,
}

fn builder(dir: &Path, name: &str) -> Builder {
    let budget = 32 << 20;
    Db::builder(dir.join(name))
        .memory_budget(budget)
        .log_segment_bytes(1 << 20)
}

// ---- the children ----

/// Writes until there is enough. The numbers of a database say how far it is.
fn write(options: &Options, dir: &Path) -> Result<()> {
    let db = builder(dir, "db").open()?;
    let keyspaces = NAMES.map(|name| db.keyspace(name, Layout::sorted().hash(2)));
    let [a, b] = keyspaces;
    let keyspaces = [a?, b?];
    let begun = db.snapshot()?.number();
    let mut random = Random::new(options.seed ^ begun);
    let progress = db.keyspace("progress", Layout::sorted())?;
    let counts = db.keyspace("counts", Layout::hashed().merge_operator("add_i64"))?;
    let mut written = bytes_written(&db)?;
    while written < options.mib << 20 {
        let mut batch = db.batch();
        for _ in 0..random.range(1, 40) {
            let keyspace = random.pick(&keyspaces);
            let key = format!("{:08}", random.below(KEYS));
            let value = vec![random.next() as u8; random.below(1000) as usize];
            written += (key.len() + value.len()) as u64;
            match random.below(12) {
                0 => batch.delete(keyspace, key)?,
                2 => batch.merge(&counts, key, 1_i64.to_le_bytes())?,
                3 => batch.put_expiring(keyspace, key, value, Expiry::In(DAY))?,
                1 if random.one_in(50) => {
                    let end = format!("{:08}", random.below(KEYS));
                    batch.delete_range(keyspace, key..end)?
                }
                _ => batch.put(keyspace, key, value)?,
            };
        }
        batch.put(&progress, b"bytes", written.to_le_bytes())?;
        batch.commit(Durability::Buffered)?;
        if random.one_in(3000) {
            let entries = (0..5000).map(|i| Ok::<_, Error>((format!("load-{i:06}"), "loaded")));
            written += 5000 * 17;
            random.pick(&keyspaces).bulk_load(entries)?;
        }
    }
    db.close()
}

/// Applies what is there, until it is told to end by a kill or has caught up with an ended writer.
fn follow(dir: &Path, until: impl Fn(u64) -> bool) -> Result<u64> {
    let source = builder(dir, "db");
    let begin = source.slot(SLOT)?.position;
    let mut replica = Replica::open(builder(dir, "replica").open()?, begin)?;
    loop {
        let mut changes = source.changes_since(replica.position())?;
        let mut bytes = Vec::new();
        send(&mut changes, &mut bytes)?;
        let position = replica.receive(&mut bytes.as_slice())?;
        if until(position) {
            replica.db().clone().close()?;
            return Ok(position);
        }
        changes.wait(Duration::from_millis(50))?;
    }
}

/// The bytes that the writer has written, by its own count.
fn bytes_written(db: &Db) -> Result<u64> {
    let Some(progress) = db.existing_keyspace("progress") else {
        return Ok(0);
    };
    let bytes = progress.get(b"bytes")?;
    Ok(bytes.map_or(0, |it| {
        u64::from_le_bytes(it[..].try_into().unwrap_or_default())
    }))
}

// ---- the parent ----

/// Moves a follower on. It never sees less than before.
fn watch(follower: &mut Follower, seen: &mut u64) -> Result<()> {
    match follower.catch_up() {
        // The writer was faster than the reader.
        Err(error) if error.kind() == ErrorKind::Conflict => return Ok(()),
        moved => moved?,
    };
    let now = bytes_written(follower.db())?;
    if now < *seen {
        let message = format!("expected at least {seen} bytes, the follower sees {now}");
        return Err(Error::new(ErrorKind::Corruption, message));
    }
    *seen = now;
    Ok(())
}

fn spawn(options: &Options, dir: &Path, child: &str) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["--dir".as_ref(), dir.as_os_str()])
        .args(["--seed", &options.seed.to_string()])
        .args(["--mib", &options.mib.to_string()])
        .args(["--child", child])
        .spawn()
}

/// The number of entries of each keyspace, with a hash of them.
fn contents(db: &Db) -> Result<Vec<(String, u64, u64)>> {
    let mut all = Vec::new();
    for name in db
        .keyspaces()
        .into_iter()
        .filter(|name| name != OWN_KEYSPACE)
    {
        let Some(keyspace) = db.existing_keyspace(&name) else {
            continue;
        };
        let (mut count, mut sum) = (0, 0_u64);
        // Two databases hash keys in two ways.
        for entry in keyspace.scan_unordered()?.entries() {
            let entry = entry?;
            let value = entry.value.as_deref().map_or(0, hash);
            let expiry = entry.expiry.unix_millis().unwrap_or(0);
            let value = value.wrapping_mul(31).wrapping_add(expiry);
            count += 1;
            sum = sum.wrapping_add(hash(&entry.key) ^ value.rotate_left(7));
        }
        all.push((name, count, sum));
    }
    Ok(all)
}

fn run(options: &Options, dir: &Path) -> Result<String> {
    let failed = |e: std::io::Error| Error::io("run a child", dir, e);
    let db = builder(dir, "db").open()?;
    db.create_slot(SLOT, LOG_BYTES_MAX)?;
    db.close()?;
    let mut random = Random::new(options.seed);
    let (mut beside, mut seen, mut next) = (builder(dir, "db").open_follower()?, 0, 0);
    let (began, mut kills) = (Instant::now(), [0_u64; 2]);
    let mut follower = spawn(options, dir, "follow").map_err(failed)?;
    loop {
        let mut writer = spawn(options, dir, "write").map_err(failed)?;
        let is_done = loop {
            thread::sleep(Duration::from_millis(options.every_ms));
            watch(&mut beside, &mut seen)?;
            if let Some(status) = writer.try_wait().map_err(failed)? {
                if status.success() {
                    break true;
                }
                let message = format!("the writer ended by itself: {status}");
                return Err(Error::new(ErrorKind::Corruption, message));
            }
            if let Some(status) = follower.try_wait().map_err(failed)? {
                let message = format!("the follower ended by itself: {status}");
                return Err(Error::new(ErrorKind::Corruption, message));
            }
            if seen < next {
                continue;
            }
            next = seen + (options.every_mib << 20);
            if random.one_in(2) {
                kills[0] += 1;
                writer.kill().and_then(|()| writer.wait()).map_err(failed)?;
                break false;
            }
            kills[1] += 1;
            follower
                .kill()
                .and_then(|()| follower.wait())
                .map_err(failed)?;
            follower = spawn(options, dir, "follow").map_err(failed)?;
        };
        if is_done {
            break;
        }
    }
    let took = began.elapsed();
    follower
        .kill()
        .and_then(|()| follower.wait())
        .map_err(failed)?;
    let (last, entries) = compare(dir, &mut beside)?;
    Ok(format!(
        "{} MiB, {last} writes, {entries} entries; {} kills of the writer, {} of the follower in {} s: the same",
        options.mib,
        kills[0],
        kills[1],
        took.as_secs()
    ))
}

/// Checks that the replica and the follower have everything. Returns the last number and the number
/// of entries.
fn compare(dir: &Path, beside: &mut Follower) -> Result<(u64, u64)> {
    let db = builder(dir, "db").open()?;
    let last = db.snapshot()?.number();
    let position = follow(dir, |_| true)?;
    let replica = builder(dir, "replica").open()?;
    db.verify()?;
    replica.verify()?;
    let (expected, found) = (contents(&db)?, contents(&replica)?);
    if expected != found {
        let message = format!("expected {expected:?}, found {found:?} at {position} of {last}");
        return Err(Error::new(ErrorKind::Corruption, message));
    }
    beside.catch_up()?;
    let lag = beside.stats()?.lag_writes;
    if lag > 0 || contents(beside.db())? != expected {
        let message = format!("the follower differs from the writer, with a lag of {lag}");
        return Err(Error::new(ErrorKind::Corruption, message));
    }
    let entries = expected.iter().map(|(_, count, _)| count).sum();
    Ok((last, entries))
}

fn main() -> ExitCode {
    let options = Options::parse();
    let temporary = tempfile::tempdir();
    let dir = match (&options.dir, &temporary) {
        (Some(dir), _) => dir.clone(),
        (None, Ok(dir)) => dir.path().to_path_buf(),
        (None, Err(e)) => {
            eprintln!("no temporary directory: {e}");
            return ExitCode::FAILURE;
        }
    };
    let ended = match options.child.as_deref() {
        Some("write") => write(&options, &dir).map(|()| String::new()),
        Some(_) => follow(&dir, |_| false).map(|_| String::new()),
        None => run(&options, &dir),
    };
    match ended {
        Ok(text) => {
            if !text.is_empty() {
                println!("{text}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            let kept = temporary.map(tempfile::TempDir::keep);
            eprintln!(
                "{error}\nthe databases are kept in {} ({kept:?})",
                dir.display()
            );
            ExitCode::FAILURE
        }
    }
}
