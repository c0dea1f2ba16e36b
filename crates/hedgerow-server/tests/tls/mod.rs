//! Clients with TLS. The certificates are made when the tests run.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hedgerow_server::{ClientCertificates, Options, Tls, serve};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::Served;
use crate::client::Value;

/// An authority that certifies servers and clients.
struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
struct Certified {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Authority {
    fn new() -> Authority {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Authority {
            certificate: parameters.self_signed(&key).unwrap(),
            issuer: Issuer::new(parameters, key),
        }
    }

    fn certify(&self, name: &str) -> Certified {
        let parameters = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        Certified { certificate, key }
    }

    /// The files of a server, certified here, that trusts clients certified here.
    fn tls(&self, dir: &Path, auth_clients: ClientCertificates) -> Tls {
        let server = self.certify("127.0.0.1");
        Tls {
            port: 0,
            cert_file: file(dir, "server.crt", &server.certificate.pem()),
            key_file: file(dir, "server.key", &server.key.serialize_pem()),
            ca_cert_file: Some(file(dir, "ca.crt", &self.certificate.pem())),
            auth_clients,
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "files of certificates")]
fn file(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn served(dir: &Path, tls: Tls) -> Served {
    Served::with(&dir.join("db"), |options| options.tls = Some(tls))
}

type Secure = StreamOwned<ClientConnection, TcpStream>;

/// A connection of a client that trusts an authority and may have a certificate.
fn connect(address: SocketAddr, trusted: &Authority, own: Option<&Certified>) -> Secure {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.certificate.der().clone()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots);
    let config = match own {
        None => config.with_no_client_auth(),
        Some(own) => {
            let key = PrivateKeyDer::try_from(own.key.serialize_der()).unwrap();
            let chain: Vec<CertificateDer<'_>> = vec![own.certificate.der().clone()];
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let socket = TcpStream::connect(address).unwrap();
    // A reply that nobody sends is an error.
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    StreamOwned::new(connection, socket)
}

fn ping(stream: &mut Secure) -> std::io::Result<String> {
    stream.write_all(b"PING\r\n")?;
    let mut reply = [0; 7];
    stream.read_exact(&mut reply)?;
    Ok(String::from_utf8(reply.to_vec()).unwrap())
}

fn shut_down(served: Served, mut stream: Secure) {
    stream.write_all(b"SHUTDOWN\r\n").unwrap();
    let mut reply = Vec::new();
    // TLS misses its own last message.
    let _ = stream.read_to_end(&mut reply);
    assert_eq!(reply, b"");
    served.join();
}

#[test]
fn clients_talk_through_tls() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let served = served(
        dir.path(),
        authority.tls(dir.path(), ClientCertificates::Ignored),
    );
    let mut stream = connect(served.address, &authority, None);
    assert_eq!(ping(&mut stream).unwrap(), "+PONG\r\n");
    // A value of many records, and one reply behind the other.
    let value = "v".repeat(3 << 20);
    let set = format!(
        "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}\r\n",
        value.len()
    );
    stream.write_all(set.as_bytes()).unwrap();
    stream.write_all("GET k\r\n".repeat(3).as_bytes()).unwrap();
    let expected = format!("${}\r\n{value}\r\n", value.len()).repeat(3);
    let mut found = vec![0; 5 + expected.len()];
    stream.read_exact(&mut found).unwrap();
    assert!(found == format!("+OK\r\n{expected}").into_bytes());
    // A client that waits is woken, and told of messages.
    let mut other = connect(served.address, &authority, None);
    other.write_all(b"BLPOP list 0\r\n").unwrap();
    while served_waiting(&mut stream) == 0 {}
    stream.write_all(b"RPUSH list x\r\n").unwrap();
    let mut reply = [0; 21];
    other.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"*2\r\n$4\r\nlist\r\n$1\r\nx\r\n");
    let mut reply = [0; 4];
    stream.read_exact(&mut reply).unwrap();
    shut_down(served, stream);
}

/// It is decrypted with the client's last message, and the socket tells of nothing more.
#[test]
fn a_request_may_come_with_the_end_of_the_handshake() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let tls = authority.tls(dir.path(), ClientCertificates::Ignored);
    let served = served(dir.path(), tls);
    for _ in 0..20 {
        let mut stream = connect(served.address, &authority, None);
        stream.conn.writer().write_all(b"PING\r\n").unwrap();
        let mut reply = [0; 7];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+PONG\r\n");
    }
    let last = connect(served.address, &authority, None);
    shut_down(served, last);
}

/// The number of clients that wait.
fn served_waiting(stream: &mut Secure) -> u64 {
    stream.write_all(b"INFO clients\r\n").unwrap();
    let mut text = String::new();
    while !text.contains("tracking_clients:") || !text.ends_with("\r\n\r\n") {
        let mut bytes = [0; 512];
        let count = stream.read(&mut bytes).unwrap();
        text += std::str::from_utf8(&bytes[..count]).unwrap();
    }
    let (_, behind) = text.split_once("blocked_clients:").unwrap();
    behind.lines().next().unwrap().parse().unwrap()
}

#[test]
fn strangers_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (authority, other) = (Authority::new(), Authority::new());
    let served = served(
        dir.path(),
        authority.tls(dir.path(), ClientCertificates::Required),
    );
    let (own, foreign) = (authority.certify("client"), other.certify("client"));
    // The client does not know the authority of the server.
    let mut stream = connect(served.address, &other, Some(&own));
    assert!(ping(&mut stream).is_err());
    for refused in [None, Some(&foreign)] {
        let mut stream = connect(served.address, &authority, refused);
        assert!(ping(&mut stream).is_err());
    }
    // Bytes that are no TLS get no reply.
    let mut plain = TcpStream::connect(served.address).unwrap();
    plain.write_all(b"PING\r\n").unwrap();
    let mut reply = Vec::new();
    let _ = plain.read_to_end(&mut reply);
    assert!(!reply.starts_with(b"+PONG"));
    let mut stream = connect(served.address, &authority, Some(&own));
    assert_eq!(ping(&mut stream).unwrap(), "+PONG\r\n");
    shut_down(served, stream);
}

