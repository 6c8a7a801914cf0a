//! The node processes of a program as their parent sees them: started, told, heard, stopped, killed. Dropping
//! it ends them all. Does not know what they say.

use std::ffi::OsString;
use std::io::BufRead;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::program::{FAILED, NO_ROOM};
use quorate_demo::process::ChildProcess;
use quorate_demo::trust::Authority;

/// One node.
#[derive(Default)]
struct Place {
    process: Option<ChildProcess>,
    /// Its processes so far.
    lives: u64,
    /// It is to end by itself.
    may_end: bool,
    /// Why it ends, as it said.
    failure: Option<String>,
}

/// Which process spoke, by node and life, and what it said; `None` at its end.
type Said = ((usize, u64), Option<String>);

/// Who takes down what node processes say.
pub(crate) trait Listens {
    /// The next thing a process says, or its end, taken down. `None` if nobody says anything for so long.
    fn listen(&mut self, limit: Duration) -> Result<Option<(usize, Option<String>)>, String>;

    /// Listens for a while.
    fn run_for(&mut self, time: Duration) -> Result<(), String> {
        let end = Instant::now() + time;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            self.listen(left)?;
        }
        Ok(())
    }

    /// Listens until it has heard what it waits for.
    fn wait_until<T>(
        &mut self,
        limit: Duration,
        what: &str,
        mut found: impl FnMut(&Self, usize, Option<&str>) -> Option<T>,
    ) -> Result<T, String> {
        let end = Instant::now() + limit;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            if let Some((who, line)) = self.listen(left)?
                && let Some(value) = found(self, who, line.as_deref())
            {
                return Ok(value);
            }
        }
        Err(format!("waited {limit:?} for {what}"))
    }
}

/// See the module.
pub(crate) struct Processes {
    authority: Authority,
    places: Vec<Place>,
    lines: Receiver<Said>,
    speak: Sender<Said>,
}

impl Processes {
    /// So many nodes, none of which runs.
    pub(crate) fn new(count: usize, authority: Authority) -> Self {
        let (speak, lines) = channel();
        Self {
            authority,
            places: (0..count).map(|_| Place::default()).collect(),
            lines,
            speak,
        }
    }

    /// Which of a node's processes the next one is, from 1.
    pub(crate) fn next_life(&self, index: usize) -> u64 {
        self.places[index].lives + 1
    }

    pub(crate) fn runs(&self, index: usize) -> bool {
        self.places[index].process.is_some()
    }

    /// The system's number of a node's process.
    pub(crate) fn id(&self, index: usize) -> Option<u32> {
        self.places[index].process.as_ref().map(ChildProcess::id)
    }

    /// Starts a node's next process.
    pub(crate) fn start(&mut self, index: usize, arguments: Vec<OsString>) -> Result<(), String> {
        let introduction = self.authority.introduction().map_err(|error| error.to_string())?;
        let mut process = ChildProcess::start_introduced(arguments, &introduction)
            .map_err(|error| format!("cannot start a node process: {error}"))?;
        let output = process.output().ok_or("a node process has no output")?;
        let (speak, who) = (self.speak.clone(), (index, self.next_life(index)));
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = speak.send((who, Some(line)));
            }
            let _ = speak.send((who, None));
        });
        self.places[index] = Place {
            process: Some(process),
            lives: who.1,
            may_end: false,
            failure: None,
        };
        Ok(())
    }

    pub(crate) fn tell(&mut self, index: usize, order: &str) {
        if let Some(process) = &mut self.places[index].process {
            process.tell(order);
        }
    }

    pub(crate) fn stand_still(&self, index: usize, still: bool) -> Result<(), String> {
        let process = self.places[index].process.as_ref();
        process
            .map_or(Ok(()), |process| process.stand_still(still))
            .map_err(|error| format!("cannot stop a process: {error}"))
    }

    /// The node's process is going to end by itself.
    pub(crate) fn let_end(&mut self, index: usize) {
        self.places[index].may_end = true;
    }

    /// Kills a node (SIGKILL), if it runs. What it had said until then is still heard, its end last.
    pub(crate) fn kill(&mut self, index: usize) -> bool {
        let process = self.places[index].process.take();
        process.map(|mut process| process.kill()).is_some()
    }

    /// The next thing a process says, or its end. `None` if nobody says anything for so long.
    pub(crate) fn listen(&mut self, limit: Duration) -> Result<Option<(usize, Option<String>)>, String> {
        let ((who, life), line) = match self.lines.recv_timeout(limit) {
            Ok(heard) => heard,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(None),
        };
        if let Some(cause) = line.as_deref().and_then(|line| line.strip_prefix(NO_ROOM)) {
            return Err(format!("node {}: its store has no room: {cause}", who + 1));
        }
        let place = &mut self.places[who];
        if let Some(failure) = line.as_deref().and_then(|line| line.strip_prefix(FAILED)) {
            place.failure = Some(failure.to_owned());
        }
        if line.is_none() && place.lives == life && place.process.is_some() {
            if !place.may_end {
                let why = place.failure.take();
                let why = why.unwrap_or_else(|| "and nobody asked it to".to_owned());
                return Err(format!("node {} ended: {why}", who + 1));
            }
            place.process = None;
        }
        Ok(Some((who, line)))
    }
}
