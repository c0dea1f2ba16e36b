//! The part of a script that works on whole keyspaces and databases.

use std::ops::Bound;

use hedgerow::Design;

use super::Generator;
use crate::ops::Op;

impl Generator {
    pub(super) fn maintenance(&mut self) -> Op {
        let keyspace: &'static str = self.keyspace();
        match self
            .random
            .weighted(&[20, 30, 20, 15, 6, 5, 5, 10, 5, 5, 15])
        {
            0 => Op::Flush { keyspace: None },
            1 => Op::Flush {
                keyspace: Some(keyspace.into()),
            },
            2 => {
                let whole = self.random.one_in(2);
                let mut bound = || match whole {
                    true => Bound::Unbounded,
                    false => self.bound(),
                };
                Op::Compact {
                    keyspace: keyspace.into(),
                    lower: bound(),
                    upper: bound(),
                }
            }
            3 => Op::Settle {
                keyspace: keyspace.into(),
            },
            4 => Op::Clear {
                keyspace: keyspace.into(),
            },
            5 if self.dropped.len() < 2 => {
                self.dropped.insert(keyspace);
                Op::Drop {
                    keyspace: keyspace.into(),
                }
            }
            5 | 6 => {
                let gone = self.dropped.pop_first().unwrap_or(keyspace);
                Op::Create {
                    keyspace: gone.into(),
                }
            }
            7 => Op::Sync,
            8 => Op::Verify,
            9 => Op::ReadOnly,
            _ => Op::Retune {
                keyspace: keyspace.into(),
                design: self.design(),
            },
        }
    }

    pub(super) fn design(&mut self) -> Design {
        if self.random.one_in(2) {
            return crate::metamorphic::any_design(&mut self.random);
        }
        let designs = crate::metamorphic::designs();
        self.random.pick(&designs).1.clone()
    }

    pub(super) fn upheaval(&mut self) -> Op {
        let again = |generator: &mut Self| {
            generator.snapshots.clear();
            generator.cursors.clear();
        };
        match self.random.below(6) {
            0 | 1 => {
                again(self);
                Op::Reopen
            }
            2 | 3 => {
                again(self);
                Op::Kill
            }
            4 => Op::Checkpoint,
            _ => Op::ReadOnly,
        }
    }
}
