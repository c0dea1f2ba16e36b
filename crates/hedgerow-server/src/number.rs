//! Numbers as Redis reads and writes them.

/// An integer in its only form: no sign `+`, no space, no leading zero.
pub(crate) fn integer(bytes: &[u8]) -> Option<i64> {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let canonical = match digits {
        [b'0'] => bytes.len() == 1,
        [first, ..] => (b'1'..=b'9').contains(first),
        [] => false,
    };
    if !canonical {
        return None;
    }
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// A float, also `inf`, without spaces; no `nan`, and none that is too large or too close to 0.
pub(crate) fn parse_float(bytes: &[u8]) -> Option<f64> {
    let number = parse_any_float(bytes)?;
    let digits = bytes.strip_prefix(b"-").or(bytes.strip_prefix(b"+"));
    let digits = digits.unwrap_or(bytes);
    let is_in_range = match number {
        0.0 => !has_digits(digits),
        number => number.is_finite() || digits[0].eq_ignore_ascii_case(&b'i'),
    };
    is_in_range.then_some(number)
}

/// Returns true if a number without a sign has a digit other than 0 before its exponent.
fn has_digits(number: &[u8]) -> bool {
    let (number, exponent) = match number {
        [b'0', b'x' | b'X', digits @ ..] => (digits, b'p'),
        number => (number, b'e'),
    };
    let is_exponent = |it: &u8| it.eq_ignore_ascii_case(&exponent);
    let mut digits = number.iter().take_while(|it| !is_exponent(it));
    digits.any(|it| !matches!(it, b'0' | b'.'))
}

/// A float as above; one that is too large is infinite, and one that is too close to 0 is 0.
pub(crate) fn parse_any_float(bytes: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let hex = digits.strip_prefix("0x").or(digits.strip_prefix("0X"));
    let number = match hex {
        Some(hex) => sign * parse_hex(hex)?,
        None => text.parse::<f64>().ok()?,
    };
    (!number.is_nan()).then_some(number)
}

/// A number of hexadecimal digits, maybe with a point, and with a power of two behind `p`.
fn parse_hex(text: &str) -> Option<f64> {
    let (digits, power) = match text.split_once(['p', 'P']) {
        Some((digits, power)) => (digits, power.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    // A wider number has more digits than a float; the last bit says that some are left out.
    let (mut bits, mut power) = (0_u64, i64::from(power) - 4 * part.len() as i64);
    for digit in whole.chars().chain(part.chars()) {
        let digit = u64::from(digit.to_digit(16)?);
        match bits >> 60 {
            0 => bits = bits << 4 | digit,
            _ => (bits, power) = (bits | u64::from(digit > 0), power + 4),
        }
    }
    // In two steps, as the power alone may be out of range.
    let half = power.clamp(-2_000, 2_000) as i32 / 2;
    let rest = power.clamp(-2_000, 2_000) as i32 - half;
    Some(bits as f64 * 2_f64.powi(half) * 2_f64.powi(rest))
}

/// The shortest text that reads as the same float.
pub(crate) fn float(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if number == 0.0 {
        return if number.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let size = number.abs();
    if (1e-7..1e21).contains(&size) {
        return format!("{number}");
    }
    let text = format!("{number:e}");
    match text.split_once('e') {
        Some((digits, power)) if !power.starts_with('-') => format!("{digits}e+{power}"),
        _ => text,
    }
}

/// The text of a float that was computed by `INCRBYFLOAT`: never with an exponent.
pub(crate) fn plain_float(number: f64) -> String {
    format!("{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_one_form() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("01", None),
            ("+1", None),
            (" 1", None),
            ("-0", None),
            ("", None),
        ] {
            assert_eq!(integer(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn floats_out_of_range_are_none() {
        for (text, expected) in [
            ("1e308", Some(1e308)),
            ("1e309", None),
            ("-1e309", None),
            ("1e-310", Some(1e-310)),
            ("1e-400", None),
            ("-0", Some(-0.0)),
            ("0.0e9", Some(0.0)),
            ("0e", None),
            ("-Inf", Some(f64::NEG_INFINITY)),
            ("+infinity", Some(f64::INFINITY)),
            ("nan", None),
            (" 1", None),
            ("", None),
        ] {
            assert_eq!(parse_float(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(parse_any_float(b"1e309"), Some(f64::INFINITY));
        assert_eq!(parse_any_float(b"1e-400"), Some(0.0));
    }

    #[test]
    fn floats_have_hexadecimal_digits() {
        for (text, expected) in [
            ("0x10", Some(16.0)),
            ("-0X1p3", Some(-8.0)),
            ("0x.8", Some(0.5)),
            ("0x1.8P-1", Some(0.75)),
            ("0x0p9999", Some(0.0)),
            ("0x20000000000001", Some(9_007_199_254_740_992.0)),
            (
                "0x20000000000001000001",
                Some(9_007_199_254_740_994.0 * 16_777_216.0),
            ),
            ("0x1p-1074", Some(5e-324)),
            ("0x1p-1080", None),
            ("0x1p5000", None),
            ("0x", None),
            ("0x.", None),
            ("0x1p", None),
            ("0x-1", None),
        ] {
            assert_eq!(parse_float(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn floats_are_as_short_as_they_can_be() {
        for (number, text) in [
            (3.0, "3"),
            (-0.5, "-0.5"),
            (1e21, "1e+21"),
            (1e20, "100000000000000000000"),
            (1.5e-9, "1.5e-9"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(float(number), text);
        }
    }
}
