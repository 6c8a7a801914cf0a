//! The one loop of a node. It moves bytes and time between the pump and the runtime, in a fixed order: time,
//! links and what entities report, commands, messages of this node's callers, messages of peers; each at most
//! a bounded batch per turn, then one write per link. It decides nothing, and no user code runs on it: it and
//! the links have a runtime of their own, entities run on the users'. Spec: `ARCHITECTURE.md`.

mod causes;
mod hands;
mod link;
mod runner;

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_channel::Receiver;
use quorate_core::event::Event;
use quorate_core::membership::member::Status;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::time::Instant;
use quorate_core::view::View;
use quorate_links::limits::SLOW_PEER_PATIENCE;
use quorate_links::{LinkInput, LinkOrder};

use runner::Runner;

use crate::commands::ControlCommand;
use crate::error::Termination;
use crate::events::ClusterEvent;
use crate::listeners::Listener;
use crate::pump::{LoopAction, Pump};
use crate::runtime::Runtime;
use crate::shared::{Commands, Shared};
use crate::sync::yield_now;
use crate::transport::{Accepted, Transport};
use hands::{LoopHands, source};
use link::LinkInputs;

/// Messages of this node's callers, and frames of peers' user links, in one turn: about half a millisecond
/// together, so that a heartbeat never waits longer than that for its turn.
const MESSAGES_PER_TURN: usize = 256;

/// Other commands in one turn.
const COMMANDS_PER_TURN: usize = 64;

/// Links that peers opened and the loop has not looked at. The rest waits in the kernel's backlog.
const KNOCKS_WAITING_MAX: usize = 16;

/// How long a node that has finished may take to write what it still has to say, and its entities to end.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// How long links that were cut may take to let go of their sockets: one look at each task.
const CUT_TIMEOUT: Duration = Duration::from_secs(1);

/// Where a node runs, and where what users wrote does.
pub(crate) struct Runtimes<R> {
    pub(crate) node: R,
    pub(crate) users: R,
}

/// The ways out and in.
pub(crate) struct Network<T: Transport> {
    pub(crate) transport: T,
    pub(crate) listener: T::Listener,
}

/// Runs a node until it has ended.
pub(crate) fn start<R: Runtime, T: Transport>(
    Runtimes { node: runtime, users }: Runtimes<R>,
    Network { transport, listener }: Network<T>,
    pump: Pump,
    shared: Arc<Shared>,
    commands: Commands,
) {
    let wake = Arc::clone(&shared.wake);
    let inputs = Arc::new(LinkInputs::new(&runtime, Arc::clone(&wake)));
    let (knocks_in, knocks) = async_channel::bounded(KNOCKS_WAITING_MAX);
    let hands = LoopHands::new(
        runtime.clone(),
        users,
        transport,
        Arc::clone(&inputs),
        Arc::clone(&wake),
    );
    hands.listen(listener, knocks_in, wake);
    let runner = Runner {
        runtime: runtime.clone(),
        shared: Arc::clone(&shared),
        ended: commands.ended.clone(),
    };
    runtime.spawn(runner.run());
    let node = Loop {
        runtime: runtime.clone(),
        pump,
        hands,
        shared,
        commands,
        inputs,
        knocks,
        batch: VecDeque::new(),
        finishing: Vec::new(),
        sleep: None,
        shown: None,
        status: Status::Removed,
        ended: None,
    };
    runtime.spawn(node.run());
}

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Loop<R, T: Transport> {
    runtime: R,
    pump: Pump,
    hands: LoopHands<R, T>,
    shared: Arc<Shared>,
    commands: Commands,
    inputs: Arc<LinkInputs>,
    knocks: Receiver<Accepted<T::Reader, T::Writer>>,
    /// Kept between turns for its memory.
    batch: VecDeque<LinkInput>,
    /// Links that write their last bytes.
    finishing: Vec<std::sync::Weak<link::LinkControl>>,
    /// Kept between waits: most of them are for the same deadline.
    sleep: Option<(Instant, Sleep)>,
    /// What users see: the picture, and whether the node is able to work.
    shown: Option<(Arc<View>, bool)>,
    /// This node's own, as it was told last.
    status: Status,
    ended: Option<Termination>,
}

/// The next of a channel that is empty most of the time: to find that out by taking from it costs a fence.
fn taken<T>(channel: &Receiver<T>) -> Option<T> {
    if channel.is_empty() {
        return None;
    }
    channel.try_recv().ok()
}

/// Whatever ends the loop, whoever waits for its end hears of it.
impl<R, T: Transport> Drop for Loop<R, T> {
    fn drop(&mut self) {
        let life = &self.shared.life;
        if life.termination().is_none() {
            life.cut();
            life.has_closed(Termination::Stopped);
        }
    }
}

impl<R: Runtime, T: Transport> Loop<R, T> {
    async fn run(mut self) {
        loop {
            let more = self.turn();
            if self.ended.is_some() {
                break;
            }
            if more {
                self.pause().await;
            } else {
                self.wait().await;
            }
        }
        self.shut_down().await;
    }

