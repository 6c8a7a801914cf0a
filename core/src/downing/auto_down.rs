//! Auto-down: whoever is unreachable goes. **Prone to split brains**: in a partition each side downs the
//! other, and both go on. A pure function of a [`DowningView`]. Spec: membership 4
//! (`auto-down-unreachable-after`).

use crate::downing::state::decision::DowningDecision;
use crate::downing::state::strategy::Strategy;
use crate::downing::state::view::DowningView;

/// The strategy; it has no setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AutoDown;

impl Strategy for AutoDown {
    fn name(&self) -> &'static str {
        "auto-down"
    }

    fn decide(&self, _: &DowningView) -> DowningDecision {
        DowningDecision::DownUnreachable
    }

    fn lets_both_sides_go_on(&self) -> bool {
        true
    }

    fn explain(&self, view: &DowningView) -> (DowningDecision, &'static str) {
        (self.decide(view), "whoever is unreachable is taken for dead")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::downing::table::downed_by;

    #[test]
    fn both_sides_of_a_split_stay() {
        assert_eq!(downed_by(&AutoDown, "A B", "C D E"), "CDE");
        assert_eq!(downed_by(&AutoDown, "C D E", "A B"), "AB");
    }
}
