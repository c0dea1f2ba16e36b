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
