//! The lines of a transcript. The model and the engine write them with the same functions, each
//! from its own results.

use hedgerow::ErrorKind;

use crate::blob::show;
use crate::ops::Step;
use crate::random::{hash, mix};

/// Line: the operation was done.
pub(crate) fn done() -> String {
    "ok".into()
}

/// Line: there is nothing to do it to.
pub(crate) fn nothing() -> String {
    "nothing".into()
}

/// Line: the operation was refused.
pub(crate) fn error(kind: ErrorKind) -> String {
    format!("error {kind:?}")
}

/// Line: `count` writes are in the batch.
pub(crate) fn added(count: u32) -> String {
    format!("ok {count}")
}

/// Line: yes or no.
pub(crate) fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.into()
}

/// Line: a value or none.
pub(crate) fn value(value: Option<&[u8]>) -> String {
    value.map_or("none".into(), |bytes| format!("={}", show(bytes)))
}

/// Line: several values.
pub(crate) fn values<'a>(found: impl Iterator<Item = Option<&'a [u8]>>) -> String {
    found.map(value).collect::<Vec<_>>().join(" ")
}

/// Line: a key and its value.
pub(crate) fn entry(key: &[u8], value: &[u8]) -> String {
    format!("{}={}", show(key), show(value))
}

/// Line: the first and the last entry, and the number of keys.
pub(crate) fn ends<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    ends: [Option<(K, V)>; 2],
    count: usize,
) -> String {
    format!("{} of {count}", moves(ends.into_iter()))
}

/// Line: the target of each move of a cursor.
pub(crate) fn moves<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    places: impl Iterator<Item = Option<(K, V)>>,
) -> String {
    let place =
        |place: Option<(K, V)>| place.map_or("none".into(), |(k, v)| entry(k.as_ref(), v.as_ref()));
    places.map(place).collect::<Vec<_>>().join(" ")
}

/// Line: the results of a scan's steps. `|` ends a step. Each end is reached twice, to check that
/// it stays an end.
///
/// # Errors
/// The error of an item.
pub(crate) fn scan<K: AsRef<[u8]>, V: AsRef<[u8]>, E>(
    items: &mut impl DoubleEndedIterator<Item = Result<(K, V), E>>,
    steps: &[Step],
) -> Result<String, E> {
    let mut words = Vec::new();
    for step in steps {
        let (forward, mut left) = match *step {
            Step::Forward(n) => (true, n),
            Step::Backward(n) => (false, n),
            Step::ForwardRest => (true, u32::MAX),
            Step::BackwardRest => (false, u32::MAX),
        };
        while left > 0 {
            let item = if forward {
                items.next()
            } else {
                items.next_back()
            };
            match item.transpose()? {
                Some((key, value)) => words.push(entry(key.as_ref(), value.as_ref())),
                None => {
                    words.push("end".into());
                    left = left.min(2);
                }
            }
            left -= 1;
        }
        words.push("|".into());
    }
    Ok(words.join(" "))
}

/// Returns the number of entries and a hash over them.
pub(crate) fn digest<'a>(entries: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> (u64, u64) {
    entries.fold((0, 0), |(count, digest), (key, value)| {
        let entry = hash(key) ^ hash(value).rotate_left(13);
        (count + 1, mix(digest.rotate_left(7) ^ entry))
    })
}

/// Line: every keyspace with its [`digest`].
pub(crate) fn contents<'a>(keyspaces: impl Iterator<Item = (&'a str, (u64, u64))>) -> String {
    let one = |(name, (count, digest)): (&str, (u64, u64))| format!("{name}:{count}#{digest:016x}");
    keyspaces.map(one).collect::<Vec<_>>().join(" ")
}
