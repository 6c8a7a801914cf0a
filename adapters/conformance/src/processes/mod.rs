//! How processes with a node end: by a signal, by a second one, with tasks that hang and panic, downed, five
//! of them together; and what is said of one that is stopped. The tests start their own test program again,
//! which then plays the application (`child`), and go by the lines that it says. Spec: `docs/shutdown.md`.

mod child;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quorate_driver::ShutdownPhase;

use self::child::FIVE;

pub use child::run_child;

/// What a child is to do.
const SCRIPT: &str = "QUORATE_CONFORMANCE_SCRIPT";

/// How long anything may take on a machine that is busy with other tests.
const DEADLINE: Duration = Duration::from_secs(60);

/// What a test program is to do if it was started by one of these tests; `None` if it is a test program as
/// any other.
#[must_use]
pub fn script_of_child() -> Option<String> {
    std::env::var(SCRIPT).ok()
}

/// One after the other: processes watch each other with tight timings.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A child, killed when it is dropped.
struct Process {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Process {
    /// `program` is the name of the test that plays the application, with its modules.
    fn start(program: &str, script: &str) -> Self {
        // The crate's name stands in front of what the test program knows it by.
        let name = program.split_once("::").map_or(program, |(_, name)| name);
        let path = std::env::current_exe().expect("a test program has a path");
        let mut command = Command::new(path);
        command
            .args([name, "--exact", "--nocapture", "--test-threads=1"])
            .env(SCRIPT, script)
            .env_remove("RUST_LOG")
            // Naming the lines of a panic may take longer than the task's phase.
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("it starts");
        let out = child.stdout.take().expect("invariant: it is piped");
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(out).lines().map_while(Result::ok);
            lines.try_for_each(|line| sender.send(line))
        });
        Self {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    /// The rest of the next line that begins like this. Panics if there is none in time.
    fn line(&mut self, begin: &str) -> String {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("no line `{begin}` after {:#?}", self.seen);
            };
            self.seen.push(line.clone());
            if let Some(rest) = line.strip_prefix(begin) {
                return rest.trim().to_owned();
            }
        }
    }

    /// Waits for a line that begins like this, unless it was said before.
    fn has_said(&mut self, begin: &str) {
        if !self.seen.iter().any(|line| line.starts_with(begin)) {
            self.line(begin);
        }
    }

    /// The rest of the newest line so far that begins like this.
    fn newest(&mut self, begin: &str) -> Option<String> {
        self.seen.extend(self.lines.try_iter());
        let mut newest = self.seen.iter().rev().filter_map(|line| line.strip_prefix(begin));
        newest.next().map(str::to_owned)
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &id]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -{name}");
    }

    /// Waits for its end: its code, and all that it said.
    fn end(mut self) -> (Option<i32>, Vec<String>) {
        let deadline = Instant::now() + DEADLINE;
        let status = loop {
            match self.child.try_wait().expect("it is a child of this process") {
                Some(status) => break status,
                None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
                None => panic!("it still runs after {:#?}", self.seen),
            }
        };
        let mut seen = std::mem::take(&mut self.seen);
        seen.extend(self.lines.iter());
        (status.code(), seen)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The rest of the lines that begin like this.
fn said<'l>(lines: &'l [String], begin: &str) -> Vec<&'l str> {
    lines.iter().filter_map(|line| line.strip_prefix(begin)).collect()
}

fn names() -> Vec<&'static str> {
    ShutdownPhase::ALL.iter().map(|phase| phase.name()).collect()
}

/// All phases began, in their order.
fn phases(lines: &[String]) {
    assert_eq!(said(lines, "phase "), names(), "{lines:#?}");
}

