//! Handles: the numbers that JavaScript holds in place of pointers.
//!
//! ```text
//! bit 52            24 23              0
//!    ┌────────────────┬────────────────┐
//!    │ generation     │ place          │
//!    └────────────────┴────────────────┘
//! ```
//!
//! A place of the table is used again with the next generation, so a handle that was freed names
//! nothing, and neither does any other number. Each environment of Node (the main thread, each
//! worker thread) has a table of its own, so a handle of another thread names nothing either.

use std::cell::RefCell;
use std::sync::Arc;

use engine::Snapshot;

use crate::abort::Abort;
use crate::database::Database;
use crate::failure::{Code, Failure, Result};
use crate::iterator::Iterator;
use crate::opened::Opened;

const PLACE_BITS: u32 = 24;
/// The handles that may be in use at once: 16.7 million.
const PLACES_MAX: usize = 1 << PLACE_BITS;
/// A place that has had so many objects is not used again. A handle is below 2^53, so that a number
/// of JavaScript holds it exactly.
const GENERATION_MAX: u64 = (1 << (53 - PLACE_BITS)) - 1;

/// An object that JavaScript holds a handle of.
#[derive(Clone)]
pub enum Object {
    Database(Arc<Database>),
    Snapshot(Arc<Opened>, Snapshot),
    Iterator(Arc<Iterator>),
    Abort(Arc<Abort>),
}

impl Object {
    /// True if the object belongs to this database.
    fn is_of(&self, db: &Arc<Opened>) -> bool {
        match self {
            Object::Database(database) => Arc::ptr_eq(&database.db, db),
            Object::Snapshot(of, _) => Arc::ptr_eq(of, db),
            Object::Iterator(iterator) => Arc::ptr_eq(&iterator.db, db),
            Object::Abort(_) => false,
        }
    }
}

/// The objects of one environment.
#[derive(Default)]
struct Handles {
    places: Vec<Place>,
    free: Vec<usize>,
}

struct Place {
    /// The generation of the present object, or of the next one.
    generation: u64,
    object: Option<Object>,
}

thread_local! {
    static HANDLES: RefCell<Handles> = RefCell::default();
}

/// Gives an object a handle, which is never 0.
pub(crate) fn insert(object: Object) -> Result<f64> {
    HANDLES.with_borrow_mut(|it| it.insert(object))
}

/// Frees a handle. Calls that use the object go on with it.
pub(crate) fn remove(handle: f64) -> Option<Object> {
    HANDLES.with_borrow_mut(|it| it.remove(handle))
}

/// Frees the handles of everything that belongs to a database.
pub(crate) fn remove_all_of(db: &Arc<Opened>) -> Vec<Object> {
    HANDLES.with_borrow_mut(|it| it.remove_all(|object| object.is_of(db)))
}

/// Frees all handles of this thread.
pub(crate) fn clear() {
    // The objects are dropped when the table is released.
    drop(HANDLES.with_borrow_mut(|it| it.remove_all(|_| true)));
}

/// The database of a handle.
pub(crate) fn database(handle: f64) -> Result<Arc<Database>> {
    match find(handle) {
        Some(Object::Database(database)) => Ok(database),
        other => Err(refusal(handle, other, "database", Code::DATABASE_NOT_OPEN)),
    }
}

/// The snapshot of a handle; `None` for 0, the present.
pub(crate) fn snapshot(handle: f64) -> Result<Option<Snapshot>> {
    if handle == 0.0 {
        return Ok(None);
    }
    match find(handle) {
        Some(Object::Snapshot(_, snapshot)) => Ok(Some(snapshot)),
        other => Err(refusal(handle, other, "snapshot", Code::SNAPSHOT_NOT_OPEN)),
    }
}

/// The iterator of a handle.
pub(crate) fn iterator(handle: f64) -> Result<Arc<Iterator>> {
    match find(handle) {
        Some(Object::Iterator(iterator)) => Ok(iterator),
        other => Err(refusal(handle, other, "iterator", Code::ITERATOR_NOT_OPEN)),
    }
}

/// The abort of the calls that were given this handle; `None` for 0, nothing.
pub(crate) fn abort(handle: f64) -> Result<Option<Arc<Abort>>> {
    if handle == 0.0 {
        return Ok(None);
    }
    match find(handle) {
        Some(Object::Abort(abort)) => Ok(Some(abort)),
        Some(Object::Iterator(iterator)) => Ok(Some(iterator.abort.clone())),
        other => Err(refusal(handle, other, "signal", Code::INVALID)),
    }
}

