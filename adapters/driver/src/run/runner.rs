//! Runs a node's end: does what the phases say, one after the other, on the node's own thread; the
//! application's tasks run on the users' executor. Decides nothing: what comes when is the core's
//! (`quorate_core::shutdown`), what has happened is in `life`. It outlives the loop, for the last phases
//! begin when that has ended. Spec: `shutdown`.

use std::sync::Arc;
use std::time::Duration;

use async_channel::Sender;
use quorate_core::drain::DrainPart;
use quorate_core::input::{Command, MembershipCommand};
use quorate_core::shutdown::{LatePhase, ShutdownPhase, ShutdownStep};
use quorate_core::time::Instant;

use crate::error::Termination;
use crate::events::ClusterEvent;
use crate::runtime::Runtime;
use crate::shared::Shared;
use crate::shutdown::{
    Life, RegisteredTask, RunningTask, ShutdownEvent, ShutdownNext, TaskFailure, TaskOutcome,
};
use crate::sync::race;

/// What callbacks about the node's removal are called when they run as tasks.
const ON_REMOVED: &str = "on_removed";

/// See the module.
pub(crate) struct Runner<R> {
    pub(crate) runtime: R,
    pub(crate) shared: Arc<Shared>,
    /// Dropped when everything is over: whoever waits for the node's end hears of it.
    pub(crate) ended: Sender<()>,
}

impl<R: Runtime> Runner<R> {
    /// Until the node and its phases are over.
    pub(crate) async fn run(self) {
        let mut tasks = PhaseTasks::default();
        loop {
            self.note_ended(&mut tasks);
            let now = self.runtime.now().mono;
            match self.life().next(now, tasks.running.is_empty()) {
                None => self.wait(self.life().deadline()).await,
                Some(ShutdownNext { cause, late, step }) => {
                    if let Some(cause) = cause {
                        tracing::info!(target: "cluster::shutdown", event = "shutdown_begun", me = %self.shared.me, %cause);
                        self.publish(ShutdownEvent::Begun { cause });
                    }
                    self.give_up(&mut tasks, late);
                    match step {
                        ShutdownStep::Enter(phase) => self.enter(&mut tasks, phase),
                        ShutdownStep::Over => break,
                    }
                }
            }
        }
        self.end(tasks).await;
    }

    fn life(&self) -> &Life {
        &self.shared.life
    }

    fn publish(&self, event: ShutdownEvent) {
        self.shared.hub.publish(&ClusterEvent::Shutdown(event));
    }

    async fn wait(&self, deadline: Option<Instant>) {
        let wake = &self.life().wake;
        match deadline {
            Some(at) => {
                race(wake.notified(), self.runtime.sleep_until(at)).await;
            }
            None => wake.notified().await,
        }
    }

    /// A phase begins: its tasks at once, and the node's own work beside them.
    fn enter(&self, tasks: &mut PhaseTasks, phase: ShutdownPhase) {
        tracing::info!(target: "cluster::shutdown", event = "shutdown_phase", me = %self.shared.me, %phase);
        self.publish(ShutdownEvent::PhaseBegun { phase });
        tasks.phase = Some(phase);
        match phase {
            ShutdownPhase::ClusterShardingShutdownRegion => {
                let mut orders = vec![MembershipCommand::HandOver(DrainPart::Sharding)];
                if !self.life().is_leaving() {
                    orders.insert(0, MembershipCommand::Leave);
                }
                self.order(orders);
            }
            ShutdownPhase::ClusterLeave => self.order(vec![MembershipCommand::HandOver(DrainPart::Kv)]),
            ShutdownPhase::ClusterExiting => {
                self.order(vec![MembershipCommand::HandOver(DrainPart::Singletons)])
            }
            ShutdownPhase::ClusterExitingDone => {
                self.order(vec![MembershipCommand::HandOver(DrainPart::Ddata)])
            }
            ShutdownPhase::ClusterShutdown => {
                if !self.life().is_over() {
                    self.shared.stop_loop();
                }
                self.call_back(tasks);
            }
            ShutdownPhase::BeforeServiceUnbind
            | ShutdownPhase::ServiceUnbind
            | ShutdownPhase::ServiceRequestsDone
            | ShutdownPhase::ServiceStop
            | ShutdownPhase::BeforeClusterShutdown
            | ShutdownPhase::BeforeProcessEnd
            | ShutdownPhase::ProcessEnd => {}
        }
        for task in self.life().take_tasks(phase) {
            self.start(tasks, task);
        }
    }

