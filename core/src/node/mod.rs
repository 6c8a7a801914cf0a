//! The facade a host owns: one input in, effects out. Composition only: which machine hears what is the
//! router's, what they decide is theirs. Spec: `ARCHITECTURE.md`.

use alloc::string::String;
use alloc::sync::Arc;

use rand_core::Rng;

use crate::admission;
use crate::buffered::BufferingMachine;
use crate::config::{DowningStrategy, ValidConfig};
use crate::cx::NodeBase;
use crate::ddata::Replicator;
use crate::detector::heartbeats::Detector;
use crate::downing::resolver::Resolver;
use crate::effect::{Answer, CommandError, Effect, HaltReason, Output, Wake};
use crate::event::{DowningReport, Event, MembershipEvent};
use crate::explain::{self, Explanation};
use crate::ident::UniqueAddress;
use crate::input::{Caller, Command, HostReport, Input, LinkEvent, MessageCommand};
use crate::journal::Journals;
use crate::kv::KeyedStore;
use crate::load::Load;
use crate::load::state::sample::Loads;
use crate::membership::machine::Membership;
use crate::oldest::Oldest;
use crate::paths::Paths;
use crate::sharding::Sharding;
use crate::sharding::state::errors::AskFailure;
use crate::singleton::Singletons;
use crate::stats::Stats;
use crate::time::{Instant, Now};
use crate::view::View;

pub use crate::buffered::BufferedLoad;

/// Statements and messages to itself that one input may cause. Every machine bounds its own; the sum is
/// checked here, so that a loop between machines is a bug that shows and not a node that hangs.
const STEPS_MAX: usize = 100_000;

/// One cluster node without its host.
///
/// *Commands and inputs*: [`Node::handle`]. *Outputs*: [`Node::poll`], until it yields [`Output::Sleep`].
/// *Getters*: [`Node::view`], [`Node::stats`], [`Node::sharding`], [`Node::buffered`].
///
/// A clone behaves exactly like the original.
#[derive(Clone, Debug)]
pub struct Node<R> {
    pub(crate) machines: NodeMachines,
    pub(crate) base: NodeBase<R>,
    halted: bool,
    last_words: Option<LastWords>,
}

/// What a node that has ended says when its other effects are done. In between its host gives back what was
/// not sent: whoever asked may ask that again elsewhere.
#[derive(Clone, Copy, Debug)]
enum LastWords {
    /// To whoever still waits for an answer.
    Answers,
    /// The same, and to the host that it is over.
    AnswersAndHalt(HaltReason),
}

/// The machines. None of them knows another.
#[derive(Clone, Debug)]
pub(crate) struct NodeMachines {
    pub(crate) membership: Membership,
    pub(crate) detector: Detector,
    pub(crate) resolver: Resolver,
    pub(crate) oldest: Oldest,
    pub(crate) sharding: Sharding,
    pub(crate) ddata: Replicator,
    pub(crate) singletons: Singletons,
    pub(crate) journals: Journals,
    pub(crate) load: Load,
    pub(crate) paths: Paths,
    pub(crate) kv: KeyedStore,
}

impl NodeMachines {
    /// What they hold together.
    fn buffered(&self) -> BufferedLoad {
        self.shares().into_iter().map(|(_, share)| share).sum()
    }

    /// What each of them holds. All are named here, or it does not compile.
    fn shares(&self) -> [(&'static str, BufferedLoad); 7] {
        let Self {
            membership,
            detector,
            resolver,
            oldest: Oldest,
            sharding,
            ddata,
            singletons,
            // What is asked of a replica is asked again: no link waits for it.
            journals: _,
            // What others say of their load is told again.
            load: _,
            paths,
            // What an owner is asked is asked again, and calls have a bound of their own.
            kv: _,
        } = self;
        [
            ("membership", membership.buffered()),
            ("detector", detector.buffered()),
            ("resolver", resolver.buffered()),
            ("sharding", sharding.buffered()),
            ("ddata", ddata.buffered()),
            ("singletons", singletons.buffered()),
            ("paths", paths.buffered()),
        ]
    }
}

/// A rule that a machine's state breaks: always a bug of this crate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{machine}: {what}")]
pub struct InvariantViolation {
    /// Which machine.
    pub machine: &'static str,
    /// What does not hold.
    pub what: String,
}

impl<R: Rng> Node<R> {
    /// A node that has not joined anything. `rng` must be seeded from entropy by a real host, and `me` must
    /// carry a uid that no earlier incarnation of the address had.
    #[must_use]
    pub fn new(config: ValidConfig, me: UniqueAddress, rng: R, now: Now) -> Self {
        let machines = NodeMachines {
            membership: Membership::new(),
            detector: Detector::new(&config),
            resolver: Resolver::new(&config),
            oldest: Oldest,
            sharding: Sharding::new(),
            ddata: Replicator::new(&me),
            singletons: Singletons::default(),
            journals: Journals::default(),
            load: Load::default(),
            paths: Paths::default(),
            kv: KeyedStore::default(),
        };
        let base = NodeBase::idle(config, me, rng, now);
        Self {
            machines,
            base,
            halted: false,
            last_words: None,
        }
    }

