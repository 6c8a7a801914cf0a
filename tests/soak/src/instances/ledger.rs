//! What was sent, handled and refused, and which instance ran when, by what processes said of it. Trusts
//! neither the table of paths nor the clocks of instances, but the one clock of the machine. Knows no
//! process.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{PATHS, SENT_MIN};
use crate::ending::Judged;
use crate::ledger::line;
use crate::program::NODES;
use quorate_driver::Token;

/// A message: of which path, by whom, to which slot or name, and its number.
pub(super) type Key = (usize, u64, u64, u64);
/// An instance: path, slot and token.
pub(super) type InstanceKey = (usize, u64, Token);

/// What moved from a host so long before it was killed may still have come by there.
const PASSING: u64 = 2_000_000_000;

/// What became of a message.
#[derive(Debug, Default)]
struct Message {
    handled_at: Vec<u64>,
    is_refused: bool,
    /// Its sender heard that it may have been handled.
    has_failed: bool,
    /// It was under way to or from the process that was killed.
    is_doomed: bool,
}

/// The life of an instance.
#[derive(Debug)]
struct InstanceLife {
    key: InstanceKey,
    who: usize,
    start: u64,
    /// The last sign of it.
    last: u64,
    /// It ended in good order.
    ended: bool,
    killed: bool,
    /// What it had of the one before, and what it left.
    had: u64,
    left: u64,
}

impl InstanceLife {
    const fn runs(&self) -> bool {
        !self.ended && !self.killed
    }

    const fn end(&self) -> u64 {
        if self.runs() { u64::MAX } else { self.last }
    }
}

/// Everything that was said.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    messages: BTreeMap<Key, Message>,
    lives: Vec<InstanceLife>,
    /// Where messages of a path to a slot or name were handled last.
    slots: BTreeMap<(usize, u64), u64>,
    handled: u64,
    /// Who was killed and is not back, and the slots that it had.
    gone: Option<(usize, BTreeSet<(usize, u64)>)>,
    senders: [u64; NODES],
    /// In which time always one of a path has to run.
    watched: (u64, u64),
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) sent: u64,
    pub(super) handled: u64,
    pub(super) refused: u64,
    pub(super) destroyed: u64,
    pub(super) lost: u64,
    pub(super) reordered: u64,
    pub(super) two_alive: u64,
    pub(super) below_minimum: u64,
    /// Messages that were handled twice, or although they were refused.
    pub(super) doubled: u64,
    /// Instances that did not begin with what the one before had left.
    pub(super) without_state: u64,
    /// Why the work did not go on.
    pub(super) stuck: Option<String>,
}

impl Ledger {
    pub(super) fn sent(&self) -> u64 {
        self.messages.len() as u64
    }

    pub(super) const fn handled(&self) -> u64 {
        self.handled
    }

    pub(super) fn running(&self) -> usize {
        self.lives.iter().filter(|life| life.runs()).count()
    }

    pub(super) fn running_on(&self, who: usize) -> usize {
        (0..PATHS.len()).filter(|path| self.runs_on(*path, who)).count()
    }

    /// Whether an instance of a path runs there.
    pub(super) fn runs_on(&self, path: usize, who: usize) -> bool {
        let mut running = self.lives.iter().filter(|life| life.runs());
        running.any(|life| life.key.0 == path && life.who == who)
    }

    /// From now on one of each path has to run.
    pub(super) const fn begin(&mut self, at: u64) {
        self.watched = (at, u64::MAX);
    }

    pub(super) const fn end(&mut self, at: u64) {
        self.watched.1 = at;
    }

    /// A sender sends it, and knows so many members.
    pub(super) fn on_sent(&mut self, who: usize, key: Key, members: u64) {
        self.senders[who] = key.1;
        let is_doomed = self.gone.as_ref().is_some_and(|(gone, slots)| {
            let slot = self.slots.get(&(key.0, key.2)).copied();
            let is_there = slot.is_some_and(|slot| slots.contains(&(key.0, slot)));
            *gone == who || (members == NODES as u64 && is_there)
        });
        self.messages.entry(key).or_default().is_doomed |= is_doomed;
    }

    pub(super) fn on_refused(&mut self, key: Key) {
        self.messages.entry(key).or_default().is_refused = true;
    }

