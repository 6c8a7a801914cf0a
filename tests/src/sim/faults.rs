//! The kinds of faults the simulator can bring about, and how often each really happened. Spec: reliability 1a.

use core::fmt;
use core::str::FromStr;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// F-01: a process ends without a word.
    Crash,
    /// F-03: a process starts on the address of an earlier one, with a new uid.
    Restart,
    /// F-09: no frame passes between groups of nodes.
    Partition,
    /// F-15: frames get lost.
    Loss,
    /// F-14, F-16: frames take much longer.
    Delay,
    /// F-31: a member leaves gracefully.
    Leave,
    /// F-19: the links between two nodes break, and with them what was on the way.
    Reset,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Crash,
        Self::Restart,
        Self::Partition,
        Self::Loss,
        Self::Delay,
        Self::Leave,
        Self::Reset,
    ];

    /// Its name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Restart => "restart",
            Self::Partition => "partition",
            Self::Loss => "loss",
            Self::Delay => "delay",
            Self::Leave => "leave",
            Self::Reset => "reset",
        }
    }
}

impl FromStr for FaultKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("unknown fault `{text}`; there are {}", names.join(", "))
        })
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How often each kind fired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts([u64; FaultKind::ALL.len()]);

impl FaultCounts {
    /// Counts one.
    pub fn add(&mut self, kind: FaultKind) {
        self.0[kind as usize] += 1;
    }

    /// How often this kind fired.
    #[must_use]
    pub const fn of(&self, kind: FaultKind) -> u64 {
        self.0[kind as usize]
    }

    /// Adds the counts of another run.
    pub fn absorb(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}
