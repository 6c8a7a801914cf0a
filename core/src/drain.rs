//! A node's way out as parts: which hands its work over when, and how long each may take. Decides only the
//! order and what an end means; the parts do the work, and membership asks them and counts the time. A host
//! with work of its own between the parts (`shutdown`) says when each may begin. Never sends anything and
//! knows no machine. Spec: membership 2.9.

use core::time::Duration;

use crate::config::Config;
use crate::ordered::OrderedSet;

/// What a part without work to wait for may take: its last words leave in the step in which it is asked.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A part of a node that hands over before the node ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DrainPart {
    /// Shards go to other nodes, their entities stop.
    Sharding,
    /// Slots of paths go to other members, which the leader sees to; their instances stop.
    Paths,
    /// Ranges of the keyed store go to other members' stores, which their coordinators see to.
    Kv,
    /// Singletons go to the next oldest member, their instances stop.
    Singletons,
    /// Changes of replicated data that only this node has are told to the others.
    Ddata,
}

impl DrainPart {
    /// All parts, in the order of the shutdown: entities may ask paths and singletons, instances of paths
    /// singletons, and all of them may write replicated data, until they have stopped. Buckets can be called
    /// without a range of one's own.
    pub const ALL: [Self; 5] = [
        Self::Sharding,
        Self::Paths,
        Self::Kv,
        Self::Singletons,
        Self::Ddata,
    ];

    /// How long it may take.
    #[must_use]
    pub const fn limit(self, config: &Config) -> Duration {
        match self {
            Self::Sharding => config.shutdown.cluster_sharding_shutdown_region_timeout,
            Self::Paths => config.paths.exit_timeout,
            Self::Singletons => config.shutdown.cluster_exiting_timeout,
            Self::Kv => config.kv.exit_timeout,
            Self::Ddata => LAST_WORDS,
        }
    }

    /// Whether something of it that has not been handed over may still be running.
    #[must_use]
    pub const fn runs(self) -> bool {
        match self {
            Self::Sharding | Self::Paths | Self::Singletons | Self::Kv => true,
            Self::Ddata => false,
        }
    }

    fn next(self) -> Option<Self> {
        Self::ALL.into_iter().find(|part| *part > self)
    }
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DrainStep {
    /// This part is to hand over.
    Ask(DrainPart),
    /// All parts have been asked and none is waited for. `clean` if nothing can be running here any more.
    Over { clean: bool },
}

/// How far the parts have come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drain {
    progress: DrainProgress,
    /// Parts whose time was over before they were done, and that have not said so since.
    late: OrderedSet<DrainPart>,
    pace: DrainPace,
}

