//! EXEC: the commands of a transaction, in their order.
//!
//! Neighbouring commands of data are one commit. What is not about data divides a transaction: it
//! runs where it stands, behind the commit of those before. All others are excluded meanwhile, so
//! that nobody sees or changes anything between the commits. They are told of changes at the end.

use std::sync::atomic::Ordering;

use super::Connection;
use crate::commands::{Args, Command, NO_AUTH, Run, Special, WRITE};
use crate::execute::{Call, Caller};
use crate::resp::{Reply, error};
use crate::session::Queued;
use crate::store::Effects;

/// The transaction depends on this.
type Condition<'a> = &'a (dyn Fn() -> bool + Sync);

/// Returns true if a command has to run behind those before it, and before those behind it.
fn divides(command: &Command) -> bool {
    !command.is_data() && !["ping", "echo", "time"].contains(&command.name)
}

/// The reply of a command that would wait: nobody waits in a transaction.
fn no_element(command: &Command) -> Reply {
    match command.name {
        "blmove" | "brpoplpush" => Reply::Null,
        _ => Reply::NullArray,
    }
}

impl Connection {
    pub(super) async fn exec(&mut self) -> Reply {
        let Some(queue) = self.session.queue.take() else {
            return error("ERR EXEC without MULTI");
        };
        let failed = self.session.queue_failed;
        let mut commands = queue.iter().map(|it| it.command);
        // The role may have changed since.
        let refused = commands.find_map(|it| self.session.server.allow_by_role(it).err());
        let reply = match (refused, self.place(&queue)) {
            _ if failed => error("EXECABORT Transaction discarded because of previous errors."),
            (Some(Reply::Error(text)), _) => error(format!(
                "EXECABORT Transaction discarded because of: {text}"
            )),
            (Some(refused), _) => refused,
            (None, Err(text)) => error(text),
            (None, Ok(())) => self.run_queue(&queue).await,
        };
        self.session.discard();
        reply
    }

    /// Checks that all keys of a transaction are of one slot that is here, if there are slots.
    fn place(&self, queue: &[Queued]) -> Result<(), String> {
        let Some(cluster) = &self.session.server.cluster else {
            return Ok(());
        };
        let args: Vec<Vec<&[u8]>> = queue
            .iter()
            .map(|it| it.args.iter().map(Vec::as_slice).collect())
            .collect();
        let keys = queue.iter().zip(&args);
        let keys: Vec<&[u8]> = keys
            .flat_map(|(it, args)| it.command.keys.of(args))
            .collect();
        let reads = queue.iter().all(|it| !it.command.has(WRITE));
        cluster.check_keys(self.session.access, reads, &keys)
    }

    /// Runs a transaction if what it depends on is unchanged.
    async fn run_queue(&mut self, queue: &[Queued]) -> Reply {
        let server = self.session.server.clone();
        let client = self.session.client.clone();
        let expiring: Vec<u64> = self.session.watched.values().copied().collect();
        let is_unchanged = || {
            let now = server.now();
            let expired = expiring.iter().any(|at| *at > 0 && *at <= now);
            !client.is_dirty.load(Ordering::Acquire) && !expired
        };
        let is_divided = queue.len() > 1 && queue.iter().any(|it| divides(it.command));
        if is_divided {
            self.exclude().await;
        }
        let ran = match is_unchanged() {
            false => Err(Reply::NullArray),
            // Nobody else can change it now, and the transaction itself may.
            true if is_divided => self.run_parts(queue, &|| true).await,
            true => self.run_parts(queue, &is_unchanged).await,
        };
        self.include().await;
        match ran {
            Ok((replies, wrote)) => match server.make_durable(wrote).await {
                Ok(()) => Reply::Array(replies),
                Err(reply) => reply,
            },
            Err(reply) => reply,
        }
    }

    /// Runs the parts of a transaction. Returns the replies, and true if it wrote.
    async fn run_parts(
        &mut self,
        queue: &[Queued],
        condition: Condition<'_>,
    ) -> Result<(Vec<Reply>, bool), Reply> {
        let args: Vec<Vec<&[u8]>> = queue
            .iter()
            .map(|it| it.args.iter().map(Vec::as_slice).collect())
            .collect();
        let (mut replies, mut wrote) = (Vec::with_capacity(queue.len()), false);
        while replies.len() < queue.len() {
            let begin = replies.len();
            let part = queue[begin..].iter();
            let end = begin + part.take_while(|it| !divides(it.command)).count();
            let part = (&queue[begin..end], &args[begin..end]);
            wrote |= self.run_part(part, condition, &mut replies).await?;
            if let Some(queued) = queue.get(end) {
                replies.push(self.run_divider(queued.command, &args[end]).await);
            }
        }
        Ok((replies, wrote))
    }

