//! The changelog of a release, from the files in `changes/`.

use std::fs;
use std::path::Path;

/// The sections, by the first word of a line.
const SECTIONS: [(&str, &str); 5] = [
    ("added", "Added"),
    ("changed", "Changed"),
    ("fixed", "Fixed"),
    ("removed", "Removed"),
    ("format", "Formats"),
];
const UNRELEASED: &str = "## Unreleased";

/// Moves the lines of `changes/` to the changelog under `version`, and removes their files.
/// Returns the number of lines.
#[allow(
    clippy::disallowed_methods,
    reason = "files of the project, not of a database"
)]
pub(crate) fn release(root: &Path, version: &str) -> Result<usize, String> {
    let io = |path: &Path, error| format!("{}: {error}", path.display());
    let dir = root.join("changes");
    let mut files = Vec::new();
    for entry in fs::read_dir(&dir).map_err(|e| io(&dir, e))? {
        let path = entry.map_err(|e| io(&dir, e))?.path();
        if !path.ends_with("README.md") {
            files.push(path);
        }
    }
    files.sort();
    let mut lines = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).map_err(|e| io(file, e))?;
        lines.extend(text.lines().map(str::to_owned).filter(|it| !it.is_empty()));
    }
    let path = root.join("CHANGELOG.md");
    let old = fs::read_to_string(&path).map_err(|e| io(&path, e))?;
    let new = with_release(&old, version, &lines)?;
    fs::write(&path, new).map_err(|e| io(&path, e))?;
    for file in &files {
        fs::remove_file(file).map_err(|e| io(file, e))?;
    }
    Ok(lines.len())
}

/// The changelog with the lines below a heading of the version.
fn with_release(old: &str, version: &str, lines: &[String]) -> Result<String, String> {
    let (before, after) = old
        .split_once(UNRELEASED)
        .ok_or_else(|| format!("expected `{UNRELEASED}` in CHANGELOG.md, found none"))?;
    let mut sections = SECTIONS.map(|(word, title)| (word, title, String::new()));
    for line in lines {
        let (word, text) = line
            .split_once(": ")
            .ok_or_else(|| format!("expected `added: ...`, found `{line}`"))?;
        let section = sections.iter_mut().find(|(known, ..)| *known == word);
        let (.., body) = section.ok_or_else(|| format!("unknown first word in `{line}`"))?;
        body.push_str(&format!("- {text}\n"));
    }
    let sections: String = sections
        .iter()
        .filter(|(.., body)| !body.is_empty())
        .map(|(_, title, body)| format!("\n### {title}\n\n{body}"))
        .collect();
    Ok(format!(
        "{before}{UNRELEASED}\n\n## {version}\n\n{}\n{sections}",
        after.trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sorted_by_their_first_word() {
        let lines = ["fixed: b", "added: a: c", "added: d"].map(str::to_owned);
        let new = with_release("# Changelog\n\n## Unreleased\n\nFirst.\n", "0.1.0", &lines);
        let expected = "# Changelog\n\n## Unreleased\n\n## 0.1.0\n\nFirst.\n\n### Added\n\n- a: c\n- d\n\n\
                        ### Fixed\n\n- b\n";
        assert_eq!(new.as_deref(), Ok(expected));
        for wrong in ["no word", "better: x"] {
            assert!(with_release("## Unreleased", "1", &[wrong.to_owned()]).is_err());
        }
        assert!(with_release("# Changelog", "1", &[]).is_err());
    }
}