    /// One turn; says whether there is more to do at once.
    fn turn(&mut self) -> bool {
        self.pump.set_time(self.runtime.now());
        self.pump.tick();
        self.take_links();
        self.pump.take_leases();
        self.pump.take_stored();
        self.pump.take_load();
        self.pump.take_reports();
        self.take_commands();
        self.take_log_commands();
        self.take_data_commands();
        let mut more = self.take_messages();
        self.pump.read_users(MESSAGES_PER_TURN);
        self.pump.flush();
        self.act();
        more |= self.pump.has_work() || !self.knocks.is_empty() || !self.commands.control.is_empty();
        more |= !self.commands.data.is_empty() || !self.commands.data_later.is_empty();
        more |= !self.commands.logs.is_empty();
        more
    }

    fn take_links(&mut self) {
        for _ in 0..KNOCKS_WAITING_MAX {
            let Some(knock) = taken(&self.knocks) else {
                break;
            };
            if let Some(link) = self.pump.accepted(source(&knock.remote)) {
                self.hands.adopt(link, knock);
            }
        }
        if self.inputs.take_accept_failed() {
            self.pump.short_of_sockets();
        }
        if let Some((count, reason)) = self.inputs.take_turned_away() {
            self.pump.turned_away(count, reason);
        }
        let mut batch = std::mem::take(&mut self.batch);
        self.inputs.take(&mut batch);
        for input in batch.drain(..) {
            self.pump.link(input);
        }
        self.batch = batch;
    }

    fn take_commands(&mut self) {
        for _ in 0..COMMANDS_PER_TURN {
            match taken(&self.commands.control) {
                Some(ControlCommand::Stop) => {
                    self.ended.get_or_insert(Termination::Stopped);
                }
                Some(command) => {
                    self.pump.handshakes_below(self.hands.handshakes());
                    self.pump.control(command);
                }
                None => break,
            }
        }
        if self.commands.control.is_closed() {
            self.ended.get_or_insert(Termination::Stopped);
        }
    }

    /// What is for logs: never held up either, because handlers wait for it.
    fn take_log_commands(&mut self) {
        for _ in 0..MESSAGES_PER_TURN {
            let Some(command) = taken(&self.commands.logs) else {
                return;
            };
            self.pump.journal(command);
        }
    }

    /// Operations on replicated data: never held up by full mailboxes, whose handlers may be waiting for
    /// them.
    fn take_data_commands(&mut self) {
        let (later, data) = (&self.commands.data_later, &self.commands.data);
        for _ in 0..MESSAGES_PER_TURN {
            let Some(command) = taken(later).or_else(|| taken(data)) else {
                return;
            };
            self.pump.data(command);
        }
    }

    /// Says whether there are more that may come in at once. Asks after each message whether the next one
    /// may: a batch of large ones is more than may wait for a link, and what is beyond that is refused.
    fn take_messages(&mut self) -> bool {
        if self.commands.user.is_empty() {
            return false;
        }
        for _ in 0..MESSAGES_PER_TURN {
            if !self.pump.takes_user_commands() {
                return false;
            }
            match self.commands.user.try_recv() {
                Ok(command) => self.pump.user(command),
                Err(_) => return false,
            }
        }
        self.pump.takes_user_commands() && !self.commands.user.is_empty()
    }

    fn act(&mut self) {
        self.show();
        while let Some(action) = self.pump.next_action() {
            match action {
                LoopAction::Link(order) => self.obey(order),
                LoopAction::Start(task) => self.hands.start(task),
                LoopAction::Answer(reply, answer) => reply.send(answer),
                LoopAction::Publish(event) => self.publish(event),
                LoopAction::Halt(reason) => {
                    let halted = Termination::Halted(reason);
                    self.shared.life.is_out(halted.clone());
                    self.ended = Some(halted);
                }
            }
        }
    }

    /// Tells an event to whom it concerns of those who share the node, and to all who listen.
    fn publish(&self, event: Event) {
        let Shared { life, full, hub, .. } = &*self.shared;
        match Listener::of(&event) {
            Listener::Up => life.is_up(),
            Listener::HandedOver(part) => life.has_handed_over(part),
            Listener::Buffer(kind, buffer) => full.note(kind, buffer),
            Listener::JoinFailed(reason) => hub.join_failed(reason),
            Listener::Streams(..)
            | Listener::Follower(..)
            | Listener::Audit(_)
            | Listener::Gate(_)
            | Listener::Removed
            | Listener::Nobody => {}
        }
        hub.publish(&ClusterEvent::Event(event));
    }

    /// Lets users see the picture, if it has changed.
    fn show(&mut self) {
        let (view, is_able) = (self.pump.view(), self.pump.is_able());
        let is_shown =
            |(shown, was_able): &(Arc<View>, bool)| Arc::ptr_eq(shown, view) && *was_able == is_able;
        if self.shown.as_ref().is_some_and(is_shown) {
            return;
        }
        self.shared.hub.set_view(view, is_able);
        let status = view.self_status();
        self.shown = Some((Arc::clone(view), is_able));
        if std::mem::replace(&mut self.status, status) != status {
            self.shared.life.see(status, self.pump.gave_up_place());
        }
    }

