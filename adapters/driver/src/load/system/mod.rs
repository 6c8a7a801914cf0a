//! What Linux says about this process, its control group and its machine, as text in `/proc` and
//! `/sys/fs/cgroup`. Elsewhere those files are not there, and nothing can be measured: `None`. Spec: sharding
//! 5.5.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use quorate_core::load::state::capacity::{Cpu, Heap, MachineLoad};

/// How many ticks of processor time `/proc` counts in a second: 100 on every architecture that std supports.
const TICKS_PER_SECOND: u64 = 100;

/// A limit that stands for none in control groups of version 1: they say the largest multiple of a page.
const NO_LIMIT_V1: u64 = 1 << 60;

/// What was read; `None` is what could not be.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SystemLoad {
    /// Of the process since the last time, of the processors that it may use.
    pub(crate) cpu: Option<Cpu>,
    pub(crate) machine: Option<MachineLoad>,
    pub(crate) memory: Option<Heap>,
}

/// Times that only grow, as they were read.
#[derive(Clone, Copy, Debug)]
struct Times {
    at: Instant,
    process: Duration,
    /// Of all processors: all that was counted, and what was stolen.
    machine: Option<(u64, u64)>,
}

/// Reads, and remembers what it read last.
#[derive(Debug)]
pub(super) struct SystemReader {
    root: PathBuf,
    last: Option<Times>,
}

impl SystemReader {
    pub(super) fn of_this_process() -> Self {
        Self::below(PathBuf::from("/"))
    }

    const fn below(root: PathBuf) -> Self {
        Self { root, last: None }
    }

    pub(super) fn read(&mut self) -> SystemLoad {
        self.read_at(Instant::now())
    }

    fn read_at(&mut self, at: Instant) -> SystemLoad {
        let stat = self.text("proc/stat");
        let cores = stat.as_deref().map_or(0, processors);
        let load = self.text("proc/loadavg").as_deref().and_then(first_number);
        let groups = self.text("proc/self/cgroup").unwrap_or_default();
        SystemLoad {
            cpu: self.cpu(at, stat.as_deref(), cores, &groups),
            machine: load.filter(|_| cores > 0).map(|load| MachineLoad { load, cores }),
            memory: self.memory(&groups),
        }
    }

    /// Processor time since the last reading; `None` the first time.
    fn cpu(&mut self, at: Instant, stat: Option<&str>, cores: u32, groups: &str) -> Option<Cpu> {
        let process = self.text("proc/self/stat").as_deref().and_then(process_time)?;
        let machine = stat.and_then(machine_time);
        let now = Times { at, process, machine };
        let last = self.last.replace(now)?;
        let elapsed = at.saturating_duration_since(last.at).as_secs_f64();
        let limit = self.processors_allowed(groups).unwrap_or(f64::INFINITY);
        let may_use = limit.min(f64::from(cores));
        if elapsed <= 0.0 || may_use <= 0.0 {
            return None;
        }
        let used = process.saturating_sub(last.process).as_secs_f64();
        let stolen = machine.zip(last.machine).and_then(|(now, last)| {
            let all = now.0.saturating_sub(last.0);
            (all > 0).then(|| now.1.saturating_sub(last.1) as f64 / all as f64)
        });
        Some(Cpu {
            combined: used / (elapsed * may_use),
            stolen: stolen.unwrap_or(0.0),
        })
    }

    fn memory(&self, groups: &str) -> Option<Heap> {
        let used = kibibytes(&self.text("proc/self/status")?, "VmRSS:")?;
        let machine = self
            .text("proc/meminfo")
            .and_then(|text| kibibytes(&text, "MemTotal:"));
        let max = self.memory_allowed(groups).into_iter().chain(machine).min();
        Some(Heap {
            used,
            committed: used,
            max,
        })
    }

    /// The processors that the control group of this process and those above it leave it.
    fn processors_allowed(&self, groups: &str) -> Option<f64> {
        let second = group_folders(groups, "").map(|folder| {
            let text = self.text(&format!("sys/fs/cgroup{folder}/cpu.max"))?;
            let (quota, period) = text.trim().split_once(' ')?;
            share(quota.parse().ok()?, period.parse().ok()?)
        });
        let first = group_folders(groups, "cpu").map(|folder| {
            let folder = format!("sys/fs/cgroup/cpu{folder}");
            let number = |name: &str| self.text(&format!("{folder}/{name}"))?.trim().parse().ok();
            share(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
        });
        second.chain(first).flatten().min_by(f64::total_cmp)
    }

    /// The bytes of memory that they leave it.
    fn memory_allowed(&self, groups: &str) -> Option<u64> {
        let number = |path: String| -> Option<u64> { self.text(&path)?.trim().parse().ok() };
        let second =
            group_folders(groups, "").map(|folder| number(format!("sys/fs/cgroup{folder}/memory.max")));
        let first = group_folders(groups, "memory").map(|folder| {
            let bytes = number(format!("sys/fs/cgroup/memory{folder}/memory.limit_in_bytes"));
            bytes.filter(|bytes| *bytes < NO_LIMIT_V1)
        });
        second.chain(first).flatten().min()
    }

    fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }
}

/// Processors, of a quota and the period that it is for.
fn share(quota: i64, period: i64) -> Option<f64> {
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

/// The folder of this process's group under a controller of version 1, or of version 2 if that is empty, and
/// those above it up to the root, which is empty.
fn group_folders(groups: &str, controller: &str) -> impl Iterator<Item = String> {
    let of_line = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let is_meant = controllers.split(',').any(|named| named == controller);
        is_meant.then(|| PathBuf::from(path))
    };
    let path = groups.lines().find_map(of_line);
    let folders = path.map(|path| {
        let folders = path.ancestors().map(|folder| match folder.to_string_lossy() {
            root if root == "/" => String::new(),
            folder => folder.into_owned(),
        });
        folders.collect::<Vec<_>>()
    });
    // Inside of a container its own group may be the root.
    folders.unwrap_or_default().into_iter()
}

/// The first number of a text.
fn first_number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

/// User and system time in `/proc/self/stat`. The name of the process may hold anything, so what counts
/// begins behind its last parenthesis.
fn process_time(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11);
    let mut ticks = || times.next()?.parse::<u64>().ok();
    let all = ticks()?.checked_add(ticks()?)?;
    Some(Duration::from_millis(
        all.saturating_mul(1_000 / TICKS_PER_SECOND),
    ))
}

/// Ticks of all processors in `/proc/stat`, and those that were stolen among them. Guests are counted as
/// users already.
fn machine_time(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let times = line
        .split_whitespace()
        .take(8)
        .map(|ticks| ticks.parse::<u64>().ok());
    let times: Vec<u64> = times.collect::<Option<_>>()?;
    let all = times.iter().fold(0_u64, |sum, ticks| sum.saturating_add(*ticks));
    Some((all, times.get(7).copied()?))
}

/// How many processors `/proc/stat` names.
fn processors(stat: &str) -> u32 {
    let is_one = |line: &&str| {
        let number = line.strip_prefix("cpu");
        number.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    u32::try_from(stat.lines().filter(is_one).count()).unwrap_or(u32::MAX)
}

/// The bytes of a line like `VmRSS:   1234 kB`.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    let count: u64 = rest.split_whitespace().next()?.parse().ok()?;
    count.checked_mul(1_024)
}

#[cfg(test)]
mod tests;
