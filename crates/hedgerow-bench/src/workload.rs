//! The workloads by name.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use hedgerow::advisor::Mix;
use serde_json::{Map, Value, json};

use crate::records::RecordShape;
use crate::store::{Error, Result, invalid};

/// A workload. The names are those of LevelDB's and RocksDB's `db_bench`; those of YCSB begin with
/// `ycsb-`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Workload {
    /// Puts every key once, in key order.
    FillSeq,
    /// Puts every key once, in an order that looks random.
    FillRandom,
    /// Puts drawn keys, each possibly several times.
    Overwrite,
    /// Gets drawn keys and puts each anew: non-blind updates.
    UpdateRandom,
    /// Gets drawn keys; each must be there, with a value of its own.
    ReadRandom,
    /// Gets keys that were never written, between written ones.
    ReadMissing,
    /// Gets keys drawn from the first hundredth of all keys.
    ReadHot,
    /// Like `ReadRandom`, with the skew of YCSB: some keys far more often than others.
    ReadZipf,
    /// Seeks to drawn keys, and takes steps from there.
    SeekRandom,
    /// Gets every key once, in the order of `FillRandom`.
    ReadAll,
    /// Puts every key anew, in the order of `FillRandom`.
    UpdateAll,
    /// Scans all keys that share the prefix of a drawn one.
    PrefixScan,
    /// Like `ReadRandom`, while one more thread does as `Overwrite`.
    ReadWhileWriting,
    /// Deletes drawn keys, each possibly several times.
    DeleteRandom,
    /// Puts counters of 8 bytes at drawn keys, as many as workloads that read have operations.
    PutRandom,
    /// Adds to the counters of drawn keys, without reading them: beside `PutRandom`.
    MergeRandom,
    /// Like `ReadRandom`, several keys per call.
    MultiReadRandom,
    /// Draws each operation from a mix ([`Settings::mix`]).
    Mixed,
    /// Puts every record of YCSB once.
    YcsbLoad,
    /// 50 % reads, 50 % updates, zipfian.
    YcsbA,
    /// 95 % reads, 5 % updates, zipfian.
    YcsbB,
    /// Reads, zipfian.
    YcsbC,
    /// 95 % reads of the latest records, 5 % inserts.
    YcsbD,
    /// 95 % scans of 1 to 100 records, zipfian, 5 % inserts.
    YcsbE,
    /// 50 % reads, 50 % reads that are followed by a write of the same record, zipfian.
    YcsbF,
}

impl Workload {
    /// All workloads, in an order in which they can run.
    pub const ALL: [Workload; 25] = [
        Workload::FillSeq,
        Workload::FillRandom,
        Workload::Overwrite,
        Workload::UpdateRandom,
        Workload::ReadRandom,
        Workload::ReadMissing,
        Workload::ReadHot,
        Workload::ReadZipf,
        Workload::ReadAll,
        Workload::UpdateAll,
        Workload::SeekRandom,
        Workload::PrefixScan,
        Workload::MultiReadRandom,
        Workload::ReadWhileWriting,
        Workload::Mixed,
        Workload::DeleteRandom,
        Workload::PutRandom,
        Workload::MergeRandom,
        Workload::YcsbLoad,
        Workload::YcsbA,
        Workload::YcsbB,
        Workload::YcsbC,
        Workload::YcsbF,
        Workload::YcsbD,
        Workload::YcsbE,
    ];

    /// The name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Workload::FillSeq => "fillseq",
            Workload::FillRandom => "fillrandom",
            Workload::Overwrite => "overwrite",
            Workload::UpdateRandom => "updaterandom",
            Workload::ReadRandom => "readrandom",
            Workload::ReadMissing => "readmissing",
            Workload::ReadHot => "readhot",
            Workload::ReadZipf => "readzipf",
            Workload::ReadAll => "readall",
            Workload::UpdateAll => "updateall",
            Workload::SeekRandom => "seekrandom",
            Workload::PrefixScan => "prefixscan",
            Workload::ReadWhileWriting => "readwhilewriting",
            Workload::DeleteRandom => "deleterandom",
            Workload::PutRandom => "putrandom",
            Workload::MergeRandom => "mergerandom",
            Workload::MultiReadRandom => "multireadrandom",
            Workload::Mixed => "mixed",
            Workload::YcsbLoad => "ycsb-load",
            Workload::YcsbA => "ycsb-a",
            Workload::YcsbB => "ycsb-b",
            Workload::YcsbC => "ycsb-c",
            Workload::YcsbD => "ycsb-d",
            Workload::YcsbE => "ycsb-e",
            Workload::YcsbF => "ycsb-f",
        }
    }

    /// Returns true if the workload needs an empty store and fills it.
    pub fn loads(self) -> bool {
        matches!(
            self,
            Workload::FillSeq | Workload::FillRandom | Workload::YcsbLoad
        )
    }

    /// Returns true if the workload leaves something to flush and to merge.
    pub fn writes(self) -> bool {
        let reads = matches!(
            self,
            Workload::ReadRandom
                | Workload::ReadMissing
                | Workload::ReadHot
                | Workload::ReadZipf
                | Workload::ReadAll
                | Workload::SeekRandom
                | Workload::PrefixScan
                | Workload::MultiReadRandom
                | Workload::YcsbC
        );
        !reads
    }

    /// The number of operations over all threads.
    pub fn ops(self, settings: &Settings) -> u64 {
        let num = settings.records.num;
        match self {
            Workload::Overwrite | Workload::DeleteRandom => num,
            Workload::UpdateAll => num,
            Workload::ReadAll => settings.reads.unwrap_or(num).min(num),
            _ if self.loads() => {
                let places = settings.part.places(num);
                places.end - places.start
            }
            _ => settings.reads.unwrap_or(num),
        }
    }

    /// The indexes of its operations among those of a whole fill.
    pub(crate) fn places(self, settings: &Settings) -> Range<u64> {
        let first = match self.loads() {
            true => settings.part.places(settings.records.num).start,
            false => 0,
        };
        first..first + self.ops(settings)
    }

    /// The number of operations per call of the store.
    pub(crate) fn ops_per_call(self, settings: &Settings) -> u64 {
        match self {
            Workload::FillSeq
            | Workload::FillRandom
            | Workload::Overwrite
            | Workload::UpdateAll
            | Workload::ReadAll => settings.batch_size.unwrap_or(1),
            Workload::MultiReadRandom => settings.batch_size.unwrap_or(MULTI_GET_KEYS),
            _ => 1,
        }
    }

    /// Returns true if all of its calls have asynchronous forms.
    pub fn may_be_asynchronous(self) -> bool {
        matches!(
            self,
            Workload::FillSeq
                | Workload::FillRandom
                | Workload::Overwrite
                | Workload::ReadRandom
                | Workload::ReadMissing
                | Workload::ReadHot
                | Workload::ReadAll
                | Workload::UpdateAll
                | Workload::DeleteRandom
                | Workload::UpdateRandom
                | Workload::MultiReadRandom
                | Workload::SeekRandom
        )
    }

    pub(crate) fn is_ycsb(self) -> bool {
        self.name().starts_with("ycsb-")
    }
}

