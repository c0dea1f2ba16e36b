//! Opening the database, listening, and ending well.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hedgerow::io::ReadMode;
use hedgerow::{Builder, Db, Error, ErrorKind};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

use crate::acl::Acl;
use crate::clock;
use crate::cluster::Cluster;
use crate::commands::config::{Config, Fsync, clients_possible};
use crate::commands::redirect_waiters;
use crate::server::Server;
use crate::stream::Stream;
use crate::{active_expiry, connection, freed_memory, monitoring, replication, saves};

/// The port for TLS, and the files that it needs. All are PEM.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The port; 0 for any free one.
    pub port: u16,
    /// The certificate of the server, and those between it and an authority.
    pub cert_file: PathBuf,
    /// Its private key.
    pub key_file: PathBuf,
    /// The certificates of the authorities that certify clients.
    pub ca_cert_file: Option<PathBuf>,
    /// The clients that need certificates.
    pub auth_clients: ClientCertificates,
}

/// The clients that need a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Every client needs a valid one.
    Required,
    /// A client that has one needs a valid one.
    Optional,
    /// None is asked for.
    Ignored,
}

/// The options of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory of the database, which is made if it is missing.
    pub dir: PathBuf,
    /// The address to listen on. Another one than the loopback needs a password.
    pub bind: IpAddr,
    /// The port; 0 for any free one, or for none if there is one for TLS.
    pub port: u16,
    /// The port for TLS and its files, if there is one. Needs the feature `tls`.
    pub tls: Option<Tls>,
    /// The bytes of memory of the engine.
    pub memory_budget: u64,
    /// The way in which table files are read.
    pub read_mode: ReadMode,
    /// The password that clients must give; empty for none.
    pub password: String,
    /// The file of users, which must be there. ACL SAVE replaces it.
    pub acl_file: Option<PathBuf>,
    /// The moment at which writes are durable.
    pub fsync: Fsync,
    /// The most clients at once.
    pub clients_max: usize,
    /// The address of `/metrics` and the page, if there is one.
    pub metrics: Option<SocketAddr>,
    /// The threads that run commands; 0 for as many as processors, at most 8.
    pub threads: usize,
    /// The file that says which server has which slots, and the name of this one in it.
    pub cluster: Option<(PathBuf, String)>,
    /// The host and the port of the server to follow, `HOST:PORT`. The same text again changes
    /// nothing: the role may have changed since the last time.
    pub replica_of: Option<String>,
    /// The user and the password for that server; an empty user is the first one.
    pub primary_login: (String, String),
}

impl Options {
    /// The options of a server of this database: port 6379 of the loopback, 256 MiB, no password,
    /// a sync per second.
    pub fn new(dir: impl Into<PathBuf>) -> Options {
        Options {
            dir: dir.into(),
            bind: Ipv4Addr::LOCALHOST.into(),
            port: 6379,
            tls: None,
            memory_budget: 256 << 20,
            read_mode: ReadMode::default(),
            password: String::new(),
            acl_file: None,
            fsync: Fsync::EverySecond,
            clients_max: 10_000,
            metrics: None,
            threads: 0,
            cluster: None,
            replica_of: None,
            primary_login: Default::default(),
        }
    }
}

/// Serves until SIGTERM, SIGINT or SHUTDOWN. `ready` is told the address when clients can connect,
/// that for TLS if there is no other. At the end everything is durable and the database is closed.
/// The allocator of glibc has few arenas from then on, and gives freed memory back.
///
/// # Errors
/// `InvalidArgument` for an address that needs a password, and for files of TLS that are not what
/// they should be; `Io` if the address is taken; as
/// [`hedgerow::Builder::open`].
pub fn serve(options: Options, ready: impl FnOnce(SocketAddr)) -> hedgerow::Result<()> {
    let acl = Acl::open(&options.password, options.acl_file.as_deref());
    let acl = acl.map_err(|text| Error::new(ErrorKind::InvalidArgument, text))?;
    if !options.bind.is_loopback() && acl.first().1 {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "expected a password to listen on {}, found none",
                options.bind
            ),
        ));
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if options.threads == 0 {
        processors.min(8)
    } else {
        options.threads
    };
    let io = |error: io::Error| Error::io("serve", &options.dir, error);
    freed_memory::share(threads);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("hedgerow-serve")
        .enable_all()
        .build()
        .map_err(io)?;
    replication::finish_install(&options.dir)?;
    saves::finish(&options.dir)?;
    let builder = Db::builder(&options.dir)
        .memory_budget(options.memory_budget)
        .read_mode(options.read_mode);
    let db = builder.clone().open()?;
    let result = runtime.block_on(listen((&options, acl), (&db, builder), ready));
    // Ends the connections, and with them the last handles of the server.
    runtime.shutdown_timeout(Duration::from_secs(5));
    // A replica may have another database now than at the beginning.
    let (db, last, result) = match result {
        Ok((db, last)) => (db, last, Ok(())),
        Err(error) => (db, Arc::default(), Err(error)),
    };
    let synced = db.sync();
    let closed = db.close();
    drop(last);
    result.and(synced).and(closed)
}

