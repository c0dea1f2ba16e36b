//! Streams as whole values, for DUMP and RESTORE. What is read is counted.

use super::stream_groups::{Consumer, Pending, read_up_to};
use super::stream_info::groups;
use super::streams::{encode, item_key, items};
use crate::rdb::{Members, Stream};
use crate::store::{Answer, Id, Meta, Space, Txn};

const ALL: (Id, Id) = (
    Id {
        millis: 0,
        number: 0,
    },
    Id::MAX,
);

pub(super) fn read(txn: &mut Txn<'_>, meta: &Meta) -> Answer<Stream> {
    let mut room = txn.room;
    let mut stream = Stream {
        items: items(txn, meta, ALL, (usize::MAX, false), &mut room)?,
        ends: meta.ends,
        ..Stream::default()
    };
    for group in groups(txn, meta)? {
        let pending = Pending::walk(txn, (meta, &group), ALL, usize::MAX)?;
        let bytes = |it: &Pending| size_of::<Pending>() + it.consumer.len();
        stream.groups.push(Members {
            consumers: Consumer::all(txn, meta, &group)?,
            pending: room.gather(pending, bytes)?,
            group,
        });
    }
    Ok(stream)
}

/// Writes entries and groups. The entry of the key has the number of entries already.
pub(super) fn put(txn: &mut Txn<'_>, meta: &mut Meta, stream: &Stream) -> Answer<()> {
    meta.ends = stream.ends;
    let db = txn.db;
    for (id, words) in &stream.items {
        txn.put(db, Space::Ordered, &item_key(meta, *id), &encode(words))?;
    }
    for members in &stream.groups {
        let mut group = members.group.clone();
        if stream.is_old {
            group.read = read_up_to(meta, group.last);
        }
        group.put(txn, meta)?;
        for consumer in &members.consumers {
            consumer.put(txn, meta, &group)?;
        }
        for pending in &members.pending {
            pending.put(txn, meta, &group)?;
        }
    }
    Ok(())
}