    pub(super) fn on_failed(&mut self, key: Key) {
        self.messages.entry(key).or_default().has_failed = true;
    }

    pub(super) fn on_handled(&mut self, by: InstanceKey, at: u64, key: Key) {
        let message = self.messages.entry(key).or_default();
        message.handled_at.push(at);
        self.handled += u64::from(message.handled_at.len() == 1);
        self.slots.insert((key.0, key.2), by.1);
        if let Some(life) = self.life(by) {
            life.last = life.last.max(at);
        }
    }

    pub(super) fn on_start(&mut self, who: usize, key: InstanceKey, at: u64, had: u64) {
        let killed = self.gone.as_ref().is_some_and(|(gone, _)| *gone == who);
        self.lives.push(InstanceLife {
            key,
            who,
            start: at,
            last: at,
            ended: false,
            killed,
            had,
            left: 0,
        });
    }

    pub(super) fn on_end(&mut self, key: InstanceKey, at: u64, left: u64) {
        if let Some(life) = self.life(key) {
            life.ended = true;
            life.last = life.last.max(at);
            life.left = left;
        }
    }

    fn life(&mut self, key: InstanceKey) -> Option<&mut InstanceLife> {
        self.lives.iter_mut().rev().find(|life| life.key == key)
    }

    /// A node is killed now: nothing that is under way to it or from it need be handled.
    pub(super) fn killed(&mut self, who: usize, at: u64) {
        let mut slots = BTreeSet::new();
        for life in self.lives.iter_mut().filter(|life| life.who == who) {
            if life.runs() || life.last + PASSING > at {
                slots.insert((life.key.0, life.key.1));
            }
            if life.runs() {
                life.killed = true;
                life.last = at;
            }
        }
        for ((path, sender, lane, _), message) in &mut self.messages {
            let slot = self.slots.get(&(*path, *lane)).copied();
            let is_there = slot.is_some_and(|slot| slots.contains(&(*path, slot)));
            let is_over = message.has_failed || message.is_refused;
            message.is_doomed = !is_over && (is_there || *sender == self.senders[who]);
        }
        self.gone = Some((who, slots));
    }

    /// The node that was killed was removed, and is about to be a new one.
    pub(super) fn is_back(&mut self) {
        self.gone = None;
    }

    /// Holds everything against what is promised.
    pub(super) fn judge(&self, stuck: Option<String>) -> Verdict {
        let mut verdict = Verdict {
            sent: self.sent(),
            reordered: self.reordered(),
            stuck,
            ..Verdict::default()
        };
        for message in self.messages.values() {
            let handled = message.handled_at.len() as u64;
            let counted = match (handled, message.is_refused, message.is_doomed) {
                (1.., _, _) => &mut verdict.handled,
                (0, true, _) => &mut verdict.refused,
                (0, false, true) => &mut verdict.destroyed,
                (0, false, false) => &mut verdict.lost,
            };
            *counted += 1;
            verdict.doubled += (handled + u64::from(message.is_refused)).saturating_sub(1);
        }
        for (path, shape) in PATHS.iter().enumerate() {
            for slot in 0..=u64::from(shape.lost_at_once) {
                let mut lives = self.lives_of(path);
                lives.retain(|life| life.key.1 == slot);
                if shape.options.never_two() {
                    verdict.two_alive += two_at_once(&lives);
                }
                if shape.options.transfer {
                    verdict.without_state += without_state(&lives);
                }
            }
            verdict.below_minimum += self.below_minimum(path);
        }
        verdict
    }

    /// Messages that were handled before one with a lower number of their sender to their slot.
    fn reordered(&self) -> u64 {
        let (mut count, mut last) = (0, None);
        for ((path, sender, lane, _), message) in &self.messages {
            let Some(at) = message.handled_at.first() else {
                continue;
            };
            let from = (*path, *sender, *lane);
            let before = last.filter(|(same, _)| *same == from).map(|(_, at)| at);
            let is_late = before.is_some_and(|before| at < before);
            count += u64::from(is_late && PATHS[*path].options.keeps_order());
            last = Some((from, before.map_or(at, |before| before.max(at))));
        }
        count
    }