/// Who says when a part may begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DrainPace {
    /// Nobody: each begins when the one before it is over.
    #[default]
    Own,
    /// The host: up to this part, or none yet.
    Host(Option<DrainPart>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DrainProgress {
    /// Nobody has been asked.
    #[default]
    Idle,
    /// This part is next, and the host has not said yet that it may begin.
    Held(DrainPart),
    /// This part has been asked, those before it are behind.
    Waiting(DrainPart),
    /// All have been asked.
    Over,
}

impl Drain {
    /// From now on the host says when a part may begin.
    pub(crate) const fn pace(&mut self) {
        if matches!(self.pace, DrainPace::Own) {
            self.pace = DrainPace::Host(None);
        }
    }

    /// Whether the host says when a part may begin.
    pub(crate) const fn is_paced(&self) -> bool {
        matches!(self.pace, DrainPace::Host(_))
    }

    /// This node is to hand over. `None` if it does already, or the host holds it up.
    pub(crate) fn begin(&mut self) -> Option<DrainStep> {
        match self.progress {
            DrainProgress::Idle => self.ask(DrainPart::ALL.first().copied()),
            DrainProgress::Held(_) | DrainProgress::Waiting(_) | DrainProgress::Over => None,
        }
    }

    /// The host lets this part begin, and has done with those before it: one that is still waited for is
    /// late, and named.
    pub(crate) fn release(&mut self, part: DrainPart) -> (Option<DrainPart>, Option<DrainStep>) {
        if let DrainPace::Host(released) = &mut self.pace {
            *released = (*released).max(Some(part));
        }
        match self.progress {
            DrainProgress::Held(next) => (None, self.ask(Some(next))),
            DrainProgress::Waiting(waiting) if waiting < part => {
                self.late.insert(waiting);
                (Some(waiting), self.ask(waiting.next()))
            }
            DrainProgress::Idle | DrainProgress::Waiting(_) | DrainProgress::Over => (None, None),
        }
    }

    /// A part has handed over. `None` if that changes nothing. It counts also when it comes after the part's
    /// time: nothing of it runs, whenever that is known.
    pub(crate) fn on_done(&mut self, done: DrainPart) -> Option<DrainStep> {
        let was_late = self.late.remove(&done);
        match self.progress {
            DrainProgress::Waiting(part) if part == done => self.ask(part.next()),
            DrainProgress::Over if was_late => Some(self.over()),
            DrainProgress::Idle
            | DrainProgress::Held(_)
            | DrainProgress::Waiting(_)
            | DrainProgress::Over => None,
        }
    }

    /// The time of the part that is waited for is over: which one, and what comes next.
    pub(crate) fn on_timeout(&mut self) -> Option<(DrainPart, Option<DrainStep>)> {
        match self.progress {
            DrainProgress::Waiting(part) => {
                self.late.insert(part);
                Some((part, self.ask(part.next())))
            }
            DrainProgress::Idle | DrainProgress::Held(_) | DrainProgress::Over => None,
        }
    }

    fn ask(&mut self, part: Option<DrainPart>) -> Option<DrainStep> {
        match part {
            Some(part) if self.may_begin(part) => {
                self.progress = DrainProgress::Waiting(part);
                Some(DrainStep::Ask(part))
            }
            Some(part) => {
                self.progress = DrainProgress::Held(part);
                None
            }
            None => {
                self.progress = DrainProgress::Over;
                Some(self.over())
            }
        }
    }

    fn may_begin(&self, part: DrainPart) -> bool {
        match self.pace {
            DrainPace::Own => true,
            DrainPace::Host(released) => released >= Some(part),
        }
    }

    fn over(&self) -> DrainStep {
        let clean = !self.late.iter().any(|part| part.runs());
        DrainStep::Over { clean }
    }
}

#[cfg(test)]
mod tests {
    use DrainPart::{Ddata, Kv, Paths, Sharding, Singletons};
    use alloc::vec::Vec;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Happens {
        Begins,
        Done(DrainPart),
        Timeout,
    }
    use Happens::{Begins, Done, Timeout};

    const fn ask(part: DrainPart) -> Option<DrainStep> {
        Some(DrainStep::Ask(part))
    }

    const fn over(clean: bool) -> Option<DrainStep> {
        Some(DrainStep::Over { clean })
    }

    #[test]
    fn parts_are_asked_one_after_the_other_and_only_what_cannot_run_any_more_makes_an_end_clean() {
        type Row = &'static [(Happens, Option<DrainStep>)];
        const ROWS: [Row; 7] = [
            // In good order.
            &[
                (Begins, ask(Sharding)),
                (Done(Sharding), ask(Paths)),
                (Done(Paths), ask(Kv)),
                (Done(Kv), ask(Singletons)),
                (Done(Singletons), ask(Ddata)),
                (Done(Ddata), over(true)),
            ],
            // Asked again while it goes on, and after it.
            &[
                (Begins, ask(Sharding)),
                (Begins, None),
                (Done(Sharding), ask(Paths)),
                (Done(Paths), ask(Kv)),
                (Done(Kv), ask(Singletons)),
                (Done(Singletons), ask(Ddata)),
                (Done(Sharding), None),
                (Done(Ddata), over(true)),
                (Begins, None),
                (Done(Ddata), None),
            ],
            // Entities that do not stop.
            &[
                (Begins, ask(Sharding)),
                (Timeout, ask(Paths)),
                (Done(Paths), ask(Kv)),
                (Done(Kv), ask(Singletons)),
                (Done(Singletons), ask(Ddata)),
                (Done(Ddata), over(false)),
            ],
            // They stop late, before or after the end.
            &[
                (Begins, ask(Sharding)),
                (Timeout, ask(Paths)),
                (Done(Paths), ask(Kv)),
                (Done(Kv), ask(Singletons)),
                (Done(Singletons), ask(Ddata)),
                (Done(Sharding), None),
                (Done(Ddata), over(true)),
            ],
            &[
                (Begins, ask(Sharding)),
                (Timeout, ask(Paths)),
                (Done(Paths), ask(Kv)),
                (Done(Kv), ask(Singletons)),
                (Done(Singletons), ask(Ddata)),
                (Done(Ddata), over(false)),
                (Done(Sharding), over(true)),
                (Done(Sharding), None),
            ],
            // Data that could not be told runs nowhere.
            &[
                (Begins, ask(Sharding)),
                (Done(Sharding), ask(Paths)),
                (Done(Paths), ask(Kv)),
                (Done(Kv), ask(Singletons)),
                (Done(Singletons), ask(Ddata)),
                (Timeout, over(true)),
                (Timeout, None),
            ],
            // Out of the blue.
            &[
                (Done(Sharding), None),
                (Timeout, None),
                (Begins, ask(Sharding)),
                (Done(Ddata), None),
            ],
        ];
        for row in ROWS {
            let mut drain = Drain::default();
            let found: Vec<Option<DrainStep>> = row
                .iter()
                .map(|(happens, _)| match happens {
                    Begins => drain.begin(),
                    Done(part) => drain.on_done(*part),
                    Timeout => drain.on_timeout().and_then(|(_, step)| step),
                })
                .collect();
            let expected: Vec<Option<DrainStep>> = row.iter().map(|(_, step)| *step).collect();
            assert_eq!(found, expected, "{row:?}");
        }
    }

    #[test]
    fn the_part_whose_time_was_over_is_named() {
        let mut drain = Drain::default();
        drain.begin();
        assert_eq!(drain.on_timeout().map(|(part, _)| part), Some(Sharding));
        assert_eq!(drain.on_timeout().map(|(part, _)| part), Some(Paths));
        assert_eq!(drain.on_timeout().map(|(part, _)| part), Some(Kv));
        assert_eq!(drain.on_timeout().map(|(part, _)| part), Some(Singletons));
        assert_eq!(drain.on_timeout().map(|(part, _)| part), Some(Ddata));
        assert_eq!(drain.progress, DrainProgress::Over);
    }

    #[test]
    fn a_host_with_work_of_its_own_says_when_each_part_may_begin() {
        let mut drain = Drain::default();
        drain.pace();
        assert_eq!(drain.begin(), None, "the host is not done before it");
        assert_eq!(drain.begin(), None, "asked again");
        assert_eq!(drain.on_timeout(), None, "nothing is late that has not begun");
        assert_eq!(drain.release(Sharding), (None, ask(Sharding)));
        assert_eq!(drain.release(Sharding), (None, None), "said again");
        assert_eq!(drain.on_done(Sharding), None, "the next one waits for the host");
        assert_eq!(drain.release(Paths), (None, ask(Paths)));
        assert_eq!(drain.release(Kv), (Some(Paths), ask(Kv)));
        assert_eq!(drain.on_done(Kv), None);
        assert_eq!(drain.release(Singletons), (None, ask(Singletons)));
        assert_eq!(
            drain.release(Ddata),
            (Some(Singletons), ask(Ddata)),
            "late, and named"
        );
        assert_eq!(drain.on_done(Ddata), over(false));
        assert_eq!(drain.on_done(Singletons), over(false), "slots are late too");
        assert_eq!(drain.on_done(Paths), over(true));
    }

    #[test]
    fn what_the_host_lets_begin_before_it_is_asked_for_begins_at_once() {
        let mut drain = Drain::default();
        drain.pace();
        assert_eq!(drain.release(Ddata), (None, None));
        assert_eq!(drain.begin(), ask(Sharding));
        assert_eq!(drain.on_timeout(), Some((Sharding, ask(Paths))));
        assert_eq!(drain.on_done(Paths), ask(Kv));
        assert_eq!(drain.on_done(Kv), ask(Singletons));
        assert_eq!(drain.on_done(Singletons), ask(Ddata));
        drain.pace();
        assert_eq!(drain.on_done(Ddata), over(false), "said twice");
    }

    #[test]
    fn nobody_is_held_up_where_the_host_has_not_asked_for_it() {
        let mut drain = Drain::default();
        assert_eq!(drain.release(Singletons), (None, None));
        assert_eq!(drain.begin(), ask(Sharding));
        assert_eq!(drain.release(Singletons), (Some(Sharding), ask(Paths)));
    }

    #[test]
    fn a_host_that_says_an_earlier_part_again_holds_up_none_that_it_let_begin() {
        let mut drain = Drain::default();
        drain.pace();
        drain.begin();
        assert_eq!(drain.release(Singletons), (None, ask(Sharding)));
        assert_eq!(drain.release(Sharding), (None, None));
        assert_eq!(drain.on_done(Sharding), ask(Paths));
        assert_eq!(drain.on_done(Paths), ask(Kv));
        assert_eq!(drain.on_done(Kv), ask(Singletons));
    }
}
