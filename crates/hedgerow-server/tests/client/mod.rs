//! A client for tests: words in, values out.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    Status(String),
    Error(String),
    Integer(i64),
    Bulk(String),
    Null,
    Array(Vec<Value>),
}

pub(crate) fn bulk(text: &str) -> Value {
    Value::Bulk(text.to_owned())
}

pub(crate) fn int(number: i64) -> Value {
    Value::Integer(number)
}

impl Value {
    pub(crate) fn status(text: &str) -> Value {
        Value::Status(text.to_owned())
    }

    pub(crate) fn bulks<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Value {
        Value::Array(texts.into_iter().map(|it| Value::Bulk(it.into())).collect())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Status(text) => write!(f, "+{text}"),
            Value::Error(text) => write!(f, "-{text}"),
            Value::Integer(number) => write!(f, ":{number}"),
            Value::Bulk(text) => write!(f, "{text}"),
            Value::Null => write!(f, "null"),
            Value::Array(items) => f.debug_list().entries(items).finish(),
        }
    }
}

pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        Client::over(TcpStream::connect(address).unwrap())
    }

    /// Connects so that the system holds well below 1 MiB of replies that are not read: on both
    /// sides it makes room by the size of segments, and here by what is asked for.
    pub(crate) fn connect_with_small_buffers(address: SocketAddr) -> Client {
        const BYTES: u32 = 4 << 10;
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(BYTES as usize).unwrap();
        socket.set_tcp_mss(BYTES / 8).unwrap();
        socket.connect(&address.into()).unwrap();
        Client::over(socket.into())
    }

    fn over(stream: TcpStream) -> Client {
        stream.set_nodelay(true).unwrap();
        Client {
            stream: BufReader::new(stream),
        }
    }

    /// Waits for replies for so long at most.
    pub(crate) fn waits_at_most(&mut self, seconds: u64) {
        let time = std::time::Duration::from_secs(seconds);
        self.stream.get_mut().set_read_timeout(Some(time)).unwrap();
    }

    pub(crate) fn send(&mut self, words: &str) {
        self.stream.get_mut().write_all(&request(words)).unwrap();
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    pub(crate) fn call(&mut self, words: &str) -> Value {
        self.send(words);
        self.receive()
    }

    /// Calls with words that may have spaces.
    pub(crate) fn call_words(&mut self, words: &[&str]) -> Value {
        self.send_words(words);
        self.receive()
    }

    pub(crate) fn send_words(&mut self, words: &[&str]) {
        let bytes = request_of(words);
        self.stream.get_mut().write_all(&bytes).unwrap();
    }

    /// Sends calls that the server most likely reads at once.
    pub(crate) fn send_together(&mut self, calls: &[&str]) {
        let bytes: Vec<u8> = calls.iter().flat_map(|words| request(words)).collect();
        self.stream.get_mut().write_all(&bytes).unwrap();
    }

    pub(crate) fn pipeline(&mut self, calls: &[&str]) -> Vec<Value> {
        calls.iter().for_each(|words| self.send(words));
        calls.iter().map(|_| self.receive()).collect()
    }

    pub(crate) fn receive(&mut self) -> Value {
        self.try_receive().expect("a reply")
    }

    /// Calls a server that may be gone: `None` then.
    pub(crate) fn try_call(&mut self, words: &str) -> Option<Value> {
        self.try_call_words(&words.split(' ').collect::<Vec<_>>())
    }

    /// Calls a server that may be gone: `None` then.
    pub(crate) fn try_call_words(&mut self, words: &[&str]) -> Option<Value> {
        let bytes = request_of(words);
        self.stream.get_mut().write_all(&bytes).ok()?;
        self.try_receive()
    }

    /// Ends the server. Its reply is the end of the connection.
    pub(crate) fn shut_down(&mut self) {
        assert_eq!(self.try_call("SHUTDOWN"), None);
    }

    pub(crate) fn try_receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).ok()? == 0 || !line.ends_with('\n') {
            return None;
        }
        let (kind, rest) = line.trim_end().split_at(1);
        let count = || rest.parse::<i64>().ok();
        Some(match kind {
            "+" => Value::Status(rest.to_owned()),
            "-" => Value::Error(rest.to_owned()),
            ":" => Value::Integer(count()?),
            "$" | "*" if count()? < 0 => Value::Null,
            "_" => Value::Null,
            "$" => {
                let mut bytes = vec![0; count()? as usize + 2];
                self.stream.read_exact(&mut bytes).ok()?;
                bytes.truncate(bytes.len() - 2);
                // Strings of bits are no text.
                let escaped =
                    |error: std::string::FromUtf8Error| error.as_bytes().escape_ascii().to_string();
                Value::Bulk(String::from_utf8(bytes).unwrap_or_else(escaped))
            }
            "*" | ">" | "~" | "%" => {
                let each = if kind == "%" { 2 } else { 1 };
                let items = (0..count()? * each).map(|_| self.try_receive());
                Value::Array(items.collect::<Option<_>>()?)
            }
            other => panic!("expected a reply, found {other}"),
        })
    }
}

/// The bytes of a request.
pub(crate) fn request(words: &str) -> Vec<u8> {
    request_of(&words.split(' ').collect::<Vec<_>>())
}

pub(crate) fn request_of(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    bytes.into_bytes()
}
