//! The change feed: the commits of a database in order, read from its log, with the changes that
//! only the manifest has.
//!
//! In the process of the writer, everything that is returned is published and durable: the log is
//! synced first. Elsewhere the files are read beside the writer, and each segment is synced by this
//! reader. A consumer therefore never has a commit that the database loses.
//!
//! The reader follows the records of the log. A mark stands for a change in the manifest, which is
//! there when the mark is. A segment that ends without a seal is the end of the log, unless the
//! manifest says that an earlier process ended there and in which segment the next one began. A
//! segment that is no longer kept is a gap.

mod commit;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hedgerow_io::{Environment, Storage};

use crate::base::entry::{LogPosition, SeqNo};
use crate::base::error::{Error, ErrorKind, Result};
use crate::paths::recover::under_repair;
use crate::paths::write;
use crate::tree::engine::{Directories, Handle};
use crate::tree::version::feed::Feed;
use crate::tree::version::manifest;
use crate::tree::version::places::Places;
use crate::tree::version::state::State;
use crate::tree::wal::log::{segment_name, segment_number};
use crate::tree::wal::payload;
use crate::tree::wal::payload::MARK;
use crate::tree::wal::record::RecordHeader;
use crate::tree::wal::segment_reader::SegmentReader;
pub use commit::{Commit, CommitChange, LoadedEntries, LoadedTables};

/// The bytes of commits that are read before they are made durable together.
const BATCH_BYTES: usize = 1 << 20;
/// The time between two looks for more.
const POLL: Duration = Duration::from_millis(10);

/// The changes of a database behind a number, in the order of their commits.
///
/// It is an iterator that ends when there are no more for now; later it may have more. Dropping it
/// loses nothing: a consumer resumes with [`Commit::number`] of the last commit that it applied.
pub struct Changes {
    source: Source,
    environment: Environment,
    directories: Directories,
    /// Everything up to this number was read.
    position: SeqNo,
    feed: Arc<Feed>,
    /// The keyspaces at the position.
    keyspaces: Arc<State>,
    /// The segment that is read; opened anew after an error.
    segment: u32,
    reader: Option<SegmentReader>,
    queue: VecDeque<Commit>,
    /// The number of the last commit that was returned.
    returned: u64,
}

/// The database whose changes are read.
pub(crate) enum Source {
    /// It is open here.
    Open(Handle),
    /// Its files; the stamp of the manifest at the last look.
    Files(manifest::Stamp),
}

impl Source {
    /// The present feed and the places of the files. `None` if it has not changed.
    fn look(&mut self, storage: &dyn Storage, dir: &Path) -> Result<Option<(Arc<Feed>, Places)>> {
        match self {
            Source::Open(engine) => {
                let manifest = engine.writer()?.manifest();
                Ok(Some((
                    manifest.state().feed.clone(),
                    engine.directories.places.clone(),
                )))
            }
            Source::Files(known) => {
                let stamp = manifest::stamp(storage, dir)?;
                if stamp == *known {
                    return Ok(None);
                }
                let state = State::replay(&manifest::replay(storage, dir)?.edits)?;
                under_repair::refuse(storage, dir)?;
                *known = stamp;
                Ok(Some((state.feed, state.places)))
            }
        }
    }
}

impl Changes {
    /// The changes with numbers above `from`.
    pub(crate) fn since(
        mut source: Source,
        environment: Environment,
        dir: &Path,
        from: u64,
    ) -> Result<Changes> {
        let storage = environment.storage.clone();
        let look = source.look(&*storage, dir)?;
        let (feed, places) = look.expect("the first look finds a manifest");
        let position = SeqNo(from);
        check_kept(&feed, position)?;
        let directories = Directories {
            root: dir.to_path_buf(),
            places,
        };
        let segment = segment_of(&*storage, &directories.log(), &feed, position)?;
        let changes = Changes {
            keyspaces: Arc::new(State::of_feed(&feed, position)?),
            source,
            directories,
            position,
            feed,
            segment,
            reader: None,
            queue: VecDeque::new(),
            returned: from,
            environment,
        };
        Ok(changes)
    }

    /// The number of the last commit that was returned, or at first the number to begin behind.
    pub fn number(&self) -> u64 {
        self.returned
    }

