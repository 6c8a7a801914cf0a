//! The phases of a node's end, with the application's work and the node's own in their places: which comes
//! when, and what a limit that has passed means. Decides the order and nothing else; who hosts a node runs
//! the tasks, tells it what has ended, and says what time it is. Knows no machine. Spec: membership 2.9,
//! shutdown of Akka.

use core::fmt;
use core::time::Duration;

use crate::config::ShutdownConfig;
use crate::ordered::OrderedSet;
use crate::time::Instant;

/// A phase. They follow each other in this order, which is Akka's; none begins before the one before it is
/// over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShutdownPhase {
    /// The application gets ready to take nothing new: it says so to its load balancer, for instance.
    BeforeServiceUnbind,
    /// It stops listening.
    ServiceUnbind,
    /// It finishes the requests that it has.
    ServiceRequestsDone,
    /// It ends connections and what else serves others.
    ServiceStop,
    /// The last moment in which the node does all that it did.
    BeforeClusterShutdown,
    /// The node is Leaving and hands its shards over.
    ClusterShardingShutdownRegion,
    /// The cluster knows that the node leaves, and others have its slots of paths.
    ClusterLeave,
    /// The node hands its singletons over, and becomes Exiting.
    ClusterExiting,
    /// It says good-bye.
    ClusterExitingDone,
    /// Its links are closed, its port is free; what waited for its removal is called.
    ClusterShutdown,
    /// The node has ended; the process still runs. Akka's `before-actor-system-terminate`.
    BeforeProcessEnd,
    /// The last: whoever waits for the end hears of it after this. Akka's `actor-system-terminate`.
    ProcessEnd,
}

impl ShutdownPhase {
    /// All of them, in their order.
    pub const ALL: [Self; 12] = [
        Self::BeforeServiceUnbind,
        Self::ServiceUnbind,
        Self::ServiceRequestsDone,
        Self::ServiceStop,
        Self::BeforeClusterShutdown,
        Self::ClusterShardingShutdownRegion,
        Self::ClusterLeave,
        Self::ClusterExiting,
        Self::ClusterExitingDone,
        Self::ClusterShutdown,
        Self::BeforeProcessEnd,
        Self::ProcessEnd,
    ];

    /// Its name, in Akka's form.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BeforeServiceUnbind => "before-service-unbind",
            Self::ServiceUnbind => "service-unbind",
            Self::ServiceRequestsDone => "service-requests-done",
            Self::ServiceStop => "service-stop",
            Self::BeforeClusterShutdown => "before-cluster-shutdown",
            Self::ClusterShardingShutdownRegion => "cluster-sharding-shutdown-region",
            Self::ClusterLeave => "cluster-leave",
            Self::ClusterExiting => "cluster-exiting",
            Self::ClusterExitingDone => "cluster-exiting-done",
            Self::ClusterShutdown => "cluster-shutdown",
            Self::BeforeProcessEnd => "before-process-end",
            Self::ProcessEnd => "process-end",
        }
    }

    /// How long it may take.
    #[must_use]
    pub const fn limit(self, config: &ShutdownConfig) -> Duration {
        match self {
            Self::BeforeServiceUnbind => config.before_service_unbind_timeout,
            Self::ServiceUnbind => config.service_unbind_timeout,
            Self::ServiceRequestsDone => config.service_requests_done_timeout,
            Self::ServiceStop => config.service_stop_timeout,
            Self::BeforeClusterShutdown => config.before_cluster_shutdown_timeout,
            Self::ClusterShardingShutdownRegion => config.cluster_sharding_shutdown_region_timeout,
            Self::ClusterLeave => config.cluster_leave_timeout,
            Self::ClusterExiting => config.cluster_exiting_timeout,
            Self::ClusterExitingDone => config.cluster_exiting_done_timeout,
            Self::ClusterShutdown => config.cluster_shutdown_timeout,
            Self::BeforeProcessEnd => config.before_process_end_timeout,
            Self::ProcessEnd => config.process_end_timeout,
        }
    }

    /// Whether the node itself has something to do in it.
    #[must_use]
    pub const fn is_of_node(self) -> bool {
        match self {
            Self::ClusterShardingShutdownRegion
            | Self::ClusterLeave
            | Self::ClusterExiting
            | Self::ClusterExitingDone
            | Self::ClusterShutdown => true,
            Self::BeforeServiceUnbind
            | Self::ServiceUnbind
            | Self::ServiceRequestsDone
            | Self::ServiceStop
            | Self::BeforeClusterShutdown
            | Self::BeforeProcessEnd
            | Self::ProcessEnd => false,
        }
    }

    fn next(self) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| *phase > self)
    }
}

/// Its name.
impl fmt::Display for ShutdownPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownStep {
    /// This phase begins: its tasks, all at once, and what the node itself does in it.
    Enter(ShutdownPhase),
    /// All phases are over.
    Over,
}

/// What a phase still waited for when its limit had passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatePhase {
    /// The phase.
    pub phase: ShutdownPhase,
    /// The application's tasks.
    pub tasks: bool,
    /// The node itself.
    pub node: bool,
}

