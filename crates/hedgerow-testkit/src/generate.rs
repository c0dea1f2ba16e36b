//! Scripts from a seed. They have few keys, some far more frequent than others, so that they are
//! overwritten, deleted and read again. A few keys are long, and many share a beginning. Values
//! have all sizes.

mod maintenance;

use std::collections::BTreeSet;
use std::ops::Bound;

use hedgerow::KEY_BYTES_MAX;

use crate::blob::{Blob, Filler};
use crate::ops::{Change, Keys, Move, Op, Source, Step, TransactionStep, Write};
use crate::random::{Random, mix};
use crate::run::KEYSPACES;

/// The kind of a script.
#[derive(Debug, Clone, Copy)]
pub struct Mix {
    /// The number of operations.
    pub ops: usize,
    /// The number of different keys.
    pub keys: u64,
    /// The frequency of openings, kills and copies of the database, in thousandths of all
    /// operations.
    pub upheaval_permille: u32,
    /// True if the empty key is among the keys. Semi-sorted keyspaces refuse it.
    pub empty_key: bool,
    /// The frequency of range deletes, relative to about 1,000 for all others.
    pub ranges: u32,
}

/// A script of some hundred operations. The seed also determines its size.
pub fn script(seed: u64, empty_key: bool) -> Vec<Op> {
    let mut random = Random::new(seed);
    let mix = Mix {
        ops: *random.pick(&[40, 150, 400, 800]),
        keys: *random.pick(&[6, 30, 150, 600]),
        upheaval_permille: *random.pick(&[5, 20, 60]),
        empty_key,
        ranges: *random.pick(&[10, 30, 250]),
    };
    script_of(seed, mix)
}

/// A script of a certain kind.
pub fn script_of(seed: u64, mix: Mix) -> Vec<Op> {
    let mut generator = Generator {
        random: Random::new(seed ^ 0x5eed),
        mix,
        dropped: BTreeSet::new(),
        snapshots: BTreeSet::new(),
        cursors: BTreeSet::new(),
        written: 0,
    };
    (0..mix.ops).map(|_| generator.op()).collect()
}

/// The number of the empty key.
const EMPTY_KEY: u64 = 2;

/// The key of a number. Neighbours share a beginning.
pub fn key(index: u64) -> Blob {
    if index == EMPTY_KEY {
        return Blob::of("");
    }
    let shape = mix(index ^ 0x4b45_5953);
    match shape % 16 {
        0 if shape & 0x1000 != 0 => Blob::of([(index % 251) as u8]),
        0..=8 => Blob::of(format!("k{index:03}")),
        9..=12 => Blob::of(format!("user/{:02}/{index:04}", index % 7)),
        13 => Blob {
            // The keys differ after a long common beginning, with bytes at the borders.
            head: [&b"deep/\xff\x00"[..], &[b'p'; 60], &index.to_be_bytes()].concat(),
            filler: Filler::None,
        },
        14 => Blob {
            head: format!("long{index:03}").into(),
            filler: Filler::Repeated(100 + (shape >> 20) as u32 % 300),
        },
        _ if shape >> 32 & 7 == 0 => Blob {
            head: format!("huge{index:03}").into(),
            filler: Filler::Repeated(KEY_BYTES_MAX as u32 - (shape >> 40) as u32 % 3),
        },
        _ => Blob {
            head: format!("mid{index:03}").into(),
            filler: Filler::Random(20 + (shape >> 20) as u32 % 200),
        },
    }
}

struct Generator {
    random: Random,
    mix: Mix,
    dropped: BTreeSet<&'static str>,
    snapshots: BTreeSet<u8>,
    cursors: BTreeSet<u8>,
    /// The number of the next value: each value shows its write.
    written: u64,
}

impl Generator {
    fn op(&mut self) -> Op {
        if self.random.below(1000) < u64::from(self.mix.upheaval_permille) {
            return self.upheaval();
        }
        let ranges = self.mix.ranges;
        let weights = [
            220, 90, 70, 70, 150, 110, 60, 40, 50, 15, 40, 15, ranges, 40, 90, 50, 25,
        ];
        match self.random.weighted(&weights) {
            0 => Op::Put {
                keyspace: self.keyspace().into(),
                key: self.any_key(),
                value: self.value(),
                synced: self.random.one_in(20),
            },
            1 => Op::Delete {
                keyspace: self.keyspace().into(),
                key: self.any_key(),
                synced: self.random.one_in(20),
            },
            2 => self.update(),
            3 => self.batch(),
            4 => self.point_read(),
            5 => self.scan(),
            6 => self.cursor(),
            7 => self.snapshot(),
            8 => self.maintenance(),
            9 => self.load(),
            10 => Op::Pop {
                keyspace: self.keyspace().into(),
                last: self.random.one_in(3),
            },
            11 => Op::Ends {
                source: self.live_source(),
            },
            14 => Op::Merge {
                keyspace: self.keyspace().into(),
                key: self.any_key(),
                operand: self.operand(),
                synced: self.random.one_in(20),
            },
            15 => Op::PutExpiring {
                keyspace: self.keyspace().into(),
                key: self.any_key(),
                value: self.value(),
                hours: self.random.range(1, 8),
                synced: self.random.one_in(20),
            },
            16 => self.time(),
            12 => Op::DeleteRange {
                keyspace: self.keyspace().into(),
                keys: self.keys(),
                synced: self.random.one_in(20),
            },
            _ => self.transaction(),
        }
    }

