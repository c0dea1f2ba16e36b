use super::*;
use crate::client::Client;

/// The bytes of the future that a function returns.
fn bytes_of<A, B, F>(_function: fn(A, B) -> F) -> usize {
    size_of::<F>()
}

/// A connection that waits for requests takes up its task and its client, and of what runs
/// commands nothing: with it, the task had 3,424 bytes.
#[test]
fn a_connection_that_waits_is_small() {
    let bytes = bytes_of(serve) + size_of::<Client>();
    assert!(bytes <= 1_536, "{bytes} bytes");
}
