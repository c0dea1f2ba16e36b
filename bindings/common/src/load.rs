//! Bulk loads on threads of their own: whoever gives their entries can leave them.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, channel, sync_channel};
use std::time::Duration;

use engine::{BulkLoadReport, Error, ErrorKind, Keyspace, LoadOp};

use crate::failure::{Failure, run};
use crate::waiting::start;

/// An entry of a load.
pub type Entry = (Vec<u8>, LoadOp<Vec<u8>>);

/// The way of parts of entries to the thread of a load. `None` is their end.
pub type Parts<P> = SyncSender<Option<P>>;

/// Parts that wait for the thread of a load.
const WAITING: usize = 2;
const PART_ENTRIES: usize = 4096;
const PART_BYTES: usize = 256 << 10;
/// The time between two looks whether a part was taken: shorter than its load.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The entries of parts, for [`Keyspace::bulk_load_ops`]. If the way is gone before their end, that
/// is an error, so the load leaves nothing.
pub struct Entries<P, E> {
    parts: Receiver<Option<P>>,
    read: fn(P) -> Result<Vec<Entry>, E>,
    entries: std::vec::IntoIter<Entry>,
}

impl<P, E> Entries<P, E> {
    /// Entries that `read` makes of parts, and the way of the parts.
    pub fn new(read: fn(P) -> Result<Vec<Entry>, E>) -> (Parts<P>, Entries<P, E>) {
        let (way, parts) = sync_channel(WAITING);
        let entries = Vec::new().into_iter();
        let entries = Entries {
            parts,
            read,
            entries,
        };
        (way, entries)
    }
}

impl<P, E: From<Error>> Iterator for Entries<P, E> {
    type Item = Result<Entry, E>;

    fn next(&mut self) -> Option<Result<Entry, E>> {
        loop {
            if let Some(entry) = self.entries.next() {
                return Some(Ok(entry));
            }
            match self.parts.recv().map(|part| part.map(self.read)) {
                Ok(Some(Ok(entries))) => self.entries = entries.into_iter(),
                Ok(Some(Err(error))) => return Some(Err(error)),
                Ok(None) => return None,
                Err(_) => {
                    let message = "the bulk load was given up before its end";
                    return Some(Err(Error::new(ErrorKind::Cancelled, message).into()));
                }
            }
        }
    }
}

/// Loads the entries that `next` returns until `None`. Calls `pause` with a time to wait, behind
/// each part and while it waits for the load. An error of `pause` leaves the load: one that has all
/// entries goes on to its end, another one leaves nothing.
///
/// # Errors
/// Those of [`Keyspace::bulk_load_ops`], `next` and `pause`; `Io` if no thread can be started.
pub fn bulk_load<E: From<Failure> + From<Error>>(
    keyspace: Keyspace,
    next: impl FnMut() -> Result<Option<Entry>, E>,
    mut pause: impl FnMut(Duration) -> Result<(), E>,
) -> Result<BulkLoadReport, E> {
    let (way, entries) = Entries::<_, Error>::new(Ok);
    let (sender, report) = channel();
    // The receiver is gone if the caller no longer waits.
    start(move || drop(sender.send(run(|| Ok(keyspace.bulk_load_ops(entries))))))?;
    let sent = send_all(&way, next, &mut pause)?;
    // Without an end, nothing of the load is left when its report is there.
    drop(way);
    let report = loop {
        match report.try_recv() {
            Ok(report) => break report?,
            Err(TryRecvError::Empty) => pause(LOOK_EVERY)?,
            Err(TryRecvError::Disconnected) => unreachable!("`run` returns after every panic"),
        }
    };
    match sent {
        Sent::Refused(error) => Err(error),
        Sent::All | Sent::Ended => Ok(report?),
    }
}

enum Sent<E> {
    All,
    /// The load has ended before, and its report says why.
    Ended,
    /// An error of `next`.
    Refused(E),
}

