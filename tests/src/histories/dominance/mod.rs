//! Whether the history of one key that many write at once is one of siblings: what was acknowledged, and what
//! a get has shown, is there for every later get until something overwrites it that had seen it; nothing
//! overwritten returns; and what is shown was put, once. Judges gets and puts at levels that promise
//! something; leave out others. Spec: sharding 10.19; reliability I-70 to I-73, I-75.

use std::collections::BTreeMap;

use quorate_core::kv::state::clock::{VersionClock, VersionDot};

/// A put, or a delete. No two of a key have one number.
#[derive(Clone, Debug)]
pub struct PutCall {
    /// Tells its value from all others.
    pub number: u64,
    /// It has no value.
    pub is_delete: bool,
    /// When its value ends at the latest, and at the earliest, by the clock of all callers.
    pub ends: Option<(u64, u64)>,
    /// What it overwrites.
    pub context: VersionClock,
    /// When it was asked.
    pub asked: u64,
    /// What became of it.
    pub outcome: PutOutcome,
}

/// How long a value lives, as far as callers can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeToLive {
    /// What was asked for.
    pub ttl: u64,
    /// An owner makes it so long after it was asked for at most, whether anybody hears of it or not.
    pub made_within: u64,
    /// How far the clocks of owners are apart at most.
    pub clocks_differ: u64,
}

impl TimeToLive {
    /// See [`PutCall::ends`]; of one that was asked for and acknowledged then.
    #[must_use]
    pub fn ends(self, asked: u64, acknowledged: Option<u64>) -> (u64, u64) {
        let made_last = acknowledged.unwrap_or(asked + self.made_within);
        let earliest = (asked + self.ttl).saturating_sub(self.clocks_differ);
        (made_last + self.ttl + self.clocks_differ, earliest)
    }
}

/// What became of a put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// It was acknowledged then; with the clock of the key where it was made, if that is known.
    Written(u64, Option<VersionClock>),
    /// Nobody knows.
    Unknown,
    /// It was refused: nothing was written.
    Nothing,
}

/// A get.
#[derive(Clone, Debug)]
pub struct GetCall {
    /// When it was asked.
    pub asked: u64,
    /// When it was answered.
    pub answered: u64,
    /// What was seen of the key.
    pub clock: VersionClock,
    /// The siblings. Tombstones may be left out.
    pub shown: Vec<Sibling>,
}

/// What a get has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sibling {
    /// Whose value.
    pub number: u64,
    /// Which version it is, if that is known.
    pub dot: Option<VersionDot>,
}

/// All calls about one key.
#[derive(Clone, Debug, Default)]
pub struct KeyHistory {
    /// Puts and deletes.
    pub puts: Vec<PutCall>,
    /// Gets.
    pub gets: Vec<GetCall>,
    /// How long what was deleted is remembered at least; `None`: longer than the history.
    pub grace: Option<u64>,
}

/// What is wrong: the invariant, and why.
pub type Broken = (&'static str, String);

/// Judges a history.
///
/// # Errors
/// The first thing that no correct store answers.
pub fn judge(history: &KeyHistory) -> Result<(), Broken> {
    let judged = Judge::new(history)?;
    for get in &history.gets {
        judged.check_shown(get)?;
        judged.check_nothing_returns(get)?;
        judged.check_dominates(get)?;
    }
    Ok(())
}

struct Judge<'a> {
    history: &'a KeyHistory,
    /// Puts by number.
    puts: BTreeMap<u64, &'a PutCall>,
    /// Which version a put has become, if a get ever showed it.
    dots: BTreeMap<u64, VersionDot>,
    /// The clocks of the gets that have shown a put.
    shown: BTreeMap<u64, Vec<&'a VersionClock>>,
}

