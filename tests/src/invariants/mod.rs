//! What must hold across nodes, one file per invariant of the specification, checked after every step that
//! changed a picture, on public state and the history only. They never read a machine's inside. Spec:
//! reliability 2; the table is in tests/README.md.

mod i_01;
mod i_02;
mod i_03;
mod i_05;
mod i_06;
mod i_07;
mod i_08;
mod i_09;
mod i_10;
mod i_11;
mod i_12;
mod i_13;
mod i_14;
mod i_15;
pub mod i_19;
pub mod i_21;
pub mod i_22;
mod i_23;
mod i_24;
mod i_25;
mod i_26;
mod i_30;
mod i_31;
mod i_33;
pub(crate) mod i_34;
mod i_40;
mod i_41;
mod i_42;
mod i_43;
pub(crate) mod i_44;
mod i_45;
pub(crate) mod i_46;
mod i_48;
pub(crate) mod i_49;
mod i_50;
mod i_51;
mod i_52;
mod oracle;
mod removals;

use std::sync::Arc;

use quorate_core::effect::HostOrder;
use quorate_core::event::{DetectorEvent, DowningEvent, Event, ShardingEvent};
use quorate_core::ident::{Role, UniqueAddress};
use quorate_core::membership::gossip::Gossip;
use quorate_core::sharding::ids::{KindId, ShardId, Term};
use quorate_core::singleton::state::SingletonId;
use quorate_core::token::Token;
use quorate_core::view::{MembershipPhase, View};

pub use self::i_30::Voter;
pub(crate) use self::i_45::Holds;
pub(crate) use self::i_51::PathHandled;
use crate::lease::MemoryLeases;
use crate::sim::{History, ProcessId, digest};

/// What made a node take a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its deadline.
    Tick,
    /// A message from another process.
    Message {
        /// Which kind of message.
        name: &'static str,
        /// Whose.
        from: ProcessId,
    },
    /// A change of its links.
    Link,
    /// A command or a tell.
    Command,
    /// A report of its entities.
    Entity,
}

impl Cause {
    /// Whether the step took over a state that another node made.
    #[must_use]
    pub fn is_merge(&self) -> bool {
        matches!(self, Self::Message { name, .. } if matches!(*name, "Gossip" | "GossipDelta" | "Welcome"))
    }
}

/// One step of one node that changed its picture.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// When, in microseconds of virtual time.
    pub at: u64,
    /// Who.
    pub process: ProcessId,
    /// Why.
    pub cause: &'a Cause,
    /// The picture before.
    pub before: &'a View,
    /// The picture after.
    pub after: &'a View,
    /// Whether the run is within the safe shapes so far.
    pub safe: bool,
    /// What the process's own clock shows, in microseconds.
    pub mono: u64,
}

/// What a process said about the shards of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    /// Who said it.
    pub process: ProcessId,
    /// Of which kind.
    pub kind: KindId,
    /// What it said.
    pub event: &'a ShardingEvent,
}

/// A moment of one process, and the times it is set to, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// In virtual time.
    pub at: u64,
    /// What its own clock shows.
    pub mono: u64,
    /// How long a picture must be stable.
    pub stable_after: u64,
    /// How long unrest may last beyond that, if it may not last for ever.
    pub patience: Option<u64>,
    /// A side that stays may take longer (the cascade-safe rule).
    pub stays_patiently: bool,
    /// The same, also when members come and go.
    pub flaps_patiently: bool,
    /// What may pass between a decision that is due and its event: a tick of the resolver, and the lease's
    /// delays.
    pub slack: u64,
    /// The removal margin.
    pub margin: u64,
    /// Its picture.
    pub view: &'a View,
    /// The lease keeper.
    pub leases: &'a MemoryLeases,
}

/// An instance of a singleton is about to start.
#[derive(Clone, Debug)]
pub struct InstanceStart<'a> {
    /// When, in virtual time.
    pub at: u64,
    /// What the process's own clock shows.
    pub mono: u64,
    /// The removal margin.
    pub margin: u64,
    /// Where.
    pub process: ProcessId,
    /// Of which singleton.
    pub singleton: SingletonId,
    /// The role whose oldest member has it.
    pub role: &'a Role,
    /// Its token.
    pub token: Token,
    /// The process stood still and does not know whether it is still a member.
    pub in_doubt: bool,
    /// Whether the run is within the safe shapes so far.
    pub safe: bool,
    /// The node's picture.
    pub view: &'a View,
    /// Those that vote about its term in this picture.
    pub voters: Vec<Voter>,
    /// Whether it needs no lease, or the keeper says that its node holds it.
    pub holds_lease: bool,
}

