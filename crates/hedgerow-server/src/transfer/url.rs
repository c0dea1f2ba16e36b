//! The address of a Redis as a URL.

use std::fmt;
use std::str::FromStr;

/// `redis://[[user]:password@]host[:port][/database]`. Bytes of user and password may be written
/// as `%` and two digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    /// The name or address of the machine.
    pub host: String,
    /// The port; 6379 if none is given.
    pub port: u16,
    /// The user, if it is not the first one.
    pub user: Option<String>,
    /// The password, if one is needed.
    pub password: Option<String>,
    /// The database; all of them if none is given.
    pub database: Option<usize>,
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Url, String> {
        let wrong = |what: &str| {
            format!("expected redis://[[user]:password@]host[:port][/database], found {what}")
        };
        let rest = text.strip_prefix("redis://").ok_or_else(|| {
            let found = text.split_once("://").map_or("no scheme", |it| it.0);
            wrong(&format!("{found}; TLS needs a tunnel"))
        })?;
        let (rest, database) = match rest.split_once('/') {
            None | Some((_, "")) => (rest.trim_end_matches('/'), None),
            Some((rest, number)) => {
                let number = number.parse();
                let wrong = |_| wrong("a database that is no number");
                (rest, Some(number.map_err(wrong)?))
            }
        };
        let (login, place) = rest.rsplit_once('@').unwrap_or(("", rest));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        if login.is_empty() != password.is_empty() {
            return Err(wrong("a user without a password"));
        }
        let (host, port) = match place.rsplit_once(':') {
            // The colons of an address of version 6 are in brackets.
            Some((host, port)) if !port.ends_with(']') => (
                host,
                port.parse()
                    .map_err(|_| wrong("a port that is no number"))?,
            ),
            _ => (place, 6379),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(wrong("no host"));
        }
        let given = |text: &str| Some(decoded(text)).filter(|it| !it.is_empty());
        Ok(Url {
            host: host.to_owned(),
            port,
            user: given(user),
            password: given(password),
            database,
        })
    }
}

/// The text with each `%` and two digits as a byte.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).filter(|_| *first == b'%');
        let digits = digits.and_then(|it| std::str::from_utf8(it).ok());
        match digits.and_then(|it| u8::from_str_radix(it, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Without user and password, for messages.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "redis://[{}]:{}", self.host, self.port)?,
            false => write!(f, "redis://{}:{}", self.host, self.port)?,
        }
        self.database
            .map_or(Ok(()), |number| write!(f, "/{number}"))
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (String, u16, String, String, Option<usize>) {
        let url: Url = text.parse().unwrap();
        let given = |text: Option<String>| text.unwrap_or_default();
        (
            url.host,
            url.port,
            given(url.user),
            given(url.password),
            url.database,
        )
    }

    #[test]
    fn a_url_has_up_to_five_parts() {
        let expected = |host: &str, port, user: &str, password: &str, database| {
            (
                host.to_owned(),
                port,
                user.to_owned(),
                password.to_owned(),
                database,
            )
        };
        for (text, expected) in [
            (
                "redis://localhost",
                expected("localhost", 6379, "", "", None),
            ),
            ("redis://h:7000/", expected("h", 7000, "", "", None)),
            ("redis://h:7000/3", expected("h", 7000, "", "", Some(3))),
            ("redis://:p%40s:s@h", expected("h", 6379, "", "p@s:s", None)),
            (
                "redis://bob:p@ss@h:1/0",
                expected("h", 1, "bob", "p@ss", Some(0)),
            ),
            ("redis://[::1]:7000", expected("::1", 7000, "", "", None)),
            ("redis://[::1]", expected("::1", 6379, "", "", None)),
        ] {
            assert_eq!(parts(text), expected, "{text}");
        }
        let url: Url = "redis://bob:secret@h:7000/3".parse().unwrap();
        assert_eq!(
            format!("{url} {url:?}"),
            "redis://h:7000/3 redis://h:7000/3"
        );
    }

    #[test]
    fn a_wrong_url_is_refused_without_its_password() {
        for (text, found) in [
            ("rediss://h", "found rediss; TLS"),
            ("h:7000", "found no scheme"),
            ("redis://", "no host"),
            ("redis://h/x", "a database that is no number"),
            ("redis://h:x", "a port that is no number"),
            ("redis://bob@h", "a user without a password"),
        ] {
            let error = text.parse::<Url>().unwrap_err();
            assert!(error.contains(found), "{error}");
        }
        assert!(
            !"redis://:secret@h:x"
                .parse::<Url>()
                .unwrap_err()
                .contains("secret")
        );
    }
}
