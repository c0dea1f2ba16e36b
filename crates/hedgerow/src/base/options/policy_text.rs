//! Merge policies and tables of levels as text: `Display` prints it, `FromStr` reads it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::base::error::{Error, Result};

use super::policy::{CutSpec, FAN_OUT_DEFAULT, LEVELS_MAX, LevelSpec, PolicySpec};

/// Writes `,CUT`, or nothing if the policy decides.
fn write_cut(f: &mut fmt::Formatter<'_>, cut: CutSpec) -> fmt::Result {
    match cut {
        CutSpec::Auto => Ok(()),
        cut => write!(f, ",{cut}"),
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicySpec::Leveling { ratio, cut } => {
                write!(f, "leveling:{ratio}")?;
                write_cut(f, *cut)
            }
            PolicySpec::Tiering { runs } => write!(f, "tiering:{runs}"),
            PolicySpec::Garnering {
                ratio,
                scaling,
                cut,
            } => {
                write!(f, "garnering:{ratio},{scaling}")?;
                write_cut(f, *cut)
            }
            PolicySpec::LazyLeveling { runs } => write!(f, "lazy-leveling:{runs}"),
            PolicySpec::FrontLoaded { ratio } => write!(f, "front-loaded:{ratio}"),
            PolicySpec::Bush { ratio } => write!(f, "bush:{ratio}"),
            PolicySpec::GarneringPaper { ratio, scaling } => {
                write!(f, "garnering-paper:{ratio},{scaling}")
            }
            PolicySpec::Trie { fan_out } => write!(f, "trie:{fan_out}"),
            PolicySpec::Levels(levels) => write_levels(f, levels),
        }
    }
}

/// Writes equal neighbours as a range.
fn write_levels(f: &mut fmt::Formatter<'_>, levels: &[LevelSpec]) -> fmt::Result {
    let mut from = 0;
    for alike in levels.chunk_by(|a, b| a == b) {
        let separator = if from == 0 { "" } else { ";" };
        match alike.len() {
            1 => write!(f, "{separator}{from}={}", alike[0])?,
            count => write!(f, "{separator}{from}-{}={}", from + count - 1, alike[0])?,
        }
        from += alike.len();
    }
    Ok(())
}

impl fmt::Display for LevelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (runs, ratio) = (self.runs, self.ratio);
        if runs == 1 {
            write!(f, "leveling:{ratio}")?;
        } else if ratio == f64::from(runs) {
            write!(f, "tiering:{runs}")?;
        } else {
            write!(f, "fluid:{runs},{ratio}")?;
        }
        write_cut(f, self.cut)?;
        match (&self.filter, &self.index) {
            (None, None) => Ok(()),
            (Some(filter), None) => write!(f, "/{filter}"),
            (None, Some(index)) => write!(f, "//{index}"),
            (Some(filter), Some(index)) => write!(f, "/{filter}/{index}"),
        }
    }
}

/// The parameters of a policy or a level, separated by commas, and the cut if it comes last.
struct Parameters<'a> {
    values: Vec<&'a str>,
    cut: CutSpec,
}

impl<'a> Parameters<'a> {
    fn of(text: &'a str) -> Self {
        let mut values: Vec<&str> = text.split(',').collect();
        let cut = values.last().and_then(|last| last.parse().ok());
        if cut.is_some() {
            values.pop();
        }
        Parameters {
            values,
            cut: cut.unwrap_or_default(),
        }
    }

    fn one<T: FromStr>(&self) -> Option<T> {
        match self.values.as_slice() {
            [value] => value.parse().ok(),
            _ => None,
        }
    }

    fn two<A: FromStr, B: FromStr>(&self) -> Option<(A, B)> {
        match self.values.as_slice() {
            [a, b] => Some((a.parse().ok()?, b.parse().ok()?)),
            _ => None,
        }
    }
}

impl FromStr for PolicySpec {
    type Err = Error;

