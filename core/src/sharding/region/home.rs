//! What a region knows of one shard's home, for sending: it uses one home at a time, and another one only
//! when everything that it sent to the one before has arrived or has come back. Pure: it sends nothing. Spec:
//! sharding 10.14 b to d.
//!
//! | from | what happens | to |
//! |---|---|---|
//! | `Unknown` | learned | `Unused` |
//! | `Unknown` | forgotten | `Unknown` |
//! | `Unused` | learned | `Unused` |
//! | `Unused` | used | `Used` |
//! | `Unused` | forgotten | `Unknown` |
//! | `Unused` | lost | `Unknown` |
//! | `Used` | used | `Used` |
//! | `Used` | forgotten | `Marked` |
//! | `Used` | lost | `Unknown` |
//! | `Used` | learned | `MarkedBefore` |
//! | `Marked` | learned | `MarkedBefore` |
//! | `Marked` | forgotten | `Marked` |
//! | `Marked` | acknowledged | `Unknown` |
//! | `MarkedBefore` | learned | `MarkedBefore` |
//! | `MarkedBefore` | forgotten | `Marked` |
//! | `MarkedBefore` | lost | `Marked` |
//! | `MarkedBefore` | acknowledged | `Unused` |
//!
//! A home that is this node is never marked at: nothing is sent to it, so `Used` becomes `Unknown` or
//! `Unused` at once. `Unused` and `Used` are [`KnownHome::Known`], `Marked` and `MarkedBefore` are
//! [`KnownHome::Marked`] without and with a home to use next.

use alloc::boxed::Box;

use crate::ident::UniqueAddress;
use crate::sharding::state::ids::Term;

/// Where a shard lives, as far as this region knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum KnownHome {
    /// Nobody has said so: messages wait.
    #[default]
    Unknown,
    /// There.
    Known {
        node: UniqueAddress,
        /// Messages were sent there behind which there is no mark; or handled, if that is here.
        used: bool,
    },
    /// An earlier home was used, and has not acknowledged that everything has arrived: messages wait.
    Marked(Box<OpenMark>),
}

/// A mark without acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenMark {
    /// The home that was used.
    pub(super) at: UniqueAddress,
    pub(super) number: u64,
    /// Who is told that this region has forgotten the home, and for which hand-off.
    pub(super) report: Option<HandOffReport>,
    /// Where the shard lives by now.
    pub(super) next: Option<UniqueAddress>,
}

/// A hand-off whose coordinator waits for this region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HandOffReport {
    pub(super) term: Term,
    pub(super) number: u64,
}

impl KnownHome {
    /// The shard lives there. Messages wait as long as there is a mark.
    pub(super) fn learn(&mut self, node: UniqueAddress) {
        match self {
            Self::Unknown | Self::Known { .. } => *self = Self::Known { node, used: false },
            Self::Marked(mark) => mark.next = Some(node),
        }
    }

    /// The shard does not live where this region thinks. Gives the mark that is to be sent, with this number,
    /// if the home was used and is not this node.
    pub(super) fn forget(&mut self, me: &UniqueAddress, number: u64) -> Option<&OpenMark> {
        match core::mem::take(self) {
            Self::Known { node: at, used: true } if at != *me => {
                let (report, next) = (None, None);
                *self = Self::Marked(Box::new(OpenMark {
                    at,
                    number,
                    report,
                    next,
                }));
                self.mark()
            }
            Self::Unknown | Self::Known { .. } => None,
            Self::Marked(mut mark) => {
                mark.next = None;
                *self = Self::Marked(mark);
                None
            }
        }
    }

    /// A node is gone: the shard does not live there.
    pub(super) fn lose(&mut self, lost: &UniqueAddress) {
        match self {
            Self::Known { node, .. } if node == lost => *self = Self::Unknown,
            Self::Marked(mark) if mark.next.as_ref() == Some(lost) => mark.next = None,
            Self::Unknown | Self::Known { .. } | Self::Marked(_) => {}
        }
    }

    /// The home before has acknowledged the mark. Gives the mark.
    pub(super) fn acknowledge(&mut self) -> Option<Box<OpenMark>> {
        match core::mem::take(self) {
            Self::Marked(mut mark) => {
                if let Some(node) = mark.next.take() {
                    self.learn(node);
                }
                Some(mark)
            }
            other @ (Self::Unknown | Self::Known { .. }) => {
                *self = other;
                None
            }
        }
    }