    /// In the order in which they began.
    fn lives_of(&self, path: usize) -> Vec<&InstanceLife> {
        let mut lives: Vec<&InstanceLife> = self.lives.iter().filter(|life| life.key.0 == path).collect();
        lives.sort_by_key(|life| life.start);
        lives
    }

    /// How often a path had no running instance, although no more of its hosts were gone than may be.
    fn below_minimum(&self, path: usize) -> u64 {
        let (from, to) = self.watched;
        let lives = self.lives_of(path);
        let spans = lives.iter().map(|life| (life.start, life.end()));
        let (mut count, mut covered) = (0, from);
        for (start, end) in spans.chain([(to, to)]) {
            let is_gap = covered < start.min(to);
            let is_too_early = || self.gone_at(path, covered) <= PATHS[path].lost_at_once;
            count += u64::from(is_gap && is_too_early());
            covered = covered.max(end);
        }
        count
    }

    /// Of the slots of a path that have no instance at a time, those whose host was killed or that move
    /// under options where nobody serves meanwhile.
    fn gone_at(&self, path: usize, at: u64) -> u16 {
        let mut last = BTreeMap::new();
        for life in self.lives_of(path) {
            if life.start <= at {
                last.insert(life.key.1, life);
            }
        }
        let never_two = PATHS[path].options.never_two();
        let gone = last
            .values()
            .filter(|life| life.killed || (life.ended && never_two));
        u16::try_from(gone.count()).unwrap_or(u16::MAX)
    }
}

/// How many began before an earlier one of the same slot had ended.
fn two_at_once(lives: &[&InstanceLife]) -> u64 {
    let (mut count, mut covered) = (0, 0);
    for life in lives {
        count += u64::from(life.start < covered);
        covered = covered.max(life.end());
    }
    count
}

/// How many began without what the one before had left in good order.
fn without_state(lives: &[&InstanceLife]) -> u64 {
    let pairs = lives.windows(2);
    let lost = pairs.filter(|pair| matches!(pair, [before, next] if before.ended && next.had != before.left));
    lost.count() as u64
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} messages sent, {} handled, {} refused, {} destroyed with a process; {} lost, {} reordered, {} handled twice; \
             {} times two were alive, {} times none, {} without state",
            self.sent,
            self.handled,
            self.refused,
            self.destroyed,
            self.lost,
            self.reordered,
            self.doubled,
            self.two_alive,
            self.below_minimum,
            self.without_state
        )
    }
}

impl Judged for Verdict {
    fn fault(&self) -> Option<String> {
        let faults = [
            self.lost,
            self.reordered,
            self.two_alive,
            self.below_minimum,
            self.doubled,
            self.without_state,
        ];
        match &self.stuck {
            Some(why) => Some(format!("the work did not go on: {why}; {self}")),
            None if faults != [0; 6] || self.sent < SENT_MIN => Some(self.to_string()),
            None => None,
        }
    }

