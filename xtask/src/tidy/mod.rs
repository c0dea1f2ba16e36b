//! Rules of the code base that the compiler does not know, checked as text.
//!
//! Every rule is a pure function from [`Sources`] to findings, so that each has a test with a small
//! tree that breaks it. `cargo xtask tidy` and the test at the end run all of them on this tree.

mod circles;
mod comments;
mod crates;
mod documents;
mod formats;
mod kinds;
mod layers;
mod marks;
mod modules;
mod ratchet;
mod rust;
mod sources;
mod system;

pub(crate) use kinds::lines as lines_with_kinds;
pub(crate) use sources::Sources;

/// All findings of all rules, each `path:line: what is wrong`.
pub(crate) fn check(sources: &Sources) -> Vec<String> {
    let rules: [fn(&Sources) -> Vec<String>; 11] = [
        crates::check,
        layers::check,
        circles::check,
        modules::check,
        system::check,
        formats::check,
        kinds::check,
        documents::check,
        comments::check,
        marks::check,
        ratchet::check,
    ];
    rules.iter().flat_map(|rule| rule(sources)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        let findings = check(&Sources::read(&crate::root()));
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }
}
