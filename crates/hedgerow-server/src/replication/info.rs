//! The role of the server and its replicas, as clients ask for them.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::link::Status;
use super::replicas::Replica;
use super::{failover, retention, stored_offset};
use crate::client::lock;
use crate::resp::Reply;
use crate::server::Server;

/// The offsets of replicas fit: they are counts of commits.
fn integer(offset: u64) -> Reply {
    Reply::Integer(offset as i64)
}

fn status(server: &Server) -> Option<Arc<Status>> {
    let link = lock(&server.replication.link);
    link.as_ref().map(|it| it.status.clone())
}

/// ROLE.
pub(crate) fn role(server: &Server) -> Reply {
    let primary = lock(&server.replication.state).primary.clone();
    if let Some(primary) = primary {
        let word = status(server).map_or("connect", |it| it.word());
        return Reply::Array(vec![
            Reply::bulk("slave"),
            Reply::bulk(&primary.host),
            Reply::Integer(primary.port.into()),
            Reply::bulk(word),
            integer(stored_offset(&server.db()).unwrap_or(0)),
        ]);
    }
    let replicas = server.replication.replicas.all().into_iter().map(|it| {
        let offset = it.applied().to_string();
        Reply::bulks([it.host.clone(), it.port.to_string(), offset])
    });
    Reply::Array(vec![
        Reply::bulk("master"),
        integer(server.offset().unwrap_or(0)),
        Reply::Array(replicas.collect()),
    ])
}

/// The section of INFO.
pub(crate) fn info(server: &Server) -> String {
    let state = lock(&server.replication.state).clone();
    let offset = server.offset().unwrap_or(0);
    let mut text = String::new();
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{name}:{value}\r\n");
    };
    match &state.primary {
        None => line("role", &"master"),
        Some(primary) => {
            line("role", &"slave");
            line("master_host", &primary.host);
            line("master_port", &primary.port);
            of_link(server, offset, &mut line);
        }
    }
    let replicas = server.replication.replicas.all();
    line("connected_slaves", &replicas.len());
    let settings = &server.config.replication;
    if settings.min_replicas() > 0 {
        let good = server.replication.replicas.heard_within(settings.max_lag());
        line("min_slaves_good_slaves", &good);
    }
    for (place, replica) in replicas.iter().enumerate() {
        line(&format!("slave{place}"), &of_replica(replica));
    }
    line("master_failover_state", &failover::word(server));
    line("master_replid", &state.id);
    let (earlier, second) = match state.earlier.last() {
        Some((id, offset)) => (id.clone(), *offset as i64),
        None => ("0".repeat(40), -1),
    };
    line("master_replid2", &earlier);
    line("master_repl_offset", &offset);
    line("second_repl_offset", &second);
    line(
        "repl_backlog_active",
        &u8::from(retention::is_on(&server.db()).unwrap_or(false)),
    );
    line("repl_backlog_size", &settings.log_bytes());
    text
}

fn of_replica(replica: &Replica) -> String {
    let word = match replica.is_online.load(Ordering::Acquire) {
        true => "online",
        false => "send_bulk",
    };
    format!(
        "ip={},port={},state={word},offset={},lag={}",
        replica.host,
        replica.port,
        replica.applied(),
        replica.silent().as_secs()
    )
}

fn of_link(server: &Server, offset: u64, line: &mut dyn FnMut(&str, &dyn std::fmt::Display)) {
    if let Some(status) = status(server) {
        let word = if status.is_up() { "up" } else { "down" };
        line("master_link_status", &word);
        let silent = match status.is_up() {
            true => status.silent().as_secs() as i64,
            false => -1,
        };
        line("master_last_io_seconds_ago", &silent);
        line("master_sync_in_progress", &u8::from(status.is_copying()));
        if status.is_copying() {
            let total = status.copy_bytes.load(Ordering::Relaxed);
            let received = status.received_bytes.load(Ordering::Relaxed);
            line("master_sync_total_bytes", &total);
            line("master_sync_read_bytes", &received);
            line("master_sync_left_bytes", &total.saturating_sub(received));
        }
        if !status.is_up() {
            line("master_link_down_since_seconds", &status.down().as_secs());
            let error = lock(&status.error).clone();
            line(
                "hedgerow_master_link_error",
                &error.replace(['\r', '\n'], " "),
            );
        }
    } else {
        line("master_link_status", &"down");
    }
    line("slave_read_repl_offset", &offset);
    line("slave_repl_offset", &offset);
    line("slave_priority", &server.config.replication.priority());
    line("slave_read_only", &1);
    line("replica_announced", &1);
}

/// The lines of INFO's statistics: whole copies, and replicas that went on where they were.
pub(crate) fn statistics(server: &Server) -> String {
    let counts = &server.replication.counts;
    [
        ("sync_full", &counts.copies),
        ("sync_partial_ok", &counts.partial),
        ("sync_partial_err", &counts.partial_refused),
        ("hedgerow_copies_received", &counts.copies_received),
    ]
    .map(|(name, count)| format!("{name}:{}\r\n", count.load(Ordering::Relaxed)))
    .concat()
}

/// The numbers for Prometheus: name, help and value of gauges.
pub(crate) fn metrics(server: &Server) -> Vec<(&'static str, &'static str, u64)> {
    let replicas = server.replication.replicas.all();
    let mut gauges = vec![("replicas", "Connected replicas.", replicas.len() as u64)];
    let offset = server.offset().unwrap_or(0);
    // One that receives its copy has applied nothing yet.
    let online = replicas
        .iter()
        .filter(|it| it.is_online.load(Ordering::Acquire));
    if let Some(least) = online.map(|it| it.applied()).min() {
        gauges.push((
            "replica_lag_operations",
            "Operations that the slowest replica has not applied.",
            offset.saturating_sub(least),
        ));
    }
    if let Some(status) = status(server) {
        gauges.push((
            "primary_link_up",
            "1 if the primary sends commits.",
            u64::from(status.is_up()),
        ));
        gauges.push((
            "primary_link_silent_seconds",
            "Seconds since the primary was heard.",
            status.silent().as_secs(),
        ));
    }
    gauges
}