    fn json(&self) -> String {
        line(&[
            ("sent", &self.sent),
            ("handled", &self.handled),
            ("refused", &self.refused),
            ("destroyed", &self.destroyed),
            ("lost", &self.lost),
            ("reordered", &self.reordered),
            ("two_alive", &self.two_alive),
            ("below_minimum", &self.below_minimum),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path under `ORDERED`, and the one under `STATEFUL`: two instances each.
    const ORDERED: usize = 1;
    const STATEFUL: usize = 2;

    const fn token(term: u64) -> Token {
        Token::new(term, 1)
    }

    /// Slots of a path run on nodes 0 and 1, and sender 7 on node 2 knows that messages to both arrive.
    fn begun(path: usize) -> Ledger {
        let mut ledger = Ledger::default();
        for slot in 0..2_u8 {
            ledger.on_start(slot.into(), (path, slot.into(), token(1)), 10, 0);
        }
        ledger.begin(20);
        for slot in 0..2 {
            ledger.on_sent(2, (path, 7, slot, 1), 5);
            ledger.on_handled((path, slot, token(1)), 30, (path, 7, slot, 1));
        }
        ledger
    }

    fn judged(mut ledger: Ledger) -> Verdict {
        ledger.end(1_000);
        ledger.judge(None)
    }

    #[test]
    fn what_is_neither_handled_nor_refused_is_lost_unless_it_was_under_way_to_or_from_the_killed_one() {
        let mut ledger = begun(ORDERED);
        for (slot, number) in [(0, 2), (0, 3), (0, 4), (1, 2), (1, 3)] {
            ledger.on_sent(2, (ORDERED, 7, slot, number), 5);
        }
        ledger.on_sent(0, (ORDERED, 8, 1, 1), 5);
        ledger.on_refused((ORDERED, 7, 1, 2));
        // Before the kill: that is none of its doing.
        ledger.on_failed((ORDERED, 7, 0, 4));
        ledger.killed(0, 100);
        ledger.on_failed((ORDERED, 7, 0, 2));
        ledger.on_sent(2, (ORDERED, 7, 0, 5), 5);
        // It was removed for that sender.
        ledger.on_sent(2, (ORDERED, 7, 0, 6), 4);
        let verdict = judged(ledger);
        assert_eq!(
            (
                verdict.sent,
                verdict.handled,
                verdict.refused,
                verdict.destroyed,
                verdict.lost
            ),
            (10, 2, 1, 4, 3),
            "0: 2, 3, 5 and that of 8 are destroyed; 0: 4 and 6 and 1: 3 are lost"
        );
        assert!(verdict.fault().is_some());
    }

    #[test]
    fn a_later_number_first_and_a_message_twice_are_seen() {
        for (path, late) in [(0, 0), (ORDERED, 1), (STATEFUL, 1)] {
            let mut ledger = begun(path);
            for (number, at) in [(2, 50), (3, 40), (4, 60)] {
                ledger.on_sent(2, (path, 7, 0, number), 5);
                ledger.on_handled((path, 0, token(1)), at, (path, 7, 0, number));
            }
            ledger.on_handled((path, 0, token(1)), 70, (path, 7, 0, 4));
            ledger.on_refused((path, 7, 0, 2));
            let verdict = judged(ledger);
            assert_eq!((verdict.reordered, verdict.doubled), (late, 2), "{path}");
        }
    }

    #[test]
    fn two_at_once_are_seen_where_that_may_not_be_and_a_state_that_is_not_taken_along() {
        for (start, had, two, without) in [(60, 5, 0, 0), (40, 5, 1, 0), (60, 4, 0, 1)] {
            for (path, promised) in [(ORDERED, 0), (STATEFUL, 1)] {
                let mut ledger = begun(path);
                ledger.on_start(3, (path, 0, token(2)), start, had);
                ledger.on_end((path, 0, token(1)), 50, 5);
                let verdict = judged(ledger);
                assert_eq!(
                    (verdict.two_alive, verdict.without_state),
                    (two * promised, without * promised)
                );
            }
        }
    }

    #[test]
    fn a_path_without_an_instance_is_below_its_minimum_unless_more_of_its_hosts_are_gone() {
        let gaps = |path, ends: &dyn Fn(&mut Ledger)| {
            let mut ledger = begun(path);
            ledger.on_end((path, 1, token(1)), 40, 1);
            ends(&mut ledger);
            ledger.on_start(3, (path, 0, token(2)), 60, 1);
            ledger.end(1_000);
            ledger.below_minimum(path)
        };
        for (path, gap) in [(ORDERED, 1), (STATEFUL, 0)] {
            assert_eq!(gaps(path, &|_| {}), 0, "one is there");
            let in_good_order = |ledger: &mut Ledger| ledger.on_end((path, 0, token(1)), 50, 1);
            assert_eq!(gaps(path, &in_good_order), gap);
            assert_eq!(gaps(path, &|ledger| ledger.killed(0, 50)), gap);
        }
    }

    #[test]
    fn the_line_has_the_names_that_are_promised() {
        let verdict = Verdict {
            sent: SENT_MIN,
            handled: SENT_MIN,
            ..Verdict::default()
        };
        assert_eq!(verdict.fault(), None);
        let few = Verdict {
            sent: 1,
            ..verdict.clone()
        };
        assert!(few.fault().is_some());
        assert_eq!(
            verdict.json(),
            r#"{"sent":10000,"handled":10000,"refused":0,"destroyed":0,"lost":0,"reordered":0,"two_alive":0,"below_minimum":0}"#
        );
    }
}
