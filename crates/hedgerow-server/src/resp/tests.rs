use super::{Limits, Parser, Reply, Request, is_parsed_alike};

const LIMITS: Limits = Limits {
    argument_bytes: 1 << 20,
    arguments: 1 << 10,
};

fn words(bytes: &[u8], request: Request) -> Vec<Vec<u8>> {
    match request {
        Request::Array(places) => places.into_iter().map(|it| bytes[it].to_vec()).collect(),
        Request::Inline(words) => words,
    }
}

fn all(bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut parser = Parser::default();
    let mut requests = Vec::new();
    while let Some(request) = parser.next(bytes, LIMITS).unwrap() {
        requests.push(words(bytes, request));
    }
    requests
}

#[test]
fn arrays_and_inline_commands_are_requests() {
    let bytes = b"*2\r\n$3\r\nGET\r\n$0\r\n\r\nset \"a b\" 'c' \"\\x41\\n\"\r\n*0\r\n\r\nPING\n";
    let expected: Vec<Vec<&[u8]>> = vec![
        vec![b"GET", b""],
        vec![b"set", b"a b", b"c", b"A\n"],
        vec![b"PING"],
    ];
    assert_eq!(all(bytes), expected);
}

#[test]
fn a_request_in_pieces_is_the_same_request() {
    let bytes = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\nPING\r\n";
    let whole = all(bytes);
    let mut parser = Parser::default();
    let mut requests = Vec::new();
    for end in 0..=bytes.len() {
        while let Some(request) = parser.next(&bytes[..end], LIMITS).unwrap() {
            requests.push(words(bytes, request));
        }
    }
    assert_eq!(requests, whole);
    assert_eq!(parser.parsed(), bytes.len());
}

#[test]
fn bytes_that_are_no_request_are_errors() {
    for (bytes, expected) in [
        (&b"*x\r\n"[..], "invalid multibulk length"),
        (b"*01\r\n$4\r\nPING\r\n", "invalid multibulk length"),
        (b"*+1\r\n$4\r\nPING\r\n", "invalid multibulk length"),
        (b"*1\r\n$04\r\nPING\r\n", "invalid bulk length"),
        (b"*1\r\n$-0\r\n\r\n", "invalid bulk length"),
        (b"*1\r\nGET\r\n", "expected '$', got 'G'"),
        (b"*1\r\n$-4\r\n", "invalid bulk length"),
        (b"*1\r\n$2000000\r\n", "invalid bulk length"),
        (b"*20000\r\n", "invalid multibulk length"),
        (b"get \"open\r\n", "unbalanced quotes in request"),
    ] {
        let error = Parser::default().next(bytes, LIMITS).unwrap_err();
        assert_eq!(error.0, expected, "{}", bytes.escape_ascii());
    }
}

#[test]
fn lengths_that_are_too_large_have_the_texts_of_redis() {
    let long = |kind: &str| format!("{kind}{}", "1".repeat(70_000)).into_bytes();
    let of = |bytes: &[u8], limits| Parser::default().next(bytes, limits).unwrap_err().0;
    assert_eq!(of(&long("*"), LIMITS), "too big mbulk count string");
    assert_eq!(of(&long("*1\r\n$"), LIMITS), "too big bulk count string");
    assert_eq!(of(&long(""), LIMITS), "too big inline request");
    for (bytes, expected) in [
        (&b"*11\r\n"[..], "unauthenticated multibulk length"),
        (b"*1\r\n$16385\r\n", "unauthenticated bulk length"),
        (b"*2147483648\r\n", "invalid multibulk length"),
        (b"*x\r\n", "invalid multibulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
    ] {
        let found = of(bytes, Limits::UNAUTHENTICATED);
        assert_eq!(found, expected, "{}", bytes.escape_ascii());
    }
    let mut parser = Parser::default();
    let allowed = b"*10\r\n$16384\r\n";
    assert_eq!(parser.next(allowed, Limits::UNAUTHENTICATED), Ok(None));
}

/// Requests with random changes, cut at random places: any outcome but a panic, and the same one
/// in pieces.
#[test]
fn random_bytes_never_panic() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..20_000 {
        let mut bytes =
            b"*2\r\n$3\r\nGET\r\n$4\r\nkey1\r\nPING \"a\\x4\"\r\n*1\r\n$1\r\nx\r\n".to_vec();
        for _ in 0..random.usize(0..6) {
            let place = random.usize(0..bytes.len());
            bytes[place] = *random.choice(b"*$\r\n-19\"'\\x \0\xff").unwrap();
        }
        let parse = |pieces: &[usize]| {
            let (mut parser, mut requests) = (Parser::default(), Vec::new());
            for end in pieces {
                loop {
                    match parser.next(&bytes[..*end], LIMITS) {
                        Ok(Some(request)) => requests.push(words(&bytes, request)),
                        Ok(None) => break,
                        Err(error) => return (requests, Some(error)),
                    }
                }
            }
            (requests, None)
        };
        let middle = random.usize(0..bytes.len());
        assert_eq!(parse(&[bytes.len()]), parse(&[middle, bytes.len()]));
    }
}

