//! Programs as processes, for the tests of the packages that have them: each with a deadline, and dropping
//! one kills it. Knows no program.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod command_lines;

use std::cell::Cell;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything here may take on a machine that is busy with other tests.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Says past the capture of the tests' output that a test was not run, and why.
pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// How many tests of programs run at once. Each starts several processes that watch each other with tight
/// timings and wait for each other most of the time: one at a time leaves a machine idle, and more than two
/// make the timings of two cores late.
const AT_ONCE: usize = 2;

static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();
thread_local! {
    static HAS_ONE: Cell<bool> = const { Cell::new(false) };
}

/// The right to start programs, while it lives.
#[derive(Debug)]
pub struct Turn(());

/// Waits for a turn to start programs: two tests have one at once.
///
/// # Panics
/// If this thread has one already: two such tests would wait for each other.
#[must_use]
pub fn turn() -> Turn {
    assert!(
        !HAS_ONE.replace(true),
        "two tests with two turns each wait for each other"
    );
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let free = ENDED.wait_while(running, |running| *running >= AT_ONCE);
    *free.unwrap_or_else(PoisonError::into_inner) += 1;
    Turn(())
}

impl Drop for Turn {
    fn drop(&mut self) {
        HAS_ONE.set(false);
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ENDED.notify_one();
    }
}

/// A server's port that takes connections and says nothing.
#[derive(Debug)]
pub struct Silent(std::net::TcpListener);

impl Silent {
    /// Listens.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it listens")]
    pub fn new() -> Self {
        Self(std::net::TcpListener::bind("127.0.0.1:0").unwrap())
    }

    /// Where, as PostgreSQL's clients are told.
    #[must_use]
    pub fn server(&self) -> String {
        let port = self.0.local_addr().unwrap().port();
        format!("host=127.0.0.1 port={port} user=nobody")
    }
}

/// A running program.
#[derive(Debug)]
pub struct Program {
    child: Child,
    lines: Receiver<String>,
    stderr: Option<thread::JoinHandle<String>>,
    /// The lines of its standard output that were read so far.
    pub seen: Vec<String>,
}

/// What a program left behind.
#[derive(Debug)]
pub struct Ended {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// All lines of its standard output.
    pub stdout: Vec<String>,
    /// All of its standard error.
    pub stderr: String,
}

impl Program {
    /// Starts it, with nothing on its standard input and without `RUST_LOG`.
    #[must_use]
    pub fn start(path: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(path);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.env_remove("RUST_LOG").spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            stdout
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        let mut stderr = child.stderr.take().unwrap();
        let stderr = thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).unwrap();
            text
        });
        Self {
            child,
            lines,
            stderr: Some(stderr),
            seen: Vec::new(),
        }
    }

    /// The number of its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line of standard output that `wanted` accepts.
    pub fn line(&mut self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let line = self
                .lines
                .recv_timeout(deadline.saturating_duration_since(Instant::now()));
            let Ok(line) = line else {
                panic!("no {what} after {:#?}", self.seen)
            };
            self.seen.push(line.clone());
            if wanted(&line) {
                return line;
            }
        }
    }

    /// Sends it a signal, by name: `KILL`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([&format!("-{name}"), &self.id().to_string()])
            .status();
        assert!(status.unwrap().success(), "kill -{name}");
    }

    /// Waits until it has ended by itself.
    #[must_use]
    pub fn end(mut self) -> Ended {
        let deadline = Instant::now() + DEADLINE;
        let status: ExitStatus = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "still running after {:#?}", self.seen);
            thread::sleep(Duration::from_millis(5));
        };
        let mut stdout = std::mem::take(&mut self.seen);
        stdout.extend(self.lines.iter());
        let stderr = self.stderr.take().unwrap().join().unwrap();
        Ended {
            code: status.code(),
            stdout,
            stderr,
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory that is gone with the value.
#[derive(Debug)]
pub struct Directory(pub PathBuf);

impl Directory {
    /// One in the system's folder for such, for the test of this name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("quorate-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Processes whose command line has this argument.
#[cfg(target_os = "linux")]
pub fn processes_with_argument(argument: &str) -> Vec<u32> {
    let has_it = |pid: &u32| {
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| {
            line.split(|byte| *byte == 0)
                .any(|word| word == argument.as_bytes())
        })
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(has_it)
        .collect()
}

/// Mistakes that each of the programs with five nodes refuses.
pub const MISTAKES: [&[&str]; 6] = [
    &["--seconds", "0"],
    &["--seconds", "many"],
    &["--transport", "pigeon"],
    &["--bogus"],
    &["here"],
    &["node-process"],
];

/// Mistakes end with one line and exit code 2, and `--help` with help, which is returned.
pub fn refuses(program: impl Fn(&[&str]) -> Output, mistakes: &[&[&str]]) -> String {
    for arguments in mistakes {
        let output = program(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), said.lines().count()),
            (Some(2), 1),
            "{arguments:?}: {said}"
        );
    }
    let help = program(&["--help"]);
    assert!(help.status.success());
    String::from_utf8_lossy(&help.stdout).into_owned()
}
