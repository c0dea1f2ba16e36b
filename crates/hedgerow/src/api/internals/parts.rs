//! Single parts of a table, for benches that measure them as papers do.

use std::ops::Range;

use crate::base::entry::KeyHash;
use crate::base::error::{Error, Result};
use crate::base::options::{FilterSpec, IndexSpec};
use crate::base::page::{Handle, Step, TRAILER_BYTES, TableId};
use crate::group_filter::multi_level_cuckoo::{CuckooSize, Mode, MultiLevelCuckoo, hash_of};
use crate::table::block_index::table_index as index;
use crate::table::filter::{Probe, RunMask, table_filter as filter};

const TABLE: TableId = TableId(1);

/// The index of one table, all of it in memory.
#[derive(Debug)]
pub struct Index {
    index: Box<dyn crate::table::block_index::Index>,
    bytes: u64,
}

impl Index {
    /// Builds the index of a table with blocks of this size, from the ascending order keys of each.
    ///
    /// # Errors
    /// None, unless there is a bug.
    pub fn build(spec: IndexSpec, block_bytes: u32, blocks: &[Vec<Vec<u8>>]) -> Result<Index> {
        let mut builder = index::Builder::new(spec);
        for (number, keys) in blocks.iter().enumerate() {
            keys.iter().for_each(|key| builder.add(key, number));
            let offset = number as u64 * u64::from(block_bytes);
            let handle = Handle {
                offset,
                bytes: block_bytes,
            };
            builder.finish_block(number, handle);
        }
        let mut pages: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut offset = blocks.len() as u64 * u64::from(block_bytes);
        let top = builder.finish(|page| {
            let handle = Handle {
                offset,
                bytes: (page.len() + TRAILER_BYTES as usize) as u32,
            };
            pages.push((offset, page.to_vec()));
            offset += u64::from(handle.bytes);
            Ok(handle)
        })?;
        let page_at = |offset: u64| {
            let at = pages.binary_search_by_key(&offset, |page| page.0);
            at.map(|at| &pages[at].1[..])
                .map_err(|_| Error::corruption(format!("expected a page at {offset}, found none")))
        };
        let mut index = index::paged(spec, TABLE, page_at(top.offset)?)?;
        let ids = index.page_ids();
        let loaded: Result<Vec<&[u8]>> = ids.iter().map(|id| page_at(id.handle.offset)).collect();
        index.load(&loaded?)?;
        Ok(Index {
            index,
            bytes: pages.iter().map(|page| page.1.len() as u64).sum(),
        })
    }

    /// Its size in the file, and approximately in memory.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The blocks that may hold an order key.
    ///
    /// # Errors
    /// None, unless there is a bug.
    pub fn locate(&self, order_key: &[u8]) -> Result<Range<usize>> {
        Ok(done(self.index.locate(order_key, None)?)?.blocks)
    }
}

/// The hash of a key, as filters take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hash(u128);

impl Hash {
    /// Hashes a key of a keyspace with this seed.
    pub fn of(key: &[u8], seed: u64) -> Hash {
        Hash(KeyHash::of(key, seed).0)
    }

    /// The order in which filters over several runs are filled fastest.
    pub fn place(self) -> u64 {
        hash_of(KeyHash(self.0))
    }
}

/// The filters of the runs of a level, all of them in memory: one for each, or one for all.
#[derive(Debug)]
pub struct Filters(FiltersKind);

#[derive(Debug)]
enum FiltersKind {
    /// Oldest first.
    Each(filter::Spec, Vec<Box<dyn Probe>>),
    Shared(MultiLevelCuckoo),
}

impl Filters {
    /// Makes empty filters for at most `runs_max` runs with `entries` different keys together.
    ///
    /// # Errors
    /// `InvalidArgument` for a filter spec without a number of bits, and for too many keys.
    pub fn new(spec: FilterSpec, runs_max: usize, entries: u64) -> Result<Filters> {
        if let Some((fingerprint_bits, mode)) = Mode::of_spec(spec) {
            let filter = MultiLevelCuckoo::new(CuckooSize {
                fingerprint_bits,
                runs_max,
                entries,
                mode,
            })?;
            return Ok(Filters(FiltersKind::Shared(filter)));
        }
        let bits = spec.bits_per_key(1).filter(|bits| *bits > 0.0);
        let each = filter::Spec::of(spec, bits.map(|bits| bits as f32));
        let each = each.ok_or_else(|| {
            Error::invalid(format!(
                "expected a filter whose bits are said, found {spec}"
            ))
        })?;
        Ok(Filters(FiltersKind::Each(each, Vec::new())))
    }

    /// Adds the newest run: its keys, each once, by their [`Hash::place`].
    ///
    /// # Errors
    /// `InvalidArgument` if there are as many runs as it was made for.
    pub fn push(&mut self, keys: &[Hash]) -> Result<()> {
        match &mut self.0 {
            FiltersKind::Each(spec, probes) => {
                let mut builder = filter::Builder::new(*spec);
                keys.iter().for_each(|hash| builder.add(KeyHash(hash.0)));
                let mut pages = Vec::new();
                let description = builder.finish(0, |page| {
                    pages.push(page.to_vec());
                    Ok(())
                })?;
                let pages = pages.iter().map(|page| Ok(&page[..]));
                probes.push(description.resident(TABLE, pages)?);
            }
            FiltersKind::Shared(filter) => {
                // As in the engine, where readers keep the old filter.
                *filter = filter.extend(keys.iter().map(|hash| hash.place()))?;
            }
        }
        Ok(())
    }

    /// The runs that may hold each key, as bits; the newest run is the lowest bit.
    ///
    /// # Errors
    /// None, unless there is a bug.
    pub fn candidates(&self, hashes: &[Hash], answers: &mut Vec<u64>) -> Result<()> {
        match &self.0 {
            FiltersKind::Each(_, probes) => {
                for hash in hashes {
                    let mut runs = 0;
                    for (run, probe) in probes.iter().rev().enumerate() {
                        let answer: RunMask = done(probe.candidates(KeyHash(hash.0), None)?)?;
                        runs |= u64::from(!answer.is_empty()) << run;
                    }
                    answers.push(runs);
                }
            }
            FiltersKind::Shared(filter) if hashes.len() == 1 => {
                answers.push(done(filter.candidates(KeyHash(hashes[0].0), None)?)?.0);
            }
            FiltersKind::Shared(filter) => {
                let hashes: Vec<_> = hashes.iter().map(|hash| KeyHash(hash.0)).collect();
                let mut found = Vec::with_capacity(hashes.len());
                filter.candidates_of_many(&hashes, &mut found);
                answers.extend(found.iter().map(|runs| runs.0));
            }
        }
        Ok(())
    }

    /// Their size in memory in bytes.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            FiltersKind::Each(_, probes) => probes.iter().map(|probe| probe.memory_bytes()).sum(),
            FiltersKind::Shared(filter) => filter.memory_bytes(),
        }
    }
}

fn done<T>(step: Step<T>) -> Result<T> {
    match step {
        Step::Done(answer) => Ok(answer),
        Step::Read(id) => Err(Error::corruption(format!(
            "expected an answer from memory, found {id:?} asked for"
        ))),
    }
}
