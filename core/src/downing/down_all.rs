//! Down-all: when anybody is unreachable, everybody goes. A pure function of a [`DowningView`]. Spec:
//! membership 3.6.

use crate::downing::state::decision::DowningDecision;
use crate::downing::state::strategy::Strategy;
use crate::downing::state::view::DowningView;

/// The strategy; it has no setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DownAll;

impl Strategy for DownAll {
    fn name(&self) -> &'static str {
        "down-all"
    }

    fn decide(&self, _: &DowningView) -> DowningDecision {
        DowningDecision::DownAll
    }

    fn explain(&self, view: &DowningView) -> (DowningDecision, &'static str) {
        (self.decide(view), "somebody is unreachable")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::downing::table::{connected, downed_by, downed_in};

    #[test]
    fn m_339_everybody_goes_whatever_the_split() {
        assert_eq!(downed_by(&DownAll, "A B C", "D E"), "ABCDE");
        assert_eq!(downed_by(&DownAll, "D E", "A B C"), "ABCDE");
        assert_eq!(
            downed_in(&DownAll, &connected("A B C", &["AB", "BA"], "ABC")),
            "ABC"
        );
    }
}
