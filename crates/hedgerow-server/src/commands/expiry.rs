//! The time of expiry of a key.

use super::Args;
use super::arguments::{integer, is};
use crate::resp::Reply;
use crate::store::{Answer, Meta, Stop, Txn};

pub(super) fn expire(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    expire_at(txn, args, 1_000, true)
}

pub(super) fn pexpire(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    expire_at(txn, args, 1, true)
}

pub(super) fn expireat(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    expire_at(txn, args, 1_000, false)
}

pub(super) fn pexpireat(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    expire_at(txn, args, 1, false)
}

/// The conditions of EXPIRE and HEXPIRE.
#[derive(Default)]
pub(super) struct Conditions {
    none: bool,
    some: bool,
    later: bool,
    earlier: bool,
}

impl Conditions {
    pub(super) fn parse(options: Args<'_>) -> Answer<Conditions> {
        let mut conditions = Conditions::default();
        for option in options {
            let condition = match option {
                it if is(it, "NX") => &mut conditions.none,
                it if is(it, "XX") => &mut conditions.some,
                it if is(it, "GT") => &mut conditions.later,
                it if is(it, "LT") => &mut conditions.earlier,
                _ => {
                    let option = option.escape_ascii();
                    return Err(Stop::reply(format!("ERR Unsupported option {option}")));
                }
            };
            *condition = true;
        }
        let Conditions {
            none,
            some,
            later,
            earlier,
        } = conditions;
        if none && (some || later || earlier) {
            return Err(Stop::reply(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if later && earlier {
            return Err(Stop::reply(
                "ERR GT and LT options at the same time are not compatible",
            ));
        }
        Ok(conditions)
    }

    /// No time of expiry counts as the latest one.
    pub(super) fn hold(&self, old: u64, new: u64) -> bool {
        let old_time = if old == 0 { u64::MAX } else { old };
        !(self.none && old > 0
            || self.some && old == 0
            || self.later && new <= old_time
            || self.earlier && new >= old_time)
    }
}

fn expire_at(txn: &mut Txn<'_>, args: Args<'_>, unit: i64, is_relative: bool) -> Answer<Reply> {
    let conditions = Conditions::parse(&args[3..])?;
    let name = String::from_utf8_lossy(args[0]).to_lowercase();
    let wrong = || Stop::reply(format!("ERR invalid expire time in '{name}' command"));
    let base = if is_relative { txn.now as i64 } else { 0 };
    let at = integer(args[2])?
        .checked_mul(unit)
        .and_then(|it| it.checked_add(base));
    let at = at.ok_or_else(wrong)?.max(0) as u64;
    let mut entry = txn.lookup(args[1])?;
    let Some(meta) = entry.meta().cloned() else {
        return Ok(Reply::Integer(0));
    };
    if !conditions.hold(meta.expires, at) {
        return Ok(Reply::Integer(0));
    }
    if at <= txn.now {
        txn.del(&mut entry)?;
    } else {
        txn.store(
            &mut entry,
            Meta {
                expires: at,
                ..meta
            },
        )?;
        txn.event(&entry, b'g', "expire");
    }
    Ok(Reply::Integer(1))
}

pub(super) fn persist(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let mut entry = txn.lookup(args[1])?;
    let Some(meta) = entry.meta().filter(|meta| meta.expires > 0).cloned() else {
        return Ok(Reply::Integer(0));
    };
    txn.store(&mut entry, Meta { expires: 0, ..meta })?;
    txn.event(&entry, b'g', "persist");
    Ok(Reply::Integer(1))
}

pub(super) fn ttl(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let now = txn.now;
    time(txn, args, |at| (at.saturating_sub(now) + 500) / 1_000)
}

pub(super) fn pttl(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let now = txn.now;
    time(txn, args, |at| at.saturating_sub(now))
}

pub(super) fn expiretime(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    time(txn, args, |at| at.saturating_add(500) / 1_000)
}

pub(super) fn pexpiretime(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    time(txn, args, |at| at)
}

/// −2 without the key, −1 if it does not expire.
fn time(txn: &mut Txn<'_>, args: Args<'_>, unit: impl Fn(u64) -> u64) -> Answer<Reply> {
    let entry = txn.lookup(args[1])?;
    Ok(Reply::Integer(match entry.meta() {
        None => -2,
        Some(meta) if meta.expires == 0 => -1,
        Some(meta) => unit(meta.expires) as i64,
    }))
}
