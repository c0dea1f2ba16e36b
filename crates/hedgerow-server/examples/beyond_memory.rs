//! The loads of `suites/beyond-memory`: clients of a server, and reads of its database without it.
//!
//! ```text
//! beyond_memory load ADDRESS KEYS PIPELINE
//! beyond_memory get  ADDRESS KEYS CONNECTIONS SECONDS WARM_SECONDS
//! beyond_memory set  ADDRESS KEYS CONNECTIONS SECONDS WARM_SECONDS PIPELINE
//! beyond_memory read DIR     KEYS TASKS       SECONDS WARM_SECONDS BUDGET_BYTES READ_MODE
//! ```
//!
//! Prints a line of JSON: the operations, their rate and their latencies. The clients are one
//! thread, so that they leave the other processors to the server. Every reply is compared with the
//! expected one. Keys are drawn at random; what happens in the warm seconds is not counted.

#![allow(
    clippy::disallowed_methods,
    reason = "durations of requests are measured"
)]

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use hedgerow::{Db, Keyspace};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use xxhash_rust::xxh3::xxh3_64_with_seed;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const VALUE_BYTES: usize = 100;
/// The connections that load.
const LOADERS: u64 = 8;

/// A key of 16 bytes.
fn key(index: u64) -> Vec<u8> {
    format!("key:{index:012}").into_bytes()
}

/// The value of a key: bytes that do not compress.
fn value(index: u64) -> Vec<u8> {
    let mut value = vec![0; VALUE_BYTES];
    fastrand::Rng::with_seed(index).fill(&mut value);
    value
}

/// Appends a command to a request.
fn append(request: &mut Vec<u8>, words: &[&[u8]]) {
    request.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    words.iter().for_each(|it| append_bulk(request, it));
}

