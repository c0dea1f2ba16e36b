//! A connection to a Redis as a client: requests in pipelines, replies one by one.

use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use hedgerow::{Error, ErrorKind, Result};

use super::Url;

/// The time in which a server has to send or take something.
const PATIENCE: Duration = Duration::from_secs(60);
/// The largest reply that is read: a value of that size cannot be stored.
const REPLY_BYTES_MAX: u64 = 1 << 30;
/// The levels of arrays in arrays.
const DEPTH_MAX: u32 = 16;

/// A reply of version 2 of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// A status, or bytes.
    Bytes(Vec<u8>),
    Error(String),
    Integer(i64),
    Null,
    Array(Vec<Answer>),
}

/// See the module.
pub(super) struct Client {
    name: String,
    input: BufReader<TcpStream>,
    output: BufWriter<TcpStream>,
}

impl Client {
    /// Connects, and logs in if the URL has a password.
    pub(super) fn connect(url: &Url) -> Result<Client> {
        let name = url.to_string();
        let stream = TcpStream::connect((url.host.as_str(), url.port));
        let stream = stream.map_err(|error| unreachable(&name, &error))?;
        let settings = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
            .and_then(|()| stream.try_clone());
        let output = settings.map_err(|error| unreachable(&name, &error))?;
        let mut client = Client {
            name,
            input: BufReader::with_capacity(64 << 10, stream),
            output: BufWriter::with_capacity(64 << 10, output),
        };
        if let Some(password) = &url.password {
            let mut words = vec![&b"AUTH"[..]];
            words.extend(url.user.as_ref().map(|it| it.as_bytes()));
            words.push(password.as_bytes());
            client.call(&words)?;
        }
        Ok(client)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Adds a request, which is sent by the next call that waits for a reply.
    pub(super) fn request(&mut self, words: &[&[u8]]) -> Result<()> {
        let name = &self.name;
        write_request(&mut self.output, words).map_err(|error| unreachable(name, &error))
    }

    /// Waits for the next reply. Errors of the server are replies.
    pub(super) fn reply(&mut self) -> Result<Answer> {
        let name = &self.name;
        let flushed = self.output.flush();
        let read = flushed.and_then(|()| read_answer(&mut self.input, DEPTH_MAX));
        read.map_err(|error| unreachable(name, &error))
    }

    /// Sends a request and waits for its reply, which must not be an error.
    pub(super) fn call(&mut self, words: &[&[u8]]) -> Result<Answer> {
        self.request(words)?;
        match self.reply()? {
            Answer::Error(text) => {
                let command = String::from_utf8_lossy(words[0]).into_owned();
                Err(self.refused(&command, &text))
            }
            answer => Ok(answer),
        }
    }

    /// The text of INFO.
    pub(super) fn info(&mut self, section: &str) -> Result<String> {
        match self.call(&[b"INFO", section.as_bytes()])? {
            Answer::Bytes(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
            other => Err(self.unexpected("INFO", &other)),
        }
    }

    /// Returns true if the server has a map of slots.
    pub(super) fn has_slots(&mut self) -> Result<bool> {
        Ok(self.info("cluster")?.contains("cluster_enabled:1"))
    }

    pub(super) fn refused(&self, what: &str, text: &str) -> Error {
        let name = &self.name;
        Error::new(
            ErrorKind::Unsupported,
            format!("{name} refused {what}: {text}"),
        )
    }

    pub(super) fn unexpected(&self, what: &str, found: &Answer) -> Error {
        let mut found = format!("{found:?}");
        found.truncate(80);
        self.refused(what, &format!("expected another reply, found {found}"))
    }
}

/// The number of keys of each database that has some, as INFO tells it.
pub(super) fn databases(info: &str) -> Vec<(usize, u64)> {
    let database = |line: &str| {
        let (number, facts) = line.strip_prefix("db")?.split_once(':')?;
        let keys = facts.split(',').find_map(|it| it.strip_prefix("keys="))?;
        Some((number.parse().ok()?, keys.parse().ok()?))
    };
    let mut found: Vec<_> = info.lines().filter_map(database).collect();
    found.sort_unstable();
    found
}

/// The identity of the server's process.
pub(super) fn run_id(info: &str) -> Option<&str> {
    info.lines().find_map(|it| it.strip_prefix("run_id:"))
}

fn unreachable(name: &str, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot talk to {name}: {error}"))
}

fn write_request(output: &mut impl Write, words: &[&[u8]]) -> std::io::Result<()> {
    write!(output, "*{}\r\n", words.len())?;
    for word in words {
        write!(output, "${}\r\n", word.len())?;
        output.write_all(word)?;
        output.write_all(b"\r\n")?;
    }
    Ok(())
}

fn read_answer(input: &mut impl BufRead, depth: u32) -> std::io::Result<Answer> {
    let wrong = |text: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, text.to_owned());
    let mut line = Vec::new();
    input.by_ref().take(64 << 10).read_until(b'\n', &mut line)?;
    let Some(line) = line.strip_suffix(b"\r\n") else {
        return Err(wrong("expected a reply, found the end of the connection"));
    };
    let (kind, rest) = line
        .split_first()
        .ok_or_else(|| wrong("expected a reply, found none"))?;
    let text = String::from_utf8_lossy(rest);
    let number = || {
        text.parse::<i64>()
            .map_err(|_| wrong("expected a number in a reply"))
    };
    match kind {
        b'+' => Ok(Answer::Bytes(rest.to_vec())),
        b'-' => Ok(Answer::Error(text.into_owned())),
        b':' => Ok(Answer::Integer(number()?)),
        b'$' | b'*' if number()? < 0 => Ok(Answer::Null),
        b'$' => {
            let count = number()? as u64;
            if count > REPLY_BYTES_MAX {
                return Err(wrong(&format!(
                    "expected a value of 1 GiB at most, found {count} bytes"
                )));
            }
            // The memory grows with what comes, not with what was announced.
            let mut bytes = Vec::new();
            input.by_ref().take(count + 2).read_to_end(&mut bytes)?;
            if bytes.len() as u64 != count + 2 {
                return Err(wrong("expected a value, found the end of the connection"));
            }
            bytes.truncate(count as usize);
            Ok(Answer::Bytes(bytes))
        }
        b'*' if depth > 0 => {
            let answers = (0..number()?).map(|_| read_answer(input, depth - 1));
            Ok(Answer::Array(answers.collect::<std::io::Result<_>>()?))
        }
        _ => Err(wrong("expected a reply of Redis, found other bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_and_damage_is_an_error() {
        let mut bytes = &b"*3\r\n$3\r\na\r\n\r\n:-5\r\n*1\r\n$-1\r\n-ERR no\r\n+OK\r\n"[..];
        let nested = Answer::Array(vec![
            Answer::Bytes(b"a\r\n".to_vec()),
            Answer::Integer(-5),
            Answer::Array(vec![Answer::Null]),
        ]);
        assert_eq!(read_answer(&mut bytes, 2).unwrap(), nested);
        assert_eq!(
            read_answer(&mut bytes, 2).unwrap(),
            Answer::Error("ERR no".to_owned())
        );
        assert_eq!(
            read_answer(&mut bytes, 2).unwrap(),
            Answer::Bytes(b"OK".to_vec())
        );
        for wrong in [
            "",
            "*1\r\n",
            "$5\r\nab\r\n",
            "$99999999999\r\n",
            ":x\r\n",
            "?\r\n",
        ] {
            assert!(read_answer(&mut wrong.as_bytes(), 2).is_err(), "{wrong}");
        }
        assert!(read_answer(&mut &b"*1\r\n*1\r\n*1\r\n:1\r\n"[..], 2).is_err());
    }

    #[test]
    fn info_tells_databases_and_the_process() {
        let info = "run_id:abc\r\n# Keyspace\r\ndb10:keys=5,expires=0\r\ndb2:keys=7,expires=1\r\n";
        assert_eq!(databases(info), [(2, 7), (10, 5)]);
        assert_eq!(run_id(info), Some("abc"));
    }
}
