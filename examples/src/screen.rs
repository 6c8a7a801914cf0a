//! What the user of a program sees: lines with their time, and a block below them on a terminal; plain lines
//! otherwise. Knows no cluster.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// A block is drawn at most this often.
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// Where a program writes.
pub struct Screen {
    out: Box<dyn Write + Send>,
    terminal: bool,
    started: Instant,
    /// Without a terminal, a line in place of the block at most this often.
    line_every: Duration,
    shown_at: Option<Instant>,
    /// Rows of the block that stand on the screen.
    drawn: usize,
}

impl Screen {
    /// Standard output, or standard error if standard output is for JSON.
    pub fn new(json: bool, started: Instant, line_every: Duration) -> Self {
        let usable = |terminal: bool| terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let (out, terminal): (Box<dyn Write + Send>, bool) = if json {
            (Box::new(io::stderr()), usable(io::stderr().is_terminal()))
        } else {
            (Box::new(io::stdout()), usable(io::stdout().is_terminal()))
        };
        Self {
            out,
            terminal,
            started,
            line_every,
            shown_at: None,
            drawn: 0,
        }
    }

    /// A line with the time since the start.
    pub fn say(&mut self, what: impl Display) {
        self.line(format_args!(
            "[{:>7.3} s] {what}",
            self.started.elapsed().as_secs_f64()
        ));
    }

    /// A line.
    pub fn line(&mut self, what: impl Display) {
        self.erase();
        // A closed pipe must not stop the run: its result is the exit code.
        let _ = writeln!(self.out, "{what}");
        let _ = self.out.flush();
    }

    /// How things stand: a block of whole lines on a terminal, one line elsewhere. Either is made only when
    /// it is shown.
    pub fn show(&mut self, block: impl FnOnce() -> String, line: impl FnOnce() -> String) {
        let every = if self.terminal {
            DRAW_EVERY
        } else {
            self.line_every
        };
        if self.shown_at.is_some_and(|at| at.elapsed() < every) {
            return;
        }
        if self.terminal {
            let block = block();
            self.erase();
            let _ = self.out.write_all(block.as_bytes());
            let _ = self.out.flush();
            self.drawn = block.lines().count();
        } else {
            self.say(line());
        }
        self.shown_at = Some(Instant::now());
    }

    /// Takes the block off the screen.
    pub fn erase(&mut self) {
        if self.drawn > 0 {
            // To the block's first column, up, and clear to the end of the screen.
            let _ = write!(self.out, "\r\x1b[{}A\x1b[J", self.drawn);
            let _ = self.out.flush();
            (self.drawn, self.shown_at) = (0, None);
        }
    }
}
