//! How long each phase of a shutdown may take, and its check. Spec: membership 2.9 and `shutdown`.

use core::time::Duration;

use super::ConfigError;
use super::ranges::positive;

/// What most phases may take, as in Akka (`default-phase-timeout`).
const PHASE: Duration = Duration::from_secs(5);

/// Time limits of the phases of a shutdown, each > 0. A phase that takes longer is given up and the next one
/// begins: none of them can keep a node from ending. They mirror
/// `coordinated-shutdown.phases.<name>.timeout`.
#[derive(Clone, Debug)]
pub struct ShutdownConfig {
    /// Time limit of `before-service-unbind` (default 5 s).
    pub before_service_unbind_timeout: Duration,
    /// Time limit of `service-unbind` (default 5 s).
    pub service_unbind_timeout: Duration,
    /// Time limit of `service-requests-done` (default 5 s).
    pub service_requests_done_timeout: Duration,
    /// Time limit of `service-stop` (default 5 s).
    pub service_stop_timeout: Duration,
    /// Time limit of `before-cluster-shutdown` (default 5 s).
    pub before_cluster_shutdown_timeout: Duration,
    /// Time limit of `cluster-sharding-shutdown-region`: how long a leaving node waits for its shards to be
    /// handed over (default 10 s).
    pub cluster_sharding_shutdown_region_timeout: Duration,
    /// Time limit of `cluster-leave`: how long the node may take to be Leaving (default 5 s).
    pub cluster_leave_timeout: Duration,
    /// Time limit of `cluster-exiting`: how long a leaving node waits until its singletons are handed over
    /// and the leader has moved it to Exiting (default 10 s).
    pub cluster_exiting_timeout: Duration,
    /// Time limit of `cluster-exiting-done`: how long the node may take to confirm its exit (default 5 s).
    pub cluster_exiting_done_timeout: Duration,
    /// Time limit of `cluster-shutdown`: how long the node may take to close its links and end its entities
    /// (default 5 s).
    pub cluster_shutdown_timeout: Duration,
    /// Time limit of `before-process-end` (default 5 s). Mirrors the phase `before-actor-system-terminate`.
    pub before_process_end_timeout: Duration,
    /// Time limit of `process-end` (default 10 s). Mirrors the phase `actor-system-terminate`.
    pub process_end_timeout: Duration,
    /// How long all phases together may take when a signal of the system began them; after that the node
    /// stops at once (default 25 s). Below the 30 s after which container platforms kill.
    pub after_signal_timeout: Duration,
}

impl Default for ShutdownConfig {
    fn default() -> Self {
        Self {
            before_service_unbind_timeout: PHASE,
            service_unbind_timeout: PHASE,
            service_requests_done_timeout: PHASE,
            service_stop_timeout: PHASE,
            before_cluster_shutdown_timeout: PHASE,
            cluster_sharding_shutdown_region_timeout: Duration::from_secs(10),
            cluster_leave_timeout: PHASE,
            cluster_exiting_timeout: Duration::from_secs(10),
            cluster_exiting_done_timeout: PHASE,
            cluster_shutdown_timeout: PHASE,
            before_process_end_timeout: PHASE,
            process_end_timeout: Duration::from_secs(10),
            after_signal_timeout: Duration::from_secs(25),
        }
    }
}

impl ShutdownConfig {
    /// Timings for one machine; see [`super::Config::fast`]. What a node does itself depends on how busy the
    /// machine is.
    pub(super) fn fast() -> Self {
        let phase = Duration::from_millis(1_000);
        Self {
            before_service_unbind_timeout: phase,
            service_unbind_timeout: phase,
            service_requests_done_timeout: phase,
            service_stop_timeout: phase,
            before_cluster_shutdown_timeout: phase,
            cluster_sharding_shutdown_region_timeout: Duration::from_millis(5_000),
            cluster_leave_timeout: Duration::from_millis(3_000),
            cluster_exiting_timeout: Duration::from_millis(5_000),
            before_process_end_timeout: phase,
            process_end_timeout: phase,
            ..Self::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let limits = [
            (
                "shutdown.before_service_unbind_timeout",
                self.before_service_unbind_timeout,
            ),
            ("shutdown.service_unbind_timeout", self.service_unbind_timeout),
            (
                "shutdown.service_requests_done_timeout",
                self.service_requests_done_timeout,
            ),
            ("shutdown.service_stop_timeout", self.service_stop_timeout),
            (
                "shutdown.before_cluster_shutdown_timeout",
                self.before_cluster_shutdown_timeout,
            ),
            (
                "shutdown.cluster_sharding_shutdown_region_timeout",
                self.cluster_sharding_shutdown_region_timeout,
            ),
            ("shutdown.cluster_leave_timeout", self.cluster_leave_timeout),
            ("shutdown.cluster_exiting_timeout", self.cluster_exiting_timeout),
            (
                "shutdown.cluster_exiting_done_timeout",
                self.cluster_exiting_done_timeout,
            ),
            ("shutdown.cluster_shutdown_timeout", self.cluster_shutdown_timeout),
            (
                "shutdown.before_process_end_timeout",
                self.before_process_end_timeout,
            ),
            ("shutdown.process_end_timeout", self.process_end_timeout),
            ("shutdown.after_signal_timeout", self.after_signal_timeout),
        ];
        limits
            .into_iter()
            .try_for_each(|(key, limit)| positive(key, limit))
    }
}
