//! The bytes of a connection: plain, or through TLS. Reading and writing never wait, but for the
//! methods that are futures.

use std::io;
use std::net::SocketAddr;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

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

    /// Waits until there may be something to read.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            #[cfg(feature = "tls")]
            Stream::Tls(stream) if stream.has_more() => Ok(()),
            _ => self.socket().readable().await,
        }
    }

    /// Appends what is there to read. Returns the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// `WouldBlock` if there is nothing.
    pub(crate) fn try_read(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.try_read_buf(into),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => stream.try_read(into),
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
