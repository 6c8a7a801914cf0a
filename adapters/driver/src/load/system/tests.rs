//! Readings of files as Linux writes them. Spec: sharding 5.5.

use super::*;

const STAT: &str = "cpu  100 0 50 800 10 0 0 40 7 0\ncpu0 50 0 25 400 5 0 0 20 0 0\ncpu1 50 0 25 400 5 0 0 20 0 0\n\
                    intr 12 3\nctxt 4\n";

/// A machine made of files, in a folder of its own.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("quorate-load-{}-{name}", std::process::id()));
        let files = Self(folder);
        files.write("proc/stat", STAT);
        files.write("proc/loadavg", "1.50 0.40 0.10 2/300 4711\n");
        files.write("proc/meminfo", "MemTotal:        4096 kB\nMemFree: 1 kB\n");
        files.write("proc/self/status", "Name:\tx\nVmRSS:\t    1024 kB\n");
        files.write("proc/self/cgroup", "0::/\n");
        files.uses(100, 100);
        files
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Ticks of the process. Its name is as odd as names may be.
    fn uses(&self, user: u64, system: u64) {
        let stat = format!("42 (a ) (b) S 1 42 42 0 -1 4194304 1 0 0 0 {user} {system} 9 9 20 0 5 0 1 1 1\n");
        self.write("proc/self/stat", &stat);
    }

    fn reader(&self) -> SystemReader {
        SystemReader::below(self.0.clone())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _best_effort = fs::remove_dir_all(&self.0);
    }
}

/// Two readings three seconds apart, the process having run for so many ticks between them.
fn twice(files: &Files, ticks: u64) -> SystemLoad {
    let mut reader = files.reader();
    let begin = Instant::now();
    assert_eq!(reader.read_at(begin).cpu, None, "nothing to compare with yet");
    files.uses(100 + ticks, 100);
    files.write(
        "proc/stat",
        &STAT.replace("cpu  100 0 50 800 10 0 0 40", "cpu  400 0 50 980 10 0 0 160"),
    );
    reader.read_at(begin + Duration::from_secs(3))
}

fn close(found: f64, expected: f64) {
    assert!(
        (found - expected).abs() < 1e-9,
        "found {found}, expected {expected}"
    );
}

#[test]
fn without_limits_the_whole_machine_may_be_used() {
    let files = Files::new("whole");
    let load = twice(&files, 300);
    let cpu = load.cpu.unwrap();
    // Three seconds of processor time, of six.
    close(cpu.combined, 0.5);
    close(cpu.stolen, 0.2);
    assert_eq!(load.machine, Some(MachineLoad { load: 1.5, cores: 2 }));
    let memory = load.memory.unwrap();
    assert_eq!((memory.used, memory.max), (1 << 20, Some(4 << 20)));
}

#[test]
fn the_smallest_limit_of_the_groups_counts() {
    let files = Files::new("second");
    files.write("proc/self/cgroup", "0::/pods/one\n");
    files.write("sys/fs/cgroup/pods/one/cpu.max", "max 100000\n");
    files.write("sys/fs/cgroup/pods/cpu.max", "50000 100000\n");
    files.write("sys/fs/cgroup/pods/one/memory.max", "2097152\n");
    files.write("sys/fs/cgroup/pods/memory.max", "max\n");
    let load = twice(&files, 120);
    // 1.2 of one and a half seconds.
    close(load.cpu.unwrap().combined, 0.8);
    assert_eq!(load.memory.unwrap().capacity(), Some(0.5));
}

#[test]
fn limits_of_version_1_are_understood() {
    let files = Files::new("first");
    files.write(
        "proc/self/cgroup",
        "7:cpu,cpuacct:/docker/x\n5:memory:/docker/x\n1:name=systemd:/\n",
    );
    files.write("sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "-1\n");
    files.write("sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us", "100000\n");
    files.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
    files.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    files.write("sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "2097152\n");
    files.write(
        "sys/fs/cgroup/memory/memory.limit_in_bytes",
        "9223372036854771712\n",
    );
    let load = twice(&files, 150);
    close(load.cpu.unwrap().combined, 0.5);
    assert_eq!(load.memory.unwrap().max, Some(2 << 20));
}

#[test]
fn what_is_not_there_or_odd_is_none() {
    let files = Files::new("odd");
    for path in ["proc/stat", "proc/loadavg", "proc/self/stat", "proc/self/status"] {
        for text in [
            "",
            "cpu",
            "cpu  a b\ncpu0\n",
            ")",
            "1 (x) S 99999999999999999999",
            "VmRSS: -1 kB",
        ] {
            files.write(path, text);
            let mut reader = files.reader();
            reader.read();
            reader.read();
        }
    }
    let mut nothing = SystemReader::below(files.0.join("nothing"));
    assert_eq!(nothing.read(), SystemLoad::default());
    assert_eq!(nothing.read(), SystemLoad::default());
}

#[cfg(target_os = "linux")]
#[test]
fn this_process_can_be_measured() {
    let mut reader = SystemReader::of_this_process();
    let first = reader.read();
    let memory = first.memory.unwrap();
    assert!(memory.used > 1 << 16 && memory.max.is_some_and(|max| max > memory.used));
    let machine = first.machine.unwrap();
    assert!(machine.cores >= 1 && machine.load >= 0.0);
    let later = Instant::now() + Duration::from_secs(3);
    let cpu = reader.read_at(later).cpu.unwrap();
    assert!((0.0..=1.1).contains(&cpu.combined) && (0.0..=1.0).contains(&cpu.stolen));
}