/// The default keys per call of `multireadrandom`.
const MULTI_GET_KEYS: u64 = 32;

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(name: &str) -> Result<Workload> {
        let found = Workload::ALL.into_iter().find(|w| w.name() == name);
        found.ok_or_else(|| {
            let names = Workload::ALL.map(Workload::name).join(", ");
            format!("expected a workload, one of {names}; found `{name}`").into()
        })
    }
}

/// A part of a fill, in its order. The first part needs an empty store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The index of the part.
    pub index: u64,
    /// The number of parts.
    pub count: u64,
}

impl Part {
    /// The whole fill as one part.
    pub const WHOLE: Part = Part { index: 0, count: 1 };

    /// The indexes of its records in the order of the fill.
    pub(crate) fn places(self, num: u64) -> Range<u64> {
        let end = |parts| (u128::from(num) * u128::from(parts) / u128::from(self.count)) as u64;
        end(self.index)..end(self.index + 1)
    }
}

/// The settings of workloads, for any store.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The records. YCSB's have their own shape, and use only the number and the seed.
    pub records: RecordShape,
    /// The operations of workloads that read or count; `None` for the number of records.
    pub reads: Option<u64>,
    /// The part that fills put. Gets and seeks of random keys draw from all parts up to this one.
    pub part: Part,
    /// The threads that divide the operations.
    pub threads: usize,
    /// The entries per commit, by default 1; the keys per call of `multireadrandom`, by default 32.
    pub batch_size: Option<u64>,
    /// The most asynchronous calls that each thread has under way; `None` for direct calls.
    pub window: Option<usize>,
    /// The steps after each seek of `seekrandom`, and in a scan of `mixed`.
    pub seek_nexts: u64,
    /// The mix of `mixed`. Long scans take 10,000 steps.
    pub mix: Mix,
}

impl Settings {
    /// Gets, misses, scans and puts in equal shares.
    pub const MIX_EVEN: Mix = Mix {
        get: 0.25,
        miss: 0.25,
        scan: 0.25,
        long_scan: 0.0,
        put: 0.25,
    };

    pub(crate) fn check(&self) -> Result<()> {
        Mix::new(self.mix)?;
        if self.part.index >= self.part.count {
            let Part { index, count } = self.part;
            return Err(invalid(format!(
                "expected a part below {count}, found {index}"
            )));
        }
        let bounds = [
            ("threads", self.threads as u64, 1024),
            ("operations that read", self.reads.unwrap_or(1), 1 << 60),
            ("entries per batch", self.batch_size.unwrap_or(1), 1 << 20),
            (
                "calls in a window",
                self.window.unwrap_or(1) as u64,
                1 << 20,
            ),
        ];
        for (what, found, max) in bounds {
            if !(1..=max).contains(&found) {
                return Err(invalid(format!(
                    "expected 1 to {max} {what}, found {found}"
                )));
            }
        }
        Ok(())
    }

    /// The settings by the names of the command line's flags.
    pub(crate) fn to_json(self, workload: Workload) -> Map<String, Value> {
        let RecordShape {
            num,
            key_bytes,
            value_bytes,
            group_size,
            seed,
        } = self.records;
        let fields = [
            ("num", json!(num)),
            ("reads", json!(self.reads.unwrap_or(num))),
            ("key_size", json!(key_bytes)),
            ("value_size", json!(value_bytes)),
            ("group_size", json!(group_size)),
            ("threads", json!(self.threads)),
            ("batch_size", json!(workload.ops_per_call(&self))),
            ("window", json!(self.window)),
            ("seek_nexts", json!(self.seek_nexts)),
            ("seed", json!(seed)),
        ];
        let mix = (workload == Workload::Mixed).then(|| ("mix", json!(self.mix.to_string())));
        let fields = fields.into_iter().chain(mix);
        fields
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}
