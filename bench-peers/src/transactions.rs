//! Optimistic transactions: many clients read some keys and write others, or count.
//!
//! `mixed`: each transaction reads 4 random keys and writes 2 others. `counters`: each adds 1 to a
//! random counter of a few. A transaction that is refused is tried again until it commits. The
//! counters are summed at the end, so that a lost update is an error.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fjall::Readable;
use hedgerow::io::ReadMode;
use hedgerow::{Compression, Db, Design, Durability, Keyspace, Layout};
use hedgerow_bench::{OpenOptions, Result, add_commit};
use serde_json::json;

use crate::rocksdb::Transactions as RocksTransactions;
use crate::{machine, rocksdb};

/// The options of the subcommand.
#[derive(Debug, clap::Args)]
pub(crate) struct Transactions {
    /// An empty or new directory.
    #[arg(long)]
    dir: PathBuf,

    /// The stores, in the order of each round.
    #[arg(long, value_enum, value_delimiter = ',')]
    stores: Vec<Which>,

    /// The workloads.
    #[arg(long, value_enum, value_delimiter = ',')]
    workloads: Vec<Workload>,

    /// The rounds.
    #[arg(long, default_value_t = 3)]
    rounds: u32,

    /// The threads.
    #[arg(long, default_value_t = 16)]
    clients: u64,

    /// The keys of `mixed`.
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,

    /// The counters of `counters`.
    #[arg(long, default_value_t = 256)]
    counters: u64,

    /// The seconds of each measurement.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,

    /// The memory of each store in bytes.
    #[arg(long, default_value_t = 1 << 30)]
    memory: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// `Db::transact`.
    Hedgerow,
    /// `Db::transact` under snapshot isolation.
    HedgerowSnapshot,
    /// The same gets and a batch without a transaction; `update` for counters.
    HedgerowPlain,
    /// `OptimisticTxDatabase`.
    Fjall,
    /// `OptimisticTransactionDB`, with `GetForUpdate` for each read.
    Rocksdb,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Workload {
    /// 4 reads and 2 writes.
    Mixed,
    /// Adds 1.
    Counters,
}

/// Bytes of a value of `mixed`.
const VALUE_BYTES: usize = 100;

/// A store with transactions.
trait Target: Sync {
    /// Puts keys with one value.
    fn fill(&self, keys: u64, value: &[u8]) -> Result<()>;
    /// Reads 4 keys and writes 2. Returns false if it was refused.
    fn mixed(&self, reads: [u64; 4], writes: [u64; 2], value: &[u8]) -> Result<bool>;
    /// Adds 1 to a number. Returns false if it was refused.
    fn count(&self, counter: u64) -> Result<bool>;
    fn number(&self, counter: u64) -> Result<u64>;
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[8..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

fn number(value: Option<&[u8]>) -> u64 {
    let bytes = value.and_then(|it| it.first_chunk());
    bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// The processor time of this process: fields 14 and 15 of its `stat`, in hundredths of a second.
fn cpu_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = behind_name.split_whitespace().skip(11).take(2);
    let ticks = ticks
        .map(str::parse::<f64>)
        .sum::<std::result::Result<f64, _>>()?;
    Ok(ticks / 100.0)
}

impl Transactions {
    /// Measures and prints a JSON object per store, workload and round.
    ///
    /// # Errors
    /// What the store says; a lost update.
    pub(crate) fn run(&self) -> Result<()> {
        std::fs::create_dir_all(&self.dir)?;
        for round in 0..self.rounds {
            for &workload in &self.workloads {
                for &store in &self.stores {
                    self.measure(round, workload, store)?;
                }
            }
        }
        Ok(())
    }

    fn measure(&self, round: u32, workload: Workload, store: Which) -> Result<()> {
        let dir = self.dir.join("store");
        if dir.exists() {
            std::fs::remove_dir_all(&dir)?;
        }
        let target = self.open(store, &dir)?;
        if workload == Workload::Mixed {
            target.fill(self.keys, &[b'v'; VALUE_BYTES])?;
        }
        let cpu = cpu_seconds()?;
        let (commits, refused, seconds) = self.clients(workload, &*target)?;
        let cpu = cpu_seconds()? - cpu;
        if workload == Workload::Counters {
            let total = (0..self.counters)
                .map(|it| target.number(it))
                .sum::<Result<u64>>()?;
            if total != commits {
                return Err(format!("expected counters of {commits}, found {total}").into());
            }
        }
        drop(target);
        let version = match store {
            Which::Rocksdb => rocksdb::version(&dir)?,
            Which::Fjall => crate::locked_version("fjall"),
            _ => crate::locked_version("hedgerow"),
        };
        let mut row = json!({
            "version": version,
            "store": clap::ValueEnum::to_possible_value(&store).map(|it| it.get_name().to_owned()),
            "workload": format!("{workload:?}").to_lowercase(),
            "round": round,
            "clients": self.clients,
            "keys": match workload { Workload::Mixed => self.keys, Workload::Counters => self.counters },
            "ops": commits,
            "refused": refused,
            "seconds": seconds,
            "ops_per_second": commits as f64 / seconds,
            "cpu_us_per_op": cpu / commits as f64 * 1e6,
            "refused_per_commit": refused as f64 / commits as f64,
            "memory_budget": self.memory,
            "machine": machine::describe(&self.dir)?,
        });
        add_commit(&mut row);
        writeln!(std::io::stdout(), "{row}")?;
        Ok(())
    }

    /// Runs the clients. Returns the commits, the refusals and the seconds.
    fn clients(&self, workload: Workload, target: &dyn Target) -> Result<(u64, u64, f64)> {
        let (commits, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        let began = Instant::now();
        let end = began + Duration::from_secs_f64(self.seconds);
        let client = |client: u64| -> Result<()> {
            let mut random = client + 1;
            let mut draw = |below: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random.wrapping_mul(0x2545_f491_4f6c_dd1d) % below
            };
            let (mut made, mut again) = (0, 0);
            let value = [b'w'; VALUE_BYTES];
            while Instant::now() < end {
                let reads = [(); 4].map(|()| draw(self.keys));
                let writes = [(); 2].map(|()| draw(self.keys));
                let counter = draw(self.counters);
                while !match workload {
                    Workload::Mixed => target.mixed(reads, writes, &value)?,
                    Workload::Counters => target.count(counter)?,
                } {
                    again += 1;
                }
                made += 1;
            }
            commits.fetch_add(made, Ordering::Relaxed);
            refused.fetch_add(again, Ordering::Relaxed);
            Ok(())
        };
        let client = &client;
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..self.clients)
                .map(|it| scope.spawn(move || client(it).map_err(|e| e.to_string())))
                .collect();
            let mut ends = clients.into_iter().map(|it| it.join());
            ends.try_for_each(|end| end.unwrap_or_else(|_| Err("a client panicked".into())))
        })?;
        let seconds = began.elapsed().as_secs_f64();
        Ok((commits.into_inner(), refused.into_inner(), seconds))
    }