#[test]
fn a_certificate_is_optional_but_not_a_wrong_one() {
    let dir = tempfile::tempdir().unwrap();
    let (authority, other) = (Authority::new(), Authority::new());
    let served = served(
        dir.path(),
        authority.tls(dir.path(), ClientCertificates::Optional),
    );
    let (own, foreign) = (authority.certify("client"), other.certify("client"));
    assert!(ping(&mut connect(served.address, &authority, Some(&foreign))).is_err());
    for own in [Some(&own), None] {
        let mut stream = connect(served.address, &authority, own);
        assert_eq!(ping(&mut stream).unwrap(), "+PONG\r\n");
    }
    let stream = connect(served.address, &authority, None);
    shut_down(served, stream);
}

/// There is a plain port beside that for TLS; the files are named when they are wrong.
#[test]
fn files_are_checked_when_the_server_begins() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let tls = authority.tls(dir.path(), ClientCertificates::Required);
    for (change, expected) in [
        (
            (|tls: &mut Tls| tls.ca_cert_file = None) as fn(&mut Tls),
            "expected tls-ca-cert-file",
        ),
        (
            |tls| tls.cert_file = tls.key_file.clone(),
            "expected certificates in",
        ),
        (
            |tls| tls.key_file = tls.cert_file.clone(),
            "expected a private key in",
        ),
    ] {
        let mut options = Options::new(dir.path().join("db"));
        let mut wrong = tls.clone();
        change(&mut wrong);
        options.tls = Some(wrong);
        options.port = 0;
        let error = serve(options, |_| {}).unwrap_err();
        assert_eq!(error.kind(), hedgerow::ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(expected), "{error}");
    }
    let served = Served::with(&dir.path().join("db"), |options| {
        options.tls = Some(tls);
        options.port = free_port();
    });
    let mut plain = served.client();
    let Value::Array(found) = plain.call("CONFIG GET tls-port") else {
        panic!("expected an array");
    };
    let port = found[1].to_string().parse().unwrap();
    let own = authority.certify("client");
    let address = SocketAddr::new(served.address.ip(), port);
    let mut stream = connect(address, &authority, Some(&own));
    assert_eq!(ping(&mut stream).unwrap(), "+PONG\r\n");
    served.end();
}

/// A port that nobody had a moment ago.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}
