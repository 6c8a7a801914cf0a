//! The one loop of a node. It moves bytes and time between the pump and the runtime, in a fixed order: time,
//! links and what entities report, commands, messages of this node's callers, messages of peers; each at most
//! a bounded batch per turn, then one write per link. It decides nothing, and no user code runs on it: it and
//! the links have a runtime of their own, entities run on the users'. Spec: `ARCHITECTURE.md`.

mod causes;
mod ending;
mod hands;
mod link;
mod place;
#[cfg(test)]
mod place_tests;
mod runner;

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use async_channel::Receiver;
use quorate_core::event::Event;
use quorate_core::membership::member::Status;
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
use place::{PumpPlace, StandingPump};

/// Messages of this node's callers, and frames of peers' user links, in one turn: about half a millisecond
/// together, so that a heartbeat never waits longer than that for its turn.
const MESSAGES_PER_TURN: usize = 256;

/// Other commands in one turn.
const COMMANDS_PER_TURN: usize = 64;

/// How often a link is written to in one turn, if the system takes all of it: what waits has room then.
const WRITES_PER_TURN: usize = 2;

/// Links that peers opened and the loop has not looked at. The rest waits in the kernel's backlog.
const KNOCKS_WAITING_MAX: usize = 16;

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
    let shortcut = pump.shortcut();
    let standing = StandingPump::new(pump, commands.user.clone(), hands.links());
    let clock = runtime.clone();
    let place = PumpPlace::new(standing, Arc::clone(&shared.wake), move || clock.now());
    let place = Arc::new(place);
    shared.shortcut.open(Arc::clone(&place) as _);
    shortcut.open(Arc::clone(&place) as _);
    let node = Loop {
        runtime: runtime.clone(),
        place,
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

/// When the loop takes its next turn.
enum NextTurn {
    AtOnce,
    /// When something happens, or then.
    Until(Option<Instant>),
}

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Loop<R, T: Transport> {
    runtime: R,
    place: Arc<PumpPlace>,
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
        // What it holds leads back to the place.
        drop(self.place.take());
        let life = &self.shared.life;
        if life.termination().is_none() {
            life.cut();
            life.has_closed(Termination::Stopped);
        }
    }
}

impl<R: Runtime, T: Transport> Loop<R, T> {
    async fn run(mut self) {
        while let Some(next) = self.next_turn() {
            match next {
                NextTurn::AtOnce => self.pause().await,
                NextTurn::Until(deadline) => self.wait_until(deadline).await,
            }
        }
        // Whoever panicked with the pump has left nothing that could say good-bye.
        if !self.place.is_broken()
            && let Some(standing) = self.place.take()
        {
            self.shut_down(standing).await;
        }
    }

    /// One turn; says when the next one is. `None`: this was the last.
    fn next_turn(&mut self) -> Option<NextTurn> {
        let place = Arc::clone(&self.place);
        let mut turn = place.turn();
        let standing = turn.as_mut().filter(|_| !place.is_broken())?;
        let more = self.turn(standing);
        standing.until = if more { None } else { self.deadline(&standing.pump) };
        let next = if more {
            NextTurn::AtOnce
        } else {
            NextTurn::Until(standing.until)
        };
        let woken = standing.pump.take_woken();
        drop(turn);
        // Who looks now finds the pump free.
        woken.wake();
        self.ended.is_none().then_some(next)
    }

    /// Says whether there is more to do at once.
    fn turn(&mut self, standing: &mut StandingPump) -> bool {
        let pump = &mut standing.pump;
        pump.set_time(self.runtime.now());
        pump.tick();
        self.take_links(pump);
        pump.take_leases();
        pump.take_stored();
        pump.take_load();
        let mut messages = pump.take_reports();
        self.take_commands(pump);
        self.take_log_commands(pump);
        self.take_data_commands(pump);
        messages += self.take_messages(pump);
        messages += pump.read_users(MESSAGES_PER_TURN);
        pump.flush();
        pump.turned(messages);
        let pump = &mut standing.pump;
        let mut more = pump.takes_user_commands() && !self.commands.user.is_empty();
        more |= self.act(standing);
        more |= standing.pump.has_work() || !self.knocks.is_empty() || !self.commands.control.is_empty();
        more |= !self.commands.data.is_empty() || !self.commands.data_later.is_empty();
        more |= !self.commands.logs.is_empty();
        more
    }

    fn take_links(&mut self, pump: &mut Pump) {
        for _ in 0..KNOCKS_WAITING_MAX {
            let Some(knock) = taken(&self.knocks) else {
                break;
            };
            if let Some(link) = pump.accepted(source(&knock.remote)) {
                self.hands.adopt(link, knock);
            }
        }
        if self.inputs.take_accept_failed() {
            pump.short_of_sockets();
        }
        if let Some((count, reason)) = self.inputs.take_turned_away() {
            pump.turned_away(count, reason);
        }
        let mut batch = std::mem::take(&mut self.batch);
        self.inputs.take(&mut batch);
        for input in batch.drain(..) {
            pump.link(input);
        }
        self.batch = batch;
    }