    fn open(&self, store: Which, dir: &Path) -> Result<Box<dyn Target>> {
        let design = Design {
            compression: Compression::None,
            ..Design::default()
        };
        Ok(match store {
            Which::Hedgerow | Which::HedgerowSnapshot | Which::HedgerowPlain => {
                let db = Db::builder(dir).memory_budget(self.memory).open()?;
                let data = db.keyspace_with("data", Layout::sorted(), design)?;
                let mut options = hedgerow::TransactionOptions::default();
                if store == Which::HedgerowSnapshot {
                    options.isolation = hedgerow::Isolation::Snapshot;
                }
                options.attempts_max = 1;
                match store {
                    Which::HedgerowPlain => Box::new(Plain { db, data }),
                    _ => Box::new(Hedgerow { db, data, options }),
                }
            }
            Which::Fjall => {
                let db = fjall::OptimisticTxDatabase::builder(dir)
                    .cache_size(self.memory / 2)
                    .open()?;
                let memtable = (self.memory / 20).min(64 << 20);
                let data = db.keyspace("data", || {
                    fjall::KeyspaceCreateOptions::default().max_memtable_size(memtable)
                })?;
                Box::new(Fjall { db, data })
            }
            Which::Rocksdb => Box::new(RocksTransactions::open(&OpenOptions {
                dir: dir.to_owned(),
                fresh: false,
                keyspace: "data".to_owned(),
                memory_budget: self.memory,
                sync: false,
                entries: self.keys,
                key_bytes: 16,
                value_bytes: VALUE_BYTES,
                threads: self.clients as usize,
                layout: Layout::sorted(),
                design,
                self_tuning: false,
                read_mode: ReadMode::Pread,
                workers: 0,
                worker_queue: None,
            })?),
        })
    }
}

struct Hedgerow {
    db: Db,
    data: Keyspace,
    options: hedgerow::TransactionOptions,
}

