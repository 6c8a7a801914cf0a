//! One simulated process: a node, its clocks, its entities, its open commands. Knows nothing of the network.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_core::config::{DowningStrategy, ValidConfig};
use quorate_core::downing::view::IndirectRule;
use quorate_core::ident::UniqueAddress;
use quorate_core::input::Token;
use quorate_core::node::Node;
use quorate_core::sharding::ids::Slot;
use quorate_core::time::{Instant, Now};
use rand_chacha::ChaCha8Rng;

use super::chance::Purpose;
use super::entities::Entities;
use super::history::{Life, ProcessId};
use super::keyed::CallPlace;
use super::keyed::logs::LogCall;
use super::leases::HeldLeases;
use super::paths::PathInstance;
use super::singletons::Instance;

/// Wall clocks begin here: any plausible time will do, it is only carried.
pub(crate) const UNIX_MS: u64 = 1_750_000_000_000;

/// Ends that are on their way to a node.
#[derive(Debug, Default)]
pub(crate) struct Unheard {
    pub(crate) entities: BTreeSet<Slot>,
    pub(crate) instances: BTreeSet<Slot>,
}

/// A process of the simulation.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) me: UniqueAddress,
    /// The position of its address.
    pub(crate) index: usize,
    pub(crate) node: Node<ChaCha8Rng>,
    pub(crate) life: Life,
    pub(crate) entities: Entities,
    /// Instances of singletons.
    pub(crate) instances: BTreeMap<Slot, Instance>,
    /// Instances of paths.
    pub(crate) hosted: BTreeMap<Slot, PathInstance>,
    /// Entities and instances that have ended, and whose node has not heard of it yet.
    pub(crate) unheard: Unheard,
    /// The leases that it believes to hold.
    pub(crate) leases: HeldLeases,
    /// Incarnations its node refuses links with.
    pub(crate) quarantined: BTreeSet<UniqueAddress>,
    /// What each open command was.
    pub(crate) open: BTreeMap<Token, Open>,
    /// The virtual time at which it wants its next tick.
    pub(crate) wake: Option<u64>,
    /// Ticks within one instant: many mean that it spins.
    pub(crate) ticks_now: (u64, u32),
    /// It stands still until then.
    pub(crate) paused_until: u64,
    /// When its node was handed something last.
    pub(crate) fed_at: u64,
    /// It stood still and does not know whether it is still a member: its entities begin nothing.
    pub(crate) in_doubt: bool,
    /// Its entities are each in a handler that does not end, and cannot be stopped.
    pub(crate) is_stuck: bool,
    /// It handles what arrives this much later, until then; and when it will have handled the last of it.
    pub(crate) slow: (u64, u64),
    slow_last: u64,
    clock: Clock,
    next_token: Token,
}

/// What a process's downing is set to in a cluster of some size, in microseconds. See
/// [`crate::invariants::Moment`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) stable_after: u64,
    pub(crate) patience: Option<u64>,
    pub(crate) stays_patiently: bool,
    pub(crate) flaps_patiently: bool,
    pub(crate) slack: u64,
    pub(crate) margin: u64,
}

impl Times {
    pub(crate) fn of(config: &ValidConfig, members: usize) -> Self {
        /// A tick of the resolver, and a moment.
        const TICK: Duration = Duration::from_millis(1_010);
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let lease = if let DowningStrategy::LeaseMajority(lease) = &config.downing.strategy {
            lease.acquire_lease_delay_for_minority + lease.operation_timeout
        } else {
            Duration::ZERO
        };
        Self {
            stable_after: micros(config.stable_after(members)),
            patience: config.unstable_after(members).map(micros),
            stays_patiently: config.downing.rule != IndirectRule::Classic,
            flaps_patiently: config.downing.rule == IndirectRule::Fewest,
            slack: micros(TICK + lease),
            margin: micros(config.removal_margin(members)),
        }
    }
}

