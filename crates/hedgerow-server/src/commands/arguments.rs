//! Arguments as numbers and words.

use crate::number;
use crate::store::{Answer, Stop};

pub(crate) fn is(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

pub(crate) fn integer(argument: &[u8]) -> Answer<i64> {
    number::integer(argument).ok_or_else(Stop::not_an_integer)
}

pub(crate) fn float(argument: &[u8]) -> Answer<f64> {
    number::parse_float(argument).ok_or_else(Stop::not_a_float)
}

/// A number of items that may not be negative.
pub(crate) fn count(argument: &[u8]) -> Answer<usize> {
    let out_of_range = || Stop::reply("ERR value is out of range, must be positive");
    let count = number::integer(argument).ok_or_else(out_of_range)?;
    usize::try_from(count).map_err(|_| out_of_range())
}

/// The number of random elements, if one is wanted, and true if the word behind it is there.
pub(crate) fn random_options(args: &[&[u8]], word: &str) -> Answer<(Option<i64>, bool)> {
    let has_word = match args.get(3) {
        None => false,
        Some(found) if is(found, word) && args.len() == 4 => true,
        Some(_) => return Err(Stop::syntax()),
    };
    let count = args.get(2).map(|count| integer(count)).transpose()?;
    match count.is_none_or(|it| (-(i64::MAX / 2)..=i64::MAX / 2).contains(&it)) {
        true => Ok((count, has_word)),
        false => Err(Stop::reply("ERR value is out of range")),
    }
}

/// The elements from `start` to `stop`, which count from the end if negative; `None` if there are
/// none.
pub(crate) fn slice(start: i64, stop: i64, length: u64) -> Option<std::ops::RangeInclusive<u64>> {
    let length = length as i64;
    let from_end = |index: i64| {
        if index < 0 {
            length.saturating_add(index)
        } else {
            index
        }
    };
    let start = from_end(start).max(0);
    let stop = from_end(stop).min(length - 1);
    (start <= stop && start < length).then_some(start as u64..=stop as u64)
}

/// The options behind the fixed arguments, taken one after the other.
pub(crate) struct Options<'a> {
    rest: &'a [&'a [u8]],
}

impl<'a> Options<'a> {
    pub(crate) fn new(rest: &'a [&'a [u8]]) -> Options<'a> {
        Options { rest }
    }

    pub(crate) fn next(&mut self) -> Option<&'a [u8]> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// The value of an option, which must be there.
    pub(crate) fn value(&mut self) -> Answer<&'a [u8]> {
        self.next().ok_or_else(Stop::syntax)
    }

    pub(crate) fn integer(&mut self) -> Answer<i64> {
        integer(self.value()?)
    }

    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }
}

/// A time of expiry: the argument in milliseconds or seconds, from now on or since 1970.
pub(crate) fn expiry(argument: &[u8], unit: &[u8], now: u64, command: &str) -> Answer<u64> {
    let wrong = || Stop::reply(format!("ERR invalid expire time in '{command}' command"));
    let number = integer(argument)?;
    if number <= 0 {
        return Err(wrong());
    }
    let in_seconds = is(unit, "EX") || is(unit, "EXAT");
    let millis = if in_seconds {
        number.checked_mul(1_000)
    } else {
        Some(number)
    };
    let is_relative = is(unit, "EX") || is(unit, "PX");
    let base = if is_relative { now as i64 } else { 0 };
    let at = millis.and_then(|millis| millis.checked_add(base));
    at.map(|at| at as u64).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::slice;

    #[test]
    fn places_count_from_both_ends() {
        assert_eq!(slice(0, -1, 3), Some(0..=2));
        assert_eq!(slice(-100, 100, 3), Some(0..=2));
        assert_eq!(slice(2, 1, 3), None);
        assert_eq!(slice(3, 5, 3), None);
        assert_eq!(slice(0, -1, 0), None);
        assert_eq!(slice(-2, -2, 3), Some(1..=1));
    }
}