/// The outcome of a call of Hedgerow.
fn committed(result: hedgerow::Result<()>) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == hedgerow::ErrorKind::Conflict => Ok(false),
        Err(e) => Err(e.into()),
    }
}

impl Target for Hedgerow {
    fn fill(&self, keys: u64, value: &[u8]) -> Result<()> {
        (0..keys).try_for_each(|it| Ok(self.data.put(key(it), value)?))
    }

    fn mixed(&self, reads: [u64; 4], writes: [u64; 2], value: &[u8]) -> Result<bool> {
        committed(self.db.transact_with(self.options, |t| {
            for it in reads {
                std::hint::black_box(t.get(&self.data, key(it))?);
            }
            for it in writes {
                t.put(&self.data, key(it), value)?;
            }
            Ok(())
        }))
    }

    fn count(&self, counter: u64) -> Result<bool> {
        committed(self.db.transact_with(self.options, |t| {
            let now = number(t.get(&self.data, key(counter))?.as_deref());
            t.put(&self.data, key(counter), (now + 1).to_be_bytes())
                .map(drop)
        }))
    }

    fn number(&self, counter: u64) -> Result<u64> {
        Ok(number(self.data.get(key(counter))?.as_deref()))
    }
}

struct Plain {
    db: Db,
    data: Keyspace,
}

impl Target for Plain {
    fn fill(&self, keys: u64, value: &[u8]) -> Result<()> {
        (0..keys).try_for_each(|it| Ok(self.data.put(key(it), value)?))
    }

    fn mixed(&self, reads: [u64; 4], writes: [u64; 2], value: &[u8]) -> Result<bool> {
        for it in reads {
            std::hint::black_box(self.data.get(key(it))?);
        }
        let mut batch = self.db.batch();
        for it in writes {
            batch.put(&self.data, key(it), value)?;
        }
        batch.commit(Durability::Buffered)?;
        Ok(true)
    }

    fn count(&self, counter: u64) -> Result<bool> {
        self.data.update(key(counter), |old| {
            Some((number(old) + 1).to_be_bytes().to_vec())
        })?;
        Ok(true)
    }

    fn number(&self, counter: u64) -> Result<u64> {
        Ok(number(self.data.get(key(counter))?.as_deref()))
    }
}

struct Fjall {
    db: fjall::OptimisticTxDatabase,
    data: fjall::OptimisticTxKeyspace,
}

impl Target for Fjall {
    fn fill(&self, keys: u64, value: &[u8]) -> Result<()> {
        let data = self.data.inner();
        (0..keys).try_for_each(|it| Ok(data.insert(key(it), value)?))
    }

    fn mixed(&self, reads: [u64; 4], writes: [u64; 2], value: &[u8]) -> Result<bool> {
        let mut t = self.db.write_tx()?;
        for it in reads {
            std::hint::black_box(t.get(&self.data, key(it))?);
        }
        for it in writes {
            t.insert(&self.data, key(it), value);
        }
        Ok(t.commit()?.is_ok())
    }

    fn count(&self, counter: u64) -> Result<bool> {
        let mut t = self.db.write_tx()?;
        let now = number(t.get(&self.data, key(counter))?.as_deref());
        t.insert(&self.data, key(counter), (now + 1).to_be_bytes());
        Ok(t.commit()?.is_ok())
    }

    fn number(&self, counter: u64) -> Result<u64> {
        Ok(number(self.data.get(key(counter))?.as_deref()))
    }
}

impl Target for RocksTransactions {
    fn fill(&self, keys: u64, value: &[u8]) -> Result<()> {
        (0..keys).try_for_each(|it| self.put(&key(it), value))
    }

    fn mixed(&self, reads: [u64; 4], writes: [u64; 2], value: &[u8]) -> Result<bool> {
        let t = self.begin();
        for it in reads {
            std::hint::black_box(t.get_for_update(&key(it))?);
        }
        for it in writes {
            t.put(&key(it), value)?;
        }
        t.commit()
    }

    fn count(&self, counter: u64) -> Result<bool> {
        let t = self.begin();
        let now = number(t.get_for_update(&key(counter))?.as_deref());
        t.put(&key(counter), &(now + 1).to_be_bytes())?;
        t.commit()
    }

    fn number(&self, counter: u64) -> Result<u64> {
        Ok(number(
            self.begin().get_for_update(&key(counter))?.as_deref(),
        ))
    }
}