/// What was found at the start of an instance and need not be a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InstanceFound {
    /// Other instances that had not ended.
    pub overlaps: u64,
    /// Earlier instances with a token that is no lower, of which more than half of the voters know nothing.
    pub unordered_tokens: u64,
    /// The node had lost it to another one.
    pub returns: u64,
}

/// What several invariants want to know about a step, worked out once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// The clock before and after.
    pub(crate) clock: (u64, u64),
    /// Members and reachability before and after.
    pub(crate) content: (u64, u64),
    /// Anything of the gossip changed, its seen set included.
    pub(crate) gossip_changed: bool,
}

impl Facts {
    fn of(before: &Gossip, after: &Gossip) -> Self {
        let gossip_changed = before != after;
        let of_before = (digest::clock(before.version()), digest::content(before));
        let of_after = if gossip_changed {
            (digest::clock(after.version()), digest::content(after))
        } else {
            of_before
        };
        Self {
            clock: (of_before.0, of_after.0),
            content: (of_before.1, of_after.1),
            gossip_changed,
        }
    }
}

/// An invariant's verdict: which one is broken, and how.
pub type Verdict = Result<(), (&'static str, String)>;

/// All invariants with what they remember.
#[derive(Debug, Default)]
pub struct Checks {
    i03: i_03::NothingReturns,
    i05: i_05::OwnTicksOnly,
    i06: i_06::EqualClocks,
    i08: i_08::SoundConvergence,
    i09: i_09::OneLeader,
    i10: i_10::LeaderOnly,
    i12: i_12::OneAge,
    i13: i_13::OrderlyRemoval,
    i14: i_14::OneCluster,
    i23: i_23::InTime,
    removals: removals::Removals,
    i25: i_25::AfterTheMargin,
    pub(crate) i34: i_34::WithTheLease,
    i41: i_41::OneHome,
    i42: i_42::StoppedFirst,
    pub(crate) i43: i_43::InOrder,
    pub(crate) i44: i_44::Conservation,
    pub(crate) i45: i_45::WithinItsBounds,
    pub(crate) i48: i_48::KeptInOrder,
    pub(crate) i49: i_49::OnMembersThatHost,
    pub(crate) i50: i_50::OneWriter,
    pub(crate) i51: i_51::AsPromised,
    pub(crate) i52: i_52::SureOfItself,
}

fn named(invariant: &'static str, result: Result<(), String>) -> Verdict {
    result.map_err(|what| (invariant, what))
}

impl Checks {
    /// A node's picture changed.
    ///
    /// # Errors
    /// The first broken invariant.
    pub fn on_step(&mut self, step: &Step<'_>, history: &History) -> Verdict {
        let (before, after) = (step.before.gossip(), step.after.gossip());
        let facts = Facts::of(before, after);
        self.i23.on_step(step.process, step.mono, step.before, step.after);
        self.removals
            .on_step(step.process, step.mono, step.before, step.after);
        self.i41.on_step(step);
        if facts.gossip_changed {
            named("I-01", i_01::check(after))?;
            named("I-02", i_02::check(before, after))?;
            named("I-24", i_24::check(before, after))?;
            named("I-03", self.i03.check(step))?;
            named("I-05", self.i05.check(step, &facts, history))?;
            named("I-06", self.i06.check(step, &facts))?;
            named("I-07", i_07::check(step, &facts, history))?;
            named("I-14", self.i14.check(step, history))?;
            named("I-10", self.i10.check(step, history))?;
            named("I-12", self.i12.check(step))?;
            named("I-13", self.i13.check(step, history))?;
            named("I-50", self.i50.check(step, history))?;
            if step.safe {
                named("I-11", i_11::check(after))?;
                named("I-15", i_15::check(after))?;
            }
        }
        if step.after.phase() == MembershipPhase::Member {
            named("I-08", self.i08.check(step, &facts, history))?;
            named("I-09", self.i09.check(step, &facts))?;
        }
        Ok(())
    }

    /// A node said something to its user; `unstopped` of its entities have not been told to stop.
    ///
    /// # Errors
    /// The broken invariant.
    pub fn on_event(
        &mut self,
        process: ProcessId,
        event: &Event,
        unstopped: usize,
        moment: &Moment<'_>,
        history: &History,
    ) -> Verdict {
        self.i49.on_event(process, event);
        match event {
            Event::Detector(DetectorEvent::Paused { .. } | DetectorEvent::Refused { .. }) => {
                self.i23.on_paused(process, moment.mono);
            }
            Event::Downing(DowningEvent::Decision(event)) => {
                named("I-23", self.i23.on_downing(process, event, moment))?;
                named("I-24", i_24::on_downing(event, moment.view))?;
                named("I-26", i_26::on_downing(moment, event))?;
            }
            Event::Membership(_)
            | Event::Detector(_)
            | Event::Downing(_)
            | Event::Sharding { .. }
            | Event::Ddata(_)
            | Event::Singleton { .. }
            | Event::Journal(_)
            | Event::Rejected { .. } => {}
            // A later version's; its checker is still to be written.
            Event::Path { .. } | _ => {}
        }
        named("I-13", i_13::on_event(process, event, unstopped, history))
    }

    /// A node said something about its shards. Yields how many overlaps there are that need not be
    /// violations.
    ///
    /// # Errors
    /// The broken invariant.
    pub fn on_sharding(
        &mut self,
        said: Said<'_>,
        safe: bool,
        moment: &Moment<'_>,
        history: &History,
    ) -> Result<u64, (&'static str, String)> {
        named(
            "I-25",
            self.i25.on_sharding(said, &self.removals, moment, history),
        )?;
        let cluster = self.i14.cluster_of(said.process);
        let result = self.i41.on_event(said, cluster, safe, history);
        let homes = result.map_err(|what| ("I-41", what))?;
        let result = i_42::on_event(said, safe, history);
        let shards = result.map_err(|what| ("I-42", what))?;
        Ok(homes + shards)
    }

    /// A liar is gone for good: what was learnt from its numbers is forgotten.
    pub(crate) fn forget_lies(&mut self, liar: &UniqueAddress) {
        self.i06 = i_06::EqualClocks::default();
        self.i09 = i_09::OneLeader::default();
        self.i41.forget_lies(liar);
    }

    /// A process has ended.
    pub(crate) fn ended(&mut self, process: ProcessId) {
        self.i48.forget(process, None);
    }

    /// A fault is about to give a shard to somebody in the name of this term's coordinator, or that one knows
    /// the shard to be there.
    pub fn plant_home(&mut self, kind: KindId, term: Term, shard: ShardId, process: ProcessId) {
        self.i41.plant(kind, term, shard, process);
    }

    /// A node orders something of its entities. Yields how many overlaps there are that need not be
    /// violations.
    ///
    /// # Errors
    /// The broken invariant.
    pub fn on_order(
        &mut self,
        process: ProcessId,
        order: &HostOrder,
        safe: bool,
        history: &mut History,
    ) -> Result<u64, (&'static str, String)> {
        named("I-42", self.i42.on_order(process, order, history))?;
        named("I-48", self.i48.on_order(process, order, history))?;
        i_40::on_order(process, order, safe, history).map_err(|what| ("I-40", what))
    }

    /// An instance of a singleton is about to start. Yields what need not be a violation.
    ///
    /// # Errors
    /// The broken invariant.
    pub fn on_instance(
        &mut self,
        start: &InstanceStart<'_>,
        history: &History,
    ) -> Result<InstanceFound, (&'static str, String)> {
        named("I-31", i_31::on_start(start, &self.removals, history))?;
        named("I-34", i_34::on_start(start))?;
        let returns = i_33::on_start(start, history).map_err(|what| ("I-33", what))?;
        let found = i_30::on_start(start, history).map_err(|what| ("I-30", what))?;
        Ok(InstanceFound { returns, ..found })
    }

    /// Nothing is going on any more.
    ///
    /// # Errors
    /// The broken invariant and the process at which it is.
    pub fn at_rest(
        &self,
        nodes: &[(ProcessId, &Arc<View>)],
        history: &History,
    ) -> Result<(), (&'static str, ProcessId, String)> {
        for (process, view) in nodes {
            let result = i_01::check_at_rest(view.gossip());
            result.map_err(|what| ("I-01", *process, what))?;
        }
        let result = i_42::at_rest(nodes, history);
        result.map_err(|(process, what)| ("I-42", process, what))?;
        let result = i_44::at_rest(history);
        result.map_err(|(process, what)| ("I-44", process, what))
    }
}
