//! The instance of a singleton on this node: begins once its term is taken, carries the token, rests after a
//! failure, is killed when it does not stop. Who may have one is decided elsewhere. Spec: sharding 1.10,
//! 10.7, 10.13.
//!
//! `term` takes the term; `delivery` has the way to the instance.

mod delivery;
mod term;

use alloc::collections::VecDeque;
use core::time::Duration;

pub(in crate::singleton) use self::delivery::{not_here, refuse};
use crate::ident::UniqueAddress;
use crate::messaging::protocol::{HostOrder, HostedInstance as Started};
use crate::ordered::{OrderedMap, OrderedSet};
use crate::sharding::state::ids::Slot;
use crate::singleton::protocol::{Event, InstanceMessage, SingletonBody, Timer};
use crate::singleton::state::SingletonId;
use crate::singleton::{Cx, say};
use crate::time::Instant;
use crate::token::Token;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InstanceRun {
    slot: Slot,
    token: Token,
    since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InstanceStage {
    /// There is none, and none is wanted.
    Absent,
    /// It is to begin as soon as nothing holds it up.
    Wanted,
    /// It begins as soon as the term is taken.
    Claiming,
    Running(InstanceRun),
    /// It is told to stop.
    Stopping(InstanceRun),
    /// It failed; the next one begins after a rest.
    Resting,
}

/// See the module.
#[derive(Clone, Debug)]
pub(in crate::singleton) struct SingletonInstance {
    id: SingletonId,
    /// The singleton's own index on this node.
    index: u32,
    generation: u32,
    life: InstanceStage,
    /// What runs or stops here was killed, or the last one was.
    killed: bool,
    /// The term that was claimed last; this node's while `claimed`.
    term: u64,
    claimed: bool,
    count: u64,
    /// The highest term that this node has claimed, has promised or was refused by.
    highest: u64,
    /// What its predecessor has told beyond that, at most a step above it.
    told: u64,
    /// Counts the claims; answers to an earlier one are not heard.
    epoch: u64,
    promised: OrderedSet<UniqueAddress>,
    /// Members that are led to the term in steps, with what they have promised.
    behind: OrderedMap<UniqueAddress, u64>,
    /// Somebody refused the claim with a term that is out of its reach.
    is_outreached: bool,
    /// Claims that were refused since a term was taken.
    refusals: u32,
    failures: u32,
    /// Proxies that asked where it is, with the number of their question.
    watchers: OrderedMap<UniqueAddress, u64>,
    /// What came while this process did not know whether it is still a member.
    /// With the time until which somebody waits, if it is an ask.
    held: VecDeque<(Option<Instant>, InstanceMessage)>,
    held_bytes: usize,
}

impl SingletonInstance {
    pub(super) const fn new(id: SingletonId, index: u32) -> Self {
        Self {
            id,
            index,
            generation: 0,
            life: InstanceStage::Absent,
            killed: false,
            term: 0,
            claimed: false,
            count: 0,
            highest: 0,
            told: 0,
            epoch: 0,
            promised: OrderedSet::new(),
            behind: OrderedMap::new(),
            is_outreached: false,
            refusals: 0,
            failures: 0,
            watchers: OrderedMap::new(),
            held: VecDeque::new(),
            held_bytes: 0,
        }
    }

    pub(in crate::singleton) const fn index(&self) -> u32 {
        self.index
    }

    /// Whether nothing of it runs here.
    pub(in crate::singleton) const fn is_absent(&self) -> bool {
        match self.life {
            InstanceStage::Absent
            | InstanceStage::Wanted
            | InstanceStage::Claiming
            | InstanceStage::Resting => true,
            InstanceStage::Running(_) | InstanceStage::Stopping(_) => false,
        }
    }

    /// The token of what runs or stops here.
    pub(in crate::singleton) const fn token(&self) -> Option<Token> {
        match self.life {
            InstanceStage::Running(run) | InstanceStage::Stopping(run) => Some(run.token),
            InstanceStage::Absent
            | InstanceStage::Wanted
            | InstanceStage::Claiming
            | InstanceStage::Resting => None,
        }
    }

    /// Whether the last one did not stop by itself.
    pub(super) const fn was_killed(&self) -> bool {
        self.killed
    }

    /// There is to be one.
    pub(super) fn want(&mut self, cx: &mut Cx<'_>, held_up: bool) {
        self.life = InstanceStage::Wanted;
        self.go_on(cx, held_up);
    }

    /// Takes the next step towards one, unless something holds it up.
    pub(super) fn go_on(&mut self, cx: &mut Cx<'_>, held_up: bool) {
        if held_up {
            return;
        }
        match self.life {
            InstanceStage::Wanted if self.claimed => self.go_on_with_term(cx),
            InstanceStage::Wanted => self.claim(cx),
            InstanceStage::Claiming => self.run_if_promised(cx),
            InstanceStage::Absent
            | InstanceStage::Running(_)
            | InstanceStage::Stopping(_)
            | InstanceStage::Resting => {}
        }
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        self.count += 1;
        self.generation = self.generation.wrapping_add(1);
        let slot = Slot {
            index: self.index,
            generation: self.generation,
        };
        let token = Token::new(self.term, self.count);
        let since = cx.mono();
        self.life = InstanceStage::Running(InstanceRun { slot, token, since });
        self.killed = false;
        cx.counters().instances_started += 1;
        let singleton = self.id;
        let instance = Started::Singleton { singleton, token };
        cx.order(HostOrder::Start { slot, instance });
        cx.notify((self.id, Event::Started { token }));
        for (node, epoch) in &self.watchers {
            say(cx, node, self.id, *epoch, SingletonBody::Identified { token });
        }
    }

    /// It is to stop, and is killed if that takes longer than usual; says whether it has ended by that.
    pub(super) fn stop(&mut self, cx: &mut Cx<'_>) -> bool {
        let timeout = cx.config().singleton.stop_timeout;
        self.stop_within(cx, timeout)
    }

    /// It is to stop, and is killed if that takes so long; says whether it has ended by that.
    pub(super) fn stop_within(&mut self, cx: &mut Cx<'_>, timeout: Duration) -> bool {
        self.claimed = false;
        match self.life {
            InstanceStage::Absent
            | InstanceStage::Wanted
            | InstanceStage::Claiming
            | InstanceStage::Resting => {
                self.life = InstanceStage::Absent;
                cx.cancel(Timer::Claim(self.id));
                cx.cancel(Timer::Restart(self.id));
                true
            }
            InstanceStage::Running(run) => {
                self.life = InstanceStage::Stopping(run);
                cx.order(HostOrder::Stop { slot: run.slot });
                cx.wake(Timer::StopLate(self.id), cx.mono() + timeout);
                self.leave(cx, run.token);
                false
            }
            InstanceStage::Stopping(_) => {
                let at = cx.mono() + timeout;
                if cx.due(Timer::StopLate(self.id)).is_some_and(|set| set > at) {
                    cx.wake(Timer::StopLate(self.id), at);
                }
                false
            }
        }
    }

    /// It has not stopped in time.
    pub(super) fn on_stop_late(&mut self, cx: &mut Cx<'_>) {
        if let InstanceStage::Stopping(run) = self.life {
            cx.counters().instances_killed += 1;
            cx.notify((self.id, Event::StopTimeout { token: run.token }));
            self.order_kill(cx, run);
        }
    }

    fn order_kill(&mut self, cx: &mut Cx<'_>, run: InstanceRun) {
        self.killed = true;
        cx.order(HostOrder::Kill { slot: run.slot });
    }

    /// What runs or stops here is to end at once.
    pub(super) fn kill_running(&mut self, cx: &mut Cx<'_>) {
        match self.life {
            InstanceStage::Running(_) | InstanceStage::Stopping(_) => self.kill(cx),
            InstanceStage::Absent
            | InstanceStage::Wanted
            | InstanceStage::Claiming
            | InstanceStage::Resting => {}
        }
    }

    /// It is to stop at once, and nothing follows.
    pub(super) fn kill(&mut self, cx: &mut Cx<'_>) {
        self.claimed = false;
        match self.life {
            InstanceStage::Running(run) | InstanceStage::Stopping(run) => {
                self.life = InstanceStage::Stopping(run);
                self.order_kill(cx, run);
                self.leave(cx, run.token);
            }
            InstanceStage::Absent
            | InstanceStage::Wanted
            | InstanceStage::Claiming
            | InstanceStage::Resting => self.life = InstanceStage::Absent,
        }
        for timer in [
            Timer::Claim(self.id),
            Timer::Restart(self.id),
            Timer::StopLate(self.id),
        ] {
            cx.cancel(timer);
        }
    }

    /// The host says that one has ended; says whether it was the present one. If this node is `responsible`
    /// and the end was not asked for, the next one begins after a rest.
    pub(super) fn on_stopped(&mut self, cx: &mut Cx<'_>, slot: Slot, responsible: bool) -> bool {
        let (run, by_itself) = match self.life {
            InstanceStage::Running(run) => (run, true),
            InstanceStage::Stopping(run) => (run, false),
            InstanceStage::Absent
            | InstanceStage::Wanted
            | InstanceStage::Claiming
            | InstanceStage::Resting => return false,
        };
        if run.slot != slot {
            return false;
        }
        let token = run.token;
        cx.cancel(Timer::StopLate(self.id));
        cx.counters().instances_stopped += 1;
        if by_itself {
            cx.counters().instances_failed += 1;
            self.leave(cx, token);
        }
        self.life = InstanceStage::Absent;
        if !responsible {
            cx.notify((self.id, Event::Stopped { token }));
            return true;
        }
        let restart_after = self.rest(cx, cx.mono().since(run.since));
        cx.notify((self.id, Event::Failed { token, restart_after }));
        true
    }

    /// The next one begins later: after twice the time of the last failure, unless this one ran for long.
    fn rest(&mut self, cx: &mut Cx<'_>, ran: Duration) -> Duration {
        let config = &cx.config().singleton;
        let (min, max) = (config.restart_backoff_min, config.restart_backoff_max);
        if ran >= max {
            self.failures = 0;
        }
        // 2^20 times a microsecond is a second: beyond, the longest rest is reached by any setting.
        let rest = min.saturating_mul(1 << self.failures.min(20)).min(max);
        self.failures = self.failures.saturating_add(1);
        self.life = InstanceStage::Resting;
        cx.wake(Timer::Restart(self.id), cx.mono() + rest);
        rest
    }
}
