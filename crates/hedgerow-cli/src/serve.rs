//! `hedgerow serve`: a server that any client of Redis can talk to.

use std::net::{IpAddr, Ipv4Addr};

use clap::ValueEnum;
use hedgerow::io::ReadMode;
use hedgerow_server::{ClientCertificates, Fsync, Options, Tls, serve};
use serde_json::json;

use crate::arguments;
use crate::exit::Failure;
use crate::output::Output;

const EXAMPLE: &str = "\
Example:
  hedgerow serve --db data --port 6379 --memory-budget 2GiB
  redis-cli SET greeting hello

Ctrl-C or SIGTERM ends it; everything is durable then.";

/// Serves a database to clients of Redis.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    /// The directory of the database; made if it is missing
    #[arg(long, env = "HEDGEROW_DB", value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    db: std::path::PathBuf,

    /// The port; 0 for none if there is a port for TLS, and for any free one otherwise
    #[arg(long, default_value_t = 6379)]
    port: u16,

    /// The port for TLS
    #[arg(long, value_name = "PORT", requires_all = ["tls_cert_file", "tls_key_file"])]
    tls_port: Option<u16>,

    /// The certificate of the server (PEM)
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    tls_cert_file: Option<std::path::PathBuf>,

    /// The private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    tls_key_file: Option<std::path::PathBuf>,

    /// The certificates of the authorities that certify clients (PEM)
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    tls_ca_cert_file: Option<std::path::PathBuf>,

    /// The clients that need a certificate
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = AuthClients::Yes)]
    tls_auth_clients: AuthClients,

    /// The address; another one than the loopback needs a password
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,

    /// The memory budget of the engine
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = arguments::bytes)]
    memory_budget: u64,

    /// The way to read table files: pread, mmap, or direct, past the system's cache, for data much
    /// larger than memory
    #[arg(long, value_name = "HOW", default_value_t)]
    io: ReadMode,

    /// The moment at which a write is durable beyond the process
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Sync::Everysec)]
    appendfsync: Sync,

    /// The environment variable with the password that clients must give
    #[arg(long, value_name = "VARIABLE")]
    password_from: Option<String>,

    /// A file of users, with lines as ACL LIST shows them; ACL SAVE replaces it
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    acl_file: Option<std::path::PathBuf>,

    /// The server to follow, HOST:PORT; the same one again changes nothing at a later start
    #[arg(long, value_name = "ADDRESS")]
    replicaof: Option<String>,

    /// The user at the server that is followed
    #[arg(long, value_name = "NAME", default_value = "")]
    masteruser: String,

    /// The environment variable with the password for the server that is followed
    #[arg(long, value_name = "VARIABLE")]
    masterauth_from: Option<String>,

    /// The most clients at once
    #[arg(long, default_value_t = 10_000)]
    maxclients: usize,

    /// The address of the page and of `/metrics` for Prometheus, such as 127.0.0.1:9121
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<std::net::SocketAddr>,

    /// The threads that run commands; 0 for as many as processors, at most 8
    #[arg(long, default_value_t = 0)]
    threads: usize,

    /// A file that says which server has which slots, for clients of Redis Cluster: a line for each
    /// with its name, its address and `0-8191` or `replica-of NAME`. SIGHUP reads it again
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, requires = "cluster_node")]
    cluster_map: Option<std::path::PathBuf>,

    /// The name of this server in that file
    #[arg(long, value_name = "NAME", requires = "cluster_map")]
    cluster_node: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Sync {
    /// Before its reply
    Always,
    /// Within about a second
    Everysec,
    /// As late as the system writes it
    No,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum AuthClients {
    /// All
    Yes,
    /// None; none is asked for
    No,
    /// Those that have one need a valid one
    Optional,
}

/// The options for TLS, if there is a port for it.
fn tls(arguments: &Arguments) -> Option<Tls> {
    Some(Tls {
        port: arguments.tls_port?,
        cert_file: arguments.tls_cert_file.clone()?,
        key_file: arguments.tls_key_file.clone()?,
        ca_cert_file: arguments.tls_ca_cert_file.clone(),
        auth_clients: match arguments.tls_auth_clients {
            AuthClients::Yes => ClientCertificates::Required,
            AuthClients::No => ClientCertificates::Ignored,
            AuthClients::Optional => ClientCertificates::Optional,
        },
    })
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    check_files(arguments)?;
    let mut options = Options::new(&arguments.db);
    options.port = arguments.port;
    options.bind = arguments.bind;
    options.tls = tls(arguments);
    options.memory_budget = arguments.memory_budget;
    options.read_mode = arguments.io;
    options.clients_max = arguments.maxclients;
    options.threads = arguments.threads;
    options.acl_file.clone_from(&arguments.acl_file);
    options.metrics = arguments.metrics;
    options.cluster = arguments
        .cluster_map
        .clone()
        .zip(arguments.cluster_node.clone());
    options.fsync = match arguments.appendfsync {
        Sync::Always => Fsync::Always,
        Sync::Everysec => Fsync::EverySecond,
        Sync::No => Fsync::Never,
    };
    if let Some(variable) = &arguments.password_from {
        options.password = password(variable)?;
    }
    options.replica_of.clone_from(&arguments.replicaof);
    options.primary_login.0.clone_from(&arguments.masteruser);
    if let Some(variable) = &arguments.masterauth_from {
        options.primary_login.1 = password(variable)?;
    }
    serve(options, |address| {
        output.line(format_args!("ready on {address}"));
        output.object(&json!({ "ready": address.to_string() }));
    })?;
    Ok(())
}

/// Checks that the files that the command line names are there.
///
/// # Errors
/// `NotFound`.
fn check_files(arguments: &Arguments) -> Result<(), Failure> {
    let files = [
        &arguments.tls_cert_file,
        &arguments.tls_key_file,
        &arguments.tls_ca_cert_file,
        &arguments.acl_file,
        &arguments.cluster_map,
    ];
    files.into_iter().flatten().try_for_each(|file| {
        let found = std::fs::metadata(file).map(drop);
        found.map_err(|error| Failure::io("read", file, &error))
    })
}

fn password(variable: &str) -> Result<String, Failure> {
    std::env::var(variable).map_err(|error| {
        let message = format!("expected a password in the variable {variable}: {error}");
        Failure::new(crate::exit::Exit::Usage, message)
    })
}
