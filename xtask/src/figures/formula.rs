//! Formulas over raw rows: `ops / (seconds + settle_seconds)`, `max(latency_us.max[store=a])`.
//!
//! A path leads to a number of a row. It stands for the aggregate over the selected rows that the
//! comment names, or for that of a function. Brackets select among the rows. Without a function all
//! rows have to be rounds of one measurement; a function takes any rows.

use serde_json::Value;

/// Fields that differ between measurements that must not be averaged.
const IDENTITY: [&str; 8] = [
    "file",
    "experiment",
    "store",
    "version",
    "workload",
    "design",
    "case",
    "threads",
];

/// Pairs of a field and its required value: `workload=fillrandom; threads=2`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Selection(Vec<(String, String)>);

impl Selection {
    pub(super) fn parse(text: &str) -> Result<Selection, String> {
        let pairs = text
            .split(';')
            .map(str::trim)
            .filter(|pair| !pair.is_empty());
        let pair = |pair: &str| {
            let (field, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("expected `field=value`, found `{pair}`"))?;
            Ok((field.trim().to_owned(), value.trim().to_owned()))
        };
        pairs
            .map(pair)
            .collect::<Result<_, String>>()
            .map(Selection)
    }

    /// Joins two selections. Where both name a field, the value of `other` holds.
    pub(super) fn and(&self, other: &Selection) -> Selection {
        let mut pairs = self.0.clone();
        pairs.retain(|(field, _)| !other.0.iter().any(|(it, _)| it == field));
        pairs.extend(other.0.iter().cloned());
        Selection(pairs)
    }

    fn takes(&self, row: &Value) -> bool {
        let is_so = |(field, wanted): &(String, String)| match at(row, field) {
            Value::String(found) => found == wanted,
            Value::Null => wanted.is_empty(),
            found => serde_json::from_str(wanted).is_ok_and(|it: Value| it == *found),
        };
        self.0.iter().all(is_so)
    }
}

/// The value at a dotted path.
fn at<'a>(row: &'a Value, path: &str) -> &'a Value {
    path.split('.')
        .fold(row, |value, part| match part.parse::<usize>() {
            Ok(index) => &value[index],
            Err(_) => &value[part],
        })
}

/// Raw rows, the default aggregate, and a selection among the rows.
pub(super) struct Rows<'a> {
    pub(super) rows: &'a [Value],
    pub(super) aggregate: &'a str,
    pub(super) selection: Selection,
}

/// Evaluates a formula over rows.
pub(super) fn evaluate(formula: &str, rows: &Rows<'_>) -> Result<f64, String> {
    let mut parser = Parser {
        rest: formula.trim(),
        rows,
    };
    let number = parser
        .sum()
        .map_err(|wrong| format!("`{formula}`: {wrong}"))?;
    match parser.rest {
        "" => Ok(number),
        rest => Err(format!("`{formula}`: expected its end, found `{rest}`")),
    }
}

struct Parser<'a> {
    rest: &'a str,
    rows: &'a Rows<'a>,
}

impl<'a> Parser<'a> {
    fn sum(&mut self) -> Result<f64, String> {
        let mut left = self.product()?;
        loop {
            if self.take("+") {
                left += self.product()?;
            } else if self.take("-") {
                left -= self.product()?;
            } else {
                return Ok(left);
            }
        }
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut left = self.factor()?;
        loop {
            if self.take("*") {
                left *= self.factor()?;
            } else if self.take("/") {
                left /= self.factor()?;
            } else {
                return Ok(left);
            }
        }
    }

    fn factor(&mut self) -> Result<f64, String> {
        if self.take("(") {
            let inner = self.sum()?;
            return if self.take(")") {
                Ok(inner)
            } else {
                Err("expected `)`".to_owned())
            };
        }
        let word = self.word();
        if word.is_empty() {
            return Err(format!(
                "expected a number or a field, found `{}`",
                self.rest
            ));
        }
        if let Ok(number) = word.parse() {
            return Ok(number);
        }
        if self.take("(") {
            let path = self.word();
            let number = self.field(word, path)?;
            return if self.take(")") {
                Ok(number)
            } else {
                Err("expected `)`".to_owned())
            };
        }
        self.field("", word)
    }