    fn take_commands(&mut self, pump: &mut Pump) {
        for _ in 0..COMMANDS_PER_TURN {
            match taken(&self.commands.control) {
                Some(ControlCommand::Stop) => {
                    self.ended.get_or_insert(Termination::Stopped);
                }
                Some(command) => {
                    pump.handshakes_below(self.hands.handshakes());
                    pump.control(command);
                }
                None => break,
            }
        }
        if self.commands.control.is_closed() {
            self.ended.get_or_insert(Termination::Stopped);
        }
    }

    /// What is for logs: never held up either, because handlers wait for it.
    fn take_log_commands(&mut self, pump: &mut Pump) {
        for _ in 0..MESSAGES_PER_TURN {
            let Some(command) = taken(&self.commands.logs) else {
                return;
            };
            pump.journal(command);
        }
    }

    /// Operations on replicated data: never held up by full mailboxes, whose handlers may be waiting for
    /// them.
    fn take_data_commands(&mut self, pump: &mut Pump) {
        let (later, data) = (&self.commands.data_later, &self.commands.data);
        for _ in 0..MESSAGES_PER_TURN {
            let Some(command) = taken(later).or_else(|| taken(data)) else {
                return;
            };
            pump.data(command);
        }
    }

    /// Says how many there were. Asks after each message whether the next one may come in: a batch of large
    /// ones is more than may wait for a link, and what is beyond that is refused.
    fn take_messages(&mut self, pump: &mut Pump) -> usize {
        if self.commands.user.is_empty() {
            return 0;
        }
        for taken in 0..MESSAGES_PER_TURN {
            if !pump.takes_user_commands() {
                return taken;
            }
            match self.commands.user.try_recv() {
                Ok(command) => pump.user(command),
                Err(_) => return taken,
            }
        }
        MESSAGES_PER_TURN
    }

    /// Says whether there is more to write at once.
    fn act(&mut self, standing: &mut StandingPump) -> bool {
        self.show(standing);
        for _ in 0..WRITES_PER_TURN {
            if !self.perform(standing) {
                return false;
            }
            // What was written at once has made room for what waited.
            standing.pump.flush();
        }
        true
    }

    /// Does what the pump says, and whoever held it has left. Whether something was written at once.
    fn perform(&mut self, standing: &mut StandingPump) -> bool {
        let StandingPump { pump, later, .. } = standing;
        let mut has_written = false;
        while let Some(action) = later.pop_front().or_else(|| pump.next_action()) {
            match action {
                LoopAction::Link(order) => has_written |= self.obey(pump, order),
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
        has_written
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
    fn show(&mut self, standing: &mut StandingPump) {
        let pump = &standing.pump;
        let (view, is_able) = (pump.view(), pump.is_able());
        let is_shown =
            |(shown, was_able): &(Arc<View>, bool)| Arc::ptr_eq(shown, view) && *was_able == is_able;
        if self.shown.as_ref().is_some_and(is_shown) {
            return;
        }
        self.shared.hub.set_view(view, is_able);
        let status = view.self_status();
        self.shown = Some((Arc::clone(view), is_able));
        standing.shown = Some(Arc::clone(view));
        if std::mem::replace(&mut self.status, status) != status {
            self.shared.life.see(status, pump.gave_up_place());
        }
    }

    /// What links want of the hands. Whether something was written at once.
    fn obey(&mut self, pump: &mut Pump, order: LinkOrder) -> bool {
        match order {
            LinkOrder::Dial { link, to, kind } => self.hands.dial(link, to, kind),
            LinkOrder::Write { link, bytes } => {
                let control = self.hands.control(link);
                // After a batch the links' tasks write: the next turn begins later, and finds more.
                let at_once = pump.is_one_at_a_time();
                if let Some(buffer) = control.and_then(|control| control.write(bytes, at_once)) {
                    pump.link(LinkInput::Written(link, buffer));
                    return true;
                }
            }
            LinkOrder::Resume { link, chunk } => {
                if let Some(control) = self.hands.control(link) {
                    control.resume(chunk);
                }
            }
            LinkOrder::Datagram { link, bytes } => {
                if let Some(max) = self.hands.send_datagram(link, &bytes) {
                    pump.datagram_unsent(link, &bytes, max);
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
        false
    }

    /// Lets links and other tasks get on before the next turn.
    async fn pause(&mut self) {
        self.hands.poll_links(None);
        yield_now().await;
    }

    /// When there is something to do, if nothing happens.
    fn deadline(&self, pump: &Pump) -> Option<Instant> {
        let deadline = pump.deadline();
        if self.commands.user.is_empty() {
            return deadline;
        }
        // Senders wait for a slow peer: look again when its time is over.
        let patience = self.runtime.now().mono + SLOW_PEER_PATIENCE;
        Some(deadline.map_or(patience, |at| at.min(patience)))
    }

    /// Waits for something to happen, or for the deadline.
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
}
