use std::sync::atomic::{AtomicU64, AtomicUsize};

use super::*;

static NUMBERS: Handles<u64> = Handles::new(1, "number");
static TEXTS: Handles<String> = Handles::new(2, "text");

fn refused<T>(result: Result<T, Failure>) -> (Option<ErrorKind>, String) {
    let failure = result.err().expect("the handle is refused");
    (failure.kind, failure.to_string())
}

#[test]
fn a_handle_names_its_object_until_it_is_freed() {
    let handle = NUMBERS.insert(7).unwrap();
    assert_eq!(*NUMBERS.get(handle).unwrap(), 7);
    assert_eq!(*NUMBERS.remove(handle).unwrap(), 7);
    let closed = (
        Some(ErrorKind::Closed),
        "the number was closed before".to_owned(),
    );
    assert_eq!(refused(NUMBERS.get(handle)), closed);
    assert_eq!(refused(NUMBERS.remove(handle)), closed);
}

/// An object whose drop panics.
struct Fragile;

impl Drop for Fragile {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[test]
fn a_panic_of_a_drop_is_a_failure_of_the_call_that_frees() {
    static FRAGILE: Handles<Fragile> = Handles::new(4, "fragile object");
    let handle = FRAGILE.insert(Fragile).unwrap();
    let (kind, message) = refused(FRAGILE.free(handle));
    assert_eq!(kind, None);
    assert_eq!(message, "a defect of this library: dropped");
    let (kind, _) = refused(FRAGILE.free(handle));
    assert_eq!(kind, Some(ErrorKind::Closed));
}

#[test]
fn a_place_is_used_again_under_another_handle() {
    static OWN: Handles<u64> = Handles::new(3, "number");
    let first = OWN.insert(1).unwrap();
    OWN.remove(first).unwrap();
    let second = OWN.insert(2).unwrap();
    assert_ne!(first, second);
    assert!(OWN.get(first).is_err());
    assert_eq!(*OWN.get(second).unwrap(), 2);
}

#[test]
fn foreign_numbers_are_refused() {
    let text = TEXTS.insert("a".to_owned()).unwrap();
    let (kind, message) = refused(NUMBERS.get(text));
    assert_eq!(kind, Some(ErrorKind::InvalidArgument));
    assert_eq!(
        message,
        format!("expected a handle of a number, found {text:#x}")
    );
    let (_, message) = refused(NUMBERS.get(0));
    assert_eq!(message, "expected a handle of a number, found NULL");
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..100_000 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        assert!(TEXTS.get(random).is_err() || random == text);
    }
}

#[test]
fn many_handles_are_told_apart() {
    static OWN: Handles<usize> = Handles::new(4, "number");
    let handles: Vec<_> = (0..10_000).map(|i| OWN.insert(i).unwrap()).collect();
    for (i, &handle) in handles.iter().enumerate() {
        assert_eq!(*OWN.get(handle).unwrap(), i);
    }
}

/// Readers hold objects that another thread frees; each object ends once, after its last reader.
#[test]
fn an_object_outlives_the_calls_that_use_it() {
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
    struct Counted(u64);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0 = 0;
            ALIVE.fetch_sub(1, Ordering::Relaxed);
        }
    }
    static OWN: Handles<Counted> = Handles::new(5, "object");
    const READERS: usize = 4;
    let (current, done) = (AtomicU64::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                let mut found = 0;
                while found < 20_000 {
                    if let Ok(object) = OWN.get(current.load(Ordering::Acquire)) {
                        assert_eq!(object.deref().0, 42);
                        found += 1;
                    }
                }
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        while done.load(Ordering::Relaxed) < READERS {
            ALIVE.fetch_add(1, Ordering::Relaxed);
            let handle = OWN.insert(Counted(42)).unwrap();
            current.store(handle, Ordering::Release);
            std::thread::yield_now();
            OWN.remove(handle).unwrap();
        }
    });
    assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
}