    /// Takes one input and runs it to completion. Work is bounded by the input's size and the configured
    /// limits. A clock that goes backwards counts as standing still.
    pub fn handle(&mut self, now: Now, input: Input<'_>) {
        let mono = now.mono.max(self.base.now.mono);
        self.base.now = Now { mono, ..now };
        if self.halted {
            return self.hear_after_the_end(input);
        }
        // Before anything is concluded from what this process knew before it stood still.
        if self.machines.detector.notice_pause(&mut self.base.cx()) {
            self.route_until_quiet();
        }
        match input {
            Input::Tick => self.fire_due_timers(mono),
            Input::Frame {
                from,
                proof,
                lane,
                kind,
                body,
            } => self.route_frame(from, proof, lane, kind, body),
            Input::Message { from, message } => self.route_whole(from, message),
            Input::Link(event) => self.route_link(event),
            Input::Command { token, command } => self.route_command(Caller::Host(token), command),
            Input::Tell { to, payload } => self.route_tell(to, payload),
            Input::Lease(owner, report) => self.route_lease(owner, &report),
            Input::Stored(owner, report) => self.route_stored(owner, report),
            Input::Host(owner, report) => self.route_report(owner, report),
            Input::Load(measure) => self.machines.load.on_measured(&mut self.base.cx(), &measure),
        }
        self.route_until_quiet();
    }

    /// The host goes away, without a word to others. Afterwards the node is halted, and takes back what was
    /// not sent ([`LinkEvent::Dropped`]) or not begun with ([`HostReport::Answered`]) until it is polled:
    /// then whoever still waits for an answer hears how far its message came. Linear in what it holds.
    pub fn stop(&mut self, now: Now) {
        if self.halted {
            return;
        }
        let mono = now.mono.max(self.base.now.mono);
        self.base.now = Now { mono, ..now };
        self.machines.sharding.halt(&mut self.base.cx());
        self.machines.singletons.halt(&mut self.base.cx());
        self.machines.paths.halt(&mut self.base.cx());
        self.machines.journals.halt(&mut self.base.cx());
        self.machines.kv.halt(&mut self.base.cx());
        self.halted = true;
        self.last_words = Some(LastWords::Answers);
        self.base.timers.clear();
    }

    /// The next thing to do, or until when to sleep. Constant time, but for the answers to asks that are open
    /// at the node's end.
    #[inline]
    pub fn poll(&mut self) -> Output {
        if self.base.outbox.effects.is_empty()
            && let Some(last) = self.last_words.take()
        {
            self.speak_last(last);
        }
        if let Some(effect) = self.base.outbox.effects.pop_front() {
            return Output::Effect(effect);
        }
        self.base.outbox.give_room_back();
        let wake = self
            .base
            .timers
            .next()
            .map(|(at, why)| Wake { at, why: why.clone() });
        Output::Sleep(wake)
    }

    /// The picture of the cluster; cheap to keep, never changes.
    #[must_use]
    pub const fn view(&self) -> &Arc<View> {
        &self.base.view
    }

    /// Counters.
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        &self.base.stats
    }

    /// Who this node is.
    #[must_use]
    pub const fn me(&self) -> &UniqueAddress {
        &self.base.me
    }

    /// The configuration it was made with.
    #[must_use]
    pub const fn config(&self) -> &ValidConfig {
        &self.base.config
    }

