//! What the user sees: lines with their time, and a block of progress below them on a terminal. Knows no cluster.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Cells of the bar; with its numbers a line stays below 80 columns.
const BAR_CELLS: usize = 40;
/// A block is drawn at most this often.
const DRAW_EVERY: Duration = Duration::from_millis(80);
/// Without a terminal, progress is a line at most this often.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// One row of the block: a node.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) files: u64,
    pub(crate) shards: usize,
    pub(crate) note: &'static str,
}

/// Where the demo writes.
pub(crate) struct Screen {
    out: Box<dyn Write + Send>,
    terminal: bool,
    started: Instant,
    drawn_at: Option<Instant>,
    /// Rows of the block that stand on the screen.
    drawn_rows: usize,
    line_at: Option<Instant>,
}

impl Screen {
    /// Standard output, or standard error if standard output is for JSON.
    pub(crate) fn new(json: bool, started: Instant) -> Self {
        let usable = |is_terminal: bool| is_terminal && std::env::var_os("TERM").is_none_or(|t| t != "dumb");
        let (out, terminal): (Box<dyn Write + Send>, bool) = if json {
            (Box::new(io::stderr()), usable(io::stderr().is_terminal()))
        } else {
            (Box::new(io::stdout()), usable(io::stdout().is_terminal()))
        };
        Self {
            out,
            terminal,
            started,
            drawn_at: None,
            drawn_rows: 0,
            line_at: None,
        }
    }

    /// A line with the time since the start.
    pub(crate) fn say(&mut self, what: impl Display) {
        self.line(format_args!(
            "[{:>7.3} s] {what}",
            self.started.elapsed().as_secs_f64()
        ));
    }

    /// A line.
    pub(crate) fn line(&mut self, what: impl Display) {
        self.erase();
        // A closed pipe must not stop the count: its result is the exit code.
        let _ = writeln!(self.out, "{what}");
        let _ = self.out.flush();
    }

    /// How far it is. `rows` is only asked for when something is drawn.
    pub(crate) fn progress(&mut self, done: usize, all: usize, rows: impl FnOnce() -> Vec<Row>) {
        let now = Instant::now();
        let is_due = |last: Option<Instant>, every| last.is_none_or(|last| now.duration_since(last) >= every);
        if self.terminal {
            if is_due(self.drawn_at, DRAW_EVERY) {
                self.drawn_at = Some(now);
                self.draw(done, all, &rows());
            }
        } else if is_due(self.line_at, LINE_EVERY) {
            self.line_at = Some(now);
            let nodes: Vec<String> = rows()
                .iter()
                .map(|row| {
                    format!(
                        "{}{} {} files {} shards",
                        row.name, row.note, row.files, row.shards
                    )
                })
                .collect();
            self.say(format_args!(
                "{done} of {all} files ({} %); {}",
                percent(done, all),
                nodes.join(", ")
            ));
        }
    }

    /// Takes the block off the screen.
    pub(crate) fn erase(&mut self) {
        if self.drawn_rows > 0 {
            // To the block's first column, up, and clear to the end of the screen.
            let _ = write!(self.out, "\r\x1b[{}A\x1b[J", self.drawn_rows);
            let _ = self.out.flush();
            self.drawn_rows = 0;
            self.drawn_at = None;
        }
    }

    fn draw(&mut self, done: usize, all: usize, rows: &[Row]) {
        self.erase();
        self.drawn_at = Some(Instant::now());
        let full = BAR_CELLS * done / all.max(1);
        let (bar, rest) = ("#".repeat(full), ".".repeat(BAR_CELLS - full));
        let mut block = format!(
            "[{bar}{rest}] {:>3} %  {done} of {all} files\n",
            percent(done, all)
        );
        for row in rows {
            block += &format!(
                "  {:<8} {:>8} files {:>5} shards{}\n",
                row.name, row.files, row.shards, row.note
            );
        }
        let _ = self.out.write_all(block.as_bytes());
        let _ = self.out.flush();
        self.drawn_rows = rows.len() + 1;
    }
}

fn percent(done: usize, all: usize) -> usize {
    100 * done / all.max(1)
}