    /// Waits until there are more changes, at most for this time. Returns false if there are none.
    /// The clock of the environment is asked every 10 ms.
    ///
    /// # Errors
    /// As the iterator.
    pub fn wait(&mut self, at_most: Duration) -> Result<bool> {
        let clock = self.environment.clock.clone();
        let began = clock.now();
        loop {
            if self.queue.is_empty() {
                self.fill()?;
            }
            if !self.queue.is_empty() {
                return Ok(true);
            }
            let left = at_most.saturating_sub(clock.now().saturating_sub(began));
            if left.is_zero() {
                return Ok(false);
            }
            clock.sleep(left.min(POLL));
        }
    }

    /// Reads some commits and makes them durable before any of them is returned.
    fn fill(&mut self) -> Result<()> {
        let storage = self.environment.storage.clone();
        let (before, keyspaces, first) = (self.position, self.keyspaces.clone(), self.segment);
        let mut read = self.read_some(&*storage);
        if read.is_ok() && matches!(self.source, Source::Files(_)) {
            read = (first..=self.segment).try_for_each(|segment| self.sync(&*storage, segment));
        }
        if read.is_err() {
            // Everything is read again the next time.
            self.queue.clear();
            (self.position, self.keyspaces) = (before, keyspaces);
            (self.segment, self.reader) = (first, None);
        }
        read
    }

    /// Makes the bytes of a segment durable that another process wrote.
    fn sync(&self, storage: &dyn Storage, segment: u32) -> Result<()> {
        let path = self.directories.log().join(segment_name(segment));
        match storage.sync_file(&path) {
            // Numbers of segments have gaps; and one that was let go meanwhile was durable.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            synced => synced.map_err(|e| Error::io("sync", &path, e)),
        }
    }

