//! Frames that leave one node and never come to another's protocol, while their link is up: an answer that is
//! not sent, bytes that do not decode, a socket that is not read. No host notices. Spec: reliability 1a
//! (F-30).

use super::engine::Sim;

/// What does not come through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Swallowed {
    /// Answers to heartbeats: their receiver reports a node that it hears otherwise.
    Answers,
    /// Everything.
    Everything,
}

impl Sim {
    /// From now on this does not come from one node to another.
    pub fn swallow(&mut self, from: usize, to: usize, what: Swallowed) {
        self.assumptions.breaks(self.now, "frames that are swallowed");
        self.note(format_args!("swallow {from} -> {to} {what:?}"));
        self.swallowed.insert((from, to, what));
    }

    /// Everything comes through again.
    pub fn swallow_nothing(&mut self) {
        self.note(format_args!("swallow nothing"));
        self.swallowed.clear();
    }

    pub(super) fn is_swallowed(&self, from: usize, to: usize, name: &str) -> bool {
        let is_in = |what| self.swallowed.contains(&(from, to, what));
        is_in(Swallowed::Everything) || (name == "HeartbeatRsp" && is_in(Swallowed::Answers))
    }
}