/// How far a shutdown has come. Each call says what follows from it, at most one step.
#[derive(Clone, Debug)]
pub struct Phases {
    limits: ShutdownConfig,
    stage: ShutdownStage,
    /// What the node has done of its own, in whichever order.
    done: OrderedSet<ShutdownPhase>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShutdownStage {
    /// Nobody wants the node to end.
    Running,
    /// In this phase; `tasks` while some of them run.
    In {
        phase: ShutdownPhase,
        tasks: bool,
        deadline: Instant,
    },
    Over,
}

impl Phases {
    /// A node that runs.
    #[must_use]
    pub const fn new(limits: ShutdownConfig) -> Self {
        Self {
            limits,
            stage: ShutdownStage::Running,
            done: OrderedSet::new(),
        }
    }

    /// The node is to end, or has ended. `None` if its shutdown has begun already.
    pub fn begin(&mut self, now: Instant) -> Option<ShutdownStep> {
        match self.stage {
            ShutdownStage::Running => Some(self.enter(ShutdownPhase::ALL.first().copied(), now)),
            ShutdownStage::In { .. } | ShutdownStage::Over => None,
        }
    }

    /// The last task of this phase has ended, or there is none.
    pub fn on_tasks_ended(&mut self, ended: ShutdownPhase, now: Instant) -> Option<ShutdownStep> {
        match &mut self.stage {
            ShutdownStage::In { phase, tasks, .. } if *phase == ended => {
                *tasks = false;
                self.go_on(now)
            }
            ShutdownStage::Running | ShutdownStage::In { .. } | ShutdownStage::Over => None,
        }
    }

    /// The node has done what it does in this phase. It counts also when the phase has not begun.
    pub fn on_node_did(&mut self, phase: ShutdownPhase, now: Instant) -> Option<ShutdownStep> {
        self.done.insert(phase);
        self.go_on(now)
    }

    /// The node has left, or is Down or removed, or was never a member: nothing of the cluster is waited for
    /// any more but that the node closes what it has.
    pub fn on_node_out(&mut self, now: Instant) -> Option<ShutdownStep> {
        let of_cluster = |phase: &ShutdownPhase| *phase < ShutdownPhase::ClusterShutdown;
        self.done
            .extend(ShutdownPhase::ALL.into_iter().filter(of_cluster));
        self.go_on(now)
    }

    /// Looks whether the phase's limit has passed: what it waited for, and what comes next.
    pub fn on_time(&mut self, now: Instant) -> Option<(LatePhase, ShutdownStep)> {
        match self.stage {
            ShutdownStage::In {
                phase,
                tasks,
                deadline,
            } if deadline <= now => {
                let node = self.awaits_node(phase);
                Some((LatePhase { phase, tasks, node }, self.enter(phase.next(), now)))
            }
            ShutdownStage::Running | ShutdownStage::In { .. } | ShutdownStage::Over => None,
        }
    }

    /// The node needs this long in the present phase, if its limit is shorter: the application's tasks have
    /// it too.
    pub fn allow(&mut self, needs: Duration, now: Instant) {
        if let ShutdownStage::In { deadline, .. } = &mut self.stage {
            *deadline = (*deadline).max(now + needs);
        }
    }

    /// The node is to end at once: no phase follows.
    pub const fn cut_short(&mut self) {
        self.stage = ShutdownStage::Over;
    }

    /// When [`Self::on_time`] has something to say.
    #[must_use]
    pub const fn deadline(&self) -> Option<Instant> {
        match self.stage {
            ShutdownStage::In { deadline, .. } => Some(deadline),
            ShutdownStage::Running | ShutdownStage::Over => None,
        }
    }

    /// The present phase.
    #[must_use]
    pub const fn present(&self) -> Option<ShutdownPhase> {
        match self.stage {
            ShutdownStage::In { phase, .. } => Some(phase),
            ShutdownStage::Running | ShutdownStage::Over => None,
        }
    }

    /// Whether a task may still be added to a phase: it has not begun.
    #[must_use]
    pub fn admits(&self, phase: ShutdownPhase) -> bool {
        match self.stage {
            ShutdownStage::Running => true,
            ShutdownStage::In { phase: present, .. } => phase > present,
            ShutdownStage::Over => false,
        }
    }

    /// Whether the shutdown has begun.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        !matches!(self.stage, ShutdownStage::Running)
    }

    /// Whether nothing follows any more.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.stage, ShutdownStage::Over)
    }

    fn awaits_node(&self, phase: ShutdownPhase) -> bool {
        phase.is_of_node() && !self.done.contains(&phase)
    }

    fn go_on(&mut self, now: Instant) -> Option<ShutdownStep> {
        match self.stage {
            ShutdownStage::In {
                phase, tasks: false, ..
            } if !self.awaits_node(phase) => Some(self.enter(phase.next(), now)),
            ShutdownStage::Running | ShutdownStage::In { .. } | ShutdownStage::Over => None,
        }
    }

    fn enter(&mut self, phase: Option<ShutdownPhase>, now: Instant) -> ShutdownStep {
        match phase {
            Some(phase) => {
                self.stage = ShutdownStage::In {
                    phase,
                    tasks: true,
                    deadline: now + phase.limit(&self.limits),
                };
                ShutdownStep::Enter(phase)
            }
            None => {
                self.stage = ShutdownStage::Over;
                ShutdownStep::Over
            }
        }
    }
}

#[cfg(test)]
mod tests;