fn find(handle: f64) -> Option<Object> {
    HANDLES.with_borrow(|it| it.find(handle).cloned())
}

#[cold]
fn refusal(handle: f64, found: Option<Object>, noun: &str, code: Code) -> Failure {
    match found {
        None => Failure::new(code, format!("the {noun} is not open")),
        Some(_) => Failure::invalid(format!(
            "expected a handle of a {noun}, found {handle}, which names another object"
        )),
    }
}

impl Handles {
    fn insert(&mut self, object: Object) -> Result<f64> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.places.len() < PLACES_MAX => {
                let (generation, object) = (1, None);
                self.places.push(Place { generation, object });
                self.places.len() - 1
            }
            None => {
                let message = format!("expected at most {PLACES_MAX} open objects");
                return Err(Failure::invalid(message));
            }
        };
        let place = &mut self.places[index];
        place.object = Some(object);
        Ok((place.generation << PLACE_BITS | index as u64) as f64)
    }

    fn remove(&mut self, handle: f64) -> Option<Object> {
        let (index, generation) = parts(handle);
        self.remove_if(index, |place| place.generation == generation)
    }

    fn remove_all(&mut self, is_one: impl Fn(&Object) -> bool) -> Vec<Object> {
        let is_one = |place: &Place| place.object.as_ref().is_some_and(&is_one);
        let indexes = 0..self.places.len();
        indexes
            .filter_map(|index| self.remove_if(index, is_one))
            .collect()
    }

    fn remove_if(&mut self, index: usize, is_it: impl Fn(&Place) -> bool) -> Option<Object> {
        let place = self.places.get_mut(index).filter(|place| is_it(place))?;
        let object = place.object.take()?;
        place.generation += 1;
        if place.generation <= GENERATION_MAX {
            self.free.push(index);
        }
        Some(object)
    }

    fn find(&self, handle: f64) -> Option<&Object> {
        let (index, generation) = parts(handle);
        let place = self.places.get(index)?;
        place
            .object
            .as_ref()
            .filter(|_| place.generation == generation)
    }
}

/// The place and the generation of a handle. A number that is no handle has some of no object: the
/// conversion to an integer saturates, and 0 stands for what is no number.
fn parts(handle: f64) -> (usize, u64) {
    let bits = handle as u64;
    (bits as usize % PLACES_MAX, bits >> PLACE_BITS)
}

#[cfg(test)]
mod tests {
    use engine::Db;

    use super::*;

    fn object() -> (tempfile::TempDir, Object) {
        let dir = tempfile::tempdir().unwrap();
        let db = Arc::new(Opened::alone(Db::open(dir.path()).unwrap()));
        let snapshot = db.snapshot().unwrap();
        (dir, Object::Snapshot(db, snapshot))
    }

    #[test]
    fn a_freed_handle_names_nothing_though_its_place_is_used_again() {
        let (_dir, object) = object();
        let mut handles = Handles::default();
        let first = handles.insert(object.clone()).unwrap();
        assert!(handles.find(first).is_some());
        assert!(handles.remove(first).is_some());
        assert!(handles.remove(first).is_none());
        let second = handles.insert(object).unwrap();
        assert_eq!(parts(first).0, parts(second).0);
        assert!(handles.find(first).is_none());
        assert!(handles.find(second).is_some());
    }

    #[test]
    fn no_other_number_is_a_handle() {
        let (_dir, object) = object();
        let mut handles = Handles::default();
        let handle = handles.insert(object).unwrap();
        let huge = 2_f64.powi(60);
        for wrong in [0.0, -1.0, 1.0, handle + 1.0, huge, f64::NAN, f64::INFINITY] {
            assert!(handles.find(wrong).is_none(), "{wrong}");
            assert!(handles.remove(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_worn_out_place_is_not_used_again() {
        let (_dir, object) = object();
        let mut handles = Handles::default();
        let first = handles.insert(object.clone()).unwrap();
        handles.places[0].generation = GENERATION_MAX;
        let last = (GENERATION_MAX << PLACE_BITS) as f64;
        assert!(last < 2_f64.powi(53));
        assert!(handles.find(first).is_none());
        assert!(handles.remove(last).is_some());
        let next = handles.insert(object).unwrap();
        assert_eq!(parts(next).0, 1);
    }
}
