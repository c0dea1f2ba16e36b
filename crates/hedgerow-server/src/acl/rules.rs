//! The rules of a user: passwords, and selectors, each of which allows commands on keys and
//! channels. A call is allowed if one selector allows all of it.

use super::access::{self, READS, WRITES};
use super::category::{CATEGORIES, is_of};
use crate::commands::{Args, Command, find, subcommand};
use crate::glob;
use sha2::{Digest, Sha256};

/// The SHA-256 of a password.
type Hash = [u8; 32];

/// The part of a call that no selector allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Denied {
    Command,
    Key(Vec<u8>),
    Channel(Vec<u8>),
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    pub(crate) enabled: bool,
    pub(crate) any_password: bool,
    hashes: Vec<Hash>,
    root: Selector,
    selectors: Vec<Selector>,
}

#[derive(Debug, Clone, Default)]
struct Selector {
    /// Everything is allowed that `commands` does not name.
    all_commands: bool,
    /// The last one that names a command counts.
    commands: Vec<Rule>,
    keys: Vec<(Vec<u8>, u8)>,
    all_channels: bool,
    channels: Vec<Vec<u8>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    allows: bool,
    subject: Subject,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Subject {
    Category(&'static str),
    Command(&'static str),
    /// A subcommand, or the first argument of a command without subcommands.
    First(&'static str, String),
}

impl Rule {
    fn concerns(&self, command: &Command, args: Args<'_>) -> bool {
        match &self.subject {
            Subject::Category(name) => {
                let subcommand = subcommand(command, args).map(str::as_bytes);
                is_of(command, subcommand, name)
            }
            Subject::Command(name) => *name == command.name,
            Subject::First(name, first) => {
                let given = args.get(1);
                *name == command.name
                    && given.is_some_and(|it| it.eq_ignore_ascii_case(first.as_bytes()))
            }
        }
    }

    /// Returns true if a later rule about `self` makes `other` meaningless.
    fn covers(&self, other: &Rule) -> bool {
        match (&self.subject, &other.subject) {
            (Subject::Command(name), Subject::First(of, _)) => name == of,
            (one, other) => one == other,
        }
    }

    fn text(&self) -> String {
        let sign = if self.allows { '+' } else { '-' };
        match &self.subject {
            Subject::Category(name) => format!("{sign}@{name}"),
            Subject::Command(name) => format!("{sign}{name}"),
            Subject::First(name, first) => format!("{sign}{name}|{first}"),
        }
    }
}

const SYNTAX: &str = "Syntax error";
const UNKNOWN: &str = "Unknown command or category name in ACL";

impl Selector {
    /// Applies a modifier.
    fn apply(&mut self, modifier: &[u8]) -> Result<(), &'static str> {
        let is = |word: &str| modifier.eq_ignore_ascii_case(word.as_bytes());
        match modifier {
            _ if is("allkeys") || is("~*") => self.keys = vec![(b"*".to_vec(), READS | WRITES)],
            _ if is("resetkeys") => self.keys.clear(),
            _ if is("allchannels") || is("&*") => {
                (self.all_channels, self.channels) = (true, Vec::new());
            }
            _ if is("resetchannels") => (self.all_channels, self.channels) = (false, Vec::new()),
            _ if is("allcommands") || is("+@all") => self.set_all_commands(true),
            _ if is("nocommands") || is("-@all") => self.set_all_commands(false),
            [b'~', pattern @ ..] => self.add_key(pattern, READS | WRITES)?,
            [b'%', rest @ ..] => {
                let tilde = rest.iter().position(|it| *it == b'~').ok_or(SYNTAX)?;
                let way = |sum: u8, letter: &u8| match letter.to_ascii_uppercase() {
                    b'R' => Ok(sum | READS),
                    b'W' => Ok(sum | WRITES),
                    _ => Err(SYNTAX),
                };
                let ways = rest[..tilde].iter().try_fold(0, way)?;
                if ways == 0 {
                    return Err(SYNTAX);
                }
                self.add_key(&rest[tilde + 1..], ways)?;
            }
            [b'&', channel @ ..] => {
                if self.all_channels {
                    return Err(
                        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not \
                         valid and does not have any effect. Try 'resetchannels' to start with an \
                         empty list of channels",
                    );
                }
                let channel = channel.to_vec();
                if !self.channels.contains(&channel) {
                    self.channels.push(channel);
                }
            }
            [sign @ (b'+' | b'-'), name @ ..] => self.add_rule(*sign == b'+', name)?,
            _ => return Err(SYNTAX),
        }
        Ok(())
    }

    fn set_all_commands(&mut self, allows: bool) {
        self.all_commands = allows;
        self.commands.clear();
    }

    fn add_key(&mut self, pattern: &[u8], ways: u8) -> Result<(), &'static str> {
        if self.allows_all_keys(READS | WRITES) {
            return Err(
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and \
                 does not have any effect. Try 'resetkeys' to start with an empty list of patterns",
            );
        }
        match self.keys.iter_mut().find(|it| it.0 == pattern) {
            Some(known) => known.1 |= ways,
            None => self.keys.push((pattern.to_vec(), ways)),
        }
        Ok(())
    }

    fn add_rule(&mut self, allows: bool, name: &[u8]) -> Result<(), &'static str> {
        let name = std::str::from_utf8(name)
            .map_err(|_| UNKNOWN)?
            .to_lowercase();
        let subject = match name.strip_prefix('@') {
            Some(name) => {
                let category = CATEGORIES.into_iter().find(|it| *it == name);
                Subject::Category(category.ok_or(UNKNOWN)?)
            }
            None => command_subject(&name, allows)?,
        };
        let rule = Rule { allows, subject };
        self.commands.retain(|it| !rule.covers(it));
        if !self.commands.is_empty() || allows != self.all_commands {
            self.commands.push(rule);
        }
        Ok(())
    }

    fn allows_command(&self, command: &Command, args: Args<'_>) -> bool {
        let mut rules = self.commands.iter().rev();
        let last = rules.find(|it| it.concerns(command, args));
        last.map_or(self.all_commands, |it| it.allows)
    }

    fn allows_all_keys(&self, ways: u8) -> bool {
        self.keys
            .iter()
            .any(|(pattern, has)| pattern == b"*" && has & ways == ways)
    }

    fn allows_key(&self, key: &[u8], ways: u8) -> bool {
        let allows = |(pattern, has): &(Vec<u8>, u8)| {
            has & ways == ways && glob::matches(pattern, key, false)
        };
        self.allows_all_keys(ways) || self.keys.iter().any(allows)
    }

    fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let allows = |it: &Vec<u8>| match is_pattern {
            true => it == channel,
            false => glob::matches(it, channel, false),
        };
        self.all_channels || self.channels.iter().any(allows)
    }

