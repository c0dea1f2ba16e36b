//! Repair of a database with one keyspace, whose name its users do not know.

use engine::{Builder, RepairReport, Result, repair_with};

/// Repairs a database. If it has one keyspace, which is known from tables only, the keyspace gets
/// this name: tables do not say one.
///
/// # Errors
/// As [`repair_with`]; as opening the database.
pub fn of_one_keyspace(builder: Builder, name: &str) -> Result<RepairReport> {
    let report = repair_with(builder.clone())?;
    if report.keyspaces_known == 0 && report.keyspaces_guessed == 1 {
        let db = builder.open()?;
        if let [guessed] = &db.keyspaces()[..] {
            db.rename_keyspace(guessed, name)?;
        }
        db.close()?;
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use engine::{Db, Layout};

    use super::*;

    #[test]
    fn the_entries_are_in_the_keyspace_of_this_name() {
        let dir = tempfile::tempdir().unwrap();
        for others in [0, 1] {
            let path = dir.path().join(others.to_string());
            let db = Db::open(&path).unwrap();
            for name in ["default", "other"].iter().take(1 + others) {
                let keyspace = db.keyspace(name, Layout::sorted()).unwrap();
                keyspace.put("k", "v").unwrap();
            }
            db.flush().unwrap();
            db.close().unwrap();
            std::fs::remove_file(path.join("MANIFEST")).unwrap();
            of_one_keyspace(Db::builder(&path), "default").unwrap();
            let db = Db::open(&path).unwrap();
            assert_eq!(db.keyspaces().len(), 1 + others);
            let default = db.existing_keyspace("default");
            assert_eq!(default.is_some(), others == 0);
            if let Some(keyspace) = default {
                assert_eq!(keyspace.get("k").unwrap().unwrap(), "v");
            }
        }
    }
}