/// What a token stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    /// An ask: the position of its message in the history.
    Ask(usize),
    /// A message to a singleton without an answer, that may not be accepted: its position in the history.
    Tell(usize),
    /// A node is to host this singleton again.
    Host(&'static str),
    /// An operation on replicated data: its position in the books.
    Data(usize),
    /// A subscription to replicated data.
    Subscription,
    /// A watch: its number.
    Watch(usize),
    /// A call of the keyed store: where it stands in the books.
    Keyed(CallPlace),
    /// A call about a log.
    Log(LogCall),
    /// Anything else.
    Command(&'static str),
}

/// A process's own clocks: no two processes agree on either of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Virtual time when the process started.
    pub(crate) started: u64,
    /// What its monotonic clock showed then.
    pub(crate) origin: u64,
    /// How far its wall clock is off, in milliseconds.
    pub(crate) skew_ms: u64,
}

impl Clock {
    const fn now(&self, at: u64) -> Now {
        Now {
            mono: Instant::from_micros(at - self.started + self.origin),
            unix_ms: UNIX_MS + self.skew_ms + at / 1_000,
        }
    }

    const fn virtual_time(&self, at: Instant) -> u64 {
        at.as_micros()
            .saturating_sub(self.origin)
            .saturating_add(self.started)
    }
}

impl Process {
    pub(crate) fn new(
        config: ValidConfig,
        me: UniqueAddress,
        index: usize,
        clock: Clock,
        (seed, id): (u64, ProcessId),
    ) -> Self {
        let rng = Purpose::Node(id).rng(seed);
        let node = Node::new(config, me.clone(), rng, clock.now(clock.started));
        Self {
            me,
            index,
            node,
            life: Life::Running,
            entities: Entities::default(),
            instances: BTreeMap::new(),
            hosted: BTreeMap::new(),
            unheard: Unheard::default(),
            leases: HeldLeases::new(),
            quarantined: BTreeSet::new(),
            open: BTreeMap::new(),
            wake: None,
            ticks_now: (0, 0),
            paused_until: 0,
            fed_at: clock.started,
            in_doubt: false,
            is_stuck: false,
            slow: (0, 0),
            slow_last: 0,
            clock,
            next_token: 1,
        }
    }

    pub(crate) fn now(&self, at: u64) -> Now {
        self.clock.now(at)
    }

    /// The virtual time of one of its own instants.
    pub(crate) fn virtual_time(&self, at: Instant) -> u64 {
        self.clock.virtual_time(at)
    }

    /// When it reads a frame that arrives now, if it is too slow to read it at once. Frames keep their order.
    pub(crate) fn reads_at(&mut self, now: u64) -> Option<u64> {
        let (delay, until) = self.slow;
        let late = if now < until { delay } else { 0 };
        let at = (now + late).max(self.slow_last);
        if at <= now {
            return None;
        }
        self.slow_last = at;
        Some(at)
    }

    /// Its wall clock jumps.
    pub(crate) const fn jump_wall(&mut self, to_skew_ms: u64) {
        self.clock.skew_ms = to_skew_ms;
    }

    /// Its monotonic clock jumps ahead.
    pub(crate) const fn jump_mono(&mut self, by: u64) {
        self.clock.origin += by;
    }

    /// How late a round of heartbeats may be before its node takes that for a pause of the process.
    pub(crate) fn pause_min(&self) -> u64 {
        let settings = &self.node.config().failure_detector;
        let late = settings
            .acceptable_heartbeat_pause
            .max(settings.heartbeat_interval);
        u64::try_from(late.as_micros()).unwrap_or(u64::MAX / 2)
    }

    /// Whether its entities may begin with something: its node has been heard of lately, and does not doubt
    /// that it is a member.
    pub(crate) fn may_begin(&self, now: u64) -> bool {
        !self.in_doubt && now <= self.fed_at + self.pause_min()
    }

    pub(crate) fn runs(&self) -> bool {
        self.life == Life::Running
    }

    /// Whether it runs, or an instance of a singleton of it does all the same.
    pub(crate) fn works(&self) -> bool {
        self.runs() || !self.instances.is_empty()
    }

    pub(crate) fn open(&mut self, what: Open) -> Token {
        let token = self.next_token;
        self.next_token += 1;
        self.open.insert(token, what);
        token
    }
}
