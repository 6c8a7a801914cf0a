//! What a node's users and its loop say about its end, and what waits for it: tasks, callbacks, the facts
//! that phases wait for. The order is the core's (`quorate_core::shutdown`); the runner does what follows. No
//! user code runs under its lock. Spec: `shutdown`.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorate_core::config::{Config, ShutdownConfig};
use quorate_core::event::ShutdownProgress;
use quorate_core::membership::member::Status;
use quorate_core::ordered::OrderedMap;
use quorate_core::shutdown::{LatePhase, Phases, ShutdownPhase, ShutdownStep};
use quorate_core::time::Instant;

use super::tasks::{Make, RegisteredTask, Work};
use super::{SHUTDOWN_TASKS_MAX, ShutdownCause, ShutdownError};
use crate::error::Termination;
use crate::sync::{Notify, lock};

/// What is known of the node.
#[derive(Debug)]
struct NodeFacts {
    /// Its own status.
    status: Status,
    /// It was asked here to end.
    is_wanted: bool,
    /// It leaves because its executor stands still.
    is_stalled: bool,
    /// Its shards, its slots of paths, its ranges of buckets, and its singletons, were handed over.
    has_no_shards: bool,
    has_no_slots: bool,
    has_no_ranges: bool,
    has_no_singletons: bool,
    /// It is no member any more, and why.
    out: Option<Termination>,
    /// Its links are closed: how it has ended.
    closed: Option<Termination>,
    /// It is to end at once.
    is_cut: bool,
}

impl NodeFacts {
    /// Why the shutdown has to begin, if it has to.
    fn cause(&self) -> Option<ShutdownCause> {
        if let Some(termination) = &self.out {
            return Some(ShutdownCause::Ended(termination.clone()));
        }
        if self.is_wanted {
            return Some(ShutdownCause::Asked);
        }
        let cause = if self.is_stalled {
            ShutdownCause::ExecutorStalled
        } else {
            ShutdownCause::MadeToLeave
        };
        matches!(self.status, Status::Leaving | Status::Exiting).then_some(cause)
    }

    /// Whether the node has done what it does in this phase.
    const fn is_done(&self, phase: ShutdownPhase) -> bool {
        let is_gone = matches!(self.status, Status::Exiting | Status::Down | Status::Removed);
        match phase {
            ShutdownPhase::ClusterShardingShutdownRegion => self.has_no_shards,
            ShutdownPhase::ClusterLeave => {
                let is_out = matches!(self.status, Status::Down | Status::Removed);
                let has_left = is_gone || (self.has_no_slots && matches!(self.status, Status::Leaving));
                is_out || (has_left && self.has_no_ranges)
            }
            ShutdownPhase::ClusterExiting => self.has_no_singletons && is_gone,
            ShutdownPhase::ClusterExitingDone => self.out.is_some(),
            ShutdownPhase::ClusterShutdown => self.closed.is_some(),
            ShutdownPhase::BeforeServiceUnbind
            | ShutdownPhase::ServiceUnbind
            | ShutdownPhase::ServiceRequestsDone
            | ShutdownPhase::ServiceStop
            | ShutdownPhase::BeforeClusterShutdown
            | ShutdownPhase::BeforeProcessEnd
            | ShutdownPhase::ProcessEnd => true,
        }
    }
}

/// What is called when something happens to the node, or at once if it has.
#[derive(Default)]
struct LifeCallbacks {
    waiting: Vec<Make>,
    has_happened: bool,
}

impl LifeCallbacks {
    /// What has to be called at once, if it has happened.
    fn add(&mut self, callback: Make) -> Result<Option<Make>, ShutdownError> {
        if self.has_happened {
            return Ok(Some(callback));
        }
        if self.waiting.len() >= SHUTDOWN_TASKS_MAX {
            return Err(ShutdownError::TooMany {
                max: SHUTDOWN_TASKS_MAX,
            });
        }
        self.waiting.push(callback);
        Ok(None)
    }

    /// It happens.
    fn take(&mut self) -> Vec<Make> {
        self.has_happened = true;
        std::mem::take(&mut self.waiting)
    }
}

struct LifeState {
    phases: Phases,
    /// How much longer a node has that hosts slots of paths; `None` once it has got it.
    for_slots: Option<Duration>,
    facts: NodeFacts,
    tasks: OrderedMap<ShutdownPhase, Vec<RegisteredTask>>,
    on_up: LifeCallbacks,
    on_removed: LifeCallbacks,
}

/// What the runner has to do next.
#[derive(Debug)]
pub(crate) struct ShutdownNext {
    /// Why the shutdown begins, if it does.
    pub(crate) cause: Option<ShutdownCause>,
    /// What the phase before still waited for, if it was given up.
    pub(crate) late: Option<LatePhase>,
    pub(crate) step: ShutdownStep,
}

