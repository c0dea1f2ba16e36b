//! Backups: incremental copies of a database in use, in a directory of their own.

use engine::ErrorKind;
use hedgerow_bindings::Failure;
use hedgerow_copies::backup::{Backup, Options, Progress, Repository};
use jni_sys::{jbyteArray, jint, jlong};

use crate::calls::{self, Running};
use crate::database::path;
use crate::env::enter;
use crate::objects::database;
use crate::packed::Pack;

/// The backup of an identity; the newest one for a number that is not positive.
fn id_of(id: jlong) -> Option<u64> {
    u64::try_from(id).ok().filter(|id| *id > 0)
}

/// The numbers of a `Backup` of Java, packed.
fn pack(backups: &[Backup]) -> Vec<u8> {
    let mut packed = Pack::default();
    for backup in backups {
        packed
            .i64(backup.id as i64)
            .i64(backup.made_unix_seconds as i64);
        packed
            .i64(backup.bytes() as i64)
            .i64(backup.files.len() as i64);
    }
    packed.0
}

fn go_on(running: &Running) -> impl FnMut(Progress) -> bool + '_ {
    |progress| running.go_on(progress.done_bytes, progress.total_bytes)
}

native! {
    /// Copies a database. The answer is the backup.
    fn Java_io_hedgerow_Backups_create0(
        env, id: jlong, repository: jbyteArray, db: jlong, bytes_per_second: jlong
    ) -> () {
        let repository = Repository::new(path(env, repository)?);
        let owner = database(db)?;
        let options = match u64::try_from(bytes_per_second) {
            Ok(bytes) if bytes > 0 => Options::default().bytes_per_second(bytes),
            _ => Options::default(),
        };
        calls::start(id, move |running| {
            let backup = repository.create(&owner.builder, options, go_on(running))?;
            Ok(Some(pack(&[backup])))
        })
    }

    /// All backups, packed.
    fn Java_io_hedgerow_Backups_list0(env, repository: jbyteArray) -> jbyteArray {
        let repository = Repository::new(path(env, repository)?);
        env.new_bytes(&pack(&repository.list()?))
    }

    /// Checks a backup. The answer is the backup.
    fn Java_io_hedgerow_Backups_verify0(
        env, id: jlong, repository: jbyteArray, backup: jlong
    ) -> () {
        let repository = Repository::new(path(env, repository)?);
        calls::start(id, move |running| {
            let backup = repository.verify(id_of(backup), go_on(running))?;
            Ok(Some(pack(&[backup])))
        })
    }

    /// Restores a backup to a directory. The answer is the backup.
    fn Java_io_hedgerow_Backups_restore0(
        env, id: jlong, repository: jbyteArray, backup: jlong, dir: jbyteArray
    ) -> () {
        let repository = Repository::new(path(env, repository)?);
        let dir = path(env, dir)?;
        calls::start(id, move |running| {
            let backup = repository.restore(id_of(backup), dir, go_on(running))?;
            Ok(Some(pack(&[backup])))
        })
    }

    /// Removes all backups but the newest ones. Returns the number of removed backups.
    fn Java_io_hedgerow_Backups_prune0(
        env, id: jlong, repository: jbyteArray, keep: jint
    ) -> () {
        let repository = Repository::new(path(env, repository)?);
        let keep = usize::try_from(keep).ok();
        let keep = keep.ok_or_else(|| {
            Failure::new(ErrorKind::InvalidArgument, "expected a number of backups to keep")
        })?;
        calls::start(id, move |_| {
            let removed = repository.prune(keep)?.backups as i64;
            Ok(Some(removed.to_le_bytes().to_vec()))
        })
    }
}