    /// The first part of a call that is not allowed, and how far everything was.
    fn check(&self, command: &Command, args: Args<'_>) -> Result<(), (usize, Denied)> {
        if !self.allows_command(command, args) {
            return Err((0, Denied::Command));
        }
        for (place, (key, ways)) in access::keys(command, args).into_iter().enumerate() {
            if !self.allows_key(key, ways) {
                return Err((1 + place, Denied::Key(key.to_vec())));
            }
        }
        let (channels, are_patterns) = access::channels(command, args);
        for (place, channel) in channels.iter().enumerate() {
            if !self.allows_channel(channel, are_patterns) {
                return Err((1 + place, Denied::Channel(channel.to_vec())));
            }
        }
        Ok(())
    }

    fn keys_text(&self) -> Vec<Vec<u8>> {
        let text = |(pattern, ways): &(Vec<u8>, u8)| {
            let sign: &[u8] = match *ways {
                READS => b"%R~",
                WRITES => b"%W~",
                _ => b"~",
            };
            [sign, pattern].concat()
        };
        self.keys.iter().map(text).collect()
    }

    fn channels_text(&self) -> Vec<Vec<u8>> {
        match self.all_channels {
            true => vec![b"&*".to_vec()],
            false => self
                .channels
                .iter()
                .map(|it| [b"&", it.as_slice()].concat())
                .collect(),
        }
    }

    fn commands_text(&self) -> Vec<u8> {
        let mut text = if self.all_commands { "+@all" } else { "-@all" }.to_owned();
        for rule in &self.commands {
            text += " ";
            text += &rule.text();
        }
        text.into_bytes()
    }

