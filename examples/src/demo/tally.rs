//! What has been answered, by whom, and which node a shard was last heard from. Only counts.

use std::time::Instant;

use super::kind::{Content, SHARDS, Told};

/// What one node has answered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    pub(crate) files: u64,
    pub(crate) words: u64,
}

/// The loss of a node.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    pub(crate) node: usize,
    pub(crate) killed_at: Instant,
    /// Shards it had.
    pub(crate) shards: Vec<bool>,
    pub(crate) unreachable_at: Option<Instant>,
    pub(crate) removed_at: Option<Instant>,
    /// The first answer of another node from one of its shards.
    pub(crate) failed_over_at: Option<Instant>,
}

impl Loss {
    pub(crate) const fn is_mended(&self) -> bool {
        self.removed_at.is_some() && self.failed_over_at.is_some()
    }
}

/// The count so far.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) answered: usize,
    pub(crate) words: u64,
    pub(crate) unreadable: u64,
    pub(crate) shares: Vec<Share>,
    /// Which node answered last from each shard.
    homes: Vec<Option<usize>>,
    pub(crate) loss: Option<Loss>,
}

impl Tally {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            answered: 0,
            words: 0,
            unreadable: 0,
            shares: vec![Share::default(); nodes],
            homes: vec![None; SHARDS as usize],
            loss: None,
        }
    }

    /// A node has answered from a shard.
    pub(crate) fn heard(&mut self, shard: usize, told: &Told) {
        let node = told.node as usize;
        if let Some(home) = self.homes.get_mut(shard) {
            *home = Some(node);
        }
        if let Some(loss) = &mut self.loss
            && node != loss.node
            && loss.failed_over_at.is_none()
            && loss.shards.get(shard).copied().unwrap_or(false)
        {
            loss.failed_over_at = Some(Instant::now());
        }
        let words = match &told.content {
            Content::Unread => return,
            Content::Words(words) => *words,
            Content::Unreadable(_) => {
                self.unreadable += 1;
                0
            }
        };
        self.answered += 1;
        self.words += words;
        if let Some(share) = self.shares.get_mut(node) {
            share.files += 1;
            share.words += words;
        }
    }

    /// A node is about to be killed.
    pub(crate) fn lose(&mut self, node: usize) {
        self.loss = Some(Loss {
            node,
            killed_at: Instant::now(),
            shards: self.homes.iter().map(|home| *home == Some(node)).collect(),
            unreachable_at: None,
            removed_at: None,
            failed_over_at: None,
        });
    }

    /// How many shards a node has, as far as it was heard.
    pub(crate) fn shards_of(&self, node: usize) -> usize {
        self.homes.iter().filter(|home| **home == Some(node)).count()
    }

    /// Whether every shard was heard from and every node has one.
    pub(crate) fn is_spread(&self) -> bool {
        self.homes.iter().all(Option::is_some) && (0..self.shares.len()).all(|node| self.shards_of(node) > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(node: u32, content: Content) -> Told {
        Told { node, content }
    }

    #[test]
    fn only_another_node_on_a_lost_shard_is_a_failover() {
        let mut tally = Tally::new(2);
        tally.heard(0, &told(0, Content::Unread));
        tally.heard(1, &told(1, Content::Words(3)));
        assert_eq!((tally.answered, tally.words, tally.shards_of(0)), (1, 3, 1));
        tally.lose(0);
        // An answer that was under way when its node died, and one from a shard that was not lost.
        tally.heard(0, &told(0, Content::Words(4)));
        tally.heard(1, &told(1, Content::Unreadable("gone".into())));
        assert!(tally.loss.as_ref().unwrap().failed_over_at.is_none());
        tally.heard(0, &told(1, Content::Unread));
        assert!(tally.loss.as_ref().unwrap().failed_over_at.is_some());
        assert_eq!((tally.answered, tally.words, tally.unreadable), (3, 7, 1));
        assert!(!tally.is_spread());
    }
}