/// Returns the database that was served at the end, and the connections that end behind it.
async fn listen(
    (options, acl): (&Options, Acl),
    (db, builder): (&Db, Builder),
    ready: impl FnOnce(SocketAddr),
) -> hedgerow::Result<(Db, Arc<Mutex<Vec<Stream>>>)> {
    let io = |error: io::Error| Error::io("listen for", &options.dir, error);
    let listener = listen_plain(options).await.map_err(io)?;
    let address = listener.as_ref().map(TcpListener::local_addr);
    let address = address.transpose().map_err(io)?;
    let port = address.map_or(0, |it| it.port());
    let config = configured(options, port);
    let limits = (port, options.memory_budget);
    let mut server = Server::new(db, (options.dir.clone(), builder), limits, (config, acl))?;
    let buffer_bytes = server.buffers.bytes_max().to_string();
    server.config.tell("maxmemory-clients", buffer_bytes);
    load_cluster(&mut server, options)?;
    let server = Arc::new(server);
    replication::start(&server, options.replica_of.as_deref()).await?;
    let mut terminate = signal(SignalKind::terminate()).map_err(io)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(io)?;
    let mut tasks = vec![
        tokio::spawn(active_expiry::run(server.clone())),
        tokio::spawn(each_second(server.clone())),
        tokio::spawn(replication::run(server.clone())),
        tokio::spawn(freed_memory::run(options.memory_budget)),
    ];
    if let Some(address) = options.metrics {
        let listener = TcpListener::bind(address).await.map_err(io)?;
        tasks.push(tokio::spawn(monitoring::run(server.clone(), listener)));
    }
    if server.cluster.is_some() {
        let hangup = signal(SignalKind::hangup()).map_err(io)?;
        tasks.push(tokio::spawn(load_map(server.clone(), hangup)));
    }
    let mut ready_at = address;
    if let Some(tls) = &options.tls {
        let (address, task) = listen_with_tls(&server, (options.bind, tls)).await?;
        tasks.push(task);
        server.config.tell_tls(tls, address.port());
        ready_at = ready_at.or(Some(address));
    }
    if let Some(address) = ready_at {
        ready(address);
    }
    loop {
        tokio::select! {
            socket = next_of(listener.as_ref()) => accept(&server, socket),
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            () = server.stop.notified() => break,
        }
    }
    end(tasks).await;
    server.end_replication().await;
    Ok((server.db(), server.last.clone()))
}

/// The parameters at the beginning.
fn configured(options: &Options, port: u16) -> Config {
    let clients_max = options.clients_max.min(clients_possible());
    let config = Config::new(options.fsync, &options.password, clients_max);
    config.tell("port", port.to_string());
    config.tell("bind", options.bind.to_string());
    config.tell("dir", options.dir.display().to_string());
    config.set_primary_login(&options.primary_login);
    config
}

async fn end(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        task.abort();
        // It was aborted, or has ended before.
        let _ = task.await;
    }
}

/// Listens for clients without TLS, unless there is only a port for TLS.
async fn listen_plain(options: &Options) -> io::Result<Option<TcpListener>> {
    if options.port == 0 && options.tls.is_some() {
        return Ok(None);
    }
    let listener = TcpListener::bind((options.bind, options.port)).await?;
    Ok(Some(listener))
}

/// Reads the map of slots, if the options name one.
fn load_cluster(server: &mut Server, options: &Options) -> hedgerow::Result<()> {
    let Some((file, name)) = &options.cluster else {
        return Ok(());
    };
    let cluster = Cluster::open(file, name);
    let cluster = cluster.map_err(|text| Error::new(ErrorKind::InvalidArgument, text))?;
    server.config.tell("cluster-enabled", "yes".to_owned());
    server.cluster = Some(Arc::new(cluster));
    Ok(())
}