    /// The modifiers that make the selector.
    fn text(&self) -> Vec<u8> {
        let mut words = self.keys_text();
        if !self.all_channels {
            words.push(b"resetchannels".to_vec());
        }
        words.extend(self.channels_text());
        words.push(self.commands_text());
        words.join(&b' ')
    }

    fn description(&self) -> Description {
        Description {
            commands: self.commands_text(),
            keys: self.keys_text().join(&b' '),
            channels: self.channels_text().join(&b' '),
        }
    }
}

/// A selector as ACL GETUSER tells it.
pub(crate) struct Description {
    pub(crate) commands: Vec<u8>,
    pub(crate) keys: Vec<u8>,
    pub(crate) channels: Vec<u8>,
}

/// The subject of a rule: a command, a subcommand, or a command with a first argument.
fn command_subject(name: &str, allows: bool) -> Result<Subject, &'static str> {
    let Some((before, last)) = name.rsplit_once('|') else {
        let command = find(name.as_bytes()).ok_or(UNKNOWN)?;
        return Ok(Subject::Command(command.name));
    };
    if let Some((container, word)) = before.split_once('|') {
        let command = find(container.as_bytes()).ok_or(UNKNOWN)?;
        let args = [container.as_bytes(), word.as_bytes()];
        return Err(match subcommand(command, &args) {
            Some(_) => "Allowing first-arg of a subcommand is not supported",
            None => UNKNOWN,
        });
    }
    let command = find(before.as_bytes()).ok_or(UNKNOWN)?;
    let args = [before.as_bytes(), last.as_bytes()];
    let is_known = subcommand(command, &args).is_some();
    match (is_known, command.has_subcommands() || !allows) {
        (false, true) => Err(UNKNOWN),
        _ if last.is_empty() => Err(SYNTAX),
        _ => Ok(Subject::First(command.name, last.to_owned())),
    }
}

fn hash_of(password: &[u8]) -> Hash {
    Sha256::digest(password).into()
}

fn parse_hash(digits: &[u8]) -> Result<Hash, &'static str> {
    let decoded = data_encoding::HEXLOWER.decode(digits).ok();
    decoded.and_then(|it| it.try_into().ok()).ok_or(
        "The provided password hash must be exactly 64 characters and contain only lowercase \
         hexadecimal characters",
    )
}

impl Rules {
    /// The rules of the user `default` of a new server.
    pub(crate) fn open() -> Rules {
        let mut rules = Rules::new(true);
        (rules.enabled, rules.any_password) = (true, true);
        for modifier in ["allkeys", "allcommands"] {
            // These modifiers are right.
            let _ = rules.root.apply(modifier.as_bytes());
        }
        rules
    }

    /// The rules of a new user, who can do nothing.
    pub(crate) fn new(all_channels: bool) -> Rules {
        let mut rules = Rules::default();
        rules.root.all_channels = all_channels;
        rules
    }

    /// Applies modifiers. A selector in parentheses may be several of them.
    /// Returns the modifier that is wrong, and the reason.
    pub(crate) fn apply_all(
        &mut self,
        modifiers: Args<'_>,
        all_channels: bool,
    ) -> Result<(), String> {
        let mut rest = modifiers.iter();
        while let Some(first) = rest.next() {
            let mut modifier = first.to_vec();
            if modifier.first() == Some(&b'(') {
                while modifier.last() != Some(&b')') {
                    let Some(next) = rest.next() else {
                        let begin = first.escape_ascii();
                        return Err(format!(
                            "Unmatched parenthesis in acl selector starting at '{begin}'."
                        ));
                    };
                    modifier = [&modifier, &b" "[..], next].concat();
                }
            }
            self.apply(&modifier, all_channels).map_err(|reason| {
                let modifier = String::from_utf8_lossy(&modifier);
                format!("Error in ACL SETUSER modifier '{modifier}': {reason}")
            })?;
        }
        Ok(())
    }