/// SIGTERM: all phases in their order, each task once, the callbacks once, and the code of success.
pub fn a_process_that_is_told_to_end_leaves_in_order(program: &str) {
    let _alone = alone();
    let mut process = Process::start(program, "orderly");
    process.line("ready");
    process.signal("TERM");
    let (code, lines) = process.end();
    assert_eq!(code, Some(0), "{lines:#?}");
    phases(&lines);
    assert_eq!(said(&lines, "task "), names(), "{lines:#?}");
    assert_eq!(said(&lines, "on_up").len(), 1, "{lines:#?}");
    assert_eq!(said(&lines, "on_removed").len(), 1, "{lines:#?}");
    assert_eq!(said(&lines, "failed "), Vec::<&str>::new());
    assert_eq!(said(&lines, "ended "), ["Halted(Left)"]);
}

/// SIGINT, and another signal while a task hangs: the process ends at once, and its code names the second
/// signal.
pub fn a_second_signal_ends_a_process_at_once(program: &str) {
    let _alone = alone();
    for (second, expected) in [("INT", 130), ("TERM", 143)] {
        let mut process = Process::start(program, "hangs");
        process.line("ready");
        process.signal("INT");
        process.line("it hangs");
        let last = ShutdownPhase::ServiceStop.name();
        // Another task of that process says it, and what it has not said is lost with the process.
        process.has_said(&format!("phase {last}"));
        let at = Instant::now();
        process.signal(second);
        let (code, lines) = process.end();
        assert_eq!(code, Some(expected), "{lines:#?}");
        assert!(at.elapsed() < DEADLINE / 4, "{:?}", at.elapsed());
        let begun = said(&lines, "phase ");
        assert!(
            begun.last().is_some_and(|line| line.starts_with(last)),
            "{lines:#?}"
        );
    }
}

/// A task that hangs is given up after its phase's limit, one that panics is named; the process ends in order
/// all the same.
pub fn tasks_that_hang_or_panic_do_not_keep_a_process(program: &str) {
    let _alone = alone();
    let mut process = Process::start(program, "given-up");
    process.line("ready");
    let at = Instant::now();
    process.signal("TERM");
    // By this process's clock: how late the other one says a line is not its phases' matter.
    process.line("phase before-cluster-shutdown");
    let waited = at.elapsed();
    let (code, lines) = process.end();
    assert_eq!(code, Some(0), "{lines:#?}");
    phases(&lines);
    assert!(
        waited >= Duration::from_millis(400) && waited < DEADLINE / 2,
        "{waited:?}"
    );
    assert_eq!(said(&lines, "task "), names(), "{lines:#?}");
    let mut failed = said(&lines, "failed ");
    failed.sort_unstable();
    assert_eq!(
        failed,
        [
            "service-stop hangs GivenUp { after: 400ms }",
            "service-stop panics Panicked"
        ]
    );
}

/// After a signal the whole has a limit too; who stops by it has not left.
pub fn a_process_that_takes_too_long_after_a_signal_is_stopped(program: &str) {
    let _alone = alone();
    let mut process = Process::start(program, "limited");
    process.line("ready");
    let at = Instant::now();
    process.signal("TERM");
    let (code, lines) = process.end();
    assert_eq!(code, Some(1), "{lines:#?}");
    assert!(at.elapsed() >= Duration::from_millis(400));
    assert_eq!(said(&lines, "ended "), ["Stopped"]);
    assert_eq!(said(&lines, "on_removed").len(), 1, "{lines:#?}");
}

/// A program that goes on when its node has ended, and no longer waits for signals, is ended by the next one
/// like any other.
pub fn a_signal_that_nobody_waits_for_ends_the_process(program: &str) {
    let _alone = alone();
    let mut process = Process::start(program, "lingers");
    process.line("ready");
    process.signal("TERM");
    process.line("lingers");
    process.signal("INT");
    let (code, lines) = process.end();
    assert_eq!(code, None, "by the signal itself: {lines:#?}");
}

