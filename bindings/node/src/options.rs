//! The options of a database and of a keyspace.

use std::path::Path;

use engine::{Builder, Compression, Db, Design, Keyspace, Layout};
use napi_derive::napi;

use crate::failure::{Failure, Result};
use crate::opened::Opened;

/// The options of a database. `index.d.ts` describes them.
#[napi(object)]
#[derive(Default)]
pub struct OpenOptions {
    pub create_if_missing: Option<bool>,
    pub error_if_exists: Option<bool>,
    pub read_only: Option<bool>,
    pub memory_budget: Option<f64>,
    pub background_threads: Option<u32>,
    pub io_bytes_per_second: Option<f64>,
    pub level_paths: Option<String>,
    pub multithreading: Option<bool>,
}

/// The options of a keyspace. `index.d.ts` describes them.
#[napi(object)]
#[derive(Default)]
pub struct KeyspaceOptions {
    pub partitions: Option<String>,
    pub merge_operator: Option<String>,
    pub design: Option<String>,
    pub compression: Option<bool>,
    pub block_size: Option<u32>,
}

impl OpenOptions {
    pub(crate) fn builder(&self, location: &str) -> Result<Builder> {
        let mut builder = Db::builder(location);
        builder = builder.create_if_missing(self.create_if_missing.unwrap_or(true));
        builder = builder.read_only(self.read_only.unwrap_or(false));
        if let Some(budget) = self.memory_budget {
            builder = builder.memory_budget(count("memoryBudget", budget)?);
        }
        if let Some(threads) = self.background_threads {
            builder = builder.background_threads(threads as usize);
        }
        if let Some(bytes) = self.io_bytes_per_second {
            builder = builder.io_bytes_per_second(count("ioBytesPerSecond", bytes)?);
        }
        if let Some(paths) = &self.level_paths {
            builder = builder.level_paths(paths.parse()?);
        }
        Ok(builder)
    }

    /// Opens or creates the database; with `multithreading` it may be one that is open.
    pub(crate) fn open(&self, location: &str) -> Result<Opened> {
        match self.multithreading {
            Some(true) => Opened::shared(Path::new(location), || self.open_alone(location)),
            _ => Ok(Opened::alone(self.open_alone(location)?)),
        }
    }

    fn open_alone(&self, location: &str) -> Result<Db> {
        let builder = self.builder(location)?;
        let refused = match builder.exists()? {
            true if self.error_if_exists == Some(true) => "exists already",
            false if self.create_if_missing == Some(false) => "does not exist",
            _ => return Ok(builder.open()?),
        };
        let location = Path::new(location).display();
        Err(Failure::invalid(format!(
            "the database {location} {refused}"
        )))
    }
}

impl KeyspaceOptions {
    /// Opens or creates a keyspace. Keys are sorted, as Level expects them.
    pub(crate) fn open(&self, db: &Db, name: &str) -> Result<Keyspace> {
        let mut layout = match db.existing_keyspace(name) {
            Some(keyspace) => keyspace.layout(),
            None => Layout::sorted(),
        };
        if let Some(partitions) = &self.partitions {
            layout.partitioning = partitions.parse()?;
        }
        if let Some(operator) = &self.merge_operator {
            layout = layout.merge_operator(operator.as_str());
        }
        let present = db.existing_keyspace(name).map(|it| it.design());
        let design = self.design(present.unwrap_or_default())?;
        Ok(match design {
            Some(design) => db.keyspace_with(name, layout, design)?,
            None => db.keyspace(name, layout)?,
        })
    }

    /// The design that these options choose; `None` if they leave the choice to the engine.
    fn design(&self, base: Design) -> Result<Option<Design>> {
        let mut design = match &self.design {
            Some(text) => text.parse()?,
            None => base,
        };
        if let Some(on) = self.compression {
            design.compression = if on {
                Compression::Lz4
            } else {
                Compression::None
            };
        }
        if let Some(bytes) = self.block_size {
            design.block_bytes = bytes;
        }
        let chosen =
            self.design.is_some() || self.compression.is_some() || self.block_size.is_some();
        Ok(chosen.then_some(design))
    }
}

/// A number of JavaScript as a count. The engine checks its bounds.
fn count(name: &str, number: f64) -> Result<u64> {
    if number >= 0.0 && number.fract() == 0.0 && number < 2_f64.powi(53) {
        return Ok(number as u64);
    }
    Err(Failure::invalid(format!(
        "expected a whole number for {name}, found {number}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keyspace_keeps_what_the_options_leave_open() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        let options = KeyspaceOptions {
            merge_operator: Some("append".into()),
            design: Some("filter = bloom:12".into()),
            ..KeyspaceOptions::default()
        };
        let keyspace = options.open(&db, "log").unwrap();
        let again = KeyspaceOptions::default().open(&db, "log").unwrap();
        assert_eq!(again.layout(), keyspace.layout());
        assert_eq!(again.design(), keyspace.design());
        let plain = KeyspaceOptions {
            compression: Some(false),
            ..KeyspaceOptions::default()
        };
        let plain = plain.open(&db, "log").unwrap().design();
        assert_eq!(plain.compression, Compression::None);
        assert_eq!(plain.filter, keyspace.design().filter);
    }

    #[test]
    fn wrong_options_are_refused() {
        for budget in [-1.0, 0.5, f64::NAN, 1e300] {
            let options = OpenOptions {
                memory_budget: Some(budget),
                ..OpenOptions::default()
            };
            let failure = options.builder("x").err().unwrap();
            assert!(failure.message.contains("memoryBudget"), "{failure}");
        }
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        for wrong in ["filter = sieve", "speed = high"] {
            let options = KeyspaceOptions {
                design: Some(wrong.into()),
                ..Default::default()
            };
            assert!(options.open(&db, "k").is_err(), "{wrong}");
        }
    }
}