    /// Fills the queue.
    fn read_some(&mut self, storage: &dyn Storage) -> Result<()> {
        let bound = match &self.source {
            Source::Open(engine) => Some(write::sync_all(engine.writer()?, &engine.publisher)?),
            Source::Files(_) => None,
        };
        self.look(storage)?;
        let (mut bytes, mut looked) = (0, false);
        while bytes < BATCH_BYTES {
            let mut reader = match self.reader.take() {
                Some(reader) => reader,
                None => self.open(storage)?,
            };
            let at = reader.position();
            if let Some((end, last)) = bound
                && at >= end
            {
                self.reader = Some(reader);
                return self.take_past(last);
            }
            let record = match reader.next() {
                // The file was closed for others, and has gone since.
                Err(error) if error.is_not_found() => {
                    self.look(storage)?;
                    match self.segment == at.segment {
                        true => return Err(error),
                        false => continue,
                    }
                }
                record => record?.map(|record| (record.header, record.payload.to_vec())),
            };
            match record {
                None => {
                    reader.forget_ahead();
                    self.reader = Some(reader);
                    if self.next_log(at)? {
                        continue;
                    }
                    if looked {
                        return self.caught_up(bound.map(|(end, _)| end), at);
                    }
                    // The writer may have ended here and begun again since the last look.
                    self.look(storage)?;
                    looked = true;
                }
                Some((header, _)) if header.is_seal() => self.segment += 1,
                Some((header, payload)) => {
                    self.reader = Some(reader);
                    self.take_record(storage, &header, &payload)
                        .map_err(|e| e.at(&self.segment_path(), Some(at.offset.into())))?;
                    // Behind those before the position, and marks, there may be commits: an empty
                    // queue says that there are none.
                    if !self.queue.is_empty() {
                        bytes += payload.len();
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that a log that is open here has every record before `bound`.
    fn caught_up(&self, bound: Option<LogPosition>, at: LogPosition) -> Result<()> {
        if bound.is_none_or(|end| at >= end) {
            return Ok(());
        }
        let error = Error::corruption("expected a durable record of the log, found none");
        Err(error.at(&self.segment_path(), Some(at.offset.into())))
    }

    fn take_record(
        &mut self,
        storage: &dyn Storage,
        header: &RecordHeader,
        payload: &[u8],
    ) -> Result<()> {
        let last = header.last_seqno();
        if last <= self.position {
            return Ok(());
        }
        let is_mark = *payload == MARK;
        if is_mark {
            self.look(storage)?;
        }
        let before = SeqNo(header.first_seqno.0 - 1);
        self.take_past(if is_mark { last } else { before })?;
        let changes = commit::changes(&self.keyspaces, payload::ops(payload, header.ops))?;
        if !changes.is_empty() {
            self.push(last, changes);
        }
        self.position = self.position.max(last);
        Ok(())
    }

    /// Queues the changes of the manifest up to a number.
    fn take_past(&mut self, through: SeqNo) -> Result<()> {
        let feed = self.feed.clone();
        let taken = feed.past.partition_point(|(at, _)| *at <= self.position);
        for (at, edit) in feed.past[taken..]
            .iter()
            .take_while(|(at, _)| *at <= through)
        {
            let root = |place| self.directories.place(place);
            let storage = &self.environment.storage;
            let changes = commit::of_edit(&self.keyspaces, edit, storage, &root)?;
            Arc::make_mut(&mut self.keyspaces).apply_keyspaces(edit)?;
            self.position = *at;
            self.push(*at, changes);
        }
        Ok(())
    }

    fn push(&mut self, number: SeqNo, changes: Vec<CommitChange>) {
        let number = number.0;
        self.queue.push_back(Commit { number, changes });
    }

    /// Continues in the next log, if the one that ends at `at` was ended there by a recovery.
    fn next_log(&mut self, at: LogPosition) -> Result<bool> {
        let feed = self.feed.clone();
        let mut ends = feed.ends.iter();
        let Some(&(end, last, next)) = ends.find(|(end, ..)| end.segment == at.segment) else {
            return Ok(false);
        };
        if at < end {
            return Err(Error::corruption(format!(
                "expected records of an earlier log up to offset {}, found its end",
                end.offset
            ))
            .at(&self.segment_path(), Some(at.offset.into())));
        }
        self.take_past(last)?;
        self.position = self.position.max(last);
        (self.segment, self.reader) = (next, None);
        Ok(true)
    }

    /// Learns what the manifest says now.
    fn look(&mut self, storage: &dyn Storage) -> Result<()> {
        let root = &self.directories.root;
        if let Some((feed, places)) = self.source.look(storage, root)? {
            (self.feed, self.directories.places) = (feed, places);
        }
        check_kept(&self.feed, self.position)?;
        if self.segment < self.feed.segment {
            // Everything in it was taken: the position is not before the start.
            (self.segment, self.reader) = (self.feed.segment, None);
        }
        Ok(())
    }

    fn open(&mut self, storage: &dyn Storage) -> Result<SegmentReader> {
        let opened = SegmentReader::open(storage, &self.segment_path(), self.segment);
        if opened.as_ref().is_err_and(Error::is_not_found) {
            self.look(storage)?;
        }
        opened
    }

    fn segment_path(&self) -> PathBuf {
        self.directories.log().join(segment_name(self.segment))
    }
}

impl Iterator for Changes {
    type Item = Result<Commit>;

    fn next(&mut self) -> Option<Result<Commit>> {
        if self.queue.is_empty()
            && let Err(error) = self.fill()
        {
            return Some(Err(error));
        }
        let commit = self.queue.pop_front()?;
        self.returned = commit.number;
        Some(Ok(commit))
    }
}

/// Returns normally if the changes behind a number are kept.
fn check_kept(feed: &Feed, position: SeqNo) -> Result<()> {
    if !feed.is_on() {
        return Err(Error::invalid(
            "expected a database with a slot, found none: without one it keeps no changes",
        ));
    }
    let (oldest, from) = (feed.start.0, position.0);
    if from >= oldest {
        return Ok(());
    }
    let message = format!("expected the changes behind {from}, found only those behind {oldest}");
    Err(Error::new(ErrorKind::Gap { oldest }, message))
}

/// The last segment that begins at or before a number.
fn segment_of(storage: &dyn Storage, log: &Path, feed: &Feed, from: SeqNo) -> Result<u32> {
    let files = storage.list(log).map_err(|e| Error::io("list", log, e))?;
    let numbers = files.iter().filter_map(|file| segment_number(&file.name));
    let mut numbers: Vec<u32> = numbers.filter(|n| *n >= feed.segment).collect();
    numbers.sort_unstable();
    for &number in numbers.iter().rev() {
        let mut reader = SegmentReader::open(storage, &log.join(segment_name(number)), number)?;
        let first = reader.next()?.map(|record| record.header.first_seqno);
        if first.is_some_and(|first| first <= from) {
            return Ok(number);
        }
    }
    Ok(feed.segment)
}