/// See the module.
pub(crate) struct Life {
    state: Mutex<LifeState>,
    pub(crate) limits: ShutdownConfig,
    /// Whoever runs the phases looks again.
    pub(crate) wake: Arc<Notify>,
    /// Runs something on the users' executor.
    spawn: Box<dyn Fn(Work) + Send + Sync>,
}

impl Life {
    pub(crate) fn new(config: &Config, spawn: impl Fn(Work) + Send + Sync + 'static) -> Self {
        let limits = config.shutdown.clone();
        let state = LifeState {
            phases: Phases::new(limits.clone()),
            for_slots: Some(config.paths.exit_timeout.max(config.kv.exit_timeout)),
            facts: NodeFacts {
                status: Status::Removed,
                is_wanted: false,
                is_stalled: false,
                has_no_shards: false,
                has_no_slots: false,
                has_no_ranges: false,
                has_no_singletons: false,
                out: None,
                closed: None,
                is_cut: false,
            },
            tasks: OrderedMap::new(),
            on_up: LifeCallbacks::default(),
            on_removed: LifeCallbacks::default(),
        };
        Self {
            state: Mutex::new(state),
            limits,
            wake: Arc::default(),
            spawn: Box::new(spawn),
        }
    }

    /// Adds a task to a phase that has not begun.
    pub(crate) fn add(
        &self,
        phase: ShutdownPhase,
        name: Option<String>,
        make: Make,
    ) -> Result<(), ShutdownError> {
        let mut state = lock(&self.state);
        if !state.phases.admits(phase) {
            return Err(ShutdownError::TooLate { phase });
        }
        if state.tasks.values().map(Vec::len).sum::<usize>() >= SHUTDOWN_TASKS_MAX {
            return Err(ShutdownError::TooMany {
                max: SHUTDOWN_TASKS_MAX,
            });
        }
        let tasks = state.tasks.entry(phase).or_default();
        let name = name.unwrap_or_else(|| format!("task {}", tasks.len() + 1));
        tasks.push(RegisteredTask {
            name: Arc::from(name),
            make,
        });
        Ok(())
    }

    /// Calls back when the node is Up, or at once if it has been.
    pub(crate) fn on_up(&self, callback: Make) -> Result<(), ShutdownError> {
        let now = lock(&self.state).on_up.add(callback)?;
        self.run_all(now);
        Ok(())
    }

    /// Calls back when the node is no member any more, or at once if it is over.
    pub(crate) fn on_removed(&self, callback: Make) -> Result<(), ShutdownError> {
        let now = lock(&self.state).on_removed.add(callback)?;
        self.run_all(now);
        Ok(())
    }

    /// Those who wait for the node's removal, in the order in which they came.
    pub(crate) fn take_on_removed(&self) -> Vec<Make> {
        lock(&self.state).on_removed.take()
    }

    fn run_all(&self, callbacks: impl IntoIterator<Item = Make>) {
        for callback in callbacks {
            // Called where it runs: it is the user's.
            self.run(Box::pin(async move { callback().await }));
        }
    }

    /// Runs something on the users' executor.
    pub(crate) fn run(&self, work: Work) {
        (self.spawn)(work);
    }

    /// The tasks of a phase that has begun.
    pub(crate) fn take_tasks(&self, phase: ShutdownPhase) -> Vec<RegisteredTask> {
        lock(&self.state).tasks.remove(&phase).unwrap_or_default()
    }

    fn learn(&self, change: impl FnOnce(&mut NodeFacts)) {
        change(&mut lock(&self.state).facts);
        self.wake.notify();
    }

    /// The node is to end in good order.
    pub(crate) fn ask(&self) {
        self.learn(|facts| facts.is_wanted = true);
    }

    /// The node is to end at once.
    pub(crate) fn cut(&self) {
        self.learn(|facts| facts.is_cut = true);
    }

    /// The loop has another status, and may have given up its place because the executor stands still.
    pub(crate) fn see(&self, status: Status, is_stalled: bool) {
        self.learn(|facts| (facts.status, facts.is_stalled) = (status, is_stalled));
    }

    /// The node is no member any more.
    pub(crate) fn is_out(&self, termination: Termination) {
        self.learn(|facts| facts.out = Some(termination));
    }

    /// The loop is over.
    pub(crate) fn has_closed(&self, termination: Termination) {
        self.learn(|facts| facts.closed = Some(termination));
    }

    /// The node is Up.
    pub(crate) fn is_up(&self) {
        let callbacks = lock(&self.state).on_up.take();
        self.run_all(callbacks);
    }

    /// A part of the node has handed over.
    pub(crate) fn has_handed_over(&self, part: ShutdownProgress) {
        self.learn(|facts| match part {
            ShutdownProgress::Sharding => facts.has_no_shards = true,
            ShutdownProgress::Paths => facts.has_no_slots = true,
            ShutdownProgress::Kv => facts.has_no_ranges = true,
            ShutdownProgress::Singletons => facts.has_no_singletons = true,
            // Data is told in one step, and what a later version adds has no phase here.
            ShutdownProgress::Ddata | ShutdownProgress::Exiting | _ => {}
        });
    }