    /// Runs neighbouring commands of data as one commit. Returns true if something was written.
    async fn run_part(
        &mut self,
        (queue, args): (&[Queued], &[Vec<&[u8]>]),
        condition: Condition<'_>,
        replies: &mut Vec<Reply>,
    ) -> Result<bool, Reply> {
        let (calls, refused) = self.allowed(queue, args);
        let watched: Vec<_> = self.session.watched.keys().cloned().collect();
        let caller = Caller {
            atomic: Some(condition),
            watched: &watched,
            replied: replies.iter().map(Reply::element_bytes).sum(),
            ..self.caller()
        };
        let outcome = self.session.server.run(caller, &calls).await;
        if outcome.refused {
            return Err(Reply::NullArray);
        }
        self.session.has_written |= outcome.wrote;
        self.session.select(outcome.db);
        self.announce(outcome.effects).await;
        let mut of_data = outcome.replies.into_iter();
        for ((queued, args), refused) in queue.iter().zip(args).zip(refused) {
            replies.push(match (refused, &queued.command.run) {
                (Some(refused), _) => refused,
                (None, Run::Session(run)) => run(&mut self.session, args),
                _ => match of_data.next() {
                    Some(Reply::Wait) => no_element(queued.command),
                    reply => reply.unwrap_or(Reply::Null),
                },
            });
        }
        Ok(outcome.wrote)
    }

    /// The commands of data of a part that the user may run now, and the errors in the places of
    /// those that the user may not: the rules may have changed since, and the role.
    fn allowed<'a>(
        &self,
        queue: &[Queued],
        args: &'a [Vec<&'a [u8]>],
    ) -> (Vec<Call<'a>>, Vec<Option<Reply>>) {
        let (mut calls, mut refused) = (Vec::new(), Vec::new());
        for (queued, args) in queue.iter().zip(args) {
            let command = queued.command;
            let allowed = self.allow_queued(command, args);
            if command.is_data() && allowed.is_ok() {
                calls.push(Call { command, args });
            }
            refused.push(allowed.err());
        }
        (calls, refused)
    }

    fn allow_queued(&self, command: &Command, args: Args<'_>) -> Result<(), Reply> {
        if command.has(NO_AUTH) {
            return Ok(());
        }
        self.session.allow(command, args, "multi")?;
        self.session.server.allow_by_role(command)
    }

    /// Runs a command that is not about data.
    async fn run_divider(&mut self, command: &Command, args: Args<'_>) -> Reply {
        if let Err(refused) = self.allow_queued(command, args) {
            return refused;
        }
        match command.run {
            Run::Session(run) => run(&mut self.session, args),
            Run::Connection(special) => {
                // These wait for others, or end what others do.
                if let Special::Save
                | Special::Shutdown
                | Special::Debug
                | Special::ReplicaOf
                | Special::Failover = special
                {
                    self.include().await;
                }
                Box::pin(self.run_special(special, args)).await
            }
            _ => {
                let (name, summary) = (command.name, command.summary);
                error(format!("ERR the command '{name}' is refused: {summary}"))
            }
        }
    }

    /// Excludes all others from the data.
    async fn exclude(&mut self) {
        let server = self.session.server.clone();
        while self.excluding.is_none() {
            let excluding = server.alone(false, |_| server.exclusion.begin()).await;
            self.excluding = excluding.map(|it| Box::new((it, Effects::default())));
        }
    }

    /// Lets others at the data again, and tells them of the changes.
    async fn include(&mut self) {
        if let Some(both) = self.excluding.take() {
            let (excluding, effects) = *both;
            drop(excluding);
            self.session.server.announce(effects).await;
        }
    }

    /// Tells others of changes: now, or when they are not excluded any more.
    pub(super) async fn announce(&mut self, effects: Effects) {
        match &mut self.excluding {
            Some(both) => both.1.append(effects),
            None => self.session.server.announce(effects).await,
        }
    }
}