impl<'a> Judge<'a> {
    fn new(history: &'a KeyHistory) -> Result<Self, Broken> {
        let mut judge = Self {
            history,
            puts: history.puts.iter().map(|put| (put.number, put)).collect(),
            dots: BTreeMap::new(),
            shown: BTreeMap::new(),
        };
        let mut numbers = BTreeMap::new();
        for get in &history.gets {
            for Sibling { number, dot } in &get.shown {
                judge.shown.entry(*number).or_default().push(&get.clock);
                let Some(dot) = dot else { continue };
                let known = *judge.dots.entry(*number).or_insert(*dot);
                let whose = *numbers.entry(*dot).or_insert(*number);
                if known != *dot || whose != *number {
                    let what = format!("put {number} is {dot:?}, it was {known:?}, which was put {whose}");
                    return Err(("I-73", what));
                }
            }
        }
        Ok(judge)
    }

    /// What a get shows was put before, once, and nothing of it was overwritten by the rest.
    fn check_shown(&self, get: &GetCall) -> Result<(), Broken> {
        for Sibling { number, dot } in &get.shown {
            let Some(put) = self.puts.get(number).filter(|put| put.asked <= get.answered) else {
                return Err(("I-73", format!("{get:?} shows {number}, which nobody had put")));
            };
            if put.outcome == PutOutcome::Nothing {
                return Err(("I-73", format!("{get:?} shows {number}, which was refused")));
            }
            if get.shown.iter().filter(|other| other.number == *number).count() > 1 {
                return Err(("I-73", format!("{get:?} shows {number} twice")));
            }
            if dot.is_some_and(|dot| !get.clock.covers(dot)) {
                return Err(("I-72", format!("{get:?} does not know {number}, which it shows")));
            }
            if !put.is_delete && put.ends.is_some_and(|(latest, _)| latest < get.asked) {
                return Err(("I-75", format!("{get:?} shows {number}, which had ended")));
            }
            let mut others = get.shown.iter().filter_map(|other| self.puts.get(&other.number));
            let overwriter = others.find(|other| other.number != *number && self.covers(&other.context, put));
            if let Some(other) = overwriter {
                return Err((
                    "I-72",
                    format!("{get:?} shows {number} and {}, which overwrote it", other.number),
                ));
            }
        }
        Ok(())
    }

    /// What was overwritten, as somebody knew before this get, is not shown.
    fn check_nothing_returns(&self, get: &GetCall) -> Result<(), Broken> {
        for put in get.shown.iter().filter_map(|shown| self.puts.get(&shown.number)) {
            let by_put = self.history.puts.iter().find(|other| {
                let is_before = matches!(&other.outcome, PutOutcome::Written(at, _) if *at < get.asked);
                is_before && self.covers(&other.context, put)
            });
            // Tombstones may be left out, and what ends is read a little longer where clocks are behind.
            let may_be_hidden = |earlier: &GetCall| {
                put.is_delete || put.ends.is_some_and(|(_, earliest)| earliest <= earlier.answered)
            };
            let by_get = self.history.gets.iter().find(|earlier| {
                let is_gone = self.covers(&earlier.clock, put) && !earlier.shows(put.number);
                earlier.answered < get.asked && is_gone && !may_be_hidden(earlier)
            });
            if by_put.is_some() || by_get.is_some() {
                let why = format!(
                    "{get:?} shows {} again, after {by_put:?} and {by_get:?}",
                    put.number
                );
                return Err(("I-75", why));
            }
        }
        Ok(())
    }

    /// All that was acknowledged or shown before a get is known to it, and is shown by it or was overwritten.
    fn check_dominates(&self, get: &GetCall) -> Result<(), Broken> {
        for put in &self.history.puts {
            let is_before = matches!(&put.outcome, PutOutcome::Written(at, _) if *at < get.asked);
            if is_before && !self.is_dominated(put, get) {
                return Err(("I-70", format!("{get:?} knows nothing of {put:?}")));
            }
        }
        let earlier = self
            .history
            .gets
            .iter()
            .filter(|earlier| earlier.answered < get.asked);
        for earlier in earlier {
            if self.history.grace.is_none() && !get.clock.dominates(&earlier.clock) {
                return Err(("I-71", format!("{get:?} goes back behind {earlier:?}")));
            }
            let mut shown = earlier
                .shown
                .iter()
                .filter_map(|shown| self.puts.get(&shown.number));
            if let Some(put) = shown.find(|put| !self.is_dominated(put, get)) {
                return Err((
                    "I-71",
                    format!("{get:?} goes back behind {} of {earlier:?}", put.number),
                ));
            }
        }
        self.check_nothing_is_lost(get)
    }