/// A node that is downed: its process ends by itself, with all tasks and a code of its own.
pub fn a_process_whose_node_is_downed_ends_with_a_code_of_its_own(program: &str) {
    let _alone = alone();
    let mut process = Process::start(program, "downed");
    process.line("ready");
    let at = Instant::now();
    let (code, lines) = process.end();
    assert_eq!(code, Some(255), "{lines:#?}");
    phases(&lines);
    let took = at.elapsed();
    assert!(took < DEADLINE / 2, "nobody else is waited for: {took:?}");
    assert_eq!(said(&lines, "task "), names(), "{lines:#?}");
    assert_eq!(said(&lines, "on_removed").len(), 1, "{lines:#?}");
    assert_eq!(said(&lines, "ended "), ["Halted(Downed)"]);
}

/// Five processes, started one after the other at the first one's address; the address of the last.
fn five(program: &str, script: &str) -> (Vec<Process>, String) {
    let mut oldest = Process::start(program, script);
    let seed = oldest.line("address ");
    let others = (1..FIVE).map(|_| Process::start(program, &format!("{script} {seed}")));
    let mut processes: Vec<Process> = others.collect();
    let last = processes.last_mut().map(|process| process.line("address "));
    processes.insert(0, oldest);
    (processes, last.unwrap_or_default())
}

/// Waits until the newest of what each says about the cluster begins like this, has this in the rest, and is
/// the same.
fn all_say(processes: &mut [Process], begin: &str, part: &str) {
    let begun = Instant::now();
    loop {
        let newest: Vec<Option<String>> = processes
            .iter_mut()
            .map(|process| process.newest("survey "))
            .collect();
        if let Some(Some(first)) = newest.first()
            && first.strip_prefix(begin).is_some_and(|rest| rest.contains(part))
            && newest.iter().all(|other| other.as_ref() == Some(first))
        {
            return;
        }
        assert!(begun.elapsed() < DEADLINE, "not all say `{begin}`: {newest:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Five processes host a kind, and one is stopped (SIGSTOP): each of the others still gets the statistics of
/// the cluster, in the time that it gave, with what the others host and the name of the one that says
/// nothing; and each says the same of where entities are and why, those of the stopped one included. So it is
/// when the one that is stopped is the coordinator, which then is named. Whoever goes on is in the statistics
/// again.
pub fn s_115_a_stopped_process_of_five_is_named_in_the_statistics_of_every_other(program: &str) {
    let _alone = alone();
    let (mut processes, last) = five(program, "surveyed");
    let first = said(&processes[0].seen, "address ")[0].to_owned();
    let all_there = "5 regions, silent []; explained Placement";
    // Some live where a process is about to stop.
    all_say(&mut processes, all_there, &last);
    let stopped = processes.pop().expect("there are five");
    stopped.signal("STOP");
    let begin = format!("4 regions, silent [{last}]; explained Placement");
    all_say(&mut processes, &begin, &last);
    stopped.signal("CONT");
    processes.push(stopped);
    all_say(&mut processes, all_there, &last);
    let oldest = processes.remove(0);
    oldest.signal("STOP");
    let begin = format!("4 regions, silent [{first}]; explained");
    all_say(&mut processes, &begin, &format!("{first} says nothing"));
    oldest.signal("CONT");
    all_say(&mut processes, all_there, &first);
    for process in &processes {
        assert_eq!(said(&process.seen, "late "), Vec::<&str>::new());
    }
}

/// Five processes prepare and are told to end together: all leave, nothing is handed over, nothing begins
/// anywhere.
pub fn m_220_five_processes_prepare_and_stop_together(program: &str) {
    let _alone = alone();
    let (mut processes, _) = five(program, "member");
    for process in &mut processes {
        process.line("ready");
    }
    for process in &processes {
        process.signal("TERM");
    }
    for process in processes {
        let (code, lines) = process.end();
        assert_eq!(code, Some(0), "{lines:#?}");
        assert_eq!(said(&lines, "moved "), Vec::<&str>::new());
        assert_eq!(said(&lines, "ended "), ["Halted(Left)"]);
    }
}
