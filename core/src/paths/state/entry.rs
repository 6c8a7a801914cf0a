//! One path in the table: what the leader decided about it, and the last move of each slot. Values and their
//! order only. Spec: sharding 5.1, 10.17.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ident::UniqueAddress;
use crate::paths::state::name::PathName;
use crate::paths::state::options::HandoffOptions;
use crate::paths::state::settings::PathSettings;
use crate::token::Token;

/// Which of two decisions of leaders is the later one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathEpoch {
    /// One above the largest counter that the leader knew of.
    pub counter: u64,
    /// Who decided: of two at once the higher one wins.
    pub leader: UniqueAddress,
}

/// How far a move is. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveStatus {
    /// The leader has decided it; the old host serves.
    Awaiting,
    /// The new host is ready: senders turn to it.
    Complete,
    /// Complete, and every sender has acknowledged it; or the slot had no old host.
    Settled,
    /// It does not take place: the old host goes on.
    Aborted,
    /// The leader has noted what became of it: nothing is pending.
    Applied,
}

/// The last move of a slot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotMove {
    /// Names it: no two moves of one slot have the same.
    pub id: PathEpoch,
    /// How far it is.
    pub status: MoveStatus,
    /// Who hosted the slot; `None` if nobody did.
    pub from: Option<UniqueAddress>,
    /// Who is to host it; `None` if it is given up.
    pub to: Option<UniqueAddress>,
    /// What happens to messages meanwhile.
    pub options: HandoffOptions,
}

impl SlotMove {
    /// Whether it is not over.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.status != MoveStatus::Applied
    }

    /// The fencing token of the instance that `node` runs because of it, or in spite of it if it was aborted:
    /// that one is the higher.
    #[must_use]
    pub fn token(&self, node: &UniqueAddress) -> Token {
        let place = u64::from(self.to.as_ref() != Some(node));
        // Two sides of a partition give different tokens, because their leaders differ.
        let by = self.id.leader.uid() >> 2;
        Token::new(self.id.counter, ((by << 1) | place) + 1)
    }

    /// Who alone writes its status: the old host, or the new one where there is none.
    #[must_use]
    pub const fn decider(&self) -> Option<&UniqueAddress> {
        match &self.from {
            Some(from) => Some(from),
            None => self.to.as_ref(),
        }
    }
}

/// What the leader has decided about a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathRecord {
    /// When.
    pub epoch: PathEpoch,
    /// With what it is registered; `None` once it was removed.
    pub settings: Option<Arc<PathSettings>>,
    /// How many instances its load asks for; 0 before it asked for any.
    pub scale: u16,
    /// Who hosts which slot.
    pub hosts: Vec<Option<UniqueAddress>>,
}

/// A path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathEntry {
    /// Its name.
    pub name: PathName,
    /// What the leader has decided.
    pub record: PathRecord,
    /// The last move of each slot, as many as the record has slots, or more.
    pub moves: Vec<Option<SlotMove>>,
}

impl PathEntry {
    /// Its settings, unless it was removed.
    #[must_use]
    pub fn settings(&self) -> Option<&Arc<PathSettings>> {
        self.record.settings.as_ref()
    }

    /// How many slots it has or had; vacant ones count.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.record.hosts.len().max(self.moves.len())
    }

    /// The host that the leader has written for a slot.
    #[must_use]
    pub fn host(&self, slot: usize) -> Option<&UniqueAddress> {
        self.record.hosts.get(slot)?.as_ref()
    }

    /// The last move of a slot.
    #[must_use]
    pub fn last_move(&self, slot: usize) -> Option<&SlotMove> {
        self.moves.get(slot)?.as_ref()
    }

    /// The move of a slot that is not over.
    #[must_use]
    pub fn pending(&self, slot: usize) -> Option<&SlotMove> {
        self.last_move(slot).filter(|change| change.is_pending())
    }

    /// To whom messages for a slot go: the new host as soon as its move is complete.
    #[must_use]
    pub fn target(&self, slot: usize) -> Option<&UniqueAddress> {
        match self.pending(slot) {
            Some(change) if matches!(change.status, MoveStatus::Complete | MoveStatus::Settled) => {
                change.to.as_ref()
            }
            Some(_) | None => self.host(slot),
        }
    }

    /// The fencing token of the instance that runs at `node` in a slot. One that goes on after a move that
    /// was aborted has a higher one than the new host's.
    #[must_use]
    pub fn token(&self, slot: usize, node: &UniqueAddress) -> Token {
        self.last_move(slot)
            .map_or(Token::NONE, |change| change.token(node))
    }

    /// Whether a slot, or a move that is not over, names this member.
    #[must_use]
    pub fn names(&self, node: &UniqueAddress) -> bool {
        let hosts = self.record.hosts.iter().flatten();
        let moves = self.moves.iter().flatten();
        let mut moving = moves.filter(|change| change.is_pending());
        hosts.clone().any(|host| host == node)
            || moving.any(|change| change.from.as_ref() == Some(node) || change.to.as_ref() == Some(node))
    }

    /// Whether it was removed, and nothing of it runs or moves.
    pub(crate) fn has_ended(&self) -> bool {
        let hosts = self.record.hosts.iter().all(Option::is_none);
        let moves = self.moves.iter().flatten().all(|change| !change.is_pending());
        self.settings().is_none() && hosts && moves
    }

    /// The least entry that contains both.
    pub(super) fn merged(self: &Arc<Self>, other: &Arc<Self>) -> Arc<Self> {
        if Arc::ptr_eq(self, other) || self == other || self.contains(other) {
            return Arc::clone(self);
        }
        if other.contains(self) {
            return Arc::clone(other);
        }
        let record = (&self.record).max(&other.record).clone();
        let slots = self.moves.len().max(other.moves.len());
        let last = |slot: usize| self.last_move(slot).max(other.last_move(slot)).cloned();
        Arc::new(Self {
            name: self.name.clone(),
            record,
            moves: (0..slots).map(last).collect(),
        })
    }

    /// Whether `other` adds nothing to this one.
    fn contains(&self, other: &Self) -> bool {
        self.record >= other.record
            && self.moves.len() >= other.moves.len()
            && self.moves.iter().zip(&other.moves).all(|(a, b)| a >= b)
    }
}
