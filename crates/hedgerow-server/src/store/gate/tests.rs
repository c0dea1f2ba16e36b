use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::Gate;

/// Newcomers come between two that close the gate, and one that gives up keeps nobody out.
#[test]
fn turns_are_given_in_the_order_in_which_clients_lined_up() {
    let gate = Gate::new();
    let mut context = Context::from_waker(Waker::noop());
    let mut first = pin!(gate.close());
    let Poll::Ready(first) = first.as_mut().poll(&mut context) else {
        panic!("nobody is before the first");
    };
    assert!(first.closes() && gate.is_closed());
    let mut newcomers = [Box::pin(gate.pass()), Box::pin(gate.pass())];
    let mut gone = Box::pin(gate.close());
    let mut second = pin!(gate.close());
    let mut late = pin!(gate.pass());
    for newcomer in &mut newcomers {
        assert!(newcomer.as_mut().poll(&mut context).is_pending());
    }
    assert!(gone.as_mut().poll(&mut context).is_pending());
    assert!(second.as_mut().poll(&mut context).is_pending());
    assert!(late.as_mut().poll(&mut context).is_pending());
    drop(first);
    drop(gone);
    assert!(!gate.is_closed());
    for newcomer in &mut newcomers {
        let Poll::Ready(turn) = newcomer.as_mut().poll(&mut context) else {
            panic!("a newcomer has its turn before the second that closes the gate");
        };
        assert!(!turn.closes());
        assert!(second.as_mut().poll(&mut context).is_pending());
    }
    let Poll::Ready(second) = second.as_mut().poll(&mut context) else {
        panic!("all newcomers before it have had their turn");
    };
    assert!(gate.is_closed());
    assert!(late.as_mut().poll(&mut context).is_pending());
    drop(second);
    assert!(late.as_mut().poll(&mut context).is_ready());
}
