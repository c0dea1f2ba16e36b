//! The bytes that a reply may take: as many as all clients may leave unread together. What is
//! collected for a reply is counted before it is kept. An element counts with the memory that it
//! takes beside its bytes, which is most of it if it is short.

use std::cmp::Ordering;

use super::{Answer, Stop};
use crate::resp::{ELEMENT_BYTES, Reply};

/// The memory of one commit: the largest values of a pipeline, twice, since it reads its writes.
pub(super) const BATCH_BYTES_MAX: usize = 256 << 20;

/// See the module. A copy counts what is collected; that of a transaction is for all its replies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    bytes_max: usize,
    left: usize,
    /// Several replies are one.
    is_shared: bool,
    /// The room is for a reply, not for what is stored.
    is_reply: bool,
}

/// The memory of an element that is drawn, with its bytes; few have more.
const DRAWN_BYTES: u64 = 64;

impl Room {
    /// For what is neither replied nor stored.
    pub(crate) const ENDLESS: Room = Room::behind(usize::MAX, 0, false);

    /// For what will be stored: a commit has no room for more.
    pub(crate) const OF_COMMIT: Room = Room {
        is_reply: false,
        ..Room::behind(BATCH_BYTES_MAX, 0, false)
    };

    /// The room behind replies that take some of it. It is for one reply, or shared by several.
    pub(crate) const fn behind(bytes_max: usize, replied: usize, is_shared: bool) -> Room {
        Room {
            bytes_max,
            left: bytes_max.saturating_sub(replied),
            is_shared,
            is_reply: true,
        }
    }

    fn refusal(self) -> Stop {
        let bytes_max = self.bytes_max;
        if !self.is_reply {
            return Stop::reply(format!("ERR the commit takes more than {bytes_max} bytes"));
        }
        Stop::reply(format!(
            "ERR the reply takes more than {bytes_max} bytes: read parts, with HSCAN, SSCAN, ZSCAN, \
             SCAN, LRANGE, GETRANGE or COUNT"
        ))
    }

    /// Takes room for some bytes.
    pub(crate) fn take(&mut self, bytes: usize) -> Answer<()> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or_else(|| self.refusal())?;
        Ok(())
    }

    /// Checks that there is room for a reply, and takes it if others are to share it.
    pub(crate) fn hold(&mut self, reply: Reply) -> Answer<Reply> {
        let mut behind = *self;
        behind.take(reply.memory_bytes())?;
        if self.is_shared {
            // It is an element of the reply to EXEC.
            behind.left = behind.left.saturating_sub(ELEMENT_BYTES);
            *self = behind;
        }
        Ok(reply)
    }

    /// Adds to replies, which are parts of one.
    pub(crate) fn push(&mut self, replies: &mut Vec<Reply>, reply: Reply) -> Answer<()> {
        self.take(reply.element_bytes())?;
        replies.push(reply);
        Ok(())
    }

    /// Refuses to draw more elements than there is room for.
    pub(crate) fn check_draws(self, count: u64) -> Answer<()> {
        match count.saturating_mul(DRAWN_BYTES) <= self.left as u64 {
            true => Ok(()),
            false => Err(self.refusal()),
        }
    }

    /// Collects parts with these bytes, as long as there is room.
    pub(crate) fn collect<T>(
        mut self,
        parts: impl Iterator<Item = Answer<T>>,
        bytes: impl Fn(&T) -> usize,
    ) -> Answer<Vec<T>> {
        self.gather(parts, bytes)
    }

    /// Collects parts as [`Room::collect`] does, and takes their room.
    pub(crate) fn gather<T>(
        &mut self,
        parts: impl Iterator<Item = Answer<T>>,
        bytes: impl Fn(&T) -> usize,
    ) -> Answer<Vec<T>> {
        let mut kept = Vec::new();
        for part in parts {
            let part = part?;
            self.take(bytes(&part))?;
            kept.push(part);
        }
        Ok(kept)
    }

    /// Collects the elements of a reply.
    pub(crate) fn replies(self, parts: impl Iterator<Item = Answer<Reply>>) -> Answer<Vec<Reply>> {
        self.collect(parts, Reply::element_bytes)
    }
}

/// The first parts in an order, and their bytes, of all that are pushed. Parts behind the limit of
/// a reply take none of its room. Parts are sorted when there are many new ones, by number or by
/// bytes. Those that are not among the first then go.
pub(crate) struct First<T, O> {
    count: usize,
    room: Room,
    /// The bytes of parts since the last sorting.
    fresh: usize,
    order: O,
    kept: Vec<(T, usize)>,
    /// The first part that had no room. It matters unless enough parts come before it.
    end: Option<T>,
}

/// Fewer parts are not sorted for their number.
const SORTED_MIN: usize = 1024;

impl<T, O: Fn(&T, &T) -> Ordering> First<T, O> {
    pub(crate) fn new(count: usize, room: Room, order: O) -> First<T, O> {
        First {
            count,
            room,
            fresh: 0,
            order,
            kept: Vec::new(),
            end: None,
        }
    }

