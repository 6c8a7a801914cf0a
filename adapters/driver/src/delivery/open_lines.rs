//! Which asks of one entity are open, and when everything unconfirmed is sent again to a new incarnation.
//! Spec: sharding 1.14.

use quorate_core::ordered::OrderedSet;

/// The asks of one entity that it has not answered, by their numbers, in the order in which they were sent.
#[derive(Default)]
pub(super) struct OpenLines {
    open: OrderedSet<u64>,
    opened: u64,
    /// A new incarnation asks for everything that is unconfirmed, on this line.
    begins_anew: Option<u64>,
}

impl OpenLines {
    pub(super) fn open(&mut self) -> u64 {
        self.opened += 1;
        self.open.insert(self.opened);
        self.opened
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn close(&mut self, line: u64) {
        self.open.remove(&line);
    }

    /// A new incarnation has said on this line that it has nothing.
    pub(super) fn begins_anew_on(&mut self, line: u64) {
        self.begins_anew = self.begins_anew.max(Some(line));
    }

    /// Whether everything unconfirmed is to be sent again now. Asks that were sent before the one on which
    /// a new incarnation said so may have reached the one before it, whose answers come on another link: what
    /// they confirm must not be sent again. They are answered when that one ends, or fail with its node, or
    /// when their time is over.
    pub(super) fn takes_begin(&mut self) -> bool {
        let is_last = |begins: u64| self.open.first().is_none_or(|oldest| *oldest > begins);
        self.begins_anew.take_if(|begins| is_last(*begins)).is_some()
    }
}
