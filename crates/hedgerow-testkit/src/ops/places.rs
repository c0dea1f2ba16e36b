//! The places that reads name, in a script: snapshots, the steps of scans, the moves of cursors.

use std::str::FromStr;

use super::{Move, Source, Step};

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Source, String> {
        let (keyspace, snapshot) = match text.split_once('@') {
            None => (text, None),
            Some((keyspace, slot)) => {
                let slot = slot.parse().map_err(|e| format!("`{text}`: {e}"))?;
                (keyspace, Some(slot))
            }
        };
        Ok(Source {
            keyspace: keyspace.to_owned(),
            snapshot,
        })
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Step, String> {
        let bad = || format!("expected a step such as `f3` or `b*`, found `{text}`");
        Ok(match text.split_at_checked(1).ok_or_else(bad)? {
            ("f", "*") => Step::ForwardRest,
            ("b", "*") => Step::BackwardRest,
            ("f", n) => Step::Forward(n.parse().map_err(|_| bad())?),
            ("b", n) => Step::Backward(n.parse().map_err(|_| bad())?),
            _ => return Err(bad()),
        })
    }
}

impl FromStr for Move {
    type Err = String;

    fn from_str(text: &str) -> Result<Move, String> {
        Ok(match text {
            "first" => Move::First,
            "last" => Move::Last,
            "next" => Move::Next,
            "prev" => Move::Prev,
            _ => match text.split_once(':') {
                Some(("seek", key)) => Move::Seek(key.parse()?),
                Some(("upto", key)) => Move::SeekForPrev(key.parse()?),
                _ => return Err(format!("expected a move of a cursor, found `{text}`")),
            },
        })
    }
}
