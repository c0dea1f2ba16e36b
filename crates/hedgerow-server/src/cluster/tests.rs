use super::*;
use crate::commands::find;

const MAP: &str = "\
# name  address
a 10.0.0.1:6379 0-5460 16383
b 10.0.0.2:6380 5461-16381   # 16382 is nobody's
c [::1]:6381 replica-of a
";

fn map(me: &str) -> Map {
    Map::parse(MAP, me).unwrap()
}

/// From the description of Redis Cluster, and of a real Redis 7.
#[test]
fn slots_are_those_of_redis() {
    for (key, expected) in [
        ("123456789", 0x31C3),
        ("", 0),
        ("foo", 12182),
        ("{foo}bar", 12182),
        ("a{foo}{bar}", 12182),
        ("foo{}{bar}", 8363),
        ("{user1000}.following", 3443),
        ("{foo", slot(b"{foo")),
    ] {
        assert_eq!(slot(key.as_bytes()), expected, "{key}");
    }
    assert_ne!(slot(b"foo{{bar}}zap"), slot(b"bar"));
    assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
}

#[test]
fn a_map_sends_clients_to_the_owner() {
    let route = |me: &str, slot, enough| map(me).route(slot, enough);
    let moved = |text: &str| Err(text.to_owned());
    assert_eq!(route("a", 5460, false), Ok(()));
    assert_eq!(route("a", 16383, false), Ok(()));
    assert_eq!(route("a", 5461, true), moved("MOVED 5461 10.0.0.2:6380"));
    assert_eq!(route("c", 1, false), moved("MOVED 1 10.0.0.1:6379"));
    assert_eq!(route("c", 1, true), Ok(()));
    assert_eq!(route("c", 9000, true), moved("MOVED 9000 10.0.0.2:6380"));
    assert_eq!(
        route("b", 16382, true),
        moved("CLUSTERDOWN Hash slot not served")
    );
    assert_eq!(map("a").assigned(), 16_383);
    assert_eq!(map("a").replicas(0).count(), 1);
    assert_eq!(map("c").me().host, "::1");
    let id = "07c37dfeb235213a872192d90877d0cd55635b91";
    assert_eq!(Map::parse(&format!("{id} h:1"), id).unwrap().me().id, id);
}

#[test]
fn a_wrong_map_is_refused_with_its_line() {
    for (text, expected) in [
        ("a", "line 1: expected a name and an address, found `a`"),
        ("\na h", "line 2: expected HOST:PORT, found `h`"),
        (
            "a h:1 5-2",
            "expected slots from 0 to 16383 or `replica-of NAME`, found `5-2`",
        ),
        ("a h:1 16384", "found `16384`"),
        ("a h:1 replica of b", "found `replica`"),
        ("a h:1\na h:2", "line 2: expected a new name, found `a`"),
        (
            "a h:1 1-3\nb h:2 3",
            "line 2: expected a slot that no other has, found 3",
        ),
        ("a h:1 replica-of b", "expected the server `b`, found `a`"),
        ("b h:1", "expected the server `a`, found `b`"),
        (
            "a h:1\nb h:2 replica-of a\nc h:3 replica-of b",
            "a primary of `c`, found a replica",
        ),
    ] {
        let error = Map::parse(text, "a").unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn commands_run_where_all_their_keys_are() {
    let cluster = Cluster {
        file: PathBuf::new(),
        name: "c".to_owned(),
        map: ArcSwap::from_pointee(map("a")),
        failure: Mutex::new(None),
    };
    let check = |access: Access, words: &str| {
        let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        cluster.check(access, find(args[0]).unwrap(), &args)
    };
    let (plain, replicas, insists) = (
        Access::default(),
        Access {
            reads_replicas: true,
            ..Access::default()
        },
        Access {
            insists: true,
            ..Access::default()
        },
    );
    let is = |found: Result<(), String>, begin: &str| {
        let text = found.err().unwrap_or("OK".to_owned());
        assert!(text.starts_with(begin), "{text}");
    };
    is(check(plain, "PING"), "OK");
    // The slot of `foo` is 12182, that of `bar` 5061.
    is(check(plain, "GET bar"), "OK");
    is(check(plain, "GET foo"), "MOVED 12182 10.0.0.2:6380");
    is(check(insists, "GET foo"), "OK");
    is(check(insists, "MGET foo bar"), "CROSSSLOT");
    is(check(plain, "MSET bar 1 {bar}2 1"), "OK");
    is(check(plain, "MSET bar 1 foo 1"), "CROSSSLOT");
    is(check(plain, "EVAL x 2 bar {bar} 1"), "OK");
    is(check(plain, "EVAL x 1 foo bar"), "MOVED");
    is(check(plain, "SELECT 0"), "OK");
    is(
        check(plain, "SELECT 1"),
        "ERR SELECT is not allowed in cluster mode",
    );
    is(check(plain, "SWAPDB 0 1"), "ERR SWAPDB is not allowed");
    is(
        check(plain, "COPY bar {bar}2 DB 1"),
        "ERR Copying to another database",
    );
    is(check(plain, "COPY bar {bar}2 DB 0"), "OK");
    is(
        check(plain, "SORT bar BY w_* GET #"),
        "ERR BY option of SORT denied",
    );
    is(check(plain, "SORT bar BY nosort GET #"), "OK");
    is(
        check(plain, "SORT bar GET x*"),
        "ERR GET option of SORT denied",
    );
    cluster.map.store(Arc::new(map("c")));
    is(check(plain, "GET bar"), "MOVED 5061 10.0.0.1:6379");
    is(check(replicas, "GET bar"), "OK");
    is(check(replicas, "SET bar 1"), "MOVED 5061 10.0.0.1:6379");
    is(check(replicas, "GET foo"), "MOVED 12182");
}