#[test]
fn replies_have_the_bytes_of_their_version() {
    let reply = Reply::Map(vec![(
        Reply::bulk("k"),
        Reply::Array(vec![Reply::Null, Reply::Double(1.5), Reply::Integer(-3)]),
    )]);
    let bytes = |resp3| {
        let mut out = Vec::new();
        reply.write(&mut out, resp3);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(
        bytes(false),
        "*2\r\n$1\r\nk\r\n*3\r\n$-1\r\n$3\r\n1.5\r\n:-3\r\n"
    );
    assert_eq!(bytes(true), "%1\r\n$1\r\nk\r\n*3\r\n_\r\n,1.5\r\n:-3\r\n");
}

/// A loader whose reads never ended with a request had all of its requests kept, until it was cut
/// off.
#[test]
fn whole_requests_are_not_kept_for_one_that_is_not() {
    const COUNT: usize = 100;
    let value = "v".repeat(9_000);
    let request = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$9000\r\n{value}\r\n").into_bytes();
    for part_bytes in [1_000, 4_001, 16_384, 20_000] {
        let (mut parser, mut kept, mut count) = (Parser::default(), Vec::new(), 0);
        for part in request.repeat(COUNT).chunks(part_bytes) {
            kept.extend_from_slice(part);
            while let Some(found) = parser.next(&kept, LIMITS).unwrap() {
                let mut words = Vec::new();
                found.add_words(&kept, &mut words);
                assert_eq!(words, [b"SET", &b"k"[..], value.as_bytes()]);
                count += 1;
            }
            kept.drain(..parser.parsed());
            assert!(kept.len() < request.len(), "{} bytes are kept", kept.len());
        }
        assert_eq!(count, COUNT);
    }
}

/// The corpus of the fuzzer, and the same inputs with other cuts and some other bytes.
#[test]
#[allow(clippy::disallowed_methods, reason = "files of the test")]
fn the_corpus_of_the_fuzzer_is_parsed_alike_in_parts() {
    const SEEDS: u64 = 100;
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/request");
    let seeds = match std::env::var("HEDGEROW_SEED") {
        Ok(seed) => seed.parse().map(|it: u64| it..it + 1).unwrap(),
        Err(_) => 0..SEEDS,
    };
    let mut count = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let input = std::fs::read(&path).unwrap();
        assert!(is_parsed_alike(&input), "{}", path.display());
        for seed in seeds.clone() {
            let changed = changed(&input, &mut fastrand::Rng::with_seed(seed));
            let text = changed.escape_ascii();
            let is_alike = is_parsed_alike(&changed);
            assert!(is_alike, "HEDGEROW_SEED={seed} {}: {text}", path.display());
        }
        count += 1;
    }
    assert!(count > 15, "{count} inputs");
}

/// The requests of an input with other cuts, and sometimes another byte.
fn changed(input: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let cuts = usize::from(input[0] & 7);
    let mut bytes = input.get(1 + 2 * cuts..).unwrap_or_default().to_vec();
    if !bytes.is_empty() && random.bool() {
        let place = random.usize(0..bytes.len());
        bytes[place] = *random.choice(b"*$\r\n-19\"'\\x \0\xff").unwrap();
    }
    let mut changed = vec![input[0] | 7];
    for _ in 0..7 {
        changed.extend(random.u16(0..=bytes.len() as u16 / 4).to_le_bytes());
    }
    changed.extend(bytes);
    changed
}