    /// Regions and coordinators, to look at.
    #[must_use]
    pub const fn sharding(&self) -> &Sharding {
        &self.machines.sharding
    }

    /// Singletons, to look at.
    #[must_use]
    pub const fn singletons(&self) -> &Singletons {
        &self.machines.singletons
    }

    /// Paths, to look at.
    #[must_use]
    pub const fn paths(&self) -> &Paths {
        &self.machines.paths
    }

    /// The keyed store, to look at.
    #[must_use]
    pub const fn kv(&self) -> &KeyedStore {
        &self.machines.kv
    }

    /// Quorum logs, to look at.
    #[must_use]
    pub const fn journals(&self) -> &Journals {
        &self.machines.journals
    }

    /// Replicated data, to look at.
    #[must_use]
    pub const fn ddata(&self) -> &Replicator {
        &self.machines.ddata
    }

    /// What is known of the load of the members that are reachable, this node included; cheap to keep,
    /// replaced once a round.
    #[must_use]
    pub const fn loads(&self) -> &Arc<Loads> {
        &self.base.loads
    }

    /// What the split-brain resolver would decide now, and what it waits for; `None` while nobody is
    /// unreachable. Linear in the state.
    #[must_use]
    pub fn explain_downing(&self) -> Option<DowningReport> {
        let base = &self.base;
        self.machines
            .resolver
            .explain(&base.config, base.now.mono, &base.view)
    }

    /// Why the cluster has not converged, as this node sees it: who keeps the leader from acting, who
    /// observes whom unreachable, what each member on its way in or out waits for, and what the resolver
    /// would decide. For people; show it as text. Linear in the state.
    #[must_use]
    pub fn explain(&self) -> Explanation {
        let config = &self.base.config;
        let has_strategy = !matches!(config.downing.strategy, DowningStrategy::Off);
        let confirmed = &self.machines.membership.exiting_confirmed;
        let downing = self.explain_downing();
        let mut explanation = explain::explain(
            &self.base.view,
            confirmed,
            &config.membership,
            has_strategy,
            downing,
        );
        let kinds = self.machines.sharding.may_run_twice();
        let singletons = self.machines.singletons.may_run_twice();
        explanation
            .findings
            .extend(explain::may_run_twice(kinds, singletons));
        let slots = self.machines.paths.explain().into_iter();
        explanation.findings.extend(slots.map(explain::Finding::PathSlot));
        explanation
    }

    /// What its machines hold of messages to entities that cannot be passed on yet, all kinds together.
    /// Linear in the kinds.
    #[must_use]
    pub fn buffered(&self) -> BufferedLoad {
        self.machines.buffered()
    }

    /// Whether a frame of this kind is decoded for this sender: everything of members, of others what a join
    /// needs. A host asks before it gives room to a large frame. The user link of a node that this one has
    /// not heard of yet (`view().member(..)` is `None`) waits unread.
    #[must_use]
    pub fn hears(&self, from: &UniqueAddress, kind: u16) -> bool {
        admission::is_heard(kind, self.machines.membership.standing(from))
    }

    /// Whether the node is finished; only refusals come out of it.
    #[must_use]
    pub const fn is_halted(&self) -> bool {
        self.halted
    }

