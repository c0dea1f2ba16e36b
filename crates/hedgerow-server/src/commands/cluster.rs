//! CLUSTER, READONLY, READWRITE and ASKING: the map of slots as clients see it.

use hedgerow::KEY_BYTES_MAX;

use super::arguments::{integer, is};
use super::{Args, refusal, wrong_subcommand};
use crate::cluster::{Cluster, DISABLED, Map, Node, SLOTS, slot};
use crate::pubsub::Kind;
use crate::resp::{Reply, error};
use crate::server::Server;
use crate::session::Session;
use crate::store::{Answer, Meta, Mode, Space, Stop, Txn};

/// The distance from the port of clients to that of a bus between servers, which is not there.
const BUS_DISTANCE: u32 = 10_000;

pub(super) fn readonly(session: &mut Session, _args: Args<'_>) -> Reply {
    with_map(session, |session| session.access.reads_replicas = true)
}

pub(super) fn readwrite(session: &mut Session, _args: Args<'_>) -> Reply {
    with_map(session, |session| session.access.reads_replicas = false)
}

pub(super) fn asking(session: &mut Session, _args: Args<'_>) -> Reply {
    with_map(session, |session| session.access.insists = true)
}

fn with_map(session: &mut Session, change: impl Fn(&mut Session)) -> Reply {
    if session.server.cluster.is_none() {
        return error(DISABLED);
    }
    change(session);
    Reply::OK
}

pub(super) fn cluster(session: &mut Session, args: Args<'_>) -> Reply {
    let server = &session.server;
    let Some(cluster) = &server.cluster else {
        return error(DISABLED);
    };
    let map = cluster.map();
    match (args[1], args.len()) {
        (it, 2) if is(it, "SLOTS") => slots(&map),
        (it, 2) if is(it, "SHARDS") => shards(&map),
        (it, 2) if is(it, "NODES") => Reply::Text(all_lines(&map)),
        (it, 2) if is(it, "MYID") => Reply::bulk(&map.me().id),
        (it, 2) if is(it, "INFO") => Reply::Text(info(cluster, &map)),
        (it, 3) if is(it, "KEYSLOT") => Reply::Integer(i64::from(slot(args[2]))),
        (it, 3) if is(it, "REPLICAS") || is(it, "SLAVES") => replicas(&map, args[2]),
        (it, 3) if is(it, "COUNTKEYSINSLOT") => keys_in_slot(server, args[2], i64::MAX)
            .map_or_else(refused, |it| Reply::count(it.len())),
        (it, 4) if is(it, "GETKEYSINSLOT") => match integer(args[3]) {
            Ok(most @ 0..) => {
                keys_in_slot(server, args[2], most).map_or_else(refused, Reply::bulks)
            }
            _ => error("ERR Invalid slot or number of keys"),
        },
        (it, 2) if is(it, "LOAD") => match cluster.load() {
            Ok(()) => {
                tokio::spawn(redirect_waiters(server.clone()));
                Reply::OK
            }
            Err(text) => error(format!("ERR {text}")),
        },
        (it, 2) if is(it, "HELP") => Reply::bulks([
            "CLUSTER <subcommand>. Subcommands are:",
            "SLOTS, SHARDS, NODES: the map of slots.",
            "MYID, INFO: facts about this server.",
            "REPLICAS <id>: the replicas of a server.",
            "KEYSLOT <key>: the slot of a key.",
            "COUNTKEYSINSLOT <slot>, GETKEYSINSLOT <slot> <count>: keys here; a walk over all keys.",
            "LOAD: reads the file of the map again.",
        ]),
        (it, _) => refusal("cluster", it).unwrap_or_else(|| error(wrong_subcommand(args))),
    }
}

// ---- the map ----

/// A server as CLUSTER SLOTS names it.
fn of_slots(node: &Node) -> Reply {
    Reply::Array(vec![
        Reply::bulk(&node.host),
        Reply::Integer(i64::from(node.port)),
        Reply::bulk(&node.id),
        Reply::Array(Vec::new()),
    ])
}

fn slots(map: &Map) -> Reply {
    let mut rows: Vec<(u16, Reply)> = Vec::new();
    for (place, node) in map.nodes.iter().enumerate() {
        for range in &node.slots {
            let (first, last) = (*range.start(), *range.end());
            let mut row = vec![
                Reply::Integer(i64::from(first)),
                Reply::Integer(i64::from(last)),
                of_slots(node),
            ];
            row.extend(map.replicas(place).map(of_slots));
            rows.push((first, Reply::Array(row)));
        }
    }
    rows.sort_by_key(|it| it.0);
    Reply::Array(rows.into_iter().map(|it| it.1).collect())
}

fn shards(map: &Map) -> Reply {
    let fact = |name: &str, value: Reply| (Reply::bulk(name), value);
    let of_shard = |node: &Node| {
        let role = if node.primary.is_some() {
            "replica"
        } else {
            "master"
        };
        Reply::Map(vec![
            fact("id", Reply::bulk(&node.id)),
            fact("port", Reply::Integer(i64::from(node.port))),
            fact("ip", Reply::bulk(&node.host)),
            fact("endpoint", Reply::bulk(&node.host)),
            fact("role", Reply::bulk(role)),
            fact("replication-offset", Reply::Integer(0)),
            fact("health", Reply::bulk("online")),
        ])
    };
    let primaries = map
        .nodes
        .iter()
        .enumerate()
        .filter(|it| it.1.primary.is_none());
    let shard = |(place, node): (usize, &Node)| {
        let ends = node.slots.iter().flat_map(|it| [*it.start(), *it.end()]);
        let ends = ends.map(|it| Reply::Integer(i64::from(it))).collect();
        let members = std::iter::once(node).chain(map.replicas(place));
        Reply::Map(vec![
            fact("slots", Reply::Array(ends)),
            fact("nodes", Reply::Array(members.map(of_shard).collect())),
        ])
    };
    Reply::Array(primaries.map(shard).collect())
}

