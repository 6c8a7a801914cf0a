//! What the parts of the pump share: who this node is, the time of the turn, counters and the ways out.

use std::collections::VecDeque;
use std::task::Waker;

use quorate_core::config::ValidConfig;
use quorate_core::ident::UniqueAddress;
use quorate_core::input::Input;
use quorate_core::paths::state::name::PathId;
use quorate_core::sharding::ids::KindId;
use quorate_core::singleton::state::SingletonId;
use quorate_core::time::{Instant, Now};

use super::action::LoopAction;
use crate::log_limit::LogLimit;
use crate::stats::HostStats;
use crate::sync::WakeLater;

/// What is registered on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RegisteredName {
    Kind(KindId),
    Singleton(SingletonId),
    Path(PathId),
}

/// So many turns with a message each and no more: whoever has one to say is most likely alone.
const LONE_TURNS: u32 = 8;

/// See the module.
pub(crate) struct PumpBase {
    pub(crate) me: UniqueAddress,
    pub(crate) config: ValidConfig,
    pub(crate) now: Now,
    pub(crate) stats: HostStats,
    pub(crate) log: LogLimit,
    /// Who has something to look at, once the pump is free.
    woken: WakeLater,
    /// A caller who has an answer, likewise: one at most.
    answered: WakeLater,
    /// How many turns had one message, since one had more.
    lone_turns: u32,
    pub(crate) actions: VecDeque<LoopAction>,
    /// What the node hears once it has finished with its present input.
    pub(crate) feedback: VecDeque<Input<'static>>,
    /// When the users' executor is looked at, if it is watched.
    pub(crate) look_at: Option<Instant>,
}

impl PumpBase {
    pub(crate) fn new(config: ValidConfig, me: UniqueAddress, now: Now) -> Self {
        let log_lines = config.limits.log_lines_per_second_max;
        Self {
            me,
            config,
            now,
            stats: HostStats::default(),
            log: LogLimit::new(log_lines),
            woken: WakeLater::default(),
            answered: WakeLater::default(),
            lone_turns: LONE_TURNS,
            actions: VecDeque::new(),
            feedback: VecDeque::new(),
            look_at: None,
        }
    }

    pub(crate) fn act(&mut self, action: LoopAction) {
        self.actions.push_back(action);
    }

    /// A turn had so many messages.
    pub(crate) const fn turned(&mut self, messages: usize) {
        match messages {
            0 => {}
            1 => self.lone_turns = self.lone_turns.saturating_add(1),
            _ => self.lone_turns = 0,
        }
    }

    /// Whether messages come one at a time. What comes in batches is better left to the loop: the more it
    /// finds, the less each costs.
    pub(crate) const fn is_one_at_a_time(&self) -> bool {
        self.lone_turns >= LONE_TURNS
    }

    /// Something that runs here has something to look at, once the pump is free.
    pub(crate) fn wake(&mut self, waker: Waker) {
        self.woken.push(waker);
    }

    /// A caller has an answer: to look at once the pump is free if it is alone, else at once. Callers that
    /// were woken together would look in any order, and what is answered first may be about what is answered
    /// next.
    pub(crate) fn wake_caller(&mut self, waker: Waker) {
        let is_alone = self.is_one_at_a_time() && self.answered.is_empty();
        std::mem::take(&mut self.answered).wake();
        if is_alone {
            self.answered.push(waker);
        } else {
            waker.wake();
        }
    }

    /// Who is to be woken now that the pump is free.
    pub(crate) fn take_woken(&mut self) -> WakeLater {
        let mut woken = std::mem::take(&mut self.woken);
        woken.append(std::mem::take(&mut self.answered));
        woken
    }
}

impl std::fmt::Debug for PumpBase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Base")
            .field("me", &self.me)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quorate_core::config::Config;
    use quorate_core::ident::{Address, ClusterName};

    use super::*;
    use crate::sync::CountedWakes;

    #[test]
    fn entities_are_woken_after_the_turn_and_callers_too_if_one_alone_has_an_answer() {
        let config = Config::fast(ClusterName::new("c").unwrap());
        let me = UniqueAddress::new(Address::new("h", 1).unwrap(), 1);
        let mut base = PumpBase::new(config.validate().unwrap(), me, Now::default());
        let (entity, caller) = (Arc::<CountedWakes>::default(), Arc::<CountedWakes>::default());
        let woken = || (entity.count(), caller.count());
        base.wake_caller(caller.waker());
        assert_eq!(woken(), (0, 0), "it is alone");
        base.wake_caller(caller.waker());
        assert_eq!(woken(), (0, 2), "it is not, and they are woken in their order");
        base.wake(entity.waker());
        base.wake_caller(caller.waker());
        assert_eq!(woken(), (0, 2));
        base.take_woken().wake();
        assert_eq!(woken(), (1, 3));
        base.turned(2);
        base.wake(entity.waker());
        base.wake_caller(caller.waker());
        assert_eq!(woken(), (1, 4), "one of a batch");
        drop(base);
        assert_eq!(woken(), (2, 4), "nobody waits for ever");
    }
}
