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
    to: Whom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whom {
    Entity,
    Singleton,
    Path,
}

impl Step {
    pub(crate) const ALL: [Self; 12] = [
        Self::new(
            "ask-elsewhere",
            "ask, entity of another node",
            OTHER,
            true,
            Whom::Entity,
        ),
        Self::new("ask-here", "ask, entity of this node", HOST, true, Whom::Entity),
        Self::new(
            "tell-elsewhere",
            "tell, entity of another node",
            OTHER,
            false,
            Whom::Entity,
        ),
        Self::new(
            "tell-here",
            "tell, entity of this node",
            HOST,
            false,
            Whom::Entity,
        ),
        Self::new(
            "ask-singleton-elsewhere",
            "ask, singleton of another node",
            OTHER,
            true,
            Whom::Singleton,
        ),
        Self::new(
            "ask-singleton-here",
            "ask, singleton of this node",
            HOST,
            true,
            Whom::Singleton,
        ),
        Self::new(
            "tell-singleton-elsewhere",
            "tell, singleton of another node",
            OTHER,
            false,
            Whom::Singleton,
        ),
        Self::new(
            "tell-singleton-here",
            "tell, singleton of this node",
            HOST,
            false,
            Whom::Singleton,
        ),
        Self::new(
            "ask-path-elsewhere",
            "ask, path of another node",
            OTHER,
            true,
            Whom::Path,
        ),
        Self::new("ask-path-here", "ask, path of this node", HOST, true, Whom::Path),
        Self::new(
            "tell-path-elsewhere",
            "tell, path of another node",
            OTHER,
            false,
            Whom::Path,
        ),
        Self::new(
            "tell-path-here",
            "tell, path of this node",
            HOST,
            false,
            Whom::Path,
        ),
    ];

    const fn new(name: &'static str, says: &'static str, side: usize, asks: bool, to: Whom) -> Self {
        Self {
            name,
            says,
            side,
            asks,
            to,
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
        if self.to == Whom::Path {
            pair.host_path()?;
        }
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
        match self.to {
            Whom::Entity => pair.entity(at),
            Whom::Singleton => pair.singleton(),
            Whom::Path => pair.path(),
        }
    }
}
