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

/// A float, also `inf`, without spaces; no `nan`.
pub(crate) fn parse_float(bytes: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => i64::from_str_radix(hex, 16).ok()? as f64,
        None => text.parse::<f64>().ok()?,
    };
    (!number.is_nan()).then_some(number)
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

/// The sum of two decimals without exponents; `None` for other numbers, and for more digits than
/// are computed with.
pub(crate) fn decimal_sum(one: &[u8], other: &[u8]) -> Option<String> {
    const PLACES: usize = 17;
    let scaled = |text: &[u8]| -> Option<i128> {
        let text = std::str::from_utf8(text).ok()?;
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = whole.trim_start_matches('-');
        let all_digits = |it: &str| it.bytes().all(|byte| byte.is_ascii_digit());
        if !all_digits(digits) || !all_digits(part) || part.len() > PLACES || digits.len() > 19 {
            return None;
        }
        let number: i128 = format!("{digits}{part:0<PLACES$}").parse().ok()?;
        Some(if whole.starts_with('-') {
            -number
        } else {
            number
        })
    };
    let sum = scaled(one)? + scaled(other)?;
    let text = format!("{:0>18}", sum.unsigned_abs());
    let (whole, part) = text.split_at(text.len() - PLACES);
    let part = part.trim_end_matches('0');
    let sign = if sum < 0 { "-" } else { "" };
    Some(match part {
        "" => format!("{sign}{whole}"),
        part => format!("{sign}{whole}.{part}"),
    })
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
    fn decimals_are_added_as_decimals() {
        for (one, other, sum) in [
            ("3", "1.1", Some("4.1")),
            ("0.1", "0.2", Some("0.3")),
            ("-1.5", "0.25", Some("-1.25")),
            ("0.024390243902439025", "-0.024390243902439025", None),
            ("0.02439024390243902", "-0.02439024390243902", Some("0")),
            ("1e3", "1", None),
        ] {
            let found = decimal_sum(one.as_bytes(), other.as_bytes());
            assert_eq!(found.as_deref(), sum, "{one} {other}");
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