    /// What links want of the hands.
    fn obey(&mut self, order: LinkOrder) {
        match order {
            LinkOrder::Dial { link, to, kind } => self.hands.dial(link, to, kind),
            LinkOrder::Write { link, bytes } => {
                if let Some(control) = self.hands.control(link) {
                    control.write(bytes);
                }
            }
            LinkOrder::Resume { link, chunk } => {
                if let Some(control) = self.hands.control(link) {
                    control.resume(chunk);
                }
            }
            LinkOrder::Datagram { link, bytes } => {
                if let Some(max) = self.hands.send_datagram(link, &bytes) {
                    self.pump.datagram_unsent(link, &bytes, max);
                }
            }
            LinkOrder::Drain(link) => {
                if let Some(control) = self.hands.control(link) {
                    control.drain();
                }
            }
            LinkOrder::Finish(link) => {
                self.finishing.retain(|control| control.strong_count() > 0);
                let finishing = self.hands.finish(link);
                self.finishing
                    .extend(finishing.map(|control| Arc::downgrade(&control)));
            }
            LinkOrder::Abort(link) => self.hands.abort(link),
        }
    }

    /// Lets links and other tasks get on before the next turn.
    async fn pause(&mut self) {
        self.hands.poll_links(None);
        yield_now().await;
    }

    /// Waits for something to happen, or for the pump's deadline.
    async fn wait(&mut self) {
        let mut deadline = self.pump.deadline();
        if !self.commands.user.is_empty() {
            // Senders wait for a slow peer: look again when its time is over.
            let patience = self.runtime.now().mono + SLOW_PEER_PATIENCE;
            deadline = Some(deadline.map_or(patience, |at| at.min(patience)));
        }
        self.wait_until(deadline).await;
    }

    async fn wait_until(&mut self, deadline: Option<Instant>) {
        match (deadline, &self.sleep) {
            (None, _) => self.sleep = None,
            // An earlier deadline only costs a look.
            (Some(at), Some((armed, _))) if *armed <= at => {}
            (Some(at), _) => self.sleep = Some((at, Box::pin(self.runtime.sleep_until(at)))),
        }
        let (wake, sleep, hands) = (&self.shared.wake, &mut self.sleep, &mut self.hands);
        poll_fn(|cx| {
            // What is said from here on is looked for below.
            wake.disarm();
            hands.poll_links(Some(cx));
            if let Some((_, future)) = sleep
                && future.as_mut().poll(cx).is_ready()
            {
                *sleep = None;
                return Poll::Ready(());
            }
            wake.poll(cx)
        })
        .await;
    }

    /// Writes the last bytes, closes everything, ends the entities, and says how it ended. Each step has a
    /// time limit.
    async fn shut_down(mut self) {
        self.pump.stop();
        self.act();
        self.commands.user.close();
        self.commands.control.close();
        while let Ok(command) = self.commands.user.try_recv() {
            command.refuse(AskFailure::NodeStoppedUnsent);
        }
        self.commands.data.close();
        self.commands.data_later.close();
        self.commands.logs.close();
        while self.commands.logs.try_recv().is_ok() {}
        while self.commands.data.try_recv().is_ok() {}
        while let Ok(command) = self.commands.data_later.try_recv() {
            // Whoever listens learns that nothing comes any more.
            self.pump.data(command);
        }
        self.pump.end_subscriptions();
        while self.commands.control.try_recv().is_ok() {}
        self.knocks.close();
        while self.knocks.try_recv().is_ok() {}
        self.hands.stop_accepting();
        let now = self.runtime.now().mono;
        self.wait_for_tasks(now + FLUSH_TIMEOUT).await;
        for control in self.finishing.drain(..) {
            if let Some(control) = control.upgrade() {
                control.abort();
            }
        }
        let now = self.runtime.now().mono;
        self.wait_for_tasks(now + CUT_TIMEOUT).await;
        let termination = self.ended.take().unwrap_or(Termination::Stopped);
        tracing::info!(
            target: "cluster::membership", event = "terminated", me = %self.shared.me, how = ?termination
        );
        self.shared.hub.set_view(self.pump.view(), false);
        self.shared.life.has_closed(termination);
    }

    async fn wait_for_tasks(&mut self, deadline: Instant) {
        loop {
            self.batch.clear();
            let mut batch = std::mem::take(&mut self.batch);
            self.inputs.take(&mut batch);
            self.batch = batch;
            let entities_ended = self.pump.forget_ended_entities();
            let is_quiet = self.hands.are_idle() && self.pump.has_let_go();
            if (is_quiet && entities_ended) || self.runtime.now().mono >= deadline {
                return;
            }
            self.wait_until(Some(deadline)).await;
        }
    }
}
