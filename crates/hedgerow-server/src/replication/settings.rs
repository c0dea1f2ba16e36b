//! The parameters of replication, as CONFIG sets them. Those that begin with `replica-` have their
//! old names, too.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::client::lock;

/// The names and first values.
pub(crate) const SETTINGS: &[(&str, &str)] = &[
    ("masterauth", ""),
    ("masteruser", ""),
    ("min-replicas-max-lag", "10"),
    ("min-replicas-to-write", "0"),
    ("repl-backlog-size", "1073741824"),
    ("repl-backlog-ttl", "3600"),
    ("repl-timeout", "60"),
    ("replica-announce-ip", ""),
    ("replica-announce-port", "0"),
    ("replica-priority", "100"),
    ("replica-read-only", "yes"),
    ("replica-serve-stale-data", "yes"),
];

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    texts: Mutex<Texts>,
    min_replicas: AtomicU64,
    max_lag_seconds: AtomicU64,
    log_bytes: AtomicU64,
    log_seconds: AtomicU64,
    timeout_seconds: AtomicU64,
    announced_port: AtomicU64,
    priority: AtomicU64,
    refuses_stale: AtomicBool,
}

#[derive(Debug, Default, Clone)]
struct Texts {
    user: String,
    password: String,
    announced_ip: String,
}

/// The name of a parameter, if it is one of these; `slave-` is the old form of `replica-`.
pub(crate) fn name_of(name: &str) -> Option<&'static str> {
    let new = name.replacen("slave", "replica", 1);
    let mut names = SETTINGS.iter().map(|it| it.0);
    names.find(|it| *it == name || *it == new)
}

/// The old name of a parameter that has one.
pub(crate) fn old_name(name: &str) -> Option<String> {
    let old = name.replacen("replica", "slave", 1);
    (old != name).then_some(old)
}

impl Settings {
    /// Sets a parameter. Returns the text that CONFIG GET shows.
    ///
    /// # Errors
    /// The values that are expected.
    pub(crate) fn set(
        &self,
        name: &str,
        value: &str,
        bytes: Option<usize>,
    ) -> Result<String, String> {
        let number = |least: u64, most: u64| {
            let number = value.parse::<u64>().ok();
            let within = number.filter(|it| (least..=most).contains(it));
            within.ok_or_else(|| format!("argument must be between {least} and {most} inclusive"))
        };
        let yes_or_no = || match value {
            "yes" => Ok(true),
            "no" => Ok(false),
            _ => Err("argument must be 'yes' or 'no'".to_owned()),
        };
        let to = |target: &AtomicU64, number: u64| target.store(number, Ordering::Relaxed);
        match name {
            "masterauth" => lock(&self.texts).password = value.to_owned(),
            "masteruser" => lock(&self.texts).user = value.to_owned(),
            "replica-announce-ip" => lock(&self.texts).announced_ip = value.to_owned(),
            "min-replicas-to-write" => to(&self.min_replicas, number(0, 1 << 31)?),
            "min-replicas-max-lag" => to(&self.max_lag_seconds, number(0, 1 << 31)?),
            "repl-backlog-ttl" => to(&self.log_seconds, number(0, 1 << 62)?),
            "repl-timeout" => to(&self.timeout_seconds, number(1, 1 << 31)?),
            "replica-announce-port" => to(&self.announced_port, number(0, 65_535)?),
            "replica-priority" => to(&self.priority, number(0, 1 << 31)?),
            "repl-backlog-size" => {
                let bytes = bytes.filter(|it| *it >= 16 << 10);
                let bytes = bytes.ok_or("argument must be a memory value of at least 16kb")?;
                to(&self.log_bytes, bytes as u64);
                return Ok(bytes.to_string());
            }
            "replica-serve-stale-data" => {
                let serves = yes_or_no()?;
                self.refuses_stale.store(!serves, Ordering::Relaxed);
            }
            "replica-read-only" if !yes_or_no()? => {
                return Err("a replica is read-only: what only it has would be lost".to_owned());
            }
            _ => {}
        }
        Ok(value.to_owned())
    }

    /// The replicas without which no write is accepted.
    pub(crate) fn min_replicas(&self) -> usize {
        self.min_replicas.load(Ordering::Relaxed) as usize
    }

    /// The time since its last acknowledgement after which a replica does not count.
    pub(crate) fn max_lag(&self) -> Duration {
        Duration::from_secs(self.max_lag_seconds.load(Ordering::Relaxed))
    }

    /// The bytes of log that are kept for replicas that are away.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.log_bytes.load(Ordering::Relaxed)
    }

    /// The time without a replica after which a primary keeps no log; zero for ever.
    pub(crate) fn log_time(&self) -> Duration {
        Duration::from_secs(self.log_seconds.load(Ordering::Relaxed))
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds.load(Ordering::Relaxed))
    }

    pub(crate) fn priority(&self) -> u64 {
        self.priority.load(Ordering::Relaxed)
    }

    pub(crate) fn refuses_stale(&self) -> bool {
        self.refuses_stale.load(Ordering::Relaxed)
    }

    /// The user and the password for the primary.
    pub(crate) fn login(&self) -> (String, String) {
        let texts = lock(&self.texts);
        (texts.user.clone(), texts.password.clone())
    }

    /// The address that a primary is told; an empty one, or zero, is the real one.
    pub(crate) fn announced(&self) -> (String, u16) {
        let port = self.announced_port.load(Ordering::Relaxed) as u16;
        (lock(&self.texts).announced_ip.clone(), port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_names_are_known() {
        assert_eq!(name_of("slave-priority"), Some("replica-priority"));
        assert_eq!(
            name_of("min-slaves-to-write"),
            Some("min-replicas-to-write")
        );
        assert_eq!(name_of("repl-timeout"), Some("repl-timeout"));
        assert_eq!(name_of("slaves"), None);
    }

    #[test]
    fn values_out_of_bounds_are_refused() {
        let settings = Settings::default();
        for (name, value) in [
            ("repl-timeout", "0"),
            ("replica-read-only", "no"),
            ("replica-serve-stale-data", "maybe"),
            ("replica-announce-port", "65536"),
            ("min-replicas-to-write", "-1"),
        ] {
            settings.set(name, value, None).unwrap_err();
        }
        assert_eq!(
            settings
                .set("repl-backlog-size", "1mb", Some(1 << 20))
                .unwrap(),
            "1048576"
        );
        assert_eq!(settings.log_bytes(), 1 << 20);
    }
}