/// The next connection; waits for ever without a listener.
pub(crate) async fn next_of(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    loop {
        match listener.accept().await {
            Ok((socket, _)) => return socket,
            // No more files, for example; others may end.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

fn accept(server: &Arc<Server>, socket: TcpStream) {
    if let Err(text) = admit(server, &socket, 0) {
        // The client learns why, if it can be told at once.
        let _ = socket.try_write(text.as_bytes());
        return;
    }
    let stream = Stream::Plain(socket);
    tokio::spawn(connection::serve(server.clone(), stream));
}

/// Reads the map of slots again at each SIGHUP. CLUSTER INFO tells why that failed.
async fn load_map(server: Arc<Server>, mut hangup: Signal) {
    while let (Some(()), Some(cluster)) = (hangup.recv().await, &server.cluster) {
        if cluster.load().is_ok() {
            redirect_waiters(server.clone()).await;
        }
    }
}

/// Counts a connection. Fails with a reply if it may not be; some others are not clients yet.
pub(crate) fn admit(
    server: &Server,
    socket: &TcpStream,
    not_yet: usize,
) -> Result<(), &'static str> {
    // Replies are written whole; waiting for more would only delay them.
    let _ = socket.set_nodelay(true);
    look_for_vanished(socket, server.config.keepalive_seconds());
    let admitted = may_be(server, socket, not_yet);
    let counter = match admitted {
        Ok(()) => &server.connections,
        Err(_) => &server.rejected,
    };
    counter.fetch_add(1, Ordering::Relaxed);
    admitted
}

fn may_be(server: &Server, socket: &TcpStream, not_yet: usize) -> Result<(), &'static str> {
    let peer = socket.peer_addr();
    if server.acl.first().1 && !peer.is_ok_and(|it| is_near(it.ip())) {
        return Err("-DENIED expected a password of the user default, found none\r\n");
    }
    match server.clients.count() + not_yet < server.config.clients_max() {
        true => Ok(()),
        false => Err("-ERR max number of clients reached\r\n"),
    }
}

/// Has the system ask a client that is silent for so long if it is there, and end its connection
/// after three questions without an answer. With 0 it does not ask.
fn look_for_vanished(socket: &TcpStream, seconds: u64) {
    if seconds == 0 {
        return;
    }
    let between = Duration::from_secs((seconds / 3).max(1));
    let silent = TcpKeepalive::new().with_time(Duration::from_secs(seconds));
    let keepalive = silent.with_interval(between).with_retries(3);
    // A client without it is served all the same.
    let _ = SockRef::from(socket).set_tcp_keepalive(&keepalive);
}

/// Returns true for an address of this machine alone. Others need a password, also if it was
/// removed after the server began.
fn is_near(peer: IpAddr) -> bool {
    peer.to_canonical().is_loopback()
}

/// Listens for clients with TLS. Returns the address and the task that accepts them.
#[cfg(feature = "tls")]
async fn listen_with_tls(
    server: &Arc<Server>,
    (bind, tls): (IpAddr, &Tls),
) -> hedgerow::Result<(SocketAddr, JoinHandle<()>)> {
    let acceptor = crate::tls::acceptor(tls);
    let acceptor = acceptor.map_err(|text| Error::new(ErrorKind::InvalidArgument, text))?;
    let io = |error: io::Error| Error::io("listen with TLS for", &server.dir, error);
    let listener = TcpListener::bind((bind, tls.port)).await.map_err(io)?;
    let address = listener.local_addr().map_err(io)?;
    let task = crate::tls::run(server.clone(), listener, acceptor);
    Ok((address, tokio::spawn(task)))
}

#[cfg(not(feature = "tls"))]
async fn listen_with_tls(
    _server: &Arc<Server>,
    _options: (IpAddr, &Tls),
) -> hedgerow::Result<(SocketAddr, JoinHandle<()>)> {
    let text = "expected no port for TLS in a build without the feature `tls`";
    Err(Error::new(ErrorKind::InvalidArgument, text))
}

async fn each_second(server: Arc<Server>) {
    let (mut calls, mut counted) = (server.calls(), clock::now());
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (before, began) = (calls, counted);
        (calls, counted) = (server.calls(), clock::now());
        let rate = calls.saturating_sub(before) as f64 / (counted - began).as_secs_f64();
        let rate = rate.round() as u64;
        server.calls_per_second.store(rate, Ordering::Relaxed);
        // A log that cannot be synced refuses every further write.
        let _ = server.sync_if_written().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_loopback_is_near() {
        let is_near = |peer: &str| is_near(peer.parse().unwrap());
        for near in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
            assert!(is_near(near), "{near}");
        }
        for far in ["10.0.0.1", "0.0.0.0", "::ffff:10.0.0.1", "fe80::1"] {
            assert!(!is_near(far), "{far}");
        }
    }
}
