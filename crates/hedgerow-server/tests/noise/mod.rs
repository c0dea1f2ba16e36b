//! Noise from sockets: each command with words that nobody means, damaged payloads, requests that
//! are none, and requests that are cut short. The server serves others, and no thread panics.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Mutex, Once};
use std::time::Duration;

use fastrand::Rng;

use crate::Served;
use crate::client::{Client, Value};

/// The calls of each command with each seed.
const CALLS: usize = 12;
const SEEDS: [u64; 2] = [1, 20];
/// The time for the calls of a connection.
const PATIENCE: Duration = Duration::from_secs(20);

/// The commands that are left out, since others are no longer served behind them.
const LEFT_OUT: &[&str] = &[
    "shutdown",     // ends the server
    "debug",        // sleeps for a number of seconds
    "client|pause", // stops the others
    "client|kill",  // ends the others
    "replicaof",    // follows a server that is not there
    "slaveof",      // the same
];

/// The keys of each batch, one of each type.
const KEYS: &[&str] = &["string", "list", "set", "zset", "hash", "stream"];
const FILLING: &[&str] = &[
    "FLUSHALL",
    "SET string value",
    "RPUSH list a b c 1 2 3",
    "SADD set a b c 1 2 3",
    "ZADD zset 1 a 2 b -inf c",
    "HSET hash a 1 b 2 c x",
    "HPEXPIRE hash 1000000 FIELDS 1 a",
    "XADD stream 1-1 a 1",
    "XADD stream 2-1 b 2",
    "XGROUP CREATE stream group 0",
    "XREADGROUP GROUP group one COUNT 1 STREAMS stream >",
];

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "-2",
    "16",
    "4294967295",
    "9223372036854775807",
    "-9223372036854775808",
    "-9223372036854775807",
    "18446744073709551615",
    "340282366920938463463374607431768211456",
    "0.5",
    "1e308",
    "-1e308",
    "1e-320",
    "inf",
    "-inf",
    "nan",
    "0x10",
    "1-1",
    "18446744073709551615-18446744073709551615",
    "(1",
    "[a",
];

const OPTIONS: &[&str] = &[
    "+ - * $ > < ~ = # ( [ @ a* [a-] \\ #1 i64 u63 i65 u0",
    "ABSTTL AFTER AGGREGATE ALPHA AND ANY ASC BEFORE BIT BLOCK BY BYBOX BYLEX BYRADIUS BYSCORE BYTE",
    "CH COPY COUNT CREATE DB DELSAMEKEYS DESC ENTRIESREAD EX EXAT FAIL FIELDS FORCE FREQ FROMLONLAT",
    "FROMMEMBER FULL GET GETALL GROUP GT HELP ID IDLE IDLETIME IDX INCR INCRBY JUSTID KEEPTTL LASTID",
    "LEFT LEN LIMIT LT MATCH MAX MAXLEN MIN MINID MINMATCHLEN MKSTREAM NOACK NOMKSTREAM NOT NX OR",
    "OVERFLOW PERSIST PX PXAT RANK REPLACE RETRYCOUNT REV RIGHT SAMPLES SAT SET STORE STOREDIST",
    "STREAMS SUM TIME TYPE WEIGHTS WITHCOORD WITHDIST WITHMATCHLEN WITHSCORE WITHSCORES WITHVALUES",
    "WRAP XOR XX group km one string list set zset hash stream",
];

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Remembers the panics of the server's threads, which end only a connection.
fn listen_for_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().name() == Some("hedgerow-serve") {
                PANICS.lock().unwrap().push(panic.to_string());
            }
            before(panic);
        }));
    });
}

type Words = Vec<Vec<u8>>;

fn bytes_of(words: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

fn word(random: &mut Rng) -> Vec<u8> {
    let of = |random: &mut Rng, words: &[&str]| {
        let at = random.usize(..words.len());
        words[at].as_bytes().to_vec()
    };
    match random.u32(..20) {
        0..5 => of(random, KEYS),
        5..11 => of(random, NUMBERS),
        11..17 => {
            let line = OPTIONS[random.usize(..OPTIONS.len())];
            of(random, &line.split(' ').collect::<Vec<_>>())
        }
        17 => Vec::new(),
        18 => (0..random.usize(1..40)).map(|_| random.u8(..)).collect(),
        _ => vec![random.u8(..); 70_000],
    }
}

/// A call of a command, whose name may have a subcommand behind `|`.
fn call(random: &mut Rng, name: &str) -> Words {
    let mut words: Words = name.split('|').map(|it| it.as_bytes().to_vec()).collect();
    // The first word is a key for most commands.
    if random.bool() {
        words.push(KEYS[random.usize(..KEYS.len())].as_bytes().to_vec());
    }
    words.extend((0..random.usize(..7)).map(|_| word(random)));
    words
}

/// Sends bytes, and nothing else. Reads all replies.
fn send(address: SocketAddr, bytes: &[u8], what: &str) -> Vec<u8> {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut replies = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The server may have ended the connection.
            let _ = (&stream).write_all(bytes);
            let _ = stream.shutdown(Shutdown::Write);
        });
        let read = (&stream).read_to_end(&mut replies);
        let hangs = |e: &std::io::Error| e.kind() == std::io::ErrorKind::WouldBlock;
        assert!(!read.is_err_and(|it| hangs(&it)), "no end of {what}");
    });
    replies
}

