//! The numbers of the server, behind those of the engine, in the text format of Prometheus.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use crate::commands::COMMANDS;
use crate::commands::info::sizes;
use crate::counters::{Counters, DURATION_MICROS};
use crate::server::Server;

/// Lines of samples.
struct Samples(String);

impl Samples {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn one(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = match labels.is_empty() {
            true => writeln!(self.0, "{name} {value}"),
            false => writeln!(self.0, "{name}{{{labels}}} {value}"),
        };
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, "counter", help);
        self.one(name, "", value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, "gauge", help);
        self.one(name, "", value);
    }
}

pub(super) fn text(server: &Server) -> String {
    let mut samples = Samples(server.db().stats().prometheus());
    of_server(server, &mut samples);
    of_commands(server, &mut samples);
    samples.0
}

fn of_server(server: &Server, samples: &mut Samples) {
    of_clients(server, samples);
    for (name, help, value) in crate::replication::metrics(server) {
        samples.gauge(&format!("hedgerow_server_{name}"), help, value);
    }
    let load = |it: &std::sync::atomic::AtomicU64| it.load(Ordering::Relaxed);
    let seconds = server.since.elapsed().as_secs();
    samples.gauge(
        "hedgerow_server_uptime_seconds",
        "Seconds since the start.",
        seconds,
    );
    for (name, help, value) in [
        (
            "connections",
            "Connections that were accepted.",
            load(&server.connections),
        ),
        (
            "error_replies",
            "Replies that are errors.",
            load(&server.errors),
        ),
        (
            "expired_keys",
            "Keys that have expired.",
            load(&server.expired),
        ),
        (
            "expired_fields",
            "Fields of hashes that have expired.",
            load(&server.expired_fields),
        ),
    ] {
        samples.counter(&format!("hedgerow_server_{name}_total"), help, value);
    }
    samples.head("hedgerow_server_keys", "gauge", "Keys of a database.");
    for (db, keys) in sizes(server) {
        samples.one("hedgerow_server_keys", &format!("db=\"{db}\""), keys);
    }
}

fn of_clients(server: &Server, samples: &mut Samples) {
    let clients = server.clients.all();
    let waiting = clients
        .iter()
        .filter(|it| it.is_waiting.load(Ordering::Relaxed));
    let waiting = waiting.count();
    for (name, help, value) in [
        ("clients", "Connected clients.", clients.len()),
        (
            "clients_waiting",
            "Clients in a command that waits.",
            waiting,
        ),
        (
            "clients_max",
            "The most clients at once.",
            server.config.clients_max(),
        ),
        (
            "client_buffer_bytes",
            "Bytes of requests and replies that wait.",
            server.buffers.bytes(),
        ),
    ] {
        samples.gauge(&format!("hedgerow_server_{name}"), help, value as u64);
    }
}

/// The commands that were called, each with its errors and durations.
fn of_commands(server: &Server, samples: &mut Samples) {
    let totals = server.counters.totals();
    let called = COMMANDS.iter().zip(&totals);
    let called = called.filter(|(_, it)| it.calls() > 0);
    let called: Vec<(String, &Counters)> = called
        .map(|(command, counters)| (format!("command=\"{}\"", command.name), counters))
        .collect();
    let name = "hedgerow_server_command_errors_total";
    samples.head(name, "counter", "Calls of a command that failed.");
    for (command, counters) in &called {
        samples.one(name, command, counters.failed.load(Ordering::Relaxed));
    }
    let name = "hedgerow_server_command_duration_seconds";
    samples.head(name, "histogram", "Seconds that calls of a command took.");
    for (command, counters) in &called {
        let mut count = 0;
        for (bucket, micros) in counters.durations.iter().zip(DURATION_MICROS) {
            count += bucket.load(Ordering::Relaxed);
            let labels = format!("{command},le=\"{}\"", micros as f64 / 1e6);
            samples.one(&format!("{name}_bucket"), &labels, count);
        }
        // The last bucket has what took longer, and all others: one count for both lines.
        count += counters.durations[DURATION_MICROS.len()].load(Ordering::Relaxed);
        samples.one(
            &format!("{name}_bucket"),
            &format!("{command},le=\"+Inf\""),
            count,
        );
        let seconds = counters.micros.load(Ordering::Relaxed) as f64 / 1e6;
        samples.one(&format!("{name}_sum"), command, seconds);
        samples.one(&format!("{name}_count"), command, count);
    }
}
