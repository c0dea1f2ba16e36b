//! Sums of numbers as they are written, digit by digit, so that nothing is lost.
//!
//! Cost: some steps for each digit, of which there are as many as the bounds below allow.

/// The digits behind the point that INCRBYFLOAT keeps.
const PLACES: usize = 17;
/// The digits before the point: as many as the largest float has.
const DIGITS_MAX: usize = 309;

/// A number in units of the last place: its digits from the highest on, without zeros in front.
struct Decimal {
    is_negative: bool,
    digits: Vec<u8>,
}

impl Decimal {
    /// `None` for what is no decimal number, and for more digits than are computed with.
    fn parse(text: &[u8]) -> Option<Decimal> {
        let text = std::str::from_utf8(text).ok()?;
        let (is_negative, text) = match text.strip_prefix('-') {
            Some(text) => (true, text),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (text, power) = match text.split_once(['e', 'E']) {
            Some((text, power)) => (text, power.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let all = whole.bytes().chain(part.bytes());
        let is_digit = |it: u8| it.is_ascii_digit().then(|| it - b'0');
        let all = all.map(is_digit).collect::<Option<Vec<u8>>>()?;
        let Some(last) = all.iter().rposition(|it| *it > 0) else {
            return Some(Decimal::of(is_negative, Vec::new()));
        };
        let zeros = all.len() - last - 1;
        let power = i64::from(power) + zeros as i64 - part.len() as i64;
        let behind = usize::try_from(power + PLACES as i64).ok()?;
        let number = Decimal::of(is_negative, all[..=last].to_vec());
        let length = number.digits.len() + behind;
        (length <= DIGITS_MAX + PLACES).then(|| number.followed_by_zeros(behind))
    }

    /// The number with these digits.
    fn of(is_negative: bool, mut digits: Vec<u8>) -> Decimal {
        let zeros = digits.iter().take_while(|it| **it == 0).count();
        digits.drain(..zeros);
        Decimal {
            is_negative,
            digits,
        }
    }

    fn followed_by_zeros(mut self, count: usize) -> Decimal {
        self.digits.resize(self.digits.len() + count, 0);
        self
    }

    fn is_larger(&self, other: &Decimal) -> bool {
        let size = |it: &Decimal| it.digits.len();
        (size(self), &self.digits) > (size(other), &other.digits)
    }

    /// The sum with a number that is not larger, whatever the signs.
    fn plus_smaller(&self, other: &Decimal) -> Decimal {
        let is_sum = self.is_negative == other.is_negative;
        let mut smaller = other.digits.iter().rev();
        let (mut digits, mut carry) = (Vec::with_capacity(self.digits.len() + 1), 0);
        for digit in self.digits.iter().rev() {
            let taken = smaller.next().copied().unwrap_or(0) + carry;
            let new = match is_sum {
                true => digit + taken,
                false => digit + 10 - taken,
            };
            carry = u8::from((new >= 10) == is_sum);
            digits.push(new % 10);
        }
        digits.push(if is_sum { carry } else { 0 });
        digits.reverse();
        Decimal::of(self.is_negative, digits)
    }

    fn text(&self) -> String {
        let digit = |it: &u8| char::from(b'0' + it);
        let digits: String = self.digits.iter().map(digit).collect();
        let padded = format!("{digits:0>width$}", width = PLACES + 1);
        let (whole, part) = padded.split_at(padded.len() - PLACES);
        let part = part.trim_end_matches('0');
        let is_negative = self.is_negative && !digits.is_empty();
        let sign = if is_negative { "-" } else { "" };
        let point = if part.is_empty() { "" } else { "." };
        format!("{sign}{whole}{point}{part}")
    }
}

/// The sum of two decimals, without an exponent; `None` for other numbers, and for more digits
/// than are computed with.
pub(crate) fn sum(one: &[u8], other: &[u8]) -> Option<String> {
    let (one, other) = (Decimal::parse(one)?, Decimal::parse(other)?);
    let sum = match other.is_larger(&one) {
        true => other.plus_smaller(&one),
        false => one.plus_smaller(&other),
    };
    Some(sum.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_added_as_decimals() {
        for (one, other, expected) in [
            ("3", "1.1", Some("4.1")),
            ("0.1", "0.2", Some("0.3")),
            ("-1.5", "0.25", Some("-1.25")),
            ("1.5", "-1.50", Some("0")),
            ("-0", "0", Some("0")),
            ("999.5", "0.5", Some("1000")),
            ("-1000", ".5", Some("-999.5")),
            ("+2.", "+.5", Some("2.5")),
            ("0.024390243902439025", "-0.024390243902439025", None),
            ("0.02439024390243902", "-0.02439024390243902", Some("0")),
            ("0x10", "1", None),
        ] {
            let found = sum(one.as_bytes(), other.as_bytes());
            assert_eq!(found.as_deref(), expected, "{one} {other}");
        }
    }

    #[test]
    fn exponents_and_many_digits_lose_nothing() {
        for (one, other, expected) in [
            ("9007199254740993", "1e0", Some("9007199254740994")),
            ("123456789012345678", "1e3", Some("123456789012346678")),
            (
                "1",
                "12345678901234567890123",
                Some("12345678901234567890124"),
            ),
            ("1E+20", "-1", Some("99999999999999999999")),
            ("1500e-3", "0.5", Some("2")),
            ("1000e-20", "0", Some("0.00000000000000001")),
            ("1e-18", "0", None),
            ("0e99999", "7", Some("7")),
            ("1e99999", "7", None),
        ] {
            let found = sum(one.as_bytes(), other.as_bytes());
            assert_eq!(found.as_deref(), expected, "{one} {other}");
        }
        let (large, nines) = ("1e308", "9".repeat(308));
        let found = sum(large.as_bytes(), b"-1");
        assert_eq!(found, Some(nines));
    }
}