    fn field(&mut self, function: &str, path: &str) -> Result<f64, String> {
        let mut selection = self.rows.selection.clone();
        if self.take("[") {
            let (inner, rest) = self.rest.split_once(']').ok_or("expected `]`")?;
            selection = selection.and(&Selection::parse(inner)?);
            self.rest = rest.trim_start();
        }
        let rows = self.rows.rows.iter().filter(|row| selection.takes(row));
        let rows: Vec<&Value> = rows.filter(|row| at(row, path).is_number()).collect();
        let Some(first) = rows.first() else {
            return Err(format!("no row has `{path}` where {selection:?}"));
        };
        let is_other = |row: &&&Value| IDENTITY.iter().any(|field| row[*field] != first[*field]);
        if let (true, Some(other)) = (function.is_empty(), rows.iter().find(is_other)) {
            let line = |row: &Value| format!("line {} of {}", row["line"], row["file"]);
            let (first, other) = (line(first), line(other));
            return Err(format!(
                "`{path}` of different things: {first}, and {other}"
            ));
        }
        let numbers = rows
            .iter()
            .filter_map(|row| at(row, path).as_f64())
            .collect();
        let function = if function.is_empty() {
            self.rows.aggregate
        } else {
            function
        };
        together(function, numbers)
    }

    /// Takes letters, digits, `_`, `.`, and the sign of an exponent.
    fn word(&mut self) -> &'a str {
        let mut before = ' ';
        let ends = |c: char| {
            let is_exponent =
                c == '-' && before == 'e' && self.rest.starts_with(|c: char| c.is_ascii_digit());
            before = c;
            !(c.is_alphanumeric() || c == '_' || c == '.' || is_exponent)
        };
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word
    }

    fn take(&mut self, token: &str) -> bool {
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.map_or(self.rest, str::trim_start);
        rest.is_some()
    }
}

fn together(function: &str, mut numbers: Vec<f64>) -> Result<f64, String> {
    numbers.sort_by(f64::total_cmp);
    let (count, sum) = (numbers.len(), numbers.iter().sum::<f64>());
    Ok(match function {
        "median" => f64::midpoint(numbers[(count - 1) / 2], numbers[count / 2]),
        "mean" => sum / count as f64,
        "sum" => sum,
        "min" => numbers[0],
        "max" => numbers[count - 1],
        other => {
            return Err(format!(
                "expected median, mean, sum, min or max, found `{other}`"
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn formulas_are_of_rounds_of_one_thing() {
        let row = |store: &str, ops: u64| json!({ "store": store, "ops": ops, "latency_us": { "max": 7 }, "levels": [1, 3] });
        let rows = [row("a", 1), row("a", 2), row("a", 9), row("b", 4)];
        let rows = Rows {
            rows: &rows,
            aggregate: "median",
            selection: Selection::parse("store=a").unwrap(),
        };
        let value = |formula| evaluate(formula, &rows);
        assert_eq!(value("ops"), Ok(2.0));
        assert_eq!(value("mean(ops) * 2 - (1e3 + 1) / 7e-1"), Ok(8.0 - 1430.0));
        assert_eq!(value("ops[store=b] / ops"), Ok(2.0));
        assert_eq!(value("latency_us.max + levels.1"), Ok(10.0));
        assert!(
            value("ops +")
                .unwrap_err()
                .contains("expected a number or a field")
        );
        assert!(
            value("ops[store=c]")
                .unwrap_err()
                .contains("no row has `ops`")
        );
        let all = Rows {
            selection: Selection::default(),
            ..rows
        };
        assert!(
            evaluate("ops", &all)
                .unwrap_err()
                .contains("different things")
        );
        assert_eq!(evaluate("sum(ops)", &all), Ok(16.0));
    }
}
