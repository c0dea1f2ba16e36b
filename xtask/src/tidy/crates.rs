//! The crates of the workspace from which a crate may be built; a published one only from
//! published ones. ARCHITECTURE.md has the same table.

use super::Sources;

const MAY_USE: &[(&str, &[&str])] = &[
    ("hedgerow", &["hedgerow-io", "hedgerow-mem"]),
    ("hedgerow-io", &[]),
    ("hedgerow-mem", &[]),
    ("hedgerow-bench", &["hedgerow"]),
    (
        "hedgerow-cli",
        &[
            "hedgerow",
            "hedgerow-bench",
            "hedgerow-copies",
            "hedgerow-server",
        ],
    ),
    ("hedgerow-copies", &["hedgerow"]),
    ("hedgerow-papers", &["hedgerow", "hedgerow-bench"]),
    (
        "hedgerow-server",
        &["hedgerow", "hedgerow-copies", "hedgerow-io"],
    ),
    (
        "hedgerow-testkit",
        &["hedgerow", "hedgerow-copies", "hedgerow-io"],
    ),
];

pub(crate) fn check(sources: &Sources) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in &sources.texts {
        let folder = path.strip_prefix("crates/");
        let Some(name) = folder.and_then(|path| path.strip_suffix("/Cargo.toml")) else {
            continue;
        };
        let Some((_, allowed)) = MAY_USE.iter().find(|(user, _)| *user == name) else {
            findings.push(format!(
                "{path}:1: `{name}` has no row in the rule of the crates"
            ));
            continue;
        };
        for (line, used) in dependencies(text) {
            if !allowed.contains(&used) {
                findings.push(format!("{path}:{line}: `{name}` may not use `{used}`"));
            }
            let other = sources.texts.get(&format!("crates/{used}/Cargo.toml"));
            if is_published(text) && other.is_some_and(|text| !is_published(text)) {
                findings.push(format!(
                    "{path}:{line}: `{name}` is published, but `{used}` is not"
                ));
            }
        }
    }
    findings
}

fn is_published(manifest: &str) -> bool {
    manifest.lines().all(|line| line != "publish = false")
}

/// The lines of a manifest that name another crate of ours to build with; tests may use any.
fn dependencies(manifest: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut section = "";
    manifest.lines().enumerate().filter_map(move |(i, line)| {
        if line.starts_with('[') {
            section = line;
        }
        let name = line.split(['.', ' ', '=']).next().unwrap_or("");
        let is_ours = section == "[dependencies]" && name.starts_with("hedgerow");
        is_ours.then_some((i + 1, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_crate_uses_published_ones() {
        let user = "[dependencies]\nhedgerow.workspace = true\nhedgerow-bench.workspace = true\n";
        let check_with = |user: &str| {
            let bench = "[package]\npublish = false\n";
            check(&Sources::of(&[
                ("crates/hedgerow-cli/Cargo.toml", user),
                ("crates/hedgerow/Cargo.toml", ""),
                ("crates/hedgerow-bench/Cargo.toml", bench),
            ]))
        };
        assert_eq!(
            check_with(user),
            [
                "crates/hedgerow-cli/Cargo.toml:3: `hedgerow-cli` is published, but `hedgerow-bench` is not"
            ]
        );
        let unpublished = format!("publish = false\n{user}");
        assert_eq!(check_with(&unpublished), Vec::<String>::new());
    }

    #[test]
    fn the_engine_knows_nothing_of_its_users() {
        let engine = "[dependencies]\nhedgerow-io.workspace = true\nhedgerow-bench = \"1\"\n\
                      [dev-dependencies]\nhedgerow-testkit.workspace = true\n";
        let sources = Sources::of(&[
            ("crates/hedgerow/Cargo.toml", engine),
            ("crates/hedgerow-new/Cargo.toml", ""),
        ]);
        assert_eq!(
            check(&sources),
            [
                "crates/hedgerow-new/Cargo.toml:1: `hedgerow-new` has no row in the rule of the crates",
                "crates/hedgerow/Cargo.toml:3: `hedgerow` may not use `hedgerow-bench`",
            ]
        );
    }
}