/// # Errors
/// Those of `pause`.
fn send_all<E>(
    way: &Parts<Vec<Entry>>,
    mut next: impl FnMut() -> Result<Option<Entry>, E>,
    pause: &mut impl FnMut(Duration) -> Result<(), E>,
) -> Result<Sent<E>, E> {
    let mut is_end = false;
    while !is_end {
        let mut entries = Vec::new();
        match gather(&mut next, &mut entries) {
            Ok(ends) => is_end = ends,
            Err(error) => return Ok(Sent::Refused(error)),
        }
        // Others may want this thread, also if the load keeps up.
        pause(Duration::ZERO)?;
        for mut part in [Some(entries), None]
            .into_iter()
            .take(1 + usize::from(is_end))
        {
            while let Err(refused) = way.try_send(part) {
                part = match refused {
                    TrySendError::Full(part) => part,
                    TrySendError::Disconnected(_) => return Ok(Sent::Ended),
                };
                pause(LOOK_EVERY)?;
            }
        }
    }
    Ok(Sent::All)
}

/// Gathers the next entries, as many as one part has. Returns true at their end.
fn gather<E>(
    next: &mut impl FnMut() -> Result<Option<Entry>, E>,
    entries: &mut Vec<Entry>,
) -> Result<bool, E> {
    let mut bytes = 0;
    while entries.len() < PART_ENTRIES && bytes < PART_BYTES {
        let Some((key, op)) = next()? else {
            return Ok(true);
        };
        bytes += key.len()
            + if let LoadOp::Put(value) = &op {
                value.len()
            } else {
                0
            };
        entries.push((key, op));
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Db, Layout};

    fn number(i: u32) -> Entry {
        (i.to_be_bytes().to_vec(), LoadOp::Put(vec![7; 100]))
    }

    fn sleep(time: Duration) -> Result<(), Failure> {
        std::thread::sleep(time);
        Ok(())
    }

    #[test]
    fn entries_are_asked_for_until_their_end() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        let keyspace = db.keyspace("k", Layout::sorted()).unwrap();
        for count in [0, 1, PART_ENTRIES as u32] {
            let mut numbers = (0..count).map(number);
            let mut asked = 0;
            let next = || {
                asked += 1;
                Ok(numbers.next())
            };
            let report = bulk_load(keyspace.clone(), next, sleep).unwrap();
            assert_eq!((report.entries, asked), (u64::from(count), count + 1));
        }
    }

    #[test]
    fn entries_of_many_parts_are_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        let keyspace = db.keyspace("k", Layout::sorted()).unwrap();
        let mut numbers = (0..20_000).map(number);
        let report = bulk_load(keyspace.clone(), || Ok(numbers.next()), sleep).unwrap();
        assert_eq!(report.entries, 20_000);
        assert_eq!(
            keyspace
                .get(19_999_u32.to_be_bytes())
                .unwrap()
                .unwrap()
                .len(),
            100
        );
    }

    #[test]
    fn a_load_that_is_refused_or_left_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        let keyspace = db.keyspace("k", Layout::sorted()).unwrap();
        let mut numbers = (0..20_000).map(number);
        let next = || {
            numbers
                .next()
                .ok_or_else(|| Failure::invalid("no more"))
                .map(Some)
        };
        let failure = bulk_load(keyspace.clone(), next, sleep).unwrap_err();
        assert_eq!(failure.message, "no more");
        // The load does not keep up with numbers that never end.
        let (mut numbers, mut pauses) = ((0..).map(number), 0);
        let pause = |time| {
            pauses += 1;
            sleep(time)?;
            match pauses {
                3 => Err(Failure::invalid("enough")),
                _ => Ok(()),
            }
        };
        let failure = bulk_load(keyspace.clone(), || Ok(numbers.next()), pause).unwrap_err();
        assert_eq!(failure.message, "enough");
        // The load ends at the second entry, though there are always more.
        let failure = bulk_load(keyspace.clone(), || Ok(Some(number(1))), sleep).unwrap_err();
        assert_eq!(failure.kind, Some(ErrorKind::InvalidArgument));
        assert!(!keyspace.contains_key(0_u32.to_be_bytes()).unwrap());
        db.close().unwrap();
    }
}
