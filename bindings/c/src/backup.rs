//! Backups: the moments of databases in one directory, the repository.

use std::ffi::c_char;

use hedgerow_bindings::Failure;
use hedgerow_bindings::foreign::{Optional, Out, Text};
use hedgerow_copies::backup::{Backup, Options as BackupOptions, Progress as Copied, Repository};
use serde_json::{Value, json};

use crate::database::give_text;
use crate::options::Options;
use crate::progress::{Progress, wait};
use crate::types::{call, hg_code, hg_error, hg_options};

/// The newest backup has no number.
fn number(id: u64) -> Option<u64> {
    (id > 0).then_some(id)
}

fn go_on() -> impl FnMut(Copied) -> bool {
    let progress = Progress::of_thread();
    move |it| progress.go_on(it.done_bytes, it.total_bytes)
}

/// Adds a backup of a database, which may be open.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_backup_create(
    repository: *const c_char,
    path: *const c_char,
    options: *const hg_options,
    bytes_per_second: u64,
    id: *mut u64,
    error: *mut hg_error,
) -> hg_code {
    let create = |(repository, path, id): (Text, Text, Option<Out<u64>>)| {
        let builder = Options::of(options)?.builder(path.path()?)?;
        let how = BackupOptions::default().bytes_per_second(bytes_per_second);
        let made = Repository::new(repository.path()?).create(&builder, how, go_on())?;
        id.inspect(|id| id.set(made.id));
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (repository, path, Optional(id)), create) }
}

/// Writes the backups, oldest first, as JSON.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_backup_list_json(
    repository: *const c_char,
    json: *mut *mut c_char,
    error: *mut hg_error,
) -> hg_code {
    let list = |(repository, place): (Text, Out<*mut c_char>)| {
        let described = |backup: &Backup| {
            json!({
                "id": backup.id,
                "made_unix_seconds": backup.made_unix_seconds,
                "last": backup.last,
                "files": backup.files.len(),
                "bytes": backup.bytes(),
            })
        };
        let backups = Repository::new(repository.path()?).list()?;
        let backups: Vec<Value> = backups.iter().map(described).collect();
        give_text(&place, &Value::Array(backups).to_string())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (repository, json), list) }
}

/// Reads and checks all files of a backup.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_backup_verify(
    repository: *const c_char,
    id: u64,
    error: *mut hg_error,
) -> hg_code {
    let verify = |repository: Text| {
        Repository::new(repository.path()?).verify(number(id), go_on())?;
        Ok::<(), Failure>(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, repository, verify) }
}

/// Makes a database of a backup, in a directory that does not exist.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_backup_restore(
    repository: *const c_char,
    id: u64,
    path: *const c_char,
    error: *mut hg_error,
) -> hg_code {
    let restore = |(repository, path): (Text, Text)| {
        Repository::new(repository.path()?).restore(number(id), path.path()?, go_on())?;
        Ok::<(), Failure>(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (repository, path), restore) }
}

/// Removes all backups but the newest ones.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_backup_prune(
    repository: *const c_char,
    keep: usize,
    error: *mut hg_error,
) -> hg_code {
    let prune = |repository: Text| {
        let repository = Repository::new(repository.path()?);
        wait(move || {
            repository.prune(keep)?;
            Ok(())
        })
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, repository, prune) }
}
