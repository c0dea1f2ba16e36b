//! The reads of a script, made on the engine.

use hedgerow::{Result, Slice};

use super::{Runner, range};
use crate::answer;
use crate::blob::Blob;
use crate::ops::{Op, Source};
use crate::order::{self, Position};

impl Runner {
    pub(super) fn read(&self, op: &Op) -> Result<String> {
        match op {
            Op::Ends { source } => {
                let keyspace = self.keyspace(&source.keyspace)?;
                let (ends, count) = order::ends(keyspace, self.snapshot(source)?)?;
                Ok(answer::ends(ends, count))
            }
            Op::Get { source, key } => {
                let keyspace = self.keyspace(&source.keyspace)?;
                let value = match self.snapshot(source)? {
                    None if self.setup.workers.is_some() => {
                        keyspace.get_async(key.bytes()).wait()?
                    }
                    // Values of keys of odd length are lent.
                    None if key.bytes().len() % 2 == 1 => {
                        let mut lent = None;
                        let see = |value: &[u8]| lent = Some(Slice::copy_from(value));
                        let is_found = keyspace.visit_value(key.bytes(), see)?;
                        assert_eq!(is_found, lent.is_some(), "a value that is found is seen");
                        lent
                    }
                    None => keyspace.get(key.bytes())?,
                    Some(snapshot) => snapshot.get(keyspace, key.bytes())?,
                };
                Ok(answer::value(value.as_deref()))
            }
            Op::Has { source, key } => {
                let keyspace = self.keyspace(&source.keyspace)?;
                let has = match self.snapshot(source)? {
                    None => keyspace.contains_key(key.bytes())?,
                    Some(snapshot) => snapshot.contains_key(keyspace, key.bytes())?,
                };
                Ok(answer::yes(has))
            }
            Op::Gets { source, keys } => self.gets(source, keys),
            Op::Scan {
                source,
                lower,
                upper,
                steps,
            } => {
                let keyspace = self.keyspace(&source.keyspace)?;
                let range = range(lower, upper);
                let mut scan = order::scan(keyspace, self.snapshot(source)?, range)?;
                answer::scan(&mut scan, steps)
            }
            Op::Prefix {
                keyspace,
                prefix,
                steps,
            } => {
                let mut scan = order::scan_prefix(self.keyspace(keyspace)?, &prefix.bytes())?;
                answer::scan(&mut scan, steps)
            }
            _ => unreachable!("{op} is no read"),
        }
    }

    fn gets(&self, source: &Source, keys: &[Blob]) -> Result<String> {
        let keyspace = self.keyspace(&source.keyspace)?;
        let keys: Vec<_> = keys.iter().map(Blob::bytes).collect();
        let values = match self.snapshot(source)? {
            None if self.setup.workers.is_some() => keyspace.multi_get_async(&keys).wait()?,
            None => keyspace.multi_get(&keys)?,
            Some(snapshot) => snapshot.multi_get(keyspace, &keys)?,
        };
        let values = values.iter().map(Option::as_deref);
        if !values
            .clone()
            .eq(self.lent(source, &keys)?.iter().map(Option::as_deref))
        {
            return Ok("visit_values differs from multi_get".into());
        }
        Ok(answer::values(values))
    }

    /// The values of keys as the engine lends them, when it gets the keys in their order.
    fn lent(&self, source: &Source, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        let keyspace = self.keyspace(&source.keyspace)?;
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_by_key(|at| &keys[*at]);
        let ascending: Vec<_> = order.iter().map(|at| &keys[*at]).collect();
        let mut lent = vec![None; keys.len()];
        let see = |at: usize, value: &[u8]| {
            let seen = lent[order[at]].replace(value.to_vec());
            assert_eq!(seen, None, "a place is seen once");
        };
        match self.snapshot(source)? {
            None => keyspace.visit_values(&ascending, see)?,
            Some(snapshot) => snapshot.visit_values(keyspace, &ascending, see)?,
        }
        Ok(lent)
    }

    pub(super) fn cursor(&mut self, op: &Op) -> Result<String> {
        match op {
            Op::OpenCursor { slot, source } => {
                let keyspace = self.keyspace(&source.keyspace)?;
                let position = Position::open(keyspace, self.snapshot(source)?)?;
                self.cursors.insert(*slot, position);
            }
            Op::CloseCursor { slot } => drop(self.cursors.remove(slot)),
            Op::MoveCursor { slot, moves } => {
                let Some(cursor) = self.cursors.get_mut(slot) else {
                    return Ok(answer::nothing());
                };
                let places = moves.iter().map(|to| cursor.go(to));
                let places: Vec<_> = places.collect::<Result<_>>()?;
                return Ok(answer::moves(places.into_iter()));
            }
            _ => unreachable!("{op} is not for a cursor"),
        }
        Ok(answer::done())
    }
}
