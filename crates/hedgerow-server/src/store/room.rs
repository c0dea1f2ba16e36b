//! The bytes that a reply may take: as many as all clients may leave unread together. What is
//! collected for a reply is counted before it is kept.

use super::{Answer, Stop};
use crate::resp::Reply;

/// See the module. A copy counts what is collected; that of a transaction is for all its replies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    bytes_max: usize,
    left: usize,
    /// Several replies are one.
    is_shared: bool,
}

/// The memory of an element that is drawn, with its bytes; few have more.
const DRAWN_BYTES: u64 = 64;

impl Room {
    /// For what is no reply.
    pub(crate) const ENDLESS: Room = Room::behind(usize::MAX, 0, false);

    /// The room behind replies that take some of it. It is for one reply, or shared by several.
    pub(crate) const fn behind(bytes_max: usize, replied: usize, is_shared: bool) -> Room {
        Room {
            bytes_max,
            left: bytes_max.saturating_sub(replied),
            is_shared,
        }
    }

    fn refusal(self) -> Stop {
        Stop::reply(format!(
            "ERR the reply takes more than {} bytes: read parts, with HSCAN, SSCAN, ZSCAN, SCAN, \
             LRANGE, GETRANGE or COUNT",
            self.bytes_max
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
        behind.take(reply.bytes())?;
        if self.is_shared {
            *self = behind;
        }
        Ok(reply)
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
        self.collect(parts, Reply::bytes)
    }
}
