//! What happens to messages while a slot moves: options 2, 3 and 4 of the hand-off, and their presets. Types
//! only. Spec: sharding 5.4.

/// Option 2: what the old host does with messages from the moment at which it hears of the move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OldHost {
    /// 2a: it handles them until the new host is ready. Two instances are alive at once.
    Serves,
    /// 2b: it stops its instance first and keeps them for the new host, which handles nothing before.
    Keeps,
    /// 2c: it stops its instance first and drops them: dead letters.
    Drops,
}

/// Option 3: what the new host does with messages that come straight from their senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NewHost {
    /// 3a: it handles them as they come. A sender's messages may change their order.
    Serves,
    /// 3b: it keeps those of a sender until all that this sender gave the old host has come over.
    KeepsOrder,
}

/// Option 4: what the old host does with messages that reach it after the move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LateMessages {
    /// 4a: it forwards them to the new host.
    Forwarded,
    /// 4b: it drops them: dead letters.
    Dropped,
}

/// The options of a path's hand-offs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandoffOptions {
    /// Option 2.
    pub old_host: OldHost,
    /// Option 3.
    pub new_host: NewHost,
    /// Option 4.
    pub late: LateMessages,
    /// Whether the instance's state goes to the new host. Only with [`OldHost::Keeps`].
    pub transfer: bool,
}

impl HandoffOptions {
    /// 2a 3a 4a: nothing is lost; order may change; two instances are alive for a moment.
    pub const STATELESS: Self = Self::of(OldHost::Serves, NewHost::Serves, LateMessages::Forwarded);
    /// 2a 3b 4a: nothing is lost, and the order of each sender's messages to a slot holds; two instances are
    /// alive for a moment.
    pub const ORDERED: Self = Self::of(OldHost::Serves, NewHost::KeepsOrder, LateMessages::Forwarded);
    /// 2c 3a 4b: messages are dropped while the slot moves; never two instances.
    pub const LOSSY: Self = Self::of(OldHost::Drops, NewHost::Serves, LateMessages::Dropped);
    /// 2b 3b 4a without transfer: the instance stops, and keeps its state in a store, from which the next one
    /// loads it; order holds; never two instances.
    pub const DURABLE: Self = Self::of(OldHost::Keeps, NewHost::KeepsOrder, LateMessages::Forwarded);
    /// 2b 3b 4a with transfer: the instance's state goes to the next one; order holds; never two instances.
    pub const STATEFUL: Self = Self {
        transfer: true,
        ..Self::DURABLE
    };

    const fn of(old_host: OldHost, new_host: NewHost, late: LateMessages) -> Self {
        Self {
            old_host,
            new_host,
            late,
            transfer: false,
        }
    }

    /// Whether the old host's instance has ended before the new one handles anything.
    #[must_use]
    pub const fn never_two(self) -> bool {
        match self.old_host {
            OldHost::Keeps | OldHost::Drops => true,
            OldHost::Serves => false,
        }
    }

    /// Whether each sender's messages to a slot keep their order over a move.
    #[must_use]
    pub const fn keeps_order(self) -> bool {
        matches!(self.new_host, NewHost::KeepsOrder)
    }

    /// Whether such options are offered: state is only moved of an instance that has stopped and whose
    /// messages are kept.
    #[must_use]
    pub const fn are_possible(self) -> bool {
        !self.transfer || matches!(self.old_host, OldHost::Keeps)
    }

    /// The byte in which they travel: two bits of option 2, one each of 3, 4 and the transfer.
    #[must_use]
    pub const fn to_byte(self) -> u8 {
        let old_host = match self.old_host {
            OldHost::Serves => 0,
            OldHost::Keeps => 1,
            OldHost::Drops => 2,
        };
        let new_host = match self.new_host {
            NewHost::Serves => 0,
            NewHost::KeepsOrder => 4,
        };
        let late = match self.late {
            LateMessages::Forwarded => 0,
            LateMessages::Dropped => 8,
        };
        old_host | new_host | late | if self.transfer { 16 } else { 0 }
    }

    /// The options of a byte; `None` for one that no options have.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        let old_host = match byte & 3 {
            0 => OldHost::Serves,
            1 => OldHost::Keeps,
            2 => OldHost::Drops,
            _ => return None,
        };
        if byte > 31 {
            return None;
        }
        let options = Self {
            old_host,
            new_host: if byte & 4 == 0 {
                NewHost::Serves
            } else {
                NewHost::KeepsOrder
            },
            late: if byte & 8 == 0 {
                LateMessages::Forwarded
            } else {
                LateMessages::Dropped
            },
            transfer: byte & 16 != 0,
        };
        if options.are_possible() {
            Some(options)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_no_options_or_comes_back_the_same() {
        let all: alloc::vec::Vec<_> = (0..=u8::MAX)
            .filter_map(|byte| Some((byte, HandoffOptions::from_byte(byte)?)))
            .collect();
        assert_eq!(all.len(), 16, "12 without transfer, 4 with it");
        assert!(all.iter().all(|(byte, options)| options.to_byte() == *byte));
        assert!(HandoffOptions::STATEFUL.never_two() && !HandoffOptions::ORDERED.never_two());
    }
}
