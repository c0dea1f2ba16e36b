//! Designs that keyspaces give themselves, as events tell of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use hedgerow::{Design, Event};

/// What was told and has not been looked at.
#[derive(Debug, Clone, Default)]
pub(super) struct Adoptions(Arc<Mutex<Vec<Told>>>);

#[derive(Debug, Clone)]
pub(super) enum Told {
    /// A keyspace found a design, which it has or has not if nothing follows.
    Adopted(String),
    /// It has this one, durably.
    Retuned(String, Design),
}

impl Adoptions {
    pub(super) fn listener(&self) -> impl Fn(&Event) + Send + Sync + 'static {
        let told = self.0.clone();
        move |event| {
            let it = match event {
                Event::Adopted { keyspace, .. } => Told::Adopted(keyspace.clone()),
                Event::Retuned { keyspace, to, .. } => Told::Retuned(keyspace.clone(), to.clone()),
                _ => return,
            };
            told.lock().unwrap_or_else(PoisonError::into_inner).push(it);
        }
    }

    pub(super) fn take(&self) -> Vec<Told> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The designs that keyspaces may have.
#[derive(Debug, Default)]
pub(super) struct Designs {
    /// One, unless it is not known how a call ended.
    of: BTreeMap<String, Vec<Design>>,
    /// Keyspaces that were about to adopt a design nobody has seen.
    adopting: BTreeSet<String>,
}

impl Designs {
    /// It has one of these.
    pub(super) fn set(&mut self, name: &str, may_have: Vec<Design>) {
        self.adopting.remove(name);
        self.of.insert(name.to_owned(), may_have);
    }

    /// Or this one.
    pub(super) fn add(&mut self, name: &str, may_have: Design) {
        self.of.entry(name.to_owned()).or_default().push(may_have);
    }

    pub(super) fn hear(&mut self, told: Told) {
        match told {
            Told::Adopted(name) => drop(self.adopting.insert(name)),
            Told::Retuned(name, design) => self.set(&name, vec![design]),
        }
    }

    /// # Errors
    /// A design that the keyspace cannot have.
    pub(super) fn check(&self, name: &str, found: &Design) -> Result<(), String> {
        let may_have = self.of.get(name).map_or(&[][..], Vec::as_slice);
        if may_have.contains(found) || self.adopting.contains(name) {
            return Ok(());
        }
        Err(format!(
            "`{name}`: expected one of {may_have:?}, found {found:?}"
        ))
    }
}
