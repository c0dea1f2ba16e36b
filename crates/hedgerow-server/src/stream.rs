//! The bytes of a connection: plain, or through TLS. Reading and writing never wait, but for the
//! methods that are futures.

use std::cell::RefCell;
use std::future::{Future as _, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;

/// The bytes of one read, unless a large value is expected.
pub(crate) const READ_BYTES: usize = 16 << 10;

thread_local! {
    /// Most reads bring a small part of it: they need no memory of their own.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// See the module.
pub(crate) enum Stream {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Tls(crate::tls::Stream),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => stream.socket(),
        }
    }

    /// The socket, if nothing is between.
    pub(crate) fn plain(&mut self) -> Option<&mut TcpStream> {
        match self {
            Stream::Plain(socket) => Some(socket),
            #[cfg(feature = "tls")]
            Stream::Tls(_) => None,
        }
    }

    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket().peer_addr()
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket().local_addr()
    }

    /// Appends what there is to read, as soon as there is something; up to about `wanted` bytes at
    /// once. Returns the number of bytes, 0 at the end. Takes no memory while it waits, and may be
    /// dropped and called again.
    ///
    /// Cost: one call of the system. A read that does not fill its memory has emptied the socket,
    /// so that nobody asks for more before the system tells of it.
    pub(crate) async fn read(&mut self, into: &mut Vec<u8>, wanted: usize) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => poll_fn(|cx| poll_read(socket, cx, into, wanted)).await,
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => loop {
                if !stream.has_more() {
                    stream.socket().readable().await?;
                }
                into.reserve(wanted);
                match stream.try_read(into) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return read,
                }
                if into.is_empty() {
                    *into = Vec::new();
                }
            },
        }
    }

    /// Writes what can be written now. Returns the number of bytes.
    pub(crate) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => match socket.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                written => written,
            },
            // Only what was flushed is written.
            #[cfg(feature = "tls")]
            Stream::Tls(_) => Ok(0),
        }
    }

    /// Writes all; may be dropped and called again with the rest only if the connection ends.
    pub(crate) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.write_all(bytes).await,
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => stream.write_all(bytes).await,
        }
    }
}

fn poll_read(
    socket: &mut TcpStream,
    cx: &mut Context<'_>,
    into: &mut Vec<u8>,
    wanted: usize,
) -> Poll<io::Result<usize>> {
    if wanted > READ_BYTES {
        std::task::ready!(socket.poll_read_ready(cx))?;
        into.reserve(wanted);
        return pin!(socket.read_buf(into)).poll(cx);
    }
    SCRATCH.with_borrow_mut(|scratch| {
        let mut read = ReadBuf::new(scratch);
        std::task::ready!(Pin::new(socket).poll_read(cx, &mut read))?;
        into.extend_from_slice(read.filled());
        Poll::Ready(Ok(read.filled().len()))
    })
}