    /// Whether what comes back unhandled from a node comes in its turn: nothing behind it can have been
    /// handled elsewhere.
    pub(super) fn is_in_turn(&self, from: &UniqueAddress) -> bool {
        match self {
            Self::Unknown => true,
            Self::Marked(mark) => mark.at == *from,
            Self::Known { node, used } => node == from || !used,
        }
    }

    /// Where the shard lives.
    pub(super) fn node(&self) -> Option<&UniqueAddress> {
        match self {
            Self::Unknown => None,
            Self::Known { node, .. } => Some(node),
            Self::Marked(mark) => mark.next.as_ref(),
        }
    }

    /// The mark that has not been acknowledged.
    pub(super) const fn mark(&self) -> Option<&OpenMark> {
        match self {
            Self::Marked(mark) => Some(mark),
            Self::Unknown | Self::Known { .. } => None,
        }
    }

    /// Whether messages were sent there behind which there is no mark.
    pub(super) const fn is_used(&self) -> bool {
        match self {
            Self::Known { used, .. } => *used,
            Self::Unknown | Self::Marked(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::fixture::node;

    fn stage(home: &KnownHome) -> &'static str {
        match home {
            KnownHome::Unknown => "`Unknown`",
            KnownHome::Known { used: false, .. } => "`Unused`",
            KnownHome::Known { used: true, .. } => "`Used`",
            KnownHome::Marked(mark) if mark.next.is_none() => "`Marked`",
            KnownHome::Marked(_) => "`MarkedBefore`",
        }
    }

    fn used(home: &mut KnownHome) {
        if let KnownHome::Known { used, .. } = home {
            *used = true;
        }
    }

    /// A home at this stage; where the shard lives, that is on `a`.
    fn at(wanted: &str, me: &UniqueAddress) -> KnownHome {
        let mut home = KnownHome::Unknown;
        let steps: &[fn(&mut KnownHome, &UniqueAddress)] = &[
            |home, _| home.learn(node("a", 1)),
            |home, _| used(home),
            |home, me| drop(home.forget(me, 1).cloned()),
            |home, _| home.learn(node("a", 1)),
        ];
        let mut steps = steps.iter();
        while stage(&home) != wanted {
            steps.next().expect("a stage of the table")(&mut home, me);
        }
        home
    }

    fn happens(home: &mut KnownHome, what: &str, me: &UniqueAddress) {
        match what {
            "learned" => {
                home.forget(me, 2);
                home.learn(node("b", 2));
            }
            "forgotten" => drop(home.forget(me, 2).cloned()),
            "used" => used(home),
            "lost" => home.lose(&node("a", 1)),
            "acknowledged" => drop(home.acknowledge()),
            other => panic!("{other} does not happen to homes"),
        }
    }

    #[test]
    fn every_step_is_one_of_the_table() {
        let me = node("me", 9);
        let rows: Vec<[&str; 3]> = include_str!("home.rs")
            .lines()
            .filter_map(|line| line.strip_prefix("//! | `"))
            .map(|row| {
                let mut cells = row.trim_end_matches(" |").split(" | ");
                [(); 3].map(|()| cells.next().expect("three cells"))
            })
            .collect();
        assert_eq!(rows.len(), 17);
        for stage_of in ["`Unknown`", "`Unused`", "`Used`", "`Marked`", "`MarkedBefore`"] {
            for what in ["learned", "forgotten", "used", "lost", "acknowledged"] {
                let mut home = at(stage_of, &me);
                let before = home.clone();
                happens(&mut home, what, &me);
                let row = rows
                    .iter()
                    .find(|[from, of, _]| stage_of[1..] == **from && *of == what);
                match row {
                    Some([.., to]) => assert_eq!(stage(&home), *to, "{stage_of}, {what}"),
                    None => assert_eq!(home, before, "{stage_of}, {what}: no step"),
                }
            }
        }
    }

    #[test]
    fn nothing_is_marked_at_this_node_itself() {
        let a = node("a", 1);
        let mut home = at("`Used`", &node("me", 9));
        assert_eq!(home.forget(&a, 1), None);
        assert_eq!(home, KnownHome::Unknown);
    }

    #[test]
    fn what_is_learned_while_a_mark_is_open_is_used_when_it_is_acknowledged() {
        let me = node("me", 9);
        let mut home = at("`MarkedBefore`", &me);
        let mark = home.acknowledge().expect("a mark");
        assert_eq!((mark.at, mark.number), (node("a", 1), 1));
        let (node, used) = (node("a", 1), false);
        assert_eq!(home, KnownHome::Known { node, used });
    }
}
