//! Who reports whom, who watches whom, and from where that is looked at. Values only. Spec: membership 3.10.

use alloc::vec::Vec;

use crate::ident::{Role, UniqueAddress};
use crate::ordered::{OrderedMap, OrderedSet};

/// One row of the reachability table that calls its subject unreachable or terminated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Observation {
    /// Who complains.
    pub observer: UniqueAddress,
    /// About whom.
    pub subject: UniqueAddress,
}

/// Who watches whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Watches {
    /// Each member watches all others.
    #[default]
    Everybody,
    /// Each member watches these, in node order; who is not named watches nobody.
    These(OrderedMap<UniqueAddress, Vec<UniqueAddress>>),
}

/// Where a picture was taken, for [`super::view::DowningView::by_the_fewest`].
#[derive(Clone, Copy, Debug)]
pub struct Standpoint<'a> {
    /// The node that decides.
    pub from: &'a UniqueAddress,
    /// The role that the strategy counts.
    pub role: Option<&'a Role>,
    /// Who watches whom. A pair that is watched only now is none yet.
    pub watches: &'a Watches,
    /// Members that are Down, and still count on the other side: not everybody knows that they are.
    pub lately_down: &'a OrderedSet<UniqueAddress>,
    /// Reports that were withdrawn lately: of two ends that could both be the sick one, the one with more of
    /// them goes.
    pub withdrawn: &'a OrderedSet<Observation>,
}
