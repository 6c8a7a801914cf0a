//! What the parts of the pump share: who this node is, the time of the turn, counters and the ways out.

use std::collections::VecDeque;

use quorate_core::config::ValidConfig;
use quorate_core::ident::UniqueAddress;
use quorate_core::input::Input;
use quorate_core::time::{Instant, Now};

use super::action::LoopAction;
use crate::log_limit::LogLimit;
use crate::stats::HostStats;

/// See the module.
pub(crate) struct PumpBase {
    pub(crate) me: UniqueAddress,
    pub(crate) config: ValidConfig,
    pub(crate) now: Now,
    pub(crate) stats: HostStats,
    pub(crate) log: LogLimit,
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
            actions: VecDeque::new(),
            feedback: VecDeque::new(),
            look_at: None,
        }
    }

    pub(crate) fn act(&mut self, action: LoopAction) {
        self.actions.push_back(action);
    }
}

impl std::fmt::Debug for PumpBase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Base")
            .field("me", &self.me)
            .finish_non_exhaustive()
    }
}
