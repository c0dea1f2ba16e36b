//! The commit that a program was built from, which its results name.

use serde_json::{Value, json};

/// The commit, from `build.rs`. `None` outside of a git checkout, as in a published package.
const COMMIT: Option<&str> = option_env!("HEDGEROW_COMMIT");

/// Adds the field `commit` to a result: the short hash of the commit that this crate was built
/// from, with `-dirty` behind it if sources of the engine or of its benches differed from it. Adds
/// nothing if the crate was built outside of a git checkout.
pub fn add_commit(result: &mut Value) {
    if let Some(commit) = COMMIT {
        result["commit"] = json!(commit);
    }
}
