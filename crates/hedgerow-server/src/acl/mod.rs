//! Users, and what they may do.
//!
//! Everyone is `default` until AUTH. A connection keeps its [`User`]; a change of the rules counts
//! from the next call on. A user who may do everything costs one load per call.

mod access;
mod category;
mod log;
mod rules;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;

pub(crate) use category::{CATEGORIES, is_of};
pub(crate) use log::{Log, Refusal};
pub(crate) use rules::{Denied, Description, Rules};

use crate::client::lock;
use crate::commands::{Args, Command};

/// The name of the user that a connection begins with.
pub(crate) const DEFAULT: &str = "default";

/// A user. Connections that are logged in share it.
#[derive(Debug)]
pub(crate) struct User {
    pub(crate) name: String,
    rules: ArcSwap<Rules>,
}

impl User {
    fn new(name: &str, rules: Rules) -> Arc<User> {
        let (name, rules) = (name.to_owned(), ArcSwap::from_pointee(rules));
        Arc::new(User { name, rules })
    }

    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.rules.load_full()
    }

    /// The rules, unless everything is allowed.
    pub(crate) fn limits(&self) -> Option<Arc<Rules>> {
        let rules = self.rules.load();
        (!rules.allows_everything()).then(|| rules.clone())
    }

    pub(crate) fn check(&self, command: &Command, args: Args<'_>) -> Result<(), Denied> {
        let rules = self.rules.load();
        match rules.allows_everything() {
            true => Ok(()),
            false => rules.check(command, args),
        }
    }
}

type Users = BTreeMap<String, Arc<User>>;

/// See the module.
pub(crate) struct Acl {
    users: Mutex<Users>,
    pub(crate) log: Mutex<Log>,
    file: Option<PathBuf>,
}

impl Acl {
    /// The users of a file. Without one, or if it does not name `default`, that user may do
    /// everything, with this password if it is not empty.
    pub(crate) fn open(password: &str, file: Option<&Path>) -> Result<Acl, String> {
        let default = User::new(DEFAULT, Rules::open());
        let acl = Acl {
            users: Mutex::new([(DEFAULT.to_owned(), default)].into()),
            log: Mutex::default(),
            file: file.map(Path::to_owned),
        };
        acl.set_password(password);
        if file.is_some() {
            acl.load(false)?;
        }
        Ok(acl)
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<Arc<User>> {
        let name = std::str::from_utf8(name).ok()?;
        lock(&self.users).get(name).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<User>> {
        lock(&self.users).values().cloned().collect()
    }

    /// The user that connections begin with, and true if that needs no password.
    pub(crate) fn first(&self) -> (Arc<User>, bool) {
        let users = lock(&self.users);
        // It cannot be removed.
        let user = users.get(DEFAULT).cloned();
        let user = user.unwrap_or_else(|| User::new(DEFAULT, Rules::new(false)));
        let rules = user.rules();
        let is_open = rules.enabled && rules.any_password;
        (user, is_open)
    }

    /// Lets `default` have this password alone, or none.
    pub(crate) fn set_password(&self, password: &str) {
        let mut rules = Rules::clone(&self.first().0.rules());
        let set = match password {
            "" => rules.apply_all(&[b"nopass"], false),
            password => rules.apply_all(&[b"resetpass", format!(">{password}").as_bytes()], false),
        };
        // These modifiers are right.
        debug_assert!(set.is_ok());
        self.first().0.rules.store(Arc::new(rules));
    }

    /// Applies modifiers to a user, who is made if it is missing. All of them count, or none.
    pub(crate) fn set(
        &self,
        name: &[u8],
        modifiers: Args<'_>,
        all_channels: bool,
    ) -> Result<Arc<User>, String> {
        let name = check_name(name)?;
        let mut users = lock(&self.users);
        let known = users.get(name);
        let mut rules = known.map_or_else(
            || Rules::new(all_channels),
            |user| Rules::clone(&user.rules()),
        );
        rules.apply_all(modifiers, all_channels)?;
        let user = users
            .entry(name.to_owned())
            .or_insert_with(|| User::new(name, Rules::new(false)));
        user.rules.store(Arc::new(rules));
        Ok(user.clone())
    }

    pub(crate) fn remove(&self, name: &[u8]) -> Option<Arc<User>> {
        lock(&self.users).remove(std::str::from_utf8(name).ok()?)
    }

    fn file(&self) -> Result<&Path, String> {
        self.file.as_deref().ok_or_else(|| {
            "This Redis instance is not configured to use an ACL file. Begin it with an option \
             that names one, or set users by ACL SETUSER."
                .to_owned()
        })
    }

    /// Reads all users from the file. If a line is wrong, nothing changes.
    #[allow(
        clippy::disallowed_methods,
        reason = "a file of users, outside of the database"
    )]
    pub(crate) fn load(&self, all_channels: bool) -> Result<(), String> {
        let path = self.file()?;
        let text = std::fs::read(path);
        let text = text.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let mut read: BTreeMap<String, Rules> = BTreeMap::new();
        for (number, line) in text.split(|it| *it == b'\n').enumerate() {
            let wrong = |reason: &str| format!("{}:{}: {reason}", path.display(), number + 1);
            let words: Vec<&[u8]> = line
                .split(|it| it.is_ascii_whitespace())
                .filter(|it| !it.is_empty())
                .collect();
            let (name, modifiers) = match words.as_slice() {
                [] => continue,
                [first, ..] if first.starts_with(b"#") => continue,
                [b"user", name, modifiers @ ..] => (name, modifiers),
                _ => return Err(wrong("line should start with user keyword")),
            };
            let name = check_name(name).map_err(|reason| wrong(&reason))?;
            let mut rules = Rules::new(all_channels);
            let applied = rules.apply_all(modifiers, all_channels);
            applied.map_err(|reason| wrong(&reason))?;
            if read.insert(name.to_owned(), rules).is_some() {
                return Err(wrong(&format!("Duplicate user '{name}' found")));
            }
        }
        let mut users = lock(&self.users);
        users.retain(|name, _| name == DEFAULT || read.contains_key(name));
        for (name, rules) in read {
            match users.get(&name) {
                Some(user) => user.rules.store(Arc::new(rules)),
                None => {
                    let user = User::new(&name, rules);
                    users.insert(name, user);
                }
            }
        }
        Ok(())
    }

    /// Writes all users to the file, which is replaced at once.
    #[allow(
        clippy::disallowed_methods,
        reason = "a file of users, outside of the database"
    )]
    pub(crate) fn save(&self) -> Result<(), String> {
        let path = self.file()?;
        let mut text = Vec::new();
        for user in self.all() {
            text.extend([b"user ", user.name.as_bytes(), b" "].concat());
            text.extend(user.rules().text());
            text.push(b'\n');
        }
        let mut new = path.to_owned().into_os_string();
        new.push(".new");
        let written = std::fs::File::create(&new).and_then(|mut file| {
            std::io::Write::write_all(&mut file, &text)?;
            file.sync_all()?;
            std::fs::rename(&new, path)
        });
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))
    }
}

fn check_name(name: &[u8]) -> Result<&str, String> {
    let text = std::str::from_utf8(name).ok();
    let is_name = |it: &&str| !it.is_empty() && !it.contains([' ', '\0', '\n', '\r', '\t']);
    text.filter(is_name)
        .ok_or_else(|| "Usernames can't contain spaces or null characters".to_owned())
}
