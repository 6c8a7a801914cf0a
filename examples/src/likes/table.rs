//! What the user sees: lines with their time, and a table of the nodes below them on a terminal; plain lines otherwise. Knows no
//! process.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use super::fleet::Shown;

/// The table is drawn at most this often.
const DRAW_EVERY: Duration = Duration::from_millis(120);
/// Without a terminal, a line at most this often.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// Where the program writes.
pub(super) struct Table {
    out: Box<dyn Write>,
    terminal: bool,
    started: Instant,
    shown_at: Option<Instant>,
    /// Lines of the table that stand on the screen.
    drawn: usize,
}

impl Table {
    /// Standard output, or standard error if standard output is for JSON.
    pub(super) fn new(json: bool) -> Self {
        let usable = |terminal: bool| terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let (out, terminal): (Box<dyn Write>, bool) = if json {
            (Box::new(io::stderr()), usable(io::stderr().is_terminal()))
        } else {
            (Box::new(io::stdout()), usable(io::stdout().is_terminal()))
        };
        Self {
            out,
            terminal,
            started: Instant::now(),
            shown_at: None,
            drawn: 0,
        }
    }

    /// A line with the time since the start.
    pub(super) fn say(&mut self, what: impl Display) {
        self.erase();
        // A closed pipe must not stop the run: its result is the exit code.
        let _ = writeln!(
            self.out,
            "[{:>6.1} s] {what}",
            self.started.elapsed().as_secs_f64()
        );
        let _ = self.out.flush();
    }

    /// How the nodes stand: what each shows, and a note.
    pub(super) fn show(&mut self, rows: Vec<(Shown, &'static str)>) {
        let every = if self.terminal { DRAW_EVERY } else { LINE_EVERY };
        if self.shown_at.is_some_and(|at| at.elapsed() < every) {
            return;
        }
        self.shown_at = Some(Instant::now());
        if !self.terminal {
            let likes: Vec<String> = rows
                .iter()
                .map(|(shown, note)| {
                    format!("{}{}{note}", shown.likes, if note.is_empty() { "" } else { " " })
                })
                .collect();
            let acknowledged: u64 = rows.iter().map(|(shown, _)| shown.acknowledged).sum();
            return self.say(format_args!(
                "likes seen by node: {}; {acknowledged} acknowledged",
                likes.join(" | ")
            ));
        }
        self.erase();
        let mut table = String::from("  node    updates  acknowledged     likes  followers  replica\n");
        for (index, (shown, note)) in rows.iter().enumerate() {
            table += &format!(
                "  {:<4} {:>10} {:>13} {:>9} {:>10}  {:<8.8} {note}\n",
                index + 1,
                shown.updates,
                shown.acknowledged,
                shown.likes,
                shown.fans,
                shown.digest
            );
        }
        let _ = self.out.write_all(table.as_bytes());
        let _ = self.out.flush();
        self.drawn = rows.len() + 1;
    }

    /// Takes the table off the screen.
    fn erase(&mut self) {
        if self.drawn > 0 {
            let _ = write!(self.out, "\r\x1b[{}A\x1b[J", self.drawn);
            self.drawn = 0;
        }
    }
}
