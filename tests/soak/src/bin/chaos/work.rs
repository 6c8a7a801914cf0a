//! What the nodes of a run do all the time.

use std::str::FromStr;
use std::time::Duration;

/// What there is to ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Work {
    /// Twelve counters in memory, spread over the nodes.
    #[default]
    Counters,
    /// One counter in memory, a singleton.
    Singleton,
    /// A singleton that writes every question into PostgreSQL, through its token.
    Book,
}

impl Work {
    const ALL: [Self; 3] = [Self::Counters, Self::Singleton, Self::Book];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Counters => "counters",
            Self::Singleton => "singleton",
            Self::Book => "book",
        }
    }

    /// How many are asked.
    pub(crate) const fn entities(self) -> u32 {
        match self {
            Self::Counters => 12,
            Self::Singleton | Self::Book => 1,
        }
    }

    /// Time between two questions of a node to the same one.
    pub(crate) const fn pace(self) -> Duration {
        match self {
            Self::Counters => Duration::from_millis(250),
            Self::Singleton => Duration::from_millis(20),
            // Each costs the database a flush.
            Self::Book => Duration::from_millis(50),
        }
    }
}

impl FromStr for Work {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|work| work.name() == text);
        found.ok_or_else(|| format!("there is no work `{text}`"))
    }
}
