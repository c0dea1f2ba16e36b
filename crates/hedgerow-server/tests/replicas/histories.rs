//! Servers that come into another history of the same data, and go on without a copy.

use super::{Servers, counts, until};

impl Servers {
    fn hand_over(&mut self, primary: usize, to: usize) {
        let address = self.address(to);
        let words = format!("FAILOVER TO {} {}", address.ip(), address.port());
        self.call(primary, &words);
        until("a primary that has handed over", || {
            self.fact(primary, "master_link_status") == "up"
        });
    }
}

#[test]
fn a_replica_of_a_replica_comes_along_into_another_history() {
    let mut servers = Servers::begin(2);
    for (replica, primary) in [(2, 1), (3, 0)] {
        servers.add();
        servers.follow(replica, primary);
        servers.until_equal(primary, replica);
    }
    servers.call(0, "SET k 1");
    servers.until_equal(0, 3);
    // The one in the middle follows the same server as before.
    servers.hand_over(0, 3);
    servers.call(3, "SET k 2");
    for (primary, replica) in [(3, 0), (0, 1), (1, 2)] {
        servers.assert_equal(primary, replica);
    }
    assert_eq!(servers.fact(0, "sync_full"), "2");
    assert_eq!(servers.syncs(1), counts(1, 1));
    servers.end();
}

#[test]
fn an_offset_without_changes_is_given_up() {
    let mut servers = Servers::begin(3);
    servers.call(0, &format!("SET k {}", "1".repeat(50_000)));
    servers.until_equal(0, 1);
    servers.call(1, "REPLICAOF NO ONE");
    // The next part of the log that is kept begins with a number of the history.
    let shared = servers.fact(1, "second_repl_offset");
    servers.call(0, "CONFIG SET repl-backlog-size 16384");
    until("a number without changes", || {
        servers.fact(0, "master_repl_offset") != shared
    });
    servers.until_equal(0, 2);
    servers.call(1, "SET k 2");
    servers.follow(0, 1);
    servers.assert_equal(1, 0);
    servers.assert_equal(0, 2);
    assert_eq!(servers.syncs(1), counts(0, 1));
    assert_eq!(servers.syncs(0), counts(2, 1));
    servers.end();
}