    /// Draws a wait, rarely a time to live.
    fn time(&mut self) -> Op {
        match self.random.one_in(8) {
            true => Op::TimeToLive {
                keyspace: self.keyspace().into(),
                hours: self.random.below(6),
            },
            false => Op::Wait {
                hours: self.random.range(1, 4),
            },
        }
    }

    /// Draws a transaction. Others write only if each keyspace takes the writes.
    fn transaction(&mut self) -> Op {
        let mut steps = Vec::new();
        let with_others = self.dropped.is_empty() && self.random.one_in(2);
        for _ in 0..self.random.skewed(14) {
            let keyspace = self.keyspace().to_owned();
            steps.push(match self.random.below(12) {
                0 | 1 => TransactionStep::All { keyspace },
                2..=4 => TransactionStep::Get {
                    keyspace,
                    key: self.key(),
                },
                5 => TransactionStep::Save,
                6 => TransactionStep::Back,
                7 if !with_others => TransactionStep::Write(Write::DeleteRange {
                    keyspace,
                    keys: self.keys(),
                }),
                7 => TransactionStep::Meanwhile {
                    keyspace,
                    key: self.key(),
                    value: self.value(),
                },
                8 => TransactionStep::Write(Write::Merge {
                    keyspace,
                    key: self.any_key(),
                    operand: self.operand(),
                }),
                _ => TransactionStep::Write(Write::One {
                    keyspace,
                    key: self.any_key(),
                    value: (!self.random.one_in(4)).then(|| self.value()),
                }),
            });
        }
        Op::Transaction {
            steps,
            commits: !self.random.one_in(4),
            synced: self.random.one_in(20),
        }
    }

    /// Draws the keys of a range delete: mostly those between two keys.
    fn keys(&mut self) -> Keys {
        match self.random.below(10) {
            0 => Keys::Range(self.bound(), self.bound()),
            1 => Keys::Prefix(self.key()),
            2 => Keys::Prefix(Blob::of(
                self.random
                    .pick(&["k0", "user/0", "user/03/", "k"])
                    .to_owned(),
            )),
            _ => {
                let mut ends = [self.key(), self.key()];
                ends.sort_by_cached_key(Blob::bytes);
                let [lower, upper] = ends;
                let upper = match self.random.one_in(2) {
                    true => Bound::Included(upper),
                    false => Bound::Excluded(upper),
                };
                Keys::Range(Bound::Included(lower), upper)
            }
        }
    }