    /// What a get knows of and does not show was overwritten by somebody who had seen it, or has ended.
    fn check_nothing_is_lost(&self, get: &GetCall) -> Result<(), Broken> {
        for put in &self.history.puts {
            let may_have_ended = put.ends.is_some_and(|(_, earliest)| earliest <= get.answered);
            let may_be_missing = get.shows(put.number) || put.is_delete || may_have_ended;
            let is_overwritten = || {
                self.history
                    .puts
                    .iter()
                    .any(|other| self.may_overwrite(other, put, get))
            };
            if !may_be_missing && self.covers(&get.clock, put) && !is_overwritten() {
                return Err(("I-70", format!("{get:?} has lost {put:?}")));
            }
        }
        Ok(())
    }

    /// Whether a get knows a put, or what overwrote it; a delete may be forgotten after its grace, and so may
    /// a value that has ended.
    fn is_dominated(&self, put: &PutCall, get: &GetCall) -> bool {
        // A delete is shown to nobody: of one whose clock is not known only what it overwrote says anything.
        let is_hidden = put.is_delete && matches!(put.outcome, PutOutcome::Written(_, None));
        if is_hidden || self.covers(&get.clock, put) {
            return true;
        }
        let earliest = put.ends.map(|(_, earliest)| earliest);
        let since = if put.is_delete { Some(put.asked) } else { earliest };
        let is_over = |grace: u64| since.is_some_and(|since| since + grace <= get.answered);
        if self.history.grace.is_some_and(is_over) {
            return true;
        }
        // Whoever knows what overwrote a version covers its dot, as long as nothing is forgotten.
        let is_known = self.dots.contains_key(&put.number) && self.history.grace.is_none();
        let is_later = |other: &&PutCall| (other.asked, other.number) > (put.asked, put.number);
        let mut overwriters = self.overwriters(put, get).filter(is_later);
        !is_known && overwriters.any(|other| self.is_dominated(other, get))
    }

    /// Puts that may have overwritten one by the time of a get.
    fn overwriters<'j>(&'j self, put: &'j PutCall, get: &'j GetCall) -> impl Iterator<Item = &'j PutCall> {
        self.history.puts.iter().filter(|other| {
            other.number != put.number
                && other.asked <= get.answered
                && other.outcome != PutOutcome::Nothing
                && self.covers(&other.context, put)
        })
    }

    /// Whether a put may have overwritten another by the time of a get. What nobody was shown may have been
    /// acknowledged late, with a clock that knows what overwrote it: its dot is one above its context.
    fn may_overwrite(&self, other: &PutCall, put: &PutCall, get: &GetCall) -> bool {
        let is_hidden = !self.dots.contains_key(&put.number) && !self.shown.contains_key(&put.number);
        let mut entries = other.context.entries().iter();
        let mut knows_more = || entries.any(|entry| entry.count > put.context.count_of(entry.actor));
        self.overwriters(put, get).any(|one| one.number == other.number)
            || is_hidden
                && other.number != put.number
                && other.asked <= get.answered
                && other.outcome != PutOutcome::Nothing
                && matches!(put.outcome, PutOutcome::Written(at, _) if at >= other.asked)
                && knows_more()
    }

    /// Whether who knows this clock knows a put, as far as can be told: whoever has taken in the clock of the
    /// key where it was made, or that of a get that has shown it, does.
    fn covers(&self, clock: &VersionClock, put: &PutCall) -> bool {
        if let Some(dot) = self.dots.get(&put.number) {
            return clock.covers(*dot);
        }
        let written = match &put.outcome {
            PutOutcome::Written(_, written) => written.as_ref(),
            PutOutcome::Unknown | PutOutcome::Nothing => None,
        };
        let mut shown = self.shown.get(&put.number).into_iter().flatten();
        written.is_some_and(|written| clock.dominates(written)) || shown.any(|shown| clock.dominates(shown))
    }
}

impl GetCall {
    fn shows(&self, number: u64) -> bool {
        self.shown.iter().any(|shown| shown.number == number)
    }
}

#[cfg(test)]
mod tests;
