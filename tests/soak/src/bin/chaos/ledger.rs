//! All answers of a run, and whether they can be right: one instance of an entity at a time, each counting
//! its questions one by one. Spec: reliability I-40.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_tokio::Token;

/// When an answer was handled, and the how-manieth it was.
type Handled = (u64, u64);

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The entity's number.
    pub(crate) entity: u32,
    /// Which node asked.
    pub(crate) asker: usize,
    /// The question's number there.
    pub(crate) question: u64,
    /// When it was asked, handled, and when the answer came: microseconds of the machine's clock.
    pub(crate) asked: u64,
    pub(crate) handled: u64,
    pub(crate) came: u64,
    /// The how-manieth of its instance.
    pub(crate) count: u64,
    /// The instance that gave it: the node and a number.
    pub(crate) instance: String,
}

impl Answer {
    /// `question asked handled came count instance` behind the entity's number.
    pub(crate) fn parse(asker: usize, words: &[&str]) -> Option<Self> {
        let [entity, question, asked, handled, came, count, instance] = words else {
            return None;
        };
        Some(Self {
            entity: entity.parse().ok()?,
            asker,
            question: question.parse().ok()?,
            asked: asked.parse().ok()?,
            handled: handled.parse().ok()?,
            came: came.parse().ok()?,
            count: count.parse().ok()?,
            instance: (*instance).to_owned(),
        })
    }

    /// The token of the instance, if it has one.
    pub(crate) fn token(&self) -> Option<Token> {
        token(self.instance.rsplit_once('@')?.1)
    }

    /// The address of the node that gave it.
    pub(crate) fn host(&self) -> &str {
        self.instance.split('#').next().unwrap_or(&self.instance)
    }
}

/// A question that ended with an error.
#[derive(Clone, Debug)]
pub(crate) struct Unanswered {
    /// Which node asked.
    pub(crate) asker: usize,
    /// When it was heard of: microseconds of the machine's clock.
    pub(crate) at: u64,
    pub(crate) reason: String,
}

/// `term.count`.
pub(crate) fn token(text: &str) -> Option<Token> {
    let (term, count) = text.split_once('.')?;
    Some(Token::new(term.parse().ok()?, count.parse().ok()?))
}

/// Everything that was answered.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// How many are asked.
    pub(crate) entities: u32,
    pub(crate) answers: Vec<Answer>,
    /// Questions without an answer.
    pub(crate) unanswered: Vec<Unanswered>,
    /// Answers to something that was not asked.
    pub(crate) mistaken: u64,
    /// Instances that opened the book: token, the last record there was, instance.
    pub(crate) opened: Vec<(Token, u64, String)>,
    /// How often the book refused an instance.
    pub(crate) refused: u64,
}

/// What is wrong with a ledger.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    /// Two instances of an entity that answered at the same time.
    pub(crate) two_sided: Vec<String>,
    /// Answers that cannot be right.
    pub(crate) wrong: Vec<String>,
}

impl Judgement {
    pub(crate) const fn is_clean(&self) -> bool {
        self.two_sided.is_empty() && self.wrong.is_empty()
    }
}

impl Ledger {
    /// The longest time in which one of `askers` had no answer of one of the entities.
    pub(crate) fn silence(&self, askers: &[usize], from: u64, until: u64) -> Duration {
        let mut latest: BTreeMap<(usize, u32), u64> = BTreeMap::new();
        for asker in askers {
            latest.extend((0..self.entities).map(|entity| ((*asker, entity), from)));
        }
        let mut longest = 0;
        // The answers of one asker are in the order in which they came, but for a moment.
        for answer in self
            .answers
            .iter()
            .filter(|answer| (from..until).contains(&answer.came))
        {
            if let Some(last) = latest.get_mut(&(answer.asker, answer.entity)) {
                longest = longest.max(answer.came.saturating_sub(*last));
                *last = answer.came.max(*last);
            }
        }
        let open = latest.values().map(|last| until - last).max();
        Duration::from_micros(open.map_or(longest, |open| open.max(longest)))
    }

    pub(crate) fn judge(&self) -> Judgement {
        let mut found = Judgement::default();
        if self.mistaken > 0 {
            found
                .wrong
                .push(format!("{} answers to other questions", self.mistaken));
        }
        let mut entities: BTreeMap<u32, BTreeMap<&str, Vec<Handled>>> = BTreeMap::new();
        for answer in &self.answers {
            let instances = entities.entry(answer.entity).or_default();
            let handled = instances.entry(&answer.instance).or_default();
            handled.push((answer.handled, answer.count));
        }
        for (entity, instances) in &mut entities {
            let mut spans = Vec::new();
            for (instance, handled) in instances.iter_mut() {
                handled.sort_unstable_by_key(|(at, count)| (*count, *at));
                let is_counted = |pair: &[Handled]| pair[0].1 < pair[1].1 && pair[0].0 <= pair[1].0;
                if !handled.windows(2).all(is_counted) {
                    found
                        .wrong
                        .push(format!("counter {entity} at {instance} counts wrongly"));
                }
                if let (Some(first), Some(last)) = (handled.first(), handled.last()) {
                    spans.push((first.0, last.0, *instance));
                }
            }
            spans.sort_unstable();
            for pair in spans.windows(2) {
                let ((_, end, one), (begin, _, other)) = (pair[0], pair[1]);
                if begin <= end {
                    found.two_sided.push(format!(
                        "counter {entity} answered at {one} and at {other}, {} ms beside each other",
                        (end - begin) / 1000
                    ));
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(answers: &[(&str, u64, u64)]) -> Ledger {
        let answer = |(instance, handled, count): &(&str, u64, u64)| Answer {
            entity: 1,
            asker: 0,
            question: 0,
            asked: 0,
            handled: *handled,
            came: *handled,
            count: *count,
            instance: (*instance).to_owned(),
        };
        Ledger {
            answers: answers.iter().map(answer).collect(),
            ..Ledger::default()
        }
    }

    #[test]
    fn one_instance_after_the_other_is_right_and_beside_each_other_is_not() {
        let judged = ledger(&[("a#1/0", 10, 1), ("b#2/0", 30, 1), ("a#1/0", 20, 2)]).judge();
        assert!(judged.is_clean(), "{judged:?}");
        let judged = ledger(&[("a#1/0", 10, 1), ("b#2/0", 30, 1), ("a#1/0", 40, 2)]).judge();
        assert_eq!((judged.two_sided.len(), judged.wrong.len()), (1, 0));
    }

    #[test]
    fn a_count_given_twice_or_going_back_is_wrong() {
        for counts in [
            [("a#1/0", 10, 1), ("a#1/0", 20, 1)],
            [("a#1/0", 10, 2), ("a#1/0", 20, 1)],
        ] {
            assert_eq!(ledger(&counts).judge().wrong.len(), 1, "{counts:?}");
        }
        // An answer that was lost is a gap.
        assert!(ledger(&[("a#1/0", 10, 1), ("a#1/0", 20, 3)]).judge().is_clean());
    }
}
