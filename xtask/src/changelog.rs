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
/// The beginning of the heading of a release.
const RELEASE: &str = "\n## ";
/// The beginning of the heading of a section of a release.
const SECTION: &str = "\n### ";

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

/// The changelog with the lines in the sections of a version. If the last release is this version,
/// it is not out yet and gets the lines beside those it has; else there is a new heading.
fn with_release(old: &str, version: &str, lines: &[String]) -> Result<String, String> {
    let (before, after) = old
        .split_once(UNRELEASED)
        .ok_or_else(|| format!("expected `{UNRELEASED}` in CHANGELOG.md, found none"))?;
    let (notes, mut older) = divide(after);
    let heading = format!("{RELEASE}{version}\n");
    let mut release = Release::default();
    if let Some(text) = older.strip_prefix(&heading) {
        let (last, rest) = divide(text);
        (release, older) = (Release::parse(last), rest);
    } else if older.contains(&heading) {
        return Err(format!(
            "expected a new version or the last one, found {version}"
        ));
    }
    release.introduce(notes.trim());
    for line in lines {
        release.add(line)?;
    }
    let text = release.text();
    Ok(format!("{before}{UNRELEASED}\n{heading}\n{text}{older}"))
}

/// Divides a text before the next release.
fn divide(text: &str) -> (&str, &str) {
    text.split_at(text.find(RELEASE).unwrap_or(text.len()))
}

/// The text of a release without its heading.
#[derive(Default)]
struct Release {
    /// The text before the sections.
    introduction: String,
    /// The title and the lines of each.
    sections: Vec<(String, String)>,
}

impl Release {
    fn parse(text: &str) -> Release {
        let mut parts = text.split(SECTION);
        let introduction = parts.next().unwrap_or_default().trim().to_owned();
        let sections = parts.map(|part| {
            let (title, body) = part.split_once('\n').unwrap_or((part, ""));
            (title.to_owned(), body.trim().to_owned())
        });
        Release {
            introduction,
            sections: sections.collect(),
        }
    }

    /// Appends to the text before the sections.
    fn introduce(&mut self, notes: &str) {
        if !self.introduction.is_empty() && !notes.is_empty() {
            self.introduction.push_str("\n\n");
        }
        self.introduction.push_str(notes);
    }

    /// Adds a line of `changes/` to its section.
    fn add(&mut self, line: &str) -> Result<(), String> {
        let (word, text) = line
            .split_once(": ")
            .ok_or_else(|| format!("expected `added: ...`, found `{line}`"))?;
        let rank = SECTIONS.iter().position(|(known, _)| *known == word);
        let rank = rank.ok_or_else(|| format!("unknown first word in `{line}`"))?;
        let body = self.section(rank);
        if !body.is_empty() {
            body.push('\n');
        }
        body.push_str("- ");
        body.push_str(text);
        Ok(())
    }

    /// The lines of a section, which is made before those that follow it in [`SECTIONS`].
    fn section(&mut self, rank: usize) -> &mut String {
        let title = SECTIONS[rank].1;
        let found = self.sections.iter().position(|(it, _)| it == title);
        let index = found.unwrap_or_else(|| {
            let follows = |it: &str| SECTIONS[rank..].iter().any(|(_, title)| *title == it);
            let next = self.sections.iter().position(|(it, _)| follows(it));
            let index = next.unwrap_or(self.sections.len());
            let section = (title.to_owned(), String::new());
            self.sections.insert(index, section);
            index
        });
        &mut self.sections[index].1
    }

    fn text(&self) -> String {
        let sections = self.sections.iter();
        let sections = sections.map(|(title, body)| format!("### {title}\n\n{body}\n"));
        let introduction = match self.introduction.is_empty() {
            true => None,
            false => Some(format!("{}\n", self.introduction)),
        };
        let parts: Vec<String> = introduction.into_iter().chain(sections).collect();
        parts.join("\n")
    }
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

    #[test]
    fn a_release_stands_before_the_earlier_ones() {
        let old =
            "# Changelog\n\n## Unreleased\n\nNotes.\n\n## 0.1.0\n\nFirst.\n\n### Added\n\n- a\n";
        let new = with_release(old, "0.2.0", &["fixed: b".to_owned()]);
        let expected = "# Changelog\n\n## Unreleased\n\n## 0.2.0\n\nNotes.\n\n### Fixed\n\n- b\n\n\
                        ## 0.1.0\n\nFirst.\n\n### Added\n\n- a\n";
        assert_eq!(new.as_deref(), Ok(expected));
        // The earlier one is out.
        assert!(with_release(expected, "0.1.0", &[]).is_err());
    }

    #[test]
    fn the_last_release_gets_more_lines_in_its_sections() {
        let old = "# Changelog\n\n## Unreleased\n\n## 0.1.0\n\nFirst.\n\n### Engine\n\n- a\n\n\
                   ### Formats\n\n- b\n\n## 0.0.9\n\n### Added\n\n- old\n";
        let mut text = old.to_owned();
        for line in ["fixed: c", "format: d", "added: e", "fixed: f"] {
            text = with_release(&text, "0.1.0", &[line.to_owned()]).unwrap();
        }
        let expected = "# Changelog\n\n## Unreleased\n\n## 0.1.0\n\nFirst.\n\n### Engine\n\n- a\n\n\
                        ### Added\n\n- e\n\n### Fixed\n\n- c\n- f\n\n### Formats\n\n- b\n- d\n\n\
                        ## 0.0.9\n\n### Added\n\n- old\n";
        assert_eq!(text, expected);
        assert_eq!(with_release(&text, "0.1.0", &[]), Ok(text));
        let noted = old.replace("Unreleased\n", "Unreleased\n\nNotes.\n");
        let noted = with_release(&noted, "0.1.0", &[]).unwrap();
        assert_eq!(noted, old.replace("First.\n", "First.\n\nNotes.\n"));
    }
}
