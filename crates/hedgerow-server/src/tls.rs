//! TLS: the certificates of the server and its clients, and connections through it.
//!
//! The options are those of Redis. What is wrong with a file is said when the server begins.

use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

use crate::connection;
use crate::serve::{ClientCertificates, Tls, admit, next_of};
use crate::server::Server;
use crate::stream;

/// The time that a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The bytes that one read asks for.
const READ_BYTES: usize = 16 << 10;
/// The bytes after which a read ends though there may be more.
const READ_BYTES_MAX: usize = 1 << 20;

/// A connection through TLS.
pub(crate) struct Stream {
    inner: Box<TlsStream<TcpStream>>,
    /// Something may be left that was decrypted: the socket does not tell of it.
    has_more: bool,
}

/// The side of the server in every handshake.
pub(crate) fn acceptor(options: &Tls) -> Result<TlsAcceptor, String> {
    let provider = Arc::new(ring::default_provider());
    let certificates = certificates(&options.cert_file)?;
    let key = PrivateKeyDer::from_pem_file(&options.key_file)
        .map_err(|error| wrong("a private key", &options.key_file, error))?;
    let config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let config = match verifier(options, provider)? {
        Some(verifier) => config.with_client_cert_verifier(verifier),
        None => config.with_no_client_auth(),
    };
    let config = config
        .with_single_cert(certificates, key)
        .map_err(|error| wrong("the key of the certificate", &options.key_file, error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The check of the certificates of clients; `None` if they need none.
fn verifier(
    options: &Tls,
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
    if options.auth_clients == ClientCertificates::Ignored {
        return Ok(None);
    }
    let file = options.ca_cert_file.as_ref();
    let file = file.ok_or("expected tls-ca-cert-file, or tls-auth-clients no, found neither")?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        let added = roots.add(certificate);
        added.map_err(|error| wrong("certificates of authorities", file, error))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = match options.auth_clients {
        ClientCertificates::Optional => builder.allow_unauthenticated(),
        _ => builder,
    };
    let built = builder.build();
    built
        .map(Some)
        .map_err(|error| wrong("certificates of authorities", file, error))
}

/// All certificates of a file, of which there must be one.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let found: Vec<_> = found.map_err(|error| wrong("certificates", file, error))?;
    match found.is_empty() {
        true => Err(wrong("certificates", file, "none")),
        false => Ok(found),
    }
}

fn wrong(expected: &str, file: &Path, found: impl std::fmt::Display) -> String {
    format!("expected {expected} in {}, found: {found}", file.display())
}

/// Accepts connections until the task is ended.
pub(crate) async fn run(server: Arc<Server>, listener: TcpListener, acceptor: TlsAcceptor) {
    // One more for each handshake.
    let handshakes = Arc::new(());
    loop {
        let socket = next_of(Some(&listener)).await;
        if admit(&server, &socket, Arc::strong_count(&handshakes) - 1).is_err() {
            continue;
        }
        let (server, acceptor, handshake) = (server.clone(), acceptor.clone(), handshakes.clone());
        tokio::spawn(async move {
            let accepted = tokio::time::timeout(HANDSHAKE, acceptor.accept(socket)).await;
            drop(handshake);
            // Whoever fails is told so by TLS.
            if let Ok(Ok(inner)) = accepted {
                let stream = stream::Stream::Tls(Stream {
                    inner: Box::new(inner),
                    // A request may have come with the last message of the handshake.
                    has_more: true,
                });
                connection::serve(server, stream).await;
            }
        });
    }
}

impl Stream {
    pub(super) fn socket(&self) -> &TcpStream {
        self.inner.get_ref().0
    }

    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Appends what is there; `WouldBlock` if nothing is. Reads until the socket has nothing: what
    /// was decrypted and left would wake nobody.
    pub(super) fn try_read(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        let mut read = 0;
        self.has_more = false;
        loop {
            into.reserve(READ_BYTES);
            let polled = {
                let reading = pin!(self.inner.read_buf(into));
                // Whoever waits for more does so by the readiness of the socket.
                reading.poll(&mut Context::from_waker(Waker::noop()))
            };
            match polled {
                Poll::Ready(Ok(0)) => return Ok(read),
                Poll::Ready(Ok(count)) => read += count,
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending if read > 0 => return Ok(read),
                Poll::Pending => return Err(io::ErrorKind::WouldBlock.into()),
            }
            if read >= READ_BYTES_MAX {
                self.has_more = true;
                return Ok(read);
            }
        }
    }

    pub(super) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_all(bytes).await?;
        self.inner.flush().await
    }
}