    /// Has the node do something, unless it has ended. Nobody waits for the answer: what came of it is seen
    /// by what the node says.
    fn order(&self, orders: Vec<MembershipCommand>) {
        if self.life().is_over() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        self.runtime.spawn(async move {
            for order in orders {
                let _ = shared.core(Command::Membership(order)).await;
            }
        });
    }

    fn start(&self, tasks: &mut PhaseTasks, task: RegisteredTask) {
        let (running, work) = RunningTask::new(task, Arc::clone(&self.life().wake));
        tasks.running.push(running);
        self.life().run(work);
    }

    /// Starts what waits for the node's removal.
    fn call_back(&self, tasks: &mut PhaseTasks) {
        for make in self.life().take_on_removed() {
            let name = Arc::from(ON_REMOVED);
            self.start(tasks, RegisteredTask { name, make });
        }
    }

    /// Lets go of tasks that have ended, and names those that did not end well.
    fn note_ended(&self, tasks: &mut PhaseTasks) {
        let mut failed = Vec::new();
        tasks.running.retain(|task| match task.outcome() {
            None => true,
            Some(TaskOutcome::Done) => false,
            Some(TaskOutcome::Panicked) => {
                failed.push((Arc::clone(&task.name), TaskFailure::Panicked));
                false
            }
            Some(TaskOutcome::Lost) => {
                failed.push((Arc::clone(&task.name), TaskFailure::Lost));
                false
            }
        });
        for (task, failure) in failed {
            self.say_failed(tasks.phase, &task, failure);
        }
    }

    fn say_failed(&self, phase: Option<ShutdownPhase>, task: &Arc<str>, failure: TaskFailure) {
        let (Some(phase), task) = (phase, Arc::clone(task)) else {
            return;
        };
        tracing::warn!(
            target: "cluster::shutdown", event = "shutdown_task_failed", me = %self.shared.me, %phase,
            task = %task.escape_debug(), "{failure}"
        );
        self.publish(ShutdownEvent::TaskFailed { phase, task, failure });
    }

    /// The limit of a phase has passed: what it waited for is named, and not waited for any more.
    fn give_up(&self, tasks: &mut PhaseTasks, late: Option<LatePhase>) {
        let Some(late) = late else {
            return;
        };
        let limit = late.phase.limit(&self.life().limits);
        self.let_go(tasks, TaskFailure::GivenUp { after: limit });
        if late.node {
            tracing::warn!(
                target: "cluster::shutdown", event = "shutdown_phase_timed_out", me = %self.shared.me, phase = %late.phase,
                "the node's own work did not finish within {limit:?}"
            );
            self.publish(ShutdownEvent::NodeLate { phase: late.phase });
        }
    }

    fn let_go(&self, tasks: &mut PhaseTasks, failure: TaskFailure) {
        for task in tasks.running.drain(..) {
            task.give_up();
            self.say_failed(tasks.phase, &task.name, failure);
        }
    }

    /// No phase follows: the loop ends, if it has not, and then everybody hears of it.
    async fn end(self, mut tasks: PhaseTasks) {
        self.let_go(&mut tasks, TaskFailure::CutShort);
        while self.life().termination().is_none() {
            self.wait(None).await;
        }
        if self.life().is_cut() {
            // At once, but not without a word to those who wait for it.
            tasks.phase = Some(ShutdownPhase::ClusterShutdown);
            self.call_back(&mut tasks);
            let limit = self.life().limits.cluster_shutdown_timeout;
            self.wait_for(&mut tasks, limit).await;
        }
        let termination = self.life().termination().unwrap_or(Termination::Stopped);
        self.shared.hub.end(&termination);
        self.ended.close();
    }

    async fn wait_for(&self, tasks: &mut PhaseTasks, limit: Duration) {
        let until = self.runtime.now().mono + limit;
        loop {
            self.note_ended(tasks);
            if tasks.running.is_empty() {
                return;
            }
            if self.runtime.now().mono >= until {
                return self.let_go(tasks, TaskFailure::GivenUp { after: limit });
            }
            self.wait(Some(until)).await;
        }
    }
}

/// The tasks of the present phase.
#[derive(Debug, Default)]
struct PhaseTasks {
    phase: Option<ShutdownPhase>,
    running: Vec<RunningTask>,
}
