use hedgerow_io::Environment;
use hedgerow_io::sim::{Fault, OpClass, SimStorage};

use super::*;
use crate::commands::config::Fsync;
use crate::commands::find;
use crate::commands::info::persistence;
use crate::execute::{Call, Caller, Outcome};
use crate::server::Server;

fn server_on(disk: &SimStorage) -> Server {
    crate::testing::server_on(Environment::simulated(disk, 1), Fsync::Always).unwrap()
}

async fn push(server: &Server, element: &[u8]) -> Outcome {
    let command = find(b"rpush").unwrap();
    let args: [&[u8]; 3] = [b"rpush", b"queue", element];
    let call = Call {
        command,
        args: &args,
    };
    server.run(Caller::default(), &[call]).await
}

/// With `appendfsync always` also a client that waits gets no element that a loss of power takes.
#[test]
fn who_waits_gets_what_is_durable() {
    let disk = SimStorage::new(1);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().build().unwrap();
    runtime.block_on(async {
        let server = server_on(&disk);
        let client = server.clients.add(
            &server.buffers,
            server.acl.first().0,
            "here".to_owned(),
            "there".to_owned(),
        );
        let args = ["blpop", "queue", "0"].map(|it| it.as_bytes().to_vec());
        let command = (find(b"blpop").unwrap(), args.to_vec());
        for fails in [false, true] {
            let (waiter, mut receiver) = Waiter::new(client.clone(), command.clone(), (0, false));
            server.waiters.add(&waiter);
            let outcome = push(&server, b"element").await;
            let syncs = server.db().stats().log_syncs;
            if fails {
                disk.fail_after(OpClass::Sync, 0, Fault::Io);
            }
            server.announce(outcome.effects).await;
            let reply = receiver.try_recv().unwrap();
            assert_eq!(reply.is_error(), fails, "{reply:?}");
            assert!(server.db().stats().log_syncs > syncs);
            server.waiters.remove(&waiter);
        }
        let told = persistence(&server);
        assert!(told.contains("aof_last_write_status:err"), "{told}");
        let refused = push(&server, b"another").await.replies;
        assert!(refused[0].is_error(), "{refused:?}");
    });
}