/// Checks that others are served, and fills the keys again.
fn check(served: &Served, what: &str) {
    let mut client = served.client();
    client.waits_at_most(PATIENCE.as_secs());
    assert_eq!(
        client.try_call("PING"),
        Some(Value::status("PONG")),
        "{what}"
    );
    let panics = PANICS.lock().unwrap();
    assert!(panics.is_empty(), "{what}: {panics:?}");
    drop(panics);
    fill(&mut client);
}

fn fill(client: &mut Client) {
    client.pipeline(FILLING);
}

fn commands(served: &Served) -> Vec<String> {
    let Value::Array(names) = served.client().call("COMMAND LIST") else {
        panic!("expected the names of commands");
    };
    let names = names.into_iter().map(|it| it.to_string());
    names
        .filter(|it| !LEFT_OUT.contains(&it.as_str()))
        .collect()
}

#[test]
fn commands_with_any_words_leave_others_served() {
    listen_for_panics();
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(&dir.path().join("db"));
    fill(&mut served.client());
    let names = commands(&served);
    assert!(names.len() > 200);
    for seed in SEEDS {
        let mut random = Rng::with_seed(seed);
        for name in &names {
            let calls: Vec<u8> = (0..CALLS)
                .flat_map(|_| bytes_of(&call(&mut random, name)))
                .collect();
            let what = format!("{name} of seed {seed}");
            send(served.address, &calls, &what);
            check(&served, &what);
        }
        let mixed: Vec<u8> = (0..500)
            .flat_map(|_| {
                let name = &names[random.usize(..names.len())];
                bytes_of(&call(&mut random, name))
            })
            .collect();
        send(served.address, &mixed, "a mix");
        check(&served, &format!("a mix of seed {seed}"));
    }
    served.end();
}

/// The checksum of a payload: CRC-64 of Jones, reflected.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ u64::from(*byte), |sum, _| {
            (sum >> 1) ^ (0x95ac_9329_ac4b_c9b5 * (sum & 1))
        })
    })
}

/// The payload of a key, without its checksum.
fn payload(address: SocketAddr, key: &str) -> Vec<u8> {
    let words = [b"DUMP".to_vec(), key.as_bytes().to_vec()];
    let reply = send(address, &bytes_of(&words), "DUMP");
    let head = reply.iter().position(|it| *it == b'\n').unwrap() + 1;
    let payload = &reply[head..reply.len() - 2];
    let (body, sum) = payload.split_at(payload.len() - 8);
    assert_eq!(checksum(body).to_le_bytes(), sum);
    body.to_vec()
}

/// The checksum is right, so the bytes are believed.
#[test]
fn damaged_payloads_leave_others_served() {
    listen_for_panics();
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    fill(&mut served.client());
    let payloads: Vec<_> = KEYS.iter().map(|it| payload(served.address, it)).collect();
    for seed in SEEDS {
        let mut random = Rng::with_seed(seed);
        for (key, payload) in KEYS.iter().zip(&payloads) {
            let mut calls = Vec::new();
            for _ in 0..60 {
                let mut bytes = payload.clone();
                for _ in 0..random.usize(1..4) {
                    let at = random.usize(..bytes.len() - 2);
                    match random.u32(..3) {
                        0 => bytes[at] ^= 1 << random.u32(..8),
                        1 => bytes[at] = [0, 0x7f, 0x80, 0x81, 0xc3, 0xff][random.usize(..6)],
                        _ => drop(bytes.remove(at)),
                    }
                }
                bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
                let words = ["RESTORE", "restored", "0"].map(|it| it.as_bytes().to_vec());
                let words = [&words[..], &[bytes, b"REPLACE".to_vec()]].concat();
                calls.extend(bytes_of(&words));
                calls.extend(bytes_of(&[b"DUMP".to_vec(), b"restored".to_vec()]));
            }
            let what = format!("payloads of a {key} of seed {seed}");
            send(served.address, &calls, &what);
            check(&served, &what);
        }
    }
    served.end();
}

#[test]
fn requests_that_are_none_leave_others_served() {
    listen_for_panics();
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(&dir.path().join("db"));
    fill(&mut served.client());
    let names = commands(&served);
    let pieces: &[&[u8]] = &[
        b"*",
        b"$",
        b"\r\n",
        b"\n",
        b"\r",
        b"-1",
        b"*-1\r\n",
        b"$-1\r\n",
        b"*0\r\n",
        b"\"",
        b"'",
        b"\\x",
        b"*2147483648\r\n",
        b"*1048576\r\n",
        b"$536870913\r\n",
        b"GET ",
        b"PING\r\n",
        b"\0",
        b"*1\r\n$4\r\nPING\r\n",
        b"99999999999999999999",
        b" ",
    ];
    for seed in SEEDS {
        let mut random = Rng::with_seed(seed);
        for round in 0..60 {
            let bytes: Vec<u8> = match round % 3 {
                0 => (0..random.usize(1..300)).map(|_| random.u8(..)).collect(),
                1 => (0..random.usize(1..30))
                    .flat_map(|_| pieces[random.usize(..pieces.len())].to_vec())
                    .collect(),
                _ => {
                    let name = &names[random.usize(..names.len())];
                    let mut bytes = bytes_of(&call(&mut random, name));
                    bytes.truncate(random.usize(..bytes.len()));
                    bytes
                }
            };
            let what = format!("noise {round} of seed {seed}");
            send(served.address, &bytes, &what);
            check(&served, &what);
        }
    }
    served.end();
}