fn append_bulk(out: &mut Vec<u8>, word: &[u8]) {
    out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// The operations and latencies of all tasks.
struct Measured {
    begin: Instant,
    end: Instant,
    ops: AtomicU64,
    micros: Mutex<Histogram<u64>>,
}

impl Measured {
    fn new(warm: u64, seconds: u64) -> Result<Arc<Measured>> {
        let begin = Instant::now() + Duration::from_secs(warm);
        Ok(Arc::new(Measured {
            begin,
            end: begin + Duration::from_secs(seconds),
            ops: AtomicU64::new(0),
            micros: Mutex::new(Histogram::new(3)?),
        }))
    }

    /// Counts what began at a moment and is done. Returns false at the end.
    fn note(&self, began: Instant, ops: u64) -> Result<bool> {
        let now = Instant::now();
        if began >= self.begin && now <= self.end {
            self.ops.fetch_add(ops, Ordering::Relaxed);
            let mut micros = self.micros.lock().unwrap_or_else(PoisonError::into_inner);
            micros.record((now - began).as_micros() as u64)?;
        }
        Ok(now < self.end)
    }

    fn report(&self) -> serde_json::Value {
        let ops = self.ops.load(Ordering::Relaxed);
        let seconds = (self.end - self.begin).as_secs_f64();
        let micros = self.micros.lock().unwrap_or_else(PoisonError::into_inner);
        serde_json::json!({
            "ops": ops,
            "ops_per_second": (ops as f64 / seconds).round(),
            "latency_us": {
                "p50": micros.value_at_quantile(0.5),
                "p99": micros.value_at_quantile(0.99),
                "p999": micros.value_at_quantile(0.999),
                "max": micros.max(),
            },
        })
    }
}

/// Sends a request and reads its replies, which must be the expected ones.
async fn exchange(
    stream: &mut TcpStream,
    (request, expected): (&[u8], &[u8]),
    found: &mut Vec<u8>,
) -> Result<()> {
    stream.write_all(request).await?;
    found.clear();
    while found.len() < expected.len() {
        let read = stream.read_buf(found).await?;
        if read == 0 || !expected.starts_with(found) {
            let reply = found[..found.len().min(200)].escape_ascii();
            let wanted = expected[..expected.len().min(200)].escape_ascii();
            return Err(format!("expected {wanted}, found {reply}").into());
        }
    }
    Ok(())
}

async fn connect(address: &str) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Waits for all tasks.
async fn join(tasks: Vec<tokio::task::JoinHandle<Result<()>>>) -> Result<()> {
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// Sets all keys, by several connections with a range each.
async fn load(address: String, keys: u64, pipeline: u64) -> Result<serde_json::Value> {
    let began = Instant::now();
    let loader = |range: std::ops::Range<u64>| {
        let address = address.clone();
        tokio::spawn(async move {
            let mut stream = connect(&address).await?;
            let (mut request, mut found) = (Vec::new(), Vec::new());
            for begin in range.clone().step_by(pipeline as usize) {
                let end = range.end.min(begin + pipeline);
                request.clear();
                (begin..end).for_each(|it| append(&mut request, &[b"SET", &key(it), &value(it)]));
                let expected = b"+OK\r\n".repeat((end - begin) as usize);
                exchange(&mut stream, (&request, &expected), &mut found).await?;
            }
            Ok(())
        })
    };
    let part = |at: u64| keys * at / LOADERS;
    join(
        (0..LOADERS)
            .map(|it| loader(part(it)..part(it + 1)))
            .collect(),
    )
    .await?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(serde_json::json!({
        "ops": keys,
        "ops_per_second": (keys as f64 / seconds).round(),
    }))
}

/// Gets random keys, one by one on each connection.
async fn get(address: String, keys: u64, tasks: u64, all: Arc<Measured>) -> Result<()> {
    let getter = |_| {
        let (address, all) = (address.clone(), all.clone());
        tokio::spawn(async move {
            let mut stream = connect(&address).await?;
            let (mut request, mut expected, mut found) = (Vec::new(), Vec::new(), Vec::new());
            loop {
                let index = fastrand::u64(..keys);
                request.clear();
                expected.clear();
                append(&mut request, &[b"GET", &key(index)]);
                append_bulk(&mut expected, &value(index));
                let began = Instant::now();
                exchange(&mut stream, (&request, &expected), &mut found).await?;
                if !all.note(began, 1)? {
                    return Ok(());
                }
            }
        })
    };
    join((0..tasks).map(getter).collect()).await
}

/// Sets random keys to the values that they have, in pipelines, so that the data can be used again;
/// the latency is that of a pipeline.
async fn set(
    address: String,
    (keys, pipeline): (u64, u64),
    tasks: u64,
    all: Arc<Measured>,
) -> Result<()> {
    let setter = |_| {
        let (address, all) = (address.clone(), all.clone());
        tokio::spawn(async move {
            let mut stream = connect(&address).await?;
            let expected = b"+OK\r\n".repeat(pipeline as usize);
            let (mut request, mut found) = (Vec::new(), Vec::new());
            loop {
                request.clear();
                for _ in 0..pipeline {
                    let index = fastrand::u64(..keys);
                    append(&mut request, &[b"SET", &key(index), &value(index)]);
                }
                let began = Instant::now();
                exchange(&mut stream, (&request, &expected), &mut found).await?;
                if !all.note(began, pipeline)? {
                    return Ok(());
                }
            }
        })
    };
    join((0..tasks).map(setter).collect()).await
}

/// The entries of the keys of database 0, and the seed of the hashes in front of them.
fn entries(db: &Db) -> Result<(Keyspace, u64)> {
    let missing = || "expected the database of a server with keys in database 0";
    let server = db.existing_keyspace("server").ok_or_else(missing)?;
    let number = |name: &str| -> Result<u64> {
        let stored = server.get(name)?.ok_or_else(missing)?;
        let bytes = stored.as_bytes().first_chunk().ok_or_else(missing)?;
        Ok(u64::from_be_bytes(*bytes))
    };
    let (seed, generation) = (number("seed")?, number("map")?);
    let entries = db.existing_keyspace(&format!("m{generation}"));
    Ok((entries.ok_or_else(missing)?, seed))
}

/// Gets random keys by the asynchronous calls of the engine, one by one in each task.
async fn read(db: &Db, keys: u64, tasks: u64, all: Arc<Measured>) -> Result<()> {
    let (entries, seed) = entries(db)?;
    let reader = |_| {
        let (entries, all) = (entries.clone(), all.clone());
        tokio::spawn(async move {
            loop {
                let index = fastrand::u64(..keys);
                let key = key(index);
                let hash = (xxh3_64_with_seed(&key, seed) >> 32) as u32;
                let expected = value(index);
                let began = Instant::now();
                let found = entries
                    .get_async([&hash.to_be_bytes(), &key[..]].concat())
                    .await?;
                // Behind the flags.
                let found = found.as_ref().and_then(|it| it.get(1..));
                if found != Some(&expected[..]) {
                    return Err(format!("expected the value of key {index}, found another").into());
                }
                if !all.note(began, 1)? {
                    return Ok(());
                }
            }
        })
    };
    join((0..tasks).map(reader).collect()).await
}

fn run(arguments: &[String]) -> Result<serde_json::Value> {
    let text = |at: usize| arguments.get(at).ok_or("expected more arguments");
    let number = |at: usize| -> Result<u64> { Ok(text(at)?.parse()?) };
    let (kind, place, keys) = (text(0)?.as_str(), text(1)?.clone(), number(2)?);
    let client = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
    };
    if kind == "load" {
        return client()?.block_on(load(place, keys, number(3)?));
    }
    let (tasks, all) = (number(3)?, Measured::new(number(5)?, number(4)?)?);
    match kind {
        "get" => client()?.block_on(get(place, keys, tasks, all.clone()))?,
        "set" => client()?.block_on(set(place, (keys, number(6)?), tasks, all.clone()))?,
        "read" => {
            // As many threads as the server has for its commands.
            let runtime = tokio::runtime::Runtime::new()?;
            let builder = Db::builder(&place).memory_budget(number(6)?);
            let db = builder.read_mode(text(7)?.parse()?).open()?;
            runtime.block_on(read(&db, keys, tasks, all.clone()))?;
            db.close()?;
        }
        other => return Err(format!("expected load, get, set or read, found {other}").into()),
    }
    Ok(all.report())
}

#[allow(clippy::print_stdout, reason = "the suite reads the line")]
fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    println!("{}", run(&arguments)?);
    Ok(())
}
