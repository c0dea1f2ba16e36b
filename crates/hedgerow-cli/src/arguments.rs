//! Parsers for flags that several subcommands have.

use hedgerow::PolicySpec;

/// Parses a table of levels: `0=runs:4;1-2=tiering:8/bloom:12;3=leveling:8`.
pub(crate) fn levels(text: &str) -> Result<PolicySpec, String> {
    match text.parse() {
        Ok(PolicySpec::Levels(levels)) => Ok(PolicySpec::Levels(levels)),
        Ok(_) => Err(format!(
            "expected a table of levels such as `0=runs:4;1=leveling:8`, found `{text}`, which is for --policy"
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses a number of bytes: `65536`, `64KiB`, `1.5MiB`, `1GiB`; `KB`, `MB` and `GB` are decimal.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let unknown = || format!("expected a size such as `64MiB` or `65536`, found `{text}`");
    let unit_at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return Err(unknown()),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(unknown);
    }
    let parsed: f64 = number.parse().map_err(|_| unknown())?;
    Ok((parsed * factor as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_are_read_with_their_unit() {
        assert_eq!(bytes("65536"), Ok(65536));
        assert_eq!(bytes("64KiB"), Ok(65536));
        assert_eq!(bytes("1.5 MiB"), Ok(3 << 19));
        assert_eq!(bytes("2g"), Ok(2 << 30));
        assert_eq!(bytes("3MB"), Ok(3_000_000));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "MiB", "-1", "1.2.3", "5 apples", "99999999999GiB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