    /// Checks every machine's rules. Linear in the state; tests, the simulator and fuzzing call it after each
    /// input.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn check_invariants(&self) -> Result<(), InvariantViolation> {
        let fault = |machine: &'static str| move |what: String| InvariantViolation { machine, what };
        let machines = &self.machines;
        let membership = machines.membership.check_invariants(&self.base.me);
        membership.map_err(|error| fault("membership")(alloc::format!("{error}")))?;
        machines.detector.check_invariants(&self.base.view);
        machines.resolver.check_invariants(&self.base.view);
        let sharding = machines.sharding.check_invariants(&self.base.me);
        sharding.map_err(fault("sharding"))?;
        let ddata = machines.ddata.check_invariants(self.base.config.ddata.keys_max);
        ddata.map_err(fault("ddata"))?;
        let singletons = machines.singletons.check_invariants();
        singletons.map_err(fault("singletons"))?;
        machines.paths.check_invariants().map_err(fault("paths"))?;
        machines.journals.check_invariants().map_err(fault("journals"))?;
        machines.kv.check_invariants().map_err(fault("kv"))?;
        let load = machines.load.check_invariants(&self.base.view);
        load.map_err(|what| fault("load")(String::from(what)))
    }

    fn fire_due_timers(&mut self, now: Instant) {
        // A timer set by a handler of this very tick is at least one microsecond away, so this ends.
        while let Some(timer) = self.base.timers.pop_due(now) {
            self.route_timer(timer);
            self.route_until_quiet();
            if self.halted {
                return;
            }
        }
    }

    /// Delivers statements and messages to myself until there are none, then ends the node if it is finished.
    fn route_until_quiet(&mut self) {
        for _ in 0..STEPS_MAX {
            if !self.route_next() {
                return self.finish();
            }
        }
        debug_assert!(false, "machines talk in a circle");
    }

    fn finish(&mut self) {
        let Some(reason) = self.machines.membership.take_halt() else {
            return;
        };
        self.machines.journals.halt(&mut self.base.cx());
        self.machines.kv.halt(&mut self.base.cx());
        self.halted = true;
        self.last_words = Some(LastWords::AnswersAndHalt(reason));
        self.base.timers.clear();
        let effects = &mut self.base.outbox.effects;
        effects.push_back(Effect::Notify(Event::Membership(MembershipEvent::SelfRemoved)));
    }

    fn speak_last(&mut self, last: LastWords) {
        self.machines.sharding.answer_the_rest(&mut self.base.cx());
        self.machines.singletons.answer_the_rest(&mut self.base.cx());
        self.machines.paths.answer_the_rest(&mut self.base.cx());
        match last {
            LastWords::Answers => {}
            LastWords::AnswersAndHalt(reason) => self.base.outbox.effects.push_back(Effect::Halt(reason)),
        }
    }

    /// Between its end and its last words the node hears what the host gives back, and at any time what has
    /// ended. Everything else is refused.
    fn hear_after_the_end(&mut self, input: Input<'_>) {
        let said = self.base.outbox.effects.len();
        match input {
            Input::Host(owner, report @ HostReport::Stopped { .. }) => {
                self.route_report(owner, report);
                return self.say_to_keepers_alone(said);
            }
            Input::Link(event @ LinkEvent::Dropped { .. }) if self.last_words.is_some() => {
                self.route_link(event)
            }
            Input::Host(owner, report @ HostReport::Answered { .. }) if self.last_words.is_some() => {
                self.route_report(owner, report);
            }
            Input::Tick
            | Input::Frame { .. }
            | Input::Message { .. }
            | Input::Link(_)
            | Input::Command { .. }
            | Input::Tell { .. }
            | Input::Host(..)
            | Input::Lease(..)
            | Input::Stored(..)
            | Input::Load(_) => return self.refuse(input),
        }
        // Answers of entities here to callers here.
        let me = self.base.me.clone();
        while let Some(message) = self.base.outbox.loopback.pop_front() {
            self.route_message(&me, message);
        }
    }

    /// What a node says that has ended because something of it has: that leases are given back, behind the
    /// first `said` effects, and nothing to anybody else.
    fn say_to_keepers_alone(&mut self, said: usize) {
        let outbox = &mut self.base.outbox;
        let new = outbox.effects.split_off(said);
        let leases = new
            .into_iter()
            .filter(|effect| matches!(effect, Effect::Lease(..)));
        outbox.effects.extend(leases);
        outbox.loopback.clear();
        outbox.asked.clear();
        outbox.log_asked.clear();
        self.base.timers.clear();
    }

    fn refuse(&mut self, input: Input<'_>) {
        if let Input::Command { token, command } = input {
            let answer = match command {
                Command::Message(MessageCommand::Ask { .. }) => {
                    Answer::Asked(Err(AskFailure::NodeStoppedUnsent))
                }
                Command::Message(MessageCommand::Tell { .. })
                | Command::Membership(_)
                | Command::Singleton(_)
                | Command::Path(_)
                | Command::Sharding(_)
                | Command::Ddata(_)
                | Command::Journal(_)
                | Command::Kv(_) => Answer::Refused(CommandError::Stopped),
            };
            self.base
                .outbox
                .effects
                .push_back(Effect::Reply { token, answer });
        }
    }
}

#[cfg(test)]
mod tests;