    fn apply(&mut self, modifier: &[u8], all_channels: bool) -> Result<(), &'static str> {
        let is = |word: &str| modifier.eq_ignore_ascii_case(word.as_bytes());
        match modifier {
            _ if is("on") => self.enabled = true,
            _ if is("off") => self.enabled = false,
            _ if is("nopass") => (self.any_password, self.hashes) = (true, Vec::new()),
            _ if is("resetpass") => (self.any_password, self.hashes) = (false, Vec::new()),
            // Every payload of RESTORE is checked.
            _ if is("sanitize-payload") || is("skip-sanitize-payload") => {}
            _ if is("reset") => *self = Rules::new(all_channels),
            _ if is("clearselectors") => self.selectors.clear(),
            [b'>', password @ ..] => self.add_hash(hash_of(password)),
            [b'#', digits @ ..] => self.add_hash(parse_hash(digits)?),
            [b'<', password @ ..] => self.remove_hash(hash_of(password))?,
            [b'!', digits @ ..] => self.remove_hash(parse_hash(digits)?)?,
            [b'(', inner @ .., b')'] => {
                let mut selector = Selector {
                    all_channels,
                    ..Selector::default()
                };
                for modifier in inner.split(|it| *it == b' ').filter(|it| !it.is_empty()) {
                    selector.apply(modifier)?;
                }
                self.selectors.push(selector);
            }
            modifier => self.root.apply(modifier)?,
        }
        Ok(())
    }

    fn add_hash(&mut self, hash: Hash) {
        self.any_password = false;
        if !self.hashes.contains(&hash) {
            self.hashes.push(hash);
        }
    }

    fn remove_hash(&mut self, hash: Hash) -> Result<(), &'static str> {
        let before = self.hashes.len();
        self.hashes.retain(|it| *it != hash);
        match self.hashes.len() < before {
            true => Ok(()),
            false => Err("The password you are trying to remove from the user does not exist"),
        }
    }

    /// Compares with all passwords, in a time that does not tell which one is near.
    pub(crate) fn accepts(&self, password: &[u8]) -> bool {
        let given = hash_of(password);
        let differing = |known: &Hash| {
            known
                .iter()
                .zip(&given)
                .fold(0, |sum, (a, b)| sum | (a ^ b))
        };
        let equal = self
            .hashes
            .iter()
            .filter(|it| std::hint::black_box(differing(it)) == 0);
        self.enabled && (equal.count() > 0 || self.any_password)
    }

    pub(crate) fn allows_everything(&self) -> bool {
        let root = &self.root;
        let all_commands = root.all_commands && root.commands.is_empty();
        all_commands && root.all_channels && root.allows_all_keys(READS | WRITES)
    }

    fn all(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    /// Checks a call. Of several reasons, the one is told that comes latest in the arguments.
    pub(crate) fn check(&self, command: &Command, args: Args<'_>) -> Result<(), Denied> {
        let mut furthest = (0, Denied::Command);
        for selector in self.all() {
            match selector.check(command, args) {
                Ok(()) => return Ok(()),
                Err(reason) if reason.0 > furthest.0 => furthest = reason,
                Err(_) => {}
            }
        }
        Err(furthest.1)
    }

    /// Returns true if a selector that allows a command allows to read every key.
    pub(crate) fn reads_all_keys(&self, name: &str) -> bool {
        let reads = |command| {
            let args = [name.as_bytes()];
            self.all()
                .any(|it| it.allows_command(command, &args) && it.allows_all_keys(READS))
        };
        find(name.as_bytes()).is_some_and(reads)
    }

    pub(crate) fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.all().any(|it| it.allows_channel(channel, is_pattern))
    }

    pub(crate) fn hashes(&self) -> impl Iterator<Item = String> {
        self.hashes
            .iter()
            .map(|it| data_encoding::HEXLOWER.encode(it))
    }

    pub(crate) fn root(&self) -> Description {
        self.root.description()
    }

    pub(crate) fn selectors(&self) -> impl Iterator<Item = Description> {
        self.selectors.iter().map(Selector::description)
    }

    /// The modifiers that make these rules.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut words = vec![if self.enabled { &b"on"[..] } else { b"off" }.to_vec()];
        if self.any_password {
            words.push(b"nopass".to_vec());
        }
        words.extend(self.hashes().map(|it| format!("#{it}").into_bytes()));
        words.push(self.root.text());
        for selector in &self.selectors {
            words.push([b"(", selector.text().as_slice(), b")"].concat());
        }
        words.join(&b' ')
    }
}

#[cfg(test)]
mod tests;
