//! Settings of paths and their hand-offs, and their check. Spec: sharding 5.

use core::time::Duration;

use super::ConfigError;
use super::ranges::{at_least_one, bounded, ensure, positive, within};

/// Settings of paths.
#[derive(Clone, Debug)]
pub struct PathsConfig {
    /// How often the leader looks whether a slot is to be placed or moved (default 1 s, > 0).
    pub plan_interval: Duration,
    /// How often requests to the leader, steps of hand-offs and marks are repeated until they are answered
    /// (default 2 s, > 0).
    pub repeat_interval: Duration,
    /// How long a new host may take until its instance is ready; then the move is given up (default 30 s,
    /// > 0).
    pub ready_timeout: Duration,
    /// How long what has become of moves waits for more of it before it is gossiped (default 100 ms, > 0).
    pub write_delay: Duration,
    /// How long a Leaving member may take to hand over its instances before the leader lets it go all the
    /// same (default 60 s, > 0).
    pub exit_timeout: Duration,
    /// How long a request is repeated for which no leader answers (default 30 s, > 0).
    pub request_timeout: Duration,
    /// How long a removed path is remembered after its last instance has ended (default 1 h, > 0): longer
    /// than gossip from before may take to arrive. Until then it counts among the 1,024 paths.
    pub forget_after: Duration,
    /// How long an instance may take to stop before its handler is dropped (default 10 s, > 0).
    pub stop_timeout: Duration,
    /// How long an instance that failed rests before the next one is started (default 1 s, > 0); twice as
    /// long after each failure.
    pub restart_backoff_min: Duration,
    /// The longest such rest (default 30 s, >= `restart_backoff_min`). An instance that ran for as long
    /// failed for the first time.
    pub restart_backoff_max: Duration,
    /// For how long a member that could not take a slot over is given none of its path (default 30 s, 0 or
    /// longer).
    pub move_cooldown: Duration,
    /// Messages of one sender that wait for one slot while it moves (default 1,000, 0 to 10,000); what is
    /// beyond them is not handled.
    pub buffer_messages_max: usize,
    /// Their payload bytes (default 4 MiB, >= 1).
    pub buffer_bytes_max: usize,
    /// Asks that this node has passed on as an old host and whose answers may still come through it (default
    /// 10,000, >= 1).
    pub forwarded_asks_max: usize,
    /// Asks of this node to paths that may wait for an answer at once (default 10,000, >= 1).
    pub open_asks_max: usize,
    /// Largest state of an instance that moves with its slot, in bytes (default 64 MiB, >= 1); a move with a
    /// larger one is given up.
    pub state_bytes_max: usize,
}

impl Default for PathsConfig {
    fn default() -> Self {
        Self {
            plan_interval: Duration::from_secs(1),
            repeat_interval: Duration::from_secs(2),
            ready_timeout: Duration::from_secs(30),
            write_delay: Duration::from_millis(100),
            exit_timeout: Duration::from_secs(60),
            request_timeout: Duration::from_secs(30),
            forget_after: Duration::from_secs(3_600),
            stop_timeout: Duration::from_secs(10),
            restart_backoff_min: Duration::from_secs(1),
            restart_backoff_max: Duration::from_secs(30),
            move_cooldown: Duration::from_secs(30),
            buffer_messages_max: 1_000,
            buffer_bytes_max: 4 << 20,
            forwarded_asks_max: 10_000,
            open_asks_max: 10_000,
            state_bytes_max: 64 << 20,
        }
    }
}

impl PathsConfig {
    /// Timings for one machine; see [`super::Config::fast`].
    pub(super) fn fast() -> Self {
        Self {
            plan_interval: Duration::from_millis(100),
            repeat_interval: Duration::from_millis(200),
            ready_timeout: Duration::from_millis(3_000),
            write_delay: Duration::from_millis(10),
            exit_timeout: Duration::from_millis(6_000),
            request_timeout: Duration::from_millis(3_000),
            forget_after: Duration::from_secs(60),
            stop_timeout: Duration::from_millis(2_000),
            restart_backoff_min: Duration::from_millis(100),
            restart_backoff_max: Duration::from_millis(3_000),
            move_cooldown: Duration::from_millis(3_000),
            ..Self::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        positive("paths.plan_interval", self.plan_interval)?;
        positive("paths.repeat_interval", self.repeat_interval)?;
        positive("paths.ready_timeout", self.ready_timeout)?;
        positive("paths.write_delay", self.write_delay)?;
        positive("paths.exit_timeout", self.exit_timeout)?;
        positive("paths.request_timeout", self.request_timeout)?;
        positive("paths.forget_after", self.forget_after)?;
        positive("paths.stop_timeout", self.stop_timeout)?;
        positive("paths.restart_backoff_min", self.restart_backoff_min)?;
        positive("paths.restart_backoff_max", self.restart_backoff_max)?;
        ensure(
            self.restart_backoff_max >= self.restart_backoff_min,
            "paths.restart_backoff_max",
            &self.restart_backoff_max,
            "at least paths.restart_backoff_min",
        )?;
        bounded("paths.move_cooldown", self.move_cooldown)?;
        within(
            "paths.buffer_messages_max",
            self.buffer_messages_max,
            (0, 10_000),
            "0 to 10000",
        )?;
        at_least_one("paths.buffer_bytes_max", self.buffer_bytes_max)?;
        at_least_one("paths.forwarded_asks_max", self.forwarded_asks_max)?;
        at_least_one("paths.open_asks_max", self.open_asks_max)?;
        at_least_one("paths.state_bytes_max", self.state_bytes_max)
    }
}
