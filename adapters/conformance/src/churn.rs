//! Nodes that come and go: join, leave, end without a word, come back at the same address; and what the
//! process holds afterwards. For a program of its own: file descriptors, threads and memory are the whole
//! process's. Spec: reliability F-31, I-96.

use std::env;
use std::fmt;
use std::fs;
use std::io;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use quorate_core::effect::HaltReason;
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{Security, Termination};

use super::support::{all_up, cluster, joined, runtime, sleep, start_at, within};

/// The settings of glibc's allocator that [`again_with_one_arena`] makes; the first shows that they are made.
const ALLOCATOR: [(&str, &str); 2] = [("MALLOC_ARENA_MAX", "1"), ("MALLOC_MMAP_THRESHOLD_", "131072")];

/// Nodes that stay.
const STABLE: usize = 3;

/// How long the process gets to let go of what ended nodes held: a QUIC connection is given up after five
/// seconds.
const SETTLE_MAX: Duration = Duration::from_secs(60);

/// What a process holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldByProcess {
    /// Open file descriptors.
    pub descriptors: u64,
    /// Threads.
    pub threads: u64,
    /// Tasks of the runtime, where it counts them; else 0.
    pub tasks: u64,
    /// Resident memory in KiB.
    pub resident_kib: u64,
}

impl HeldByProcess {
    /// What this process holds now; zeros where the system has no `/proc`.
    fn now(tasks: u64) -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            number.unwrap_or(0)
        };
        Self {
            descriptors: fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64),
            threads: number("Threads:"),
            tasks,
            resident_kib: number("VmRSS:"),
        }
    }

    /// Whether it is at most a tenth more than `base`, with room for two of what is counted singly.
    fn is_back_at(&self, base: &Self) -> bool {
        let back = |now: u64, base: u64| now <= base + base / 10 + 2;
        back(self.descriptors, base.descriptors)
            && back(self.threads, base.threads)
            && back(self.tasks, base.tasks)
            && self.resident_kib <= base.resident_kib + base.resident_kib / 10
    }
}

impl fmt::Display for HeldByProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            descriptors,
            threads,
            tasks,
            resident_kib,
        } = self;
        write!(
            f,
            "{descriptors} descriptors, {threads} threads, {tasks} tasks, {resident_kib} KiB"
        )
    }
}

/// Runs this program again with one arena of glibc's allocator, unless it was started so, and says how that
/// ended. For the `main` of a program that measures: each thread's own arena keeps what the thread gave back,
/// and so does a heap that has learned to take blocks of megabytes, such as QUIC's receive buffers; then the
/// resident memory says in which order things came and went, and not what is held.
///
/// # Errors
/// The program cannot be started.
pub fn again_with_one_arena() -> io::Result<Option<ExitStatus>> {
    if env::var_os(ALLOCATOR[0].0).is_some() {
        return Ok(None);
    }
    let mut again = Command::new(env::current_exe()?);
    again.args(env::args_os().skip(1)).envs(ALLOCATOR);
    again.status().map(Some)
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct ChurnOutcome {
    /// Joins, leaves, ends and restarts.
    pub changes: u64,
    /// After the first tenth of the time: by then buffers have the size that a change needs.
    pub base: HeldByProcess,
    /// After the last.
    pub end: HeldByProcess,
    /// Whether the end is no more than a tenth above the base.
    pub is_back: bool,
}

/// Rounds of changes for so long, at least two. Panics if the cluster does not follow a change.
pub async fn churn<A: Adapter>(
    security: &Security,
    length: Duration,
    tasks: impl Fn() -> u64,
) -> ChurnOutcome {
    let nodes = cluster::<A>(STABLE, security).await;
    let clock = runtime::<A>();
    let begun = clock.now().mono;
    let rounds = async |until: Duration| {
        let mut changes = 0;
        loop {
            changes += round::<A>(&nodes, security).await;
            if clock.now().mono.since(begun) >= until {
                return changes;
            }
        }
    };
    let mut changes = rounds(length / 10).await;
    sleep::<A>(Duration::from_secs(2)).await;
    let base = HeldByProcess::now(tasks());
    changes += rounds(length).await;
    let patience = clock.now().mono + SETTLE_MAX;
    loop {
        sleep::<A>(Duration::from_secs(2)).await;
        let end = HeldByProcess::now(tasks());
        let is_back = end.is_back_at(&base);
        if is_back || clock.now().mono >= patience {
            return ChurnOutcome {
                changes,
                base,
                end,
                is_back,
            };
        }
    }
}

/// One of each: a node joins and leaves, another joins and is gone without a word, comes back at the same
/// address, and leaves.
async fn round<A: Adapter>(nodes: &[quorate_driver::Cluster], security: &Security) -> u64 {
    let seed = nodes[0].address().address();
    let leave = async |node: &quorate_driver::Cluster| {
        let left = within::<A, _>("the node has left", node.leave()).await;
        assert_eq!(left, Ok(Termination::Halted(HaltReason::Left)));
    };
    let seen = async |count: usize| {
        for node in nodes {
            all_up::<A>(node, count).await;
        }
    };
    let guest = joined::<A>(seed, security).await;
    seen(STABLE + 1).await;
    leave(&guest).await;
    seen(STABLE).await;

    let mortal = joined::<A>(seed, security).await;
    seen(STABLE + 1).await;
    assert_eq!(mortal.stop().await, Termination::Stopped);
    let address = mortal.address().address().clone();
    drop(mortal);
    let again = start_at::<A>(&address, seed, security).await;
    within::<A, _>("the restarted node is up", again.up())
        .await
        .expect("it is up");
    seen(STABLE + 1).await;
    assert_eq!(again.stop().await, Termination::Stopped);
    // Nobody comes back this time: the others find it unreachable and down it.
    seen(STABLE).await;
    6
}