    /// `leveling:T`, `tiering:RUNS`, `garnering:T,C`, `lazy-leveling:RUNS`, `front-loaded:T`,
    /// `bush:T`, `garnering-paper:T,C`, `trie[:FANOUT]` or `slimdb`, which is
    /// [`PolicySpec::slimdb`]. `leveling` and `garnering` take a cut: `,one-table`, `,partitioned`
    /// or `,whole-level`.
    ///
    /// A table of levels is `LEVELS=GEOMETRY;…` from level 0 on. LEVELS is `N` or `N-M`. GEOMETRY
    /// is `tiering:RUNS` (or `runs:RUNS`), `leveling:T` or `fluid:RUNS,T`. A cut may follow after a
    /// comma, then a filter and an index after slashes.
    fn from_str(spec: &str) -> Result<Self> {
        let policy = if spec.contains('=') {
            PolicySpec::Levels(parse_levels(spec)?)
        } else {
            parse_named(spec).ok_or_else(|| {
                Error::invalid(format!(
                    "expected a merge policy such as `leveling:10`, `tiering:8`, `garnering:5,0.8`, `lazy-leveling:4`, \
                     `front-loaded:5`, `bush:2`, `garnering-paper:2,0.8`, `trie:8`, `slimdb` or `0=runs:4;1=leveling:8`, found `{spec}`"
                ))
            })?
        };
        policy.check()?;
        Ok(policy)
    }
}

fn parse_named(spec: &str) -> Option<PolicySpec> {
    match spec {
        "trie" => return Some(PolicySpec::trie(FAN_OUT_DEFAULT)),
        "slimdb" => return Some(PolicySpec::slimdb()),
        _ => {}
    }
    let (name, parameters) = spec.split_once(':')?;
    let parameters = Parameters::of(parameters);
    let policy = match name {
        "leveling" => PolicySpec::leveling(parameters.one()?),
        "tiering" => PolicySpec::tiering(parameters.one()?),
        "garnering" => {
            let (ratio, scaling) = parameters.two()?;
            PolicySpec::garnering(ratio, scaling)
        }
        "lazy-leveling" => PolicySpec::lazy_leveling(parameters.one()?),
        "front-loaded" => PolicySpec::front_loaded(parameters.one()?),
        "bush" => PolicySpec::bush(parameters.one()?),
        "garnering-paper" => {
            let (ratio, scaling) = parameters.two()?;
            PolicySpec::garnering_paper(ratio, scaling)
        }
        "trie" => PolicySpec::trie(parameters.one()?),
        _ => return None,
    };
    let cut = parameters.cut;
    let cut_has_effect = policy.clone().cut(cut) != policy;
    (cut == CutSpec::Auto || cut_has_effect).then(|| policy.cut(cut))
}

fn parse_levels(spec: &str) -> Result<Arc<[LevelSpec]>> {
    let mut levels: Vec<LevelSpec> = Vec::new();
    for entry in spec.split(';') {
        let wrong = || {
            Error::invalid(format!(
                "expected levels such as `1-2=tiering:8/bloom:12/fence` from level {}, found `{entry}`",
                levels.len()
            ))
        };
        let (range, level) = entry.split_once('=').ok_or_else(wrong)?;
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to) = (from.parse::<usize>().ok(), to.parse::<usize>().ok());
        let (Some(from), Some(to)) = (from, to) else {
            return Err(wrong());
        };
        if from != levels.len() || to < from || to >= LEVELS_MAX {
            return Err(wrong());
        }
        let level: LevelSpec = level.parse()?;
        levels.resize(to + 1, level);
    }
    Ok(levels.into())
}

impl FromStr for LevelSpec {
    type Err = Error;

    /// `GEOMETRY[,CUT][/FILTER[/INDEX]]`, as in [`PolicySpec`].
    fn from_str(spec: &str) -> Result<Self> {
        let mut parts = spec.splitn(3, '/');
        let geometry = parts.next().unwrap_or_default();
        let mut level = parse_geometry(geometry).ok_or_else(|| {
            Error::invalid(format!(
                "expected a level such as `tiering:8`, `leveling:10,partitioned` or `fluid:4,10`, found `{geometry}`"
            ))
        })?;
        if let Some(filter) = parts.next().filter(|filter| !filter.is_empty()) {
            level.filter = Some(filter.parse()?);
        }
        if let Some(index) = parts.next() {
            level.index = Some(index.parse()?);
        }
        Ok(level)
    }
}

fn parse_geometry(text: &str) -> Option<LevelSpec> {
    let (name, parameters) = text.split_once(':')?;
    let parameters = Parameters::of(parameters);
    let level = match name {
        "tiering" | "runs" => LevelSpec::tiering(parameters.one()?),
        "leveling" => LevelSpec::leveling(parameters.one()?),
        "fluid" => {
            let (runs, ratio) = parameters.two()?;
            LevelSpec::fluid(runs, ratio)
        }
        _ => return None,
    };
    Some(level.cut(parameters.cut))
}
