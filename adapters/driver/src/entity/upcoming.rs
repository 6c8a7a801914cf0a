//! What an entity shows of its reminders. Values only.

use std::time::{Duration, SystemTime};

/// A reminder as its entity sees it. See [`EntityContext::reminders`](crate::EntityContext::reminders).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Upcoming {
    /// Its name.
    pub name: String,
    /// When it is due; it may be handled later.
    pub at: SystemTime,
    /// How long after that it is due again; `None`: it comes once.
    pub every: Option<Duration>,
}
