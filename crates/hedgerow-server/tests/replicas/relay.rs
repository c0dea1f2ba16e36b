//! A relay between a replica and its primary, which can hold back what the primary sends.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

#[derive(Debug, Default)]
struct State {
    holds: bool,
    is_over: bool,
}

type Shared = Arc<(Mutex<State>, Condvar)>;

pub(super) struct Relay {
    pub(super) address: SocketAddr,
    shared: Shared,
    accepting: Option<JoinHandle<()>>,
}

#[allow(
    clippy::disallowed_methods,
    reason = "both directions of a connection have a thread"
)]
impl Relay {
    /// Passes connections on to a server.
    pub(super) fn begin(server: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Shared::default();
        let own = shared.clone();
        let accepting = std::thread::spawn(move || {
            let mut threads = Vec::new();
            for client in listener.incoming() {
                if own.0.lock().unwrap().is_over {
                    break;
                }
                let client = client.unwrap();
                // Nobody listens any more: the client tries again.
                let Ok(server) = TcpStream::connect(server) else {
                    continue;
                };
                let [from, to] = [&client, &server].map(|it| it.try_clone().unwrap());
                threads.push(std::thread::spawn(move || pass(from, to, None)));
                let own = own.clone();
                threads.push(std::thread::spawn(move || pass(server, client, Some(&own))));
            }
            threads.into_iter().for_each(|it| it.join().unwrap());
        });
        Relay {
            address,
            shared,
            accepting: Some(accepting),
        }
    }

    /// Holds back, until the end, what the server sends from now on.
    pub(super) fn hold(&self) {
        self.shared.0.lock().unwrap().holds = true;
    }
}

/// Passes bytes on until one side is gone. Bytes that are held back until the end are dropped.
fn pass(mut from: TcpStream, mut to: TcpStream, shared: Option<&Shared>) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let count = from.read(&mut bytes).unwrap_or(0);
        let is_over = shared.is_some_and(|shared| {
            let state = shared.0.lock().unwrap();
            let waits = |state: &mut State| state.holds && !state.is_over;
            shared.1.wait_while(state, waits).unwrap().is_over
        });
        if count == 0 || is_over || to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    // The other direction ends by this.
    for stream in [&from, &to] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.0.lock().unwrap().is_over = true;
        self.shared.1.notify_all();
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}
