//! The map as a file: a line for each server.
//!
//! ```text
//! # name  address         slots, or the server that it is a replica of
//! north   10.0.0.1:6379   0-8191
//! south   10.0.0.2:6379   8192-16380 16382 16383
//! spare   10.0.0.3:6379   replica-of north
//! ```

use std::ops::RangeInclusive;

use sha2::{Digest, Sha256};

use super::SLOTS;

/// The digits of an id that clients see.
const ID_DIGITS: usize = 40;
/// No server has the slot.
const NOBODY: u16 = u16::MAX;
/// A place in `owners` is told from `NOBODY`.
const NODES_MAX: usize = 10_000;

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// 40 hexadecimal digits, which follow from the name.
    pub(crate) id: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The place of its primary, if it is a replica.
    pub(crate) primary: Option<usize>,
    pub(crate) slots: Vec<RangeInclusive<u16>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Map {
    pub(crate) nodes: Vec<Node>,
    /// The place of this server.
    pub(crate) me: usize,
    owners: Vec<u16>,
}

impl Map {
    /// Reads the lines of a map for the server of this name.
    pub(crate) fn parse(text: &str, me: &str) -> Result<Map, String> {
        let mut nodes: Vec<Node> = Vec::new();
        let mut primaries = Vec::new();
        let mut owners = vec![NOBODY; usize::from(SLOTS)];
        for (place, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.is_empty() {
                continue;
            }
            let read = Node::parse(&words).and_then(|(node, primary)| {
                if nodes.len() >= NODES_MAX || nodes.iter().any(|it| it.name == node.name) {
                    return Err(format!("expected a new name, found `{}`", node.name));
                }
                own(&mut owners, &node, nodes.len() as u16)?;
                nodes.push(node);
                primaries.push(primary.map(str::to_owned));
                Ok(())
            });
            read.map_err(|text| format!("line {}: {text}", place + 1))?;
        }
        let place = |name: &str| nodes.iter().position(|it| it.name == name);
        let find = |name: &str| {
            place(name).ok_or_else(|| {
                let names: Vec<&str> = nodes.iter().map(|it| it.name.as_str()).collect();
                format!(
                    "expected the server `{name}`, found `{}`",
                    names.join("`, `")
                )
            })
        };
        let me = find(me)?;
        let primaries = primaries
            .iter()
            .map(|name| name.as_deref().map(find).transpose());
        let primaries = primaries.collect::<Result<Vec<_>, String>>()?;
        for (node, primary) in nodes.iter_mut().zip(&primaries) {
            if let Some(primary) = primary
                && primaries[*primary].is_some()
            {
                let name = &node.name;
                return Err(format!("expected a primary of `{name}`, found a replica"));
            }
            node.primary = *primary;
        }
        Ok(Map { nodes, me, owners })
    }

    pub(crate) fn me(&self) -> &Node {
        &self.nodes[self.me]
    }

    /// Checks that a slot is here: this server has it, or is a replica of the one that has it and
    /// that is good enough. Returns the error that sends the client on.
    pub(crate) fn route(&self, slot: u16, replica_is_enough: bool) -> Result<(), String> {
        let owner = usize::from(self.owners[usize::from(slot)]);
        let is_mine =
            |owner| owner == self.me || replica_is_enough && self.me().primary == Some(owner);
        match self.nodes.get(owner) {
            None => Err("CLUSTERDOWN Hash slot not served".to_owned()),
            Some(_) if is_mine(owner) => Ok(()),
            Some(node) => Err(format!("MOVED {slot} {}:{}", node.host, node.port)),
        }
    }

    /// The number of slots that some server has.
    pub(crate) fn assigned(&self) -> usize {
        self.owners.iter().filter(|it| **it != NOBODY).count()
    }

    /// The replicas of the server at a place.
    pub(crate) fn replicas(&self, primary: usize) -> impl Iterator<Item = &Node> {
        self.nodes
            .iter()
            .filter(move |it| it.primary == Some(primary))
    }
}

impl Node {
    /// The server of a line, and the name of its primary.
    fn parse<'a>(words: &[&'a str]) -> Result<(Node, Option<&'a str>), String> {
        let [name, address, rest @ ..] = words else {
            return Err(format!(
                "expected a name and an address, found `{}`",
                words.join(" ")
            ));
        };
        let place = address.rsplit_once(':').and_then(|(host, port)| {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            Some((host, port.parse().ok()?))
        });
        let Some((host, port)) = place.filter(|it| !it.0.is_empty()) else {
            return Err(format!("expected HOST:PORT, found `{address}`"));
        };
        let mut node = Node {
            name: (*name).to_owned(),
            id: id(name),
            host: host.to_owned(),
            port,
            primary: None,
            slots: Vec::new(),
        };
        if let ["replica-of", primary] = rest {
            return Ok((node, Some(primary)));
        }
        for word in rest {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            let slots = first.parse().ok().zip(last.parse().ok());
            let Some((first, last)) = slots.filter(|(first, last)| first <= last && *last < SLOTS)
            else {
                let last = SLOTS - 1;
                return Err(format!(
                    "expected slots from 0 to {last} or `replica-of NAME`, found `{word}`"
                ));
            };
            node.slots.push(first..=last);
        }
        node.slots.sort_by_key(|it| *it.start());
        Ok((node, None))
    }
}

/// Notes the slots of a server.
fn own(owners: &mut [u16], node: &Node, place: u16) -> Result<(), String> {
    for slot in node.slots.iter().cloned().flatten() {
        let owner = &mut owners[usize::from(slot)];
        if *owner != NOBODY {
            return Err(format!("expected a slot that no other has, found {slot}"));
        }
        *owner = place;
    }
    Ok(())
}

/// The id that clients see: the name, if it looks like one of Redis.
fn id(name: &str) -> String {
    if name.len() == ID_DIGITS && name.bytes().all(|it| it.is_ascii_hexdigit()) {
        return name.to_owned();
    }
    let mut id = data_encoding::HEXLOWER.encode(&Sha256::digest(name));
    id.truncate(ID_DIGITS);
    id
}