/// The line of a server in CLUSTER NODES.
fn line(map: &Map, place: usize) -> String {
    let node = &map.nodes[place];
    let bus = (u32::from(node.port) + BUS_DISTANCE).min(u32::from(u16::MAX));
    let (flag, primary) = match node.primary {
        Some(primary) => ("slave", map.nodes[primary].id.as_str()),
        None => ("master", "-"),
    };
    let myself = if place == map.me { "myself," } else { "" };
    let ranges = node
        .slots
        .iter()
        .map(|range| match range.start() == range.end() {
            true => format!(" {}", range.start()),
            false => format!(" {}-{}", range.start(), range.end()),
        });
    let ranges: String = ranges.collect();
    format!(
        "{} {}:{}@{bus} {myself}{flag} {primary} 0 0 1 connected{ranges}",
        node.id, node.host, node.port
    )
}

fn all_lines(map: &Map) -> String {
    let lines = (0..map.nodes.len()).map(|place| line(map, place) + "\n");
    lines.collect()
}

fn replicas(map: &Map, id: &[u8]) -> Reply {
    let Some(primary) = map.nodes.iter().position(|it| it.id.as_bytes() == id) else {
        return error(format!("ERR Unknown node {}", String::from_utf8_lossy(id)));
    };
    if map.nodes[primary].primary.is_some() {
        return error("ERR The specified node is not a master");
    }
    let of_primary = |place: &usize| map.nodes[*place].primary == Some(primary);
    let places = (0..map.nodes.len()).filter(of_primary);
    Reply::bulks(places.map(|place| line(map, place)))
}

/// The text of CLUSTER INFO.
fn info(cluster: &Cluster, map: &Map) -> String {
    let assigned = map.assigned();
    let with_slots = map.nodes.iter().filter(|it| !it.slots.is_empty()).count();
    let mut lines = vec![
        // A server serves the slots that it has, whatever others do.
        ("cluster_state", "ok".to_owned()),
        ("cluster_slots_assigned", assigned.to_string()),
        ("cluster_slots_ok", assigned.to_string()),
        ("cluster_slots_pfail", "0".to_owned()),
        ("cluster_slots_fail", "0".to_owned()),
        ("cluster_known_nodes", map.nodes.len().to_string()),
        ("cluster_size", with_slots.to_string()),
        ("cluster_current_epoch", "1".to_owned()),
        ("cluster_my_epoch", "1".to_owned()),
    ];
    lines.extend(cluster.failure().map(|text| ("cluster_map_failure", text)));
    let lines = lines
        .iter()
        .map(|(name, value)| format!("{name}:{value}\r\n"));
    lines.collect()
}

// ---- keys ----

fn refused(stop: Stop) -> Reply {
    match stop {
        Stop::Reply(text) => error(text),
        Stop::Engine(failure) => crate::store::engine_error(&failure),
        _ => error("ERR the keys cannot be read now"),
    }
}

/// The first keys of a slot here, `most` at most. Walks over all keys.
fn keys_in_slot(server: &Server, wanted: &[u8], most: i64) -> Answer<Vec<Vec<u8>>> {
    let wanted = u16::try_from(integer(wanted)?)
        .ok()
        .filter(|it| *it < SLOTS);
    let wanted = wanted.ok_or_else(|| Stop::reply("ERR Invalid slot"))?;
    tokio::task::block_in_place(|| {
        let databases = server.databases();
        let mut txn = Txn::new(&databases, Mode::Device, server.now())?;
        let all = Vec::new()..vec![u8::MAX; KEY_BYTES_MAX];
        let mut found = Vec::new();
        for item in txn.scan(0, Space::Meta, all, u64::MAX)? {
            if found.len() as i64 >= most {
                break;
            }
            let (key, stored) = item?;
            // Behind the hash.
            let key = &key[4..];
            if slot(key) != wanted {
                continue;
            }
            let meta = Meta::decode(stored).ok_or_else(Stop::damaged)?;
            if txn.expired(0, &meta)?.is_none() {
                found.push(key.to_vec());
            }
        }
        Ok(found)
    })
}

/// Sends those on who wait for keys that are at another server now, and cuts those off who listen
/// to channels there.
pub(crate) async fn redirect_waiters(server: std::sync::Arc<Server>) {
    let Some(cluster) = &server.cluster else {
        return;
    };
    let is_away = |name: &[u8]| cluster.map().route(slot(name), true).is_err();
    let channels = server.pubsub.names(Kind::Shard, None);
    for channel in channels.iter().filter(|it| is_away(it)) {
        server.pubsub.end_listeners(channel);
    }
    for (db, key) in server.waiters.keys() {
        let Err(text) = cluster.map().route(slot(&key), true) else {
            continue;
        };
        for waiter in server.waiters.of(&(db, key)) {
            waiter.redirect(error(text.clone())).await;
        }
    }
}
