//! The commands of a connection that are about replicas: it becomes the connection of one, or waits
//! for some.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Connection;
use super::special::read_more;
use crate::commands::{Args, Special};
use crate::number;
use crate::replication::{self, Request, UNBLOCKED_TEXT};
use crate::resp::{Reply, error};
use crate::store::engine_error;
use crate::stream::Stream;

/// The arguments of WAIT and WAITAOF.
struct Wanted {
    replicas: usize,
    /// None for ever.
    at_most: Option<Duration>,
}

impl Wanted {
    fn parse(special: Special, args: Args<'_>) -> Result<Wanted, Reply> {
        let number = |place: usize| {
            let number = number::integer(args[place]);
            number.ok_or_else(|| error("ERR value is not an integer or out of range"))
        };
        let (local, at) = match special {
            Special::WaitAof => (number(1)?, 2),
            _ => (0, 1),
        };
        if !(0..=1).contains(&local) {
            return Err(error("ERR value is out of range, must be between 0 and 1"));
        }
        let replicas = number(at)?;
        let replicas = usize::try_from(replicas)
            .map_err(|_| error("ERR value is out of range, must be positive"))?;
        let ms = number(at + 1)?;
        let ms = u64::try_from(ms).map_err(|_| error("ERR timeout is negative"))?;
        Ok(Wanted {
            replicas,
            at_most: (ms > 0).then(|| Duration::from_millis(ms)),
        })
    }
}

impl Connection {
    /// HEDGEROW.SYNC: what follows is between servers, until it ends.
    pub(super) async fn replicate(
        &mut self,
        stream: &mut Stream,
        args: Args<'_>,
    ) -> io::Result<Reply> {
        let request = match Request::parse(args) {
            Ok(request) => request,
            Err(reply) => return Ok(reply),
        };
        self.write(stream).await?;
        let Some(socket) = stream.plain() else {
            return Ok(error("ERR replicas connect without TLS"));
        };
        let session = &self.session;
        let served = replication::serve(&session.server, &session.client, &request, socket).await;
        // An answer is not the end: the replica may ask for something else.
        let reply = served?;
        self.session.ends = matches!(&reply, Reply::Several(_));
        Ok(reply)
    }

    /// WAIT and WAITAOF: waits until the wanted number of replicas has what this client has
    /// written, with `stream`; without it, as in a transaction, it only tells how many have.
    pub(super) async fn wait_for_replicas(
        &mut self,
        stream: Option<&mut Stream>,
        (special, args): (Special, Args<'_>),
    ) -> io::Result<Reply> {
        let server = self.session.server.clone();
        let wanted = match Wanted::parse(special, args) {
            Ok(wanted) => wanted,
            Err(reply) => return Ok(reply),
        };
        let durably = special == Special::WaitAof;
        let offset = match self.session.has_written {
            true => server.counted_offset(),
            false => Ok(Some(self.session.written)),
        };
        let offset = match offset {
            Ok(offset) => offset.filter(|_| !server.replication.is_replica()),
            Err(error) => return Ok(engine_error(&error)),
        };
        let Some(offset) = offset else {
            return Ok(error(match durably {
                true => "ERR WAITAOF cannot be used with replica instances.",
                false => "ERR WAIT cannot be used with replica instances.",
            }));
        };
        (self.session.written, self.session.has_written) = (offset, false);
        if durably && let Err(error) = server.db().sync_async().await {
            return Ok(engine_error(&error));
        }
        let replicas = &server.replication.replicas;
        let mut count = replicas.having(offset, durably);
        if let Some(stream) = stream
            && count < wanted.replicas
        {
            match durably {
                true => replicas.sync(),
                false => replicas.hurry(),
            }
            // Replies to the commands before must not wait.
            self.write(stream).await?;
            self.wait_for_acknowledgements(stream, &wanted, durably)
                .await?;
            if self.session.client.unblocked.load(Ordering::Acquire) > 1 {
                return Ok(error("UNBLOCKED client unblocked via CLIENT UNBLOCK"));
            }
            if server.replication.is_replica() {
                return Ok(error(UNBLOCKED_TEXT));
            }
            count = replicas.having(offset, durably);
        }
        Ok(match durably {
            false => Reply::count(count),
            true => Reply::Array(vec![Reply::Integer(1), Reply::count(count)]),
        })
    }

    async fn wait_for_acknowledgements(
        &mut self,
        stream: &mut Stream,
        wanted: &Wanted,
        durably: bool,
    ) -> io::Result<()> {
        let (server, client) = (self.session.server.clone(), self.session.client.clone());
        let replicas = &server.replication.replicas;
        let mut acknowledged = replicas.acknowledgements();
        let ends = tokio::time::sleep(wanted.at_most.unwrap_or(Duration::from_secs(1 << 30)));
        tokio::pin!(ends);
        client.unblocked.store(0, Ordering::Release);
        client.is_waiting.store(true, Ordering::Release);
        let mut result = Ok(());
        let mut is_over = false;
        while !is_over
            && !server.replication.is_replica()
            && replicas.having(self.session.written, durably) < wanted.replicas
        {
            tokio::select! {
                _ = acknowledged.changed() => {}
                () = &mut ends => is_over = true,
                () = client.wake.notified() => {
                    self.output.append(&mut client.take_outbox());
                    self.session.ends |= client.is_killed();
                    let unblocked = client.unblocked.load(Ordering::Acquire);
                    is_over = self.session.ends || unblocked > 0;
                    self.write(stream).await?;
                }
                read = read_more(stream, &mut self.input) => {
                    if !matches!(read, Ok(true)) {
                        result = read.map(drop);
                        self.session.ends = true;
                        is_over = true;
                    }
                }
            }
        }
        client.is_waiting.store(false, Ordering::Release);
        result
    }
}
