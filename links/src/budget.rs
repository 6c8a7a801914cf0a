//! The bytes that members' links together may hold of what they received: read buffers, and frames whose end
//! has not come. Who does not get what it asks for is not read until there is room; nothing is ever buffered
//! without having been drawn. Spec: reliability 3b, I-91.
//!
//! Links in their handshake and links of strangers have no part in it: each holds [`LINK_BYTES`] at most, and
//! how many there are is bounded by itself.
//!
//! Three kinds of bytes, so that none starves the others: every link has [`LINK_BYTES`] from its first moment
//! on and may always read a heartbeat into them; read buffers grow only while half of the budget is free; a
//! frame that does not fit into its link's own bytes draws its whole length before it is gathered, so that
//! whoever began can finish. User links leave a quarter to the others, because only they may hold what they
//! drew while mailboxes are full.

use crate::limits::READ_BYTES_MIN;
use quorate_core::wire::handshake::LinkKind;

/// What a link holds without asking: a read buffer at its smallest, and as much of a frame that lies across
/// two reads.
pub(crate) const LINK_BYTES: usize = 2 * READ_BYTES_MIN;

/// See the module.
#[derive(Debug)]
pub(crate) struct QueueBudget {
    max: usize,
    drawn: usize,
}

impl QueueBudget {
    pub(crate) const fn new(max: usize) -> Self {
        Self { max, drawn: 0 }
    }

    /// What is held now.
    pub(crate) const fn drawn(&self) -> usize {
        self.drawn
    }

    const fn draw(&mut self, bytes: usize, max: usize) -> bool {
        let fits = self.drawn.saturating_add(bytes) <= max;
        if fits {
            self.drawn += bytes;
        }
        fits
    }

    /// For a member's new link.
    pub(crate) const fn draw_for_link(&mut self) -> bool {
        self.draw(LINK_BYTES, self.max)
    }

    /// For the link of somebody who has just become a member: what it holds, it held before.
    pub(crate) const fn draw_for_newcomer(&mut self) {
        self.drawn = self.drawn.saturating_add(LINK_BYTES);
    }

    /// For a larger read buffer, which is convenient and never necessary.
    pub(crate) const fn draw_for_reading(&mut self, bytes: usize) -> bool {
        self.draw(bytes, self.max / 2)
    }

    /// For a frame of so many bytes.
    pub(crate) const fn draw_for_frame(&mut self, bytes: usize, kind: LinkKind) -> bool {
        let max = match kind {
            LinkKind::Control | LinkKind::Bulk => self.max,
            LinkKind::User => self.max - self.max / 4,
        };
        self.draw(bytes, max)
    }

    /// Gives back what was drawn.
    pub(crate) const fn give_back(&mut self, bytes: usize) {
        self.drawn = self.drawn.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_bytes_leaves_something_to_the_others() {
        let mut budget = QueueBudget::new(1_000_000);
        assert!(!budget.draw_for_reading(500_001));
        assert!(budget.draw_for_reading(500_000));
        assert!(!budget.draw_for_frame(250_001, LinkKind::User));
        assert!(budget.draw_for_frame(250_000, LinkKind::User));
        assert!(budget.draw_for_link());
        let rest = 1_000_000 - budget.drawn();
        assert!(!budget.draw_for_frame(rest + 1, LinkKind::Control));
        assert!(budget.draw_for_frame(rest, LinkKind::Control));
        assert!(!budget.draw_for_link());
        budget.give_back(rest);
        assert!(budget.draw_for_link());
    }
}
