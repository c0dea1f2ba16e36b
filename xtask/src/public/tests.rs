use super::*;

const LIB: &str = "
mod inner;
pub mod named;
pub use inner::{Shown as Renamed, made};
pub use outside as other;
#[cfg(any(test, feature = \"internals\"))]
pub use inner::hidden;
";

const INNER: &str = "
use crate::named::Kind;

/// A document.
#[derive(Debug)]
#[allow(dead_code)]
pub struct Shown { pub kind: Kind, secret: u8 }

impl Shown {
    pub fn z(mut self) -> Kind { self.kind }
    pub(crate) fn internal(&self) {}
}

impl Shown {
    pub fn a(&self, mut n: usize) { n += 1; drop(n) }
}

pub(crate) trait Private {}
impl Private for Shown {}
impl Iterator for Shown {
    type Item = u8;
    fn next(&mut self) -> Option<u8> { None }
}
impl From<Shown> for Vec<u8> { fn from(_: Shown) -> Vec<u8> { Vec::new() } }

pub fn made() -> Shown { loop {} }
pub fn hidden() {}
pub struct Unnamed;
";

const NAMED: &str = "
#[non_exhaustive]
pub enum Kind { One, /** more */ Two(u8) }
pub struct Number(u64);
pub trait Open { fn needed(&self); fn given(&self) -> u8 { 1 } }
named!(Kind, \"one\");
";

const LIST: &str = "
mod a_b

pub use outside as other;

# Shown as Renamed
#[derive(Debug)]
pub struct Shown {
    pub kind: Kind,
    // private fields
}
impl Shown {
    pub fn a(&self, n: usize);
    pub fn z(self) -> Kind;
}
impl From<Shown> for Vec<u8>;
impl Iterator for Shown {
    type Item = u8;
}

pub fn made() -> Shown;

mod a_b::named

#[non_exhaustive]
pub enum Kind {
    One,
    Two(u8),
}
named!(Kind , \"one\");

pub struct Number(_);

pub trait Open {
    fn needed(&self);
    fn given(&self) -> u8 { .. }
}
";

fn sources() -> Sources {
    Sources::of(&[
        ("crates/a-b/src/lib.rs", LIB),
        ("crates/a-b/src/inner.rs", INNER),
        ("crates/a-b/src/named/mod.rs", NAMED),
    ])
}

#[test]
fn a_list_has_what_users_can_name() {
    let list = list(&sources(), "a-b");
    assert_eq!(list.split_once('\n').map(|(_, items)| items), Some(LIST));
}

#[test]
fn a_change_of_the_public_items_is_found() {
    let files = [
        ("crates/hedgerow/src/lib.rs", "pub fn a() {}"),
        ("crates/hedgerow/public-api.txt", ""),
    ];
    let found = check(&Sources::of(&files));
    assert!(
        found[0].starts_with("crates/hedgerow/public-api.txt:1:"),
        "{found:?}"
    );
}

#[test]
fn the_public_items_are_those_of_the_lists() {
    if std::env::var_os("HEDGEROW_BLESS").is_some() {
        return write(&crate::root());
    }
    let findings = check(&Sources::read(&crate::root()));
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
