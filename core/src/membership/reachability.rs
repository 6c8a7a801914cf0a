//! Who observed whom unreachable. Spec: membership 1.5.

/// The reachability table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reachability {}
