//! The page with charts, in a directory.

use std::fs;
use std::path::Path;

use hedgerow_bench::{Result, report};
use serde_json::Value;

/// The page, and the results that it shows.
pub(crate) fn write(dir: &Path, results: &[Value]) -> Result<()> {
    let page = report::page(results)?;
    let lines: String = results.iter().map(|row| format!("{row}\n")).collect();
    fs::create_dir_all(dir)?;
    fs::write(dir.join("results.jsonl"), lines)?;
    fs::write(dir.join("index.html"), page)?;
    eprintln!("wrote {}", dir.join("index.html").display());
    Ok(())
}
