//! The two clocks of the resolver, each an enum of its stages: how long the picture has been stable, and how
//! long members have been coming and going. They only say when something is due; what is done then is decided
//! elsewhere. Values only. Spec: membership 3.1, 3.8.

use core::time::Duration;

use crate::time::Instant;

/// How far the wait for a stable picture has come. It is over once a whole stable period has passed; a wait
/// that is over stays in its stage, because the length of the period follows the number of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PictureWait {
    /// Nobody is unreachable: there is nothing to wait for.
    Calm,
    /// Somebody is unreachable. The picture changed at `since` for the last time, as far as that puts a
    /// decision off.
    Settling { since: Instant },
    /// The same; and at `rows_changed` the observations changed that may tell of a broken link. Who has heard
    /// of them is not known yet.
    PutOff { since: Instant, rows_changed: Instant },
}

impl PictureWait {
    /// Takes a change of the picture. Whoever is the first to be unreachable begins the wait, and so does any
    /// change that unsettles the picture; it ends when nobody is unreachable.
    pub(super) fn on_view(&mut self, now: Instant, is_anybody_unreachable: bool, is_unsettled: bool) {
        if !is_anybody_unreachable {
            *self = Self::Calm;
        } else if is_unsettled || *self == Self::Calm {
            *self = Self::Settling { since: now };
        }
    }

    /// The wait begins again, if there is one.
    pub(super) fn restart(&mut self, now: Instant) {
        if *self != Self::Calm {
            *self = Self::Settling { since: now };
        }
    }

    /// Observations changed that may tell of a broken link.
    pub(super) const fn put_off(&mut self, now: Instant) {
        match *self {
            Self::Calm => {}
            Self::Settling { since } | Self::PutOff { since, .. } => {
                *self = Self::PutOff {
                    since,
                    rows_changed: now,
                };
            }
        }
    }

    /// They told of none after all.
    pub(super) const fn put_off_no_more(&mut self) {
        if let Self::PutOff { since, .. } = *self {
            *self = Self::Settling { since };
        }
    }

    /// When the picture counts as stable; `None` while nobody is unreachable. Observations put that off by
    /// half a period at most: they come one by one, and must not put a decision off for ever.
    pub(super) fn over_at(self, period: Duration) -> Option<Instant> {
        match self {
            Self::Calm => None,
            Self::Settling { since } => Some(since + period),
            Self::PutOff { since, rows_changed } => {
                let settled = since + period;
                Some(settled.max((rows_changed + period).min(settled + period / 2)))
            }
        }
    }

    /// What must hold between inputs.
    pub(super) fn check_invariants(self) {
        match self {
            Self::Calm | Self::Settling { .. } => {}
            Self::PutOff { since, rows_changed } => {
                assert!(since <= rows_changed, "a wait is put off after it began");
            }
        }
    }
}

/// How long full members have been missing without anybody acting on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unrest {
    /// No full member is missing, or a decision was made and nothing has happened since.
    Quiet,
    /// Members went missing from `since` on, and none came back: they may simply have failed, one after the
    /// other.
    Failing { since: Instant },
    /// Members come and go.
    Flapping { since: Instant },
}

impl Unrest {
    /// Somebody became unreachable or Down, or is reachable again (`is_anybody_back`).
    pub(super) const fn on_change(&mut self, now: Instant, is_anybody_back: bool) {
        *self = match *self {
            Self::Quiet if is_anybody_back => Self::Flapping { since: now },
            Self::Quiet => Self::Failing { since: now },
            Self::Failing { since } if is_anybody_back => Self::Flapping { since },
            unchanged @ (Self::Failing { .. } | Self::Flapping { .. }) => unchanged,
        };
    }

    /// Patience begins anew; what was seen of the members still counts.
    pub(super) const fn restart(&mut self, now: Instant) {
        match self {
            Self::Quiet => {}
            Self::Failing { since } | Self::Flapping { since } => *since = now,
        }
    }

    /// Since when; `None` while it is quiet.
    pub(super) const fn since(self) -> Option<Instant> {
        match self {
            Self::Quiet => None,
            Self::Failing { since } | Self::Flapping { since } => Some(since),
        }
    }

    /// Whether somebody came back.
    pub(super) const fn is_flapping(self) -> bool {
        match self {
            Self::Quiet | Self::Failing { .. } => false,
            Self::Flapping { .. } => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(2000);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// A wait that began at 1 s.
    fn settling() -> PictureWait {
        let mut wait = PictureWait::Calm;
        wait.on_view(at(1000), true, false);
        wait
    }

    #[test]
    fn s_3_1_the_first_unreachable_member_begins_the_wait_and_what_unsettles_begins_it_again() {
        let mut wait = settling();
        assert_eq!(wait.over_at(PERIOD), Some(at(3000)));
        wait.on_view(at(1500), true, false);
        assert_eq!(wait, PictureWait::Settling { since: at(1000) });
        wait.on_view(at(1600), true, true);
        assert_eq!(wait, PictureWait::Settling { since: at(1600) });
        wait.on_view(at(1700), false, true);
        assert_eq!((wait, wait.over_at(PERIOD)), (PictureWait::Calm, None));
    }

    #[test]
    fn s_3_1_nothing_is_waited_for_while_nobody_is_unreachable() {
        let mut wait = PictureWait::Calm;
        wait.restart(at(1));
        wait.put_off(at(1));
        assert_eq!(wait, PictureWait::Calm);
    }

    #[test]
    fn s_3_7_rows_put_the_end_off_by_half_a_period_at_most_until_it_begins_again() {
        let ends = |rows_changed| {
            let mut wait = settling();
            wait.put_off(at(rows_changed));
            wait.over_at(PERIOD)
        };
        assert_eq!(ends(1000), Some(at(3000)));
        assert_eq!(ends(1400), Some(at(3400)));
        assert_eq!(ends(2000), Some(at(4000)));
        assert_eq!(ends(2900), Some(at(4000)));
        let mut wait = settling();
        wait.put_off(at(2900));
        wait.put_off_no_more();
        assert_eq!(wait, settling());
        wait.put_off(at(2900));
        wait.restart(at(3000));
        assert_eq!(wait, PictureWait::Settling { since: at(3000) });
    }

    #[test]
    fn s_3_8_unrest_counts_from_the_first_loss_and_remembers_that_somebody_came_back() {
        let mut unrest = Unrest::Quiet;
        unrest.on_change(at(1), false);
        unrest.on_change(at(2), false);
        assert_eq!(unrest, Unrest::Failing { since: at(1) });
        unrest.on_change(at(3), true);
        assert_eq!(unrest, Unrest::Flapping { since: at(1) });
        unrest.on_change(at(4), false);
        assert_eq!(unrest, Unrest::Flapping { since: at(1) });
        unrest.restart(at(5));
        assert_eq!(unrest, Unrest::Flapping { since: at(5) });
        let mut at_once = Unrest::Quiet;
        at_once.restart(at(1));
        assert_eq!((at_once, at_once.since()), (Unrest::Quiet, None));
        at_once.on_change(at(6), true);
        assert_eq!((at_once.is_flapping(), at_once.since()), (true, Some(at(6))));
    }
}
