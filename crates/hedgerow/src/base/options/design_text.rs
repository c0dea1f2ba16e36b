//! The text of a design, as people keep it in a file: one line per choice, `filter = bloom:10`.

use std::fmt;
use std::str::FromStr;

use crate::base::error::{Error, Result};

use super::Design;

/// A choice of a design: its name, its writer (`None` if the engine decides) and its reader.
type Choice = (
    &'static str,
    fn(&Design) -> Option<String>,
    fn(&mut Design, &str) -> Result<()>,
);

const CHOICES: [Choice; 9] = [
    (
        "policy",
        |design| Some(design.policy.to_string()),
        |design, text| set(&mut design.policy, text),
    ),
    (
        "filter",
        |design| Some(design.filter.to_string()),
        |design, text| set(&mut design.filter, text),
    ),
    (
        "table",
        |design| Some(design.table.to_string()),
        |design, text| set(&mut design.table, text),
    ),
    (
        "index",
        |design| Some(design.index.to_string()),
        |design, text| set(&mut design.index, text),
    ),
    (
        "residency",
        |design| Some(design.residency.to_string()),
        |design, text| set(&mut design.residency, text),
    ),
    (
        "compression",
        |design| Some(design.compression.to_string()),
        |design, text| set(&mut design.compression, text),
    ),
    (
        "block-bytes",
        |design| Some(design.block_bytes.to_string()),
        |design, text| set_number(text, |bytes| design.block_bytes = bytes),
    ),
    (
        "table-bytes",
        |design| design.table_bytes.map(|bytes| bytes.to_string()),
        |design, text| set_number(text, |bytes| design.table_bytes = Some(bytes)),
    ),
    (
        "memtable-bytes",
        |design| design.memtable_bytes.map(|bytes| bytes.to_string()),
        |design, text| set_number(text, |bytes| design.memtable_bytes = Some(bytes)),
    ),
];

fn set<T: FromStr<Err = Error>>(choice: &mut T, text: &str) -> Result<()> {
    *choice = text.parse()?;
    Ok(())
}

fn set_number<T: FromStr>(text: &str, set: impl FnOnce(T)) -> Result<()> {
    let number = text.parse();
    set(number
        .map_err(|_| Error::invalid(format!("expected a number of bytes, found `{text}`")))?);
    Ok(())
}

/// One line per choice. Sizes that follow from the memory budget are left out.
///
/// ```
/// use hedgerow::{Design, PolicySpec};
///
/// let design = Design {
///     policy: PolicySpec::tiering(8),
///     ..Design::default()
/// };
/// let text = design.to_string();
/// assert!(text.starts_with("policy = tiering:8\n"));
/// assert_eq!(text.parse::<Design>()?, design);
/// # Ok::<(), hedgerow::Error>(())
/// ```
impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, write, _) in CHOICES {
            if let Some(value) = write(self) {
                writeln!(f, "{name} = {value}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Design {
    type Err = Error;

    /// Reads the lines of `Display`, in any order. A missing choice has its default. Empty lines
    /// and lines that begin with `#` are skipped.
    fn from_str(text: &str) -> Result<Design> {
        let design = Design::unchecked(text)?;
        design.check()?;
        Ok(design)
    }
}

impl Design {
    /// Reads a design whose numbers may be out of bounds.
    pub(crate) fn unchecked(text: &str) -> Result<Design> {
        let mut design = Design::default();
        let mut seen = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let at = |error: Error| Error::invalid(format!("line {}: {}", i + 1, error.message()));
            let name = read(&mut design, line).map_err(at)?;
            if seen.contains(&name) {
                return Err(at(Error::invalid(format!(
                    "expected `{name}` once, found it again"
                ))));
            }
            seen.push(name);
        }
        Ok(design)
    }
}

/// Reads a line and returns the name of its choice.
fn read(design: &mut Design, line: &str) -> Result<&'static str> {
    let (name, value) = line.split_once('=').unwrap_or((line, ""));
    let known = CHOICES.iter().find(|(known, ..)| *known == name.trim());
    let (name, _, read) = known.ok_or_else(|| {
        let names = CHOICES.map(|(name, ..)| name).join(", ");
        Error::invalid(format!(
            "expected a line such as `filter = bloom:10` with one of the names {names}; found `{line}`"
        ))
    })?;
    read(design, value.trim())?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::options::{Compression, FilterSpec, PolicySpec, Residency, TableSpec};

    #[test]
    fn a_design_is_read_as_it_is_written() {
        let design = Design {
            policy: "0=runs:4;1-2=tiering:8/bloom:12;3=leveling:8,partitioned/none"
                .parse()
                .unwrap(),
            table: TableSpec::HTable,
            compression: Compression::None,
            filter: FilterSpec::Bloom { bits_per_key: 7.5 },
            residency: Residency::Paged,
            table_bytes: Some(8 << 20),
            memtable_bytes: Some(16 << 20),
            ..Design::default()
        };
        assert_eq!(design.to_string().parse::<Design>().unwrap(), design);
        assert_eq!("".parse::<Design>().unwrap(), Design::default());
        let commented = "# mine\n\n policy=tiering:4 \n".parse::<Design>().unwrap();
        assert_eq!(commented.policy, PolicySpec::tiering(4));
    }

    #[test]
    fn what_is_no_design_is_told_with_its_line() {
        for (text, why) in [
            (
                "policy = tiering:4\ncolour = blue",
                "line 2: expected a line such as",
            ),
            ("policy", "line 1: expected a merge policy"),
            (
                "index = fence\nindex = fence",
                "line 2: expected `index` once",
            ),
            (
                "block-bytes = many",
                "line 1: expected a number of bytes, found `many`",
            ),
            ("block-bytes = 1", "expected `block_bytes` of 512"),
            ("policy = tiering:99", "found 99"),
        ] {
            let error = text.parse::<Design>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
