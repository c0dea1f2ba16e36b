//! The objects that Java holds by handles, and who owns them.
//!
//! A database owns what was made from it. Closing it frees the handles of all of that, so a later
//! call with one of them fails as `Closed`. A call that is running keeps its objects until it ends.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{Builder, Db, ErrorKind, IndexedBatch, Keyspace, Savepoint, Snapshot, Transaction};
use hedgerow_bindings::{Failure, Handles, Held};
use jni_sys::{jint, jlong};

use crate::env::enter;
use crate::loads::Loading;
use crate::scan::Walk;

static DATABASES: Handles<Arc<Database>> = Handles::new(1, "database");
static KEYSPACES: Handles<Owned<Keyspace>> = Handles::new(2, "keyspace");
static SNAPSHOTS: Handles<Owned<Snapshot>> = Handles::new(3, "snapshot");
static BATCHES: Handles<Owned<Mutex<OwnBatch>>> = Handles::new(4, "batch");
static WALKS: Handles<Owned<Mutex<Walk>>> = Handles::new(5, "iterator");
static LOADS: Handles<Owned<Loading>> = Handles::new(6, "bulk load");

/// The objects in memory, for tests of leaks.
static OBJECTS: AtomicI64 = AtomicI64::new(0);

/// An open database and the handles of what was made from it.
pub(crate) struct Database {
    pub(crate) db: Db,
    /// The options that it was opened with, for backups.
    pub(crate) builder: Builder,
    /// The function that frees each handle; `None` once the database is closed.
    children: Mutex<Option<HashMap<u64, Free>>>,
    _counted: Counted,
}

type Free = fn(u64);

/// An object that a database owns.
pub(crate) struct Owned<T> {
    object: T,
    owner: Arc<Database>,
    _counted: Counted,
}

impl<T> Owned<T> {
    pub(crate) fn owner(&self) -> &Arc<Database> {
        &self.owner
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

/// A batch that reads its own writes.
pub(crate) struct OwnBatch {
    /// `None` once it is committed.
    uncommitted: Option<Uncommitted>,
    /// Java knows a savepoint by its index.
    pub(crate) savepoints: Vec<Savepoint>,
}

pub(crate) enum Uncommitted {
    Indexed(IndexedBatch),
    Transaction(Transaction),
}

impl OwnBatch {
    pub(crate) fn new(uncommitted: Uncommitted) -> OwnBatch {
        OwnBatch {
            uncommitted: Some(uncommitted),
            savepoints: Vec::new(),
        }
    }

    /// The batch.
    ///
    /// # Errors
    /// `Closed` if it was committed.
    pub(crate) fn indexed(&mut self) -> engine::Result<&mut IndexedBatch> {
        match &mut self.uncommitted {
            Some(Uncommitted::Indexed(batch)) => Ok(batch),
            Some(Uncommitted::Transaction(transaction)) => Ok(transaction),
            None => Err(committed()),
        }
    }

    /// Takes the batch out, to commit it.
    ///
    /// # Errors
    /// `Closed` if it was committed.
    pub(crate) fn take(&mut self) -> engine::Result<Uncommitted> {
        self.uncommitted.take().ok_or_else(committed)
    }
}

fn committed() -> engine::Error {
    engine::Error::new(ErrorKind::Closed, "the batch was committed before")
}

/// Counts an object for as long as it lives.
struct Counted;

impl Counted {
    fn new() -> Counted {
        OBJECTS.fetch_add(1, Ordering::Relaxed);
        Counted
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        OBJECTS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A kind of object that a database owns.
pub(crate) trait Kind: Send + Sync + Sized + 'static {
    const TABLE: &'static Handles<Owned<Self>>;
}

impl Kind for Keyspace {
    const TABLE: &'static Handles<Owned<Keyspace>> = &KEYSPACES;
}

impl Kind for Snapshot {
    const TABLE: &'static Handles<Owned<Snapshot>> = &SNAPSHOTS;
}

impl Kind for Mutex<OwnBatch> {
    const TABLE: &'static Handles<Owned<Mutex<OwnBatch>>> = &BATCHES;
}

impl Kind for Mutex<Walk> {
    const TABLE: &'static Handles<Owned<Mutex<Walk>>> = &WALKS;
}

impl Kind for Loading {
    const TABLE: &'static Handles<Owned<Loading>> = &LOADS;
}

/// Opens a database and gives it a handle.
pub(crate) fn open(builder: Builder) -> Result<u64, Failure> {
    let db = builder.clone().open()?;
    DATABASES.insert(Arc::new(Database {
        db,
        builder,
        children: Mutex::new(Some(HashMap::new())),
        _counted: Counted::new(),
    }))
}

/// The database of a handle.
pub(crate) fn database(handle: jlong) -> Result<Arc<Database>, Failure> {
    let database = DATABASES.get(handle as u64)?;
    Ok(Arc::clone(&*database))
}

/// The keyspace of a handle, for a call that outlives this one.
pub(crate) fn keyspace(handle: jlong) -> Result<Keyspace, Failure> {
    let keyspace = find::<Keyspace>(handle)?;
    Ok(keyspace.object.clone())
}

/// Frees all handles of a database and closes it.
pub(crate) fn close(handle: jlong) -> Result<(), Failure> {
    let database = DATABASES.remove(handle as u64)?;
    let children = lock(&database.children).take();
    for (child, free) in children.into_iter().flatten() {
        free(child);
    }
    Ok(database.db.clone().close()?)
}

/// Gives an object of a database a handle.
pub(crate) fn keep<T: Kind>(owner: &Arc<Database>, object: T) -> Result<jlong, Failure> {
    let mut children = lock(&owner.children);
    let children = children.as_mut();
    let children = children
        .ok_or_else(|| Failure::new(ErrorKind::Closed, "the database was closed before"))?;
    let handle = T::TABLE.insert(Owned {
        object,
        owner: owner.clone(),
        _counted: Counted::new(),
    })?;
    children.insert(handle, |handle| drop(T::TABLE.remove(handle)));
    Ok(handle as jlong)
}

/// The object of a handle.
pub(crate) fn find<T: Kind>(handle: jlong) -> Result<Held<Owned<T>>, Failure> {
    T::TABLE.get(handle as u64)
}

/// Frees a handle.
pub(crate) fn free<T: Kind>(handle: jlong) -> Result<(), Failure> {
    let object = T::TABLE.remove(handle as u64)?;
    if let Some(children) = lock(&object.owner.children).as_mut() {
        children.remove(&(handle as u64));
    }
    Ok(())
}

/// Locks a mutex. A panic under the lock has left the object as after an error.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

native! {
    /// Frees a handle of a kind of `io.hedgerow.Ref`, unless it was freed before.
    fn Java_io_hedgerow_Ref_free0(_env, kind: jint, handle: jlong) -> () {
        let freed = match kind {
            1 => close(handle),
            2 => free::<Keyspace>(handle),
            3 => free::<Snapshot>(handle),
            4 => free::<Mutex<OwnBatch>>(handle),
            5 => free::<Mutex<Walk>>(handle),
            6 => free::<Loading>(handle),
            _ => Err(Failure::invalid(format!("expected a kind of a handle, found {kind}"))),
        };
        match freed {
            Err(failure) if failure.kind == Some(ErrorKind::Closed) => Ok(()),
            other => other,
        }
    }

    /// The number of objects in memory.
    fn Java_io_hedgerow_Ref_objects0(_env) -> jlong {
        Ok(OBJECTS.load(Ordering::Relaxed))
    }
}
