//! What is counted: a message of a kind, sent so many times.

use quorate_core::input::Recipient;

use super::pair::{Arrived, HOST, OTHER, Pair};

/// A message, and how far its recipient is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    name: &'static str,
    says: &'static str,
    /// Who sends it.
    side: usize,
    /// Somebody waits for an answer.
    asks: bool,
    to_singleton: bool,
}

impl Step {
    pub(crate) const ALL: [Self; 8] = [
        Self::new("ask-elsewhere", "ask, entity of another node", OTHER, true, false),
        Self::new("ask-here", "ask, entity of this node", HOST, true, false),
        Self::new(
            "tell-elsewhere",
            "tell, entity of another node",
            OTHER,
            false,
            false,
        ),
        Self::new("tell-here", "tell, entity of this node", HOST, false, false),
        Self::new(
            "ask-singleton-elsewhere",
            "ask, singleton of another node",
            OTHER,
            true,
            true,
        ),
        Self::new(
            "ask-singleton-here",
            "ask, singleton of this node",
            HOST,
            true,
            true,
        ),
        Self::new(
            "tell-singleton-elsewhere",
            "tell, singleton of another node",
            OTHER,
            false,
            true,
        ),
        Self::new(
            "tell-singleton-here",
            "tell, singleton of this node",
            HOST,
            false,
            true,
        ),
    ];

    const fn new(
        name: &'static str,
        says: &'static str,
        side: usize,
        asks: bool,
        to_singleton: bool,
    ) -> Self {
        Self {
            name,
            says,
            side,
            asks,
            to_singleton,
        }
    }

    /// By the name that it has among the arguments.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.name == name)
    }

    pub(crate) const fn name(self) -> &'static str {
        self.name
    }

    /// For people.
    pub(crate) const fn says(self) -> &'static str {
        self.says
    }

    /// Sends `messages`, so many `at_once` before any of them leaves the node.
    pub(crate) fn send(self, pair: &mut Pair, messages: usize, at_once: usize) -> Result<(), String> {
        let before = pair.arrived();
        for at in 0..messages {
            let to = self.recipient(pair, at);
            if self.asks {
                pair.ask(self.side, to);
            } else {
                pair.tell(self.side, to);
            }
            if (at + 1) % at_once == 0 {
                pair.run();
            }
        }
        pair.run();
        let after = pair.arrived();
        let expected = Arrived {
            answered: before.answered + if self.asks { messages } else { 0 },
            delivered: before.delivered + messages,
            ..before
        };
        if after == expected {
            Ok(())
        } else {
            Err(format!("{}: {after:?} instead of {expected:?}", self.name))
        }
    }

    fn recipient(self, pair: &Pair, at: usize) -> Recipient {
        if self.to_singleton {
            pair.singleton()
        } else {
            pair.entity(at)
        }
    }
}