    /// What follows from all that is known, if something does. `tasks_ended`: none of the present phase's
    /// tasks runs.
    pub(crate) fn next(&self, now: Instant, tasks_ended: bool) -> Option<ShutdownNext> {
        let state = &mut *lock(&self.state);
        let (phases, facts) = (&mut state.phases, &state.facts);
        let step = |step| ShutdownNext {
            cause: None,
            late: None,
            step,
        };
        if facts.is_cut && !phases.is_over() {
            phases.cut_short();
            return Some(step(ShutdownStep::Over));
        }
        if let Some(cause) = facts.cause().filter(|_| !phases.has_begun()) {
            let begun = phases.begin(now)?;
            return Some(ShutdownNext {
                cause: Some(cause),
                ..step(begun)
            });
        }
        if facts.out.is_some()
            && let Some(next) = phases.on_node_out(now)
        {
            return Some(step(next));
        }
        // What is known now counts for the present phase alone: before it has joined a node is Removed too.
        let done = |phase: &ShutdownPhase| phase.is_of_node() && facts.is_done(*phase);
        if let Some(present) = phases.present().filter(done)
            && let Some(next) = phases.on_node_did(present, now)
        {
            return Some(step(next));
        }
        if let Some(present) = phases.present().filter(|_| tasks_ended)
            && let Some(next) = phases.on_tasks_ended(present, now)
        {
            return Some(step(next));
        }
        // A node that hosts slots of paths or owns ranges has longer: others take them over one after the other.
        if phases.present() == Some(ShutdownPhase::ClusterLeave)
            && phases.deadline().is_some_and(|at| at <= now)
            && !(facts.has_no_slots && facts.has_no_ranges)
            && let Some(more) = state.for_slots.take()
        {
            phases.allow(more, now);
            return None;
        }
        let (late, next) = phases.on_time(now)?;
        Some(ShutdownNext {
            late: Some(late),
            ..step(next)
        })
    }

    /// When [`Self::next`] has something to say by itself.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        lock(&self.state).phases.deadline()
    }

    /// Whether the node ends already, in whichever way.
    pub(crate) fn has_begun(&self) -> bool {
        let state = lock(&self.state);
        state.phases.has_begun() || state.facts.cause().is_some()
    }

    /// Whether the cluster has the node on its way out already.
    pub(crate) fn is_leaving(&self) -> bool {
        let status = lock(&self.state).facts.status;
        matches!(status, Status::Leaving | Status::Exiting | Status::Down)
    }

    /// Whether the node is no member any more, or its loop is over.
    pub(crate) fn is_over(&self) -> bool {
        let state = lock(&self.state);
        state.facts.out.is_some() || state.facts.closed.is_some()
    }

    /// How the loop has ended.
    pub(crate) fn termination(&self) -> Option<Termination> {
        lock(&self.state).facts.closed.clone()
    }

    /// Whether it was to end at once.
    pub(crate) fn is_cut(&self) -> bool {
        lock(&self.state).facts.is_cut
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        f.debug_struct("Life")
            .field("phases", &state.phases)
            .field("facts", &state.facts)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_hosts_slots_stays_in_cluster_leave_until_others_have_them_or_their_limit_has_passed() {
        let config = Config::fast(quorate_core::ident::ClusterName::new("shop").unwrap());
        let life = Life::new(&config, drop);
        let at = Instant::from_millis;
        // Whoever runs the phases looks before the node has joined.
        assert!(life.next(at(0), true).is_none());
        life.see(Status::Up, false);
        life.ask();
        let mut entered = Vec::new();
        let enter = |entered: &mut Vec<ShutdownPhase>| {
            while let Some(next) = life.next(at(1_000), true) {
                match next.step {
                    ShutdownStep::Enter(phase) => entered.push(phase),
                    ShutdownStep::Over => break,
                }
            }
        };
        enter(&mut entered);
        life.has_handed_over(ShutdownProgress::Sharding);
        life.see(Status::Leaving, false);
        enter(&mut entered);
        assert_eq!(entered.last(), Some(&ShutdownPhase::ClusterLeave));
        let limit = 1_000 + config.shutdown.cluster_leave_timeout.as_millis() as u64;
        assert!(
            life.next(at(limit), true).is_none(),
            "it has longer for its slots"
        );
        let limit = limit + config.paths.exit_timeout.as_millis() as u64;
        assert!(life.next(at(limit - 1), true).is_none());
        let late = life.next(at(limit), true).expect("its time is over");
        assert!(late.late.is_some_and(|late| late.node));
        assert_eq!(late.step, ShutdownStep::Enter(ShutdownPhase::ClusterExiting));
    }
}