    fn keyspace(&mut self) -> &'static str {
        let name = KEYSPACES[self.random.weighted(&[6, 3, 2])];
        // A dropped keyspace is used sometimes, to see the error.
        if self.dropped.contains(name) && !self.random.one_in(8) {
            let left = KEYSPACES.iter().find(|name| !self.dropped.contains(*name));
            return left.copied().unwrap_or(name);
        }
        name
    }

    fn live_source(&mut self) -> Source {
        let keyspace = self.keyspace().into();
        let slots: Vec<_> = self.snapshots.iter().copied().collect();
        let old = !slots.is_empty() && self.random.one_in(3);
        Source {
            keyspace,
            snapshot: old.then(|| *self.random.pick(&slots)),
        }
    }

    fn key(&mut self) -> Blob {
        match self.random.skewed(self.mix.keys) {
            EMPTY_KEY if !self.mix.empty_key => key(0),
            index => key(index),
        }
    }

    /// Draws a key, and rarely an invalid one.
    fn any_key(&mut self) -> Blob {
        let bad = self.dropped.is_empty() && self.random.one_in(400);
        match bad {
            false => self.key(),
            true => Blob {
                head: b"over".to_vec(),
                filler: Filler::Repeated(KEY_BYTES_MAX as u32 + 1),
            },
        }
    }

    fn value(&mut self) -> Blob {
        self.written += 1;
        let head = format!("v{}", self.written).into_bytes();
        let random = &mut self.random;
        let bytes = match random.weighted(&[4, 30, 30, 12, 6, 2]) {
            0 => return Blob::of(""),
            1 => return Blob::of(head),
            2 => random.below(100),
            3 => random.range(100, 1500),
            4 => random.range(1500, 9000),
            _ => random.range(9000, 100_000),
        } as u32;
        let filler = match random.one_in(2) {
            true => Filler::Random(bytes),
            false => Filler::Repeated(bytes),
        };
        Blob { head, filler }
    }

    /// Draws an operand: mostly a short one. Some delete.
    fn operand(&mut self) -> Blob {
        match self.random.below(20) {
            0 => self.value(),
            1 => Blob::of("!"),
            2 => Blob::of(format!("!{}", self.random.below(100))),
            3 => Blob::of(""),
            _ => Blob::of(format!(".{}", self.random.below(1000))),
        }
    }

    fn update(&mut self) -> Op {
        let change = match self.random.below(6) {
            0..=2 => Change::Append(Blob::of(format!("+{}", self.random.below(100)))),
            3 => Change::Toggle(self.value()),
            4 => Change::Remove,
            _ => Change::Keep,
        };
        Op::Update {
            keyspace: self.keyspace().into(),
            key: self.any_key(),
            change,
            synced: self.random.one_in(20),
        }
    }

    fn batch(&mut self) -> Op {
        let count = self.random.skewed(30);
        let writes = (0..count).map(|_| match self.random.below(12) {
            0 => Write::DeleteRange {
                keyspace: self.keyspace().into(),
                keys: self.keys(),
            },
            1 | 2 => Write::Merge {
                keyspace: self.keyspace().into(),
                key: self.any_key(),
                operand: self.operand(),
            },
            _ => Write::One {
                keyspace: self.keyspace().into(),
                key: self.any_key(),
                value: (!self.random.one_in(4)).then(|| self.value()),
            },
        });
        Op::Batch {
            writes: writes.collect(),
            synced: self.random.one_in(10),
        }
    }

    /// Draws a bulk load. Its keys nearly always ascend.
    fn load(&mut self) -> Op {
        let count = self.random.skewed(80);
        let entries = (0..count).map(|_| match self.random.one_in(5) {
            true => (self.any_key(), self.operand()),
            false => (self.any_key(), self.value()),
        });
        let mut entries: Vec<_> = entries.collect();
        if !self.random.one_in(20) {
            entries.sort_by_cached_key(|(key, _)| key.bytes());
            entries.dedup_by(|(a, _), (b, _)| a == b);
        }
        Op::Load {
            keyspace: self.keyspace().into(),
            entries,
        }
    }

    fn point_read(&mut self) -> Op {
        let source = self.live_source();
        match self.random.below(6) {
            0..=2 => Op::Get {
                source,
                key: self.key(),
            },
            3 => Op::Has {
                source,
                key: self.key(),
            },
            _ => {
                let count = self.random.skewed(40);
                Op::Gets {
                    source,
                    keys: (0..count).map(|_| self.key()).collect(),
                }
            }
        }
    }

    fn bound(&mut self) -> Bound<Blob> {
        let key = match self.random.below(10) {
            0..=2 => return Bound::Unbounded,
            3 => Blob::of(""),
            4 => Blob::of(
                self.random
                    .pick(&["k", "user/", "zz", "deep/", "k1"])
                    .to_owned(),
            ),
            _ => self.key(),
        };
        match self.random.one_in(2) {
            true => Bound::Included(key),
            false => Bound::Excluded(key),
        }
    }

    fn steps(&mut self) -> Vec<Step> {
        let count = self.random.range(1, 4);
        let steps = (0..count).map(|_| match self.random.below(8) {
            0..=2 => Step::Forward(self.random.skewed(20) as u32 + 1),
            3..=5 => Step::Backward(self.random.skewed(20) as u32 + 1),
            6 => Step::ForwardRest,
            _ => Step::BackwardRest,
        });
        steps.collect()
    }

    fn scan(&mut self) -> Op {
        if self.random.one_in(5) {
            let prefix = match self.random.below(6) {
                0 => Blob::of(""),
                1 => Blob::of(b"deep/\xff".to_vec()),
                2 => Blob::of("user/0"),
                3 => Blob::of(b"\xff\xff".to_vec()),
                4 => self.key(),
                _ => Blob::of("k0"),
            };
            return Op::Prefix {
                keyspace: self.keyspace().into(),
                prefix,
                steps: self.steps(),
            };
        }
        Op::Scan {
            source: self.live_source(),
            lower: self.bound(),
            upper: self.bound(),
            steps: self.steps(),
        }
    }

    fn cursor(&mut self) -> Op {
        let slots: Vec<_> = self.cursors.iter().copied().collect();
        let open = slots.is_empty() || self.random.one_in(5);
        if open {
            let slot = self.random.below(4) as u8;
            self.cursors.insert(slot);
            let source = self.live_source();
            return Op::OpenCursor { slot, source };
        }
        let slot = *self.random.pick(&slots);
        if self.random.one_in(10) {
            self.cursors.remove(&slot);
            return Op::CloseCursor { slot };
        }
        let count = self.random.range(1, 12);
        let moves = (0..count).map(|_| match self.random.below(12) {
            0 => Move::First,
            1 => Move::Last,
            2 => Move::Seek(self.key()),
            3 => Move::SeekForPrev(self.key()),
            4..=7 => Move::Next,
            _ => Move::Prev,
        });
        Op::MoveCursor {
            slot,
            moves: moves.collect(),
        }
    }

    fn snapshot(&mut self) -> Op {
        let slot = self.random.below(5) as u8;
        match self.random.one_in(2) {
            true if self.snapshots.remove(&slot) => Op::Release { slot },
            _ => {
                self.snapshots.insert(slot);
                Op::Snapshot { slot }
            }
        }
    }
}