    pub(crate) fn push(&mut self, part: T, bytes: usize) -> Answer<()> {
        let is_behind = |end: &T| (self.order)(&part, end).is_ge();
        if self.end.as_ref().is_some_and(is_behind) {
            return Ok(());
        }
        self.kept.push((part, bytes));
        self.fresh = self.fresh.saturating_add(bytes);
        let many = self.count.saturating_mul(2).max(SORTED_MIN);
        if self.fresh > self.room.left || self.kept.len() >= many {
            self.cut();
        }
        match self.end.is_some() && self.count == usize::MAX {
            true => Err(self.room.refusal()),
            false => Ok(()),
        }
    }

    /// Lets go of what is not among the first, and of what has no room.
    fn cut(&mut self) {
        self.kept.sort_by(|a, b| (self.order)(&a.0, &b.0));
        self.kept.truncate(self.count);
        self.fresh = 0;
        let mut room = self.room;
        if let Some(at) = self.kept.iter().position(|it| room.take(it.1).is_err()) {
            self.end = self.kept.drain(at..).next().map(|it| it.0);
        }
    }

    /// The parts in order.
    pub(crate) fn sorted(mut self) -> Answer<Vec<T>> {
        self.cut();
        match self.end.is_some() && self.kept.len() < self.count {
            true => Err(self.room.refusal()),
            false => Ok(self.kept.into_iter().map(|it| it.0).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_take_the_room_of_the_first() {
        let mut first = First::new(3, Room::behind(40, 0, false), u32::cmp);
        for it in [7, 3, 9, 1, 8, 2, 6] {
            first.push(it, 10).unwrap();
        }
        assert_eq!(first.sorted().unwrap(), [1, 2, 3]);
        // Parts without room may turn out not to be among the first.
        let mut first = First::new(3, Room::behind(40, 0, false), u32::cmp);
        for (it, bytes) in [
            (9, 15),
            (8, 15),
            (7, 15),
            (3, 10),
            (2, 10),
            (8, 15),
            (1, 10),
        ] {
            first.push(it, bytes).unwrap();
        }
        assert_eq!(first.sorted().unwrap(), [1, 2, 3]);
    }

    /// Elements of a byte counted for 7, and took 72 and their bytes.
    #[test]
    fn short_elements_count_with_the_memory_that_they_take() {
        const BYTES_MAX: usize = 1 << 20;
        assert_eq!(ELEMENT_BYTES, 72, "docs/server.md says so");
        let room = Room::behind(BYTES_MAX, 0, false);
        let short = |count: usize| (0..count).map(|_| Ok(Reply::bulk("m")));
        let fitting = BYTES_MAX / Reply::bulk("m").element_bytes();
        assert_eq!(room.replies(short(fitting)).unwrap().len(), fitting);
        room.replies(short(fitting + 1)).unwrap_err();
        // Also in other replies, and in those of a transaction.
        let nested = |count| Reply::Array(vec![Reply::Set(vec![Reply::Null; count])]);
        let mut hold = room;
        hold.hold(nested(fitting / 2)).unwrap();
        hold.hold(nested(2 * fitting)).unwrap_err();
        let mut shared = Room::behind(BYTES_MAX, 0, true);
        let held = (0..).take_while(|_| shared.hold(Reply::Null).is_ok());
        assert!(held.count() * size_of::<Reply>() <= BYTES_MAX);
        // A long one counts as it is written.
        let long = BYTES_MAX - 16;
        hold.hold(Reply::Bulk(vec![0; long])).unwrap();
    }

    #[test]
    fn parts_without_room_are_refused() {
        let is_refusal =
            |stop: Stop| matches!(stop, Stop::Reply(text) if text.contains("40 bytes"));
        let mut first = First::new(5, Room::behind(40, 0, false), u32::cmp);
        (0..5).for_each(|it| first.push(it, 10).unwrap());
        assert!(is_refusal(first.sorted().unwrap_err()));
        let mut first = First::new(usize::MAX, Room::behind(40, 0, false), u32::cmp);
        let refused = (0..6).find_map(|it| first.push(it, 10).err());
        assert!(refused.is_some_and(is_refusal));
    }

    /// Each part that came when the first nearly filled the room had all of them sorted again.
    #[test]
    fn parts_are_sorted_many_at_a_time() {
        let compared = std::cell::Cell::new(0);
        let order = |a: &u32, b: &u32| {
            compared.set(compared.get() + 1);
            a.cmp(b)
        };
        let mut first = First::new(999, Room::behind(10_000, 0, false), order);
        for it in 0..20_000_u32 {
            first.push(it.wrapping_mul(2_654_435_761), 10).unwrap();
        }
        assert_eq!(first.sorted().unwrap().len(), 999);
        assert!(compared.get() < 40 * 20_000, "{}", compared.get());
    }
}
