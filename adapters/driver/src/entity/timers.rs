//! The timers of one entity: messages to itself after a time, and the time without a message. Kept here,
//! looked at by the entity's task; they go with their incarnation. Never waits. Spec: sharding 1.4;
//! conventions: timers of Akka.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorate_core::ordered::OrderedMap;
use quorate_core::time::Instant;

use crate::sync::lock;

/// The most timers that one entity may have. They are looked through one by one; who needs thousands needs
/// entities.
pub const TIMERS_MAX: usize = 64;

/// The shortest interval of a repeating timer.
pub const TIMER_INTERVAL_MIN: Duration = Duration::from_millis(1);

/// A message of the entity's own type.
pub(crate) type Message = Box<dyn Any + Send>;

/// Where a timer's messages come from.
pub(super) enum TimerSource {
    Once(Message),
    /// Copies of one message.
    Each(Duration, Box<dyn FnMut() -> Message + Send>),
}

struct Timer {
    at: Instant,
    source: TimerSource,
}

/// What is due.
pub(crate) enum Due {
    Message(Message),
    /// No message came for so long as the entity wants to know of.
    Idle,
}

#[derive(Default)]
struct Table {
    timers: OrderedMap<Cow<'static, str>, Timer>,
    /// After how long without a message, and when that is.
    idle: Option<(Duration, Instant)>,
}

/// See the module. Most entities have none and pay one look at a flag for each message.
#[derive(Default)]
pub(crate) struct Timers {
    /// Whether anything stands in the table. What a task starts beside the handler may be missed: whoever
    /// starts it has the entity look again.
    are_used: AtomicBool,
    /// There only while it is used.
    table: Mutex<Option<Box<Table>>>,
}

impl Timers {
    /// Starts one, instead of another one with this key; `false` if there are too many.
    pub(super) fn start(&self, key: Cow<'static, str>, at: Instant, source: TimerSource) -> bool {
        let mut place = lock(&self.table);
        let table = place.get_or_insert_default();
        if table.timers.len() >= TIMERS_MAX && !table.timers.contains_key(&key) {
            return false;
        }
        table.timers.insert(key, Timer { at, source });
        self.note_use(&mut place);
        true
    }

    /// Stops one; says whether it was there.
    pub(super) fn cancel(&self, key: &str) -> bool {
        let mut place = lock(&self.table);
        let removed = place.as_mut().and_then(|table| table.timers.remove(key));
        self.note_use(&mut place);
        removed.is_some()
    }

    pub(super) fn is_active(&self, key: &str) -> bool {
        let table = lock(&self.table);
        table.as_ref().is_some_and(|table| table.timers.contains_key(key))
    }

    /// Wants to know when no message came for so long; or no more.
    pub(super) fn watch_idle(&self, after: Option<Duration>, now: Instant) {
        let mut place = lock(&self.table);
        place.get_or_insert_default().idle = after.map(|after| (after, now + after));
        self.note_use(&mut place);
    }

    /// Whether there is anything to look at.
    pub(super) fn are_used(&self) -> bool {
        self.are_used.load(Ordering::Acquire)
    }

    /// A message is handled.
    pub(crate) fn touch(&self, now: impl FnOnce() -> Instant) {
        if !self.are_used() {
            return;
        }
        let mut table = lock(&self.table);
        if let Some((after, at)) = table.as_mut().and_then(|table| table.idle.as_mut()) {
            *at = now() + *after;
        }
    }

    /// The first that is due. One that comes again does so an interval after now: what was missed is not made
    /// up for.
    pub(super) fn pop(&self, now: Instant) -> Option<Due> {
        let mut place = lock(&self.table);
        let table = place.as_mut()?;
        let due = table.timers.iter().filter(|(_, timer)| timer.at <= now);
        let first = due.min_by_key(|(_, timer)| timer.at).map(|(key, _)| key.clone());
        if let Some(key) = first {
            let message = match table.timers.remove(&key)?.source {
                TimerSource::Once(message) => {
                    self.note_use(&mut place);
                    message
                }
                TimerSource::Each(interval, mut make) => {
                    let message = make();
                    let at = now + interval;
                    let source = TimerSource::Each(interval, make);
                    table.timers.insert(key, Timer { at, source });
                    message
                }
            };
            return Some(Due::Message(message));
        }
        match &mut table.idle {
            Some((after, at)) if *at <= now => {
                *at = now + *after;
                Some(Due::Idle)
            }
            Some(_) | None => None,
        }
    }

    /// When the next is due. Whoever changes that has the entity look again.
    pub(super) fn next(&self) -> Option<Instant> {
        if !self.are_used() {
            return None;
        }
        let place = lock(&self.table);
        let table = place.as_ref()?;
        let timers = table.timers.values().map(|timer| timer.at);
        timers.chain(table.idle.map(|(_, at)| at)).min()
    }

    /// The incarnation has ended, and they with it.
    pub(super) fn clear(&self) {
        let mut place = lock(&self.table);
        *place = None;
        self.note_use(&mut place);
    }

    fn note_use(&self, place: &mut Option<Box<Table>>) {
        if place
            .as_ref()
            .is_some_and(|table| table.timers.is_empty() && table.idle.is_none())
        {
            *place = None;
        }
        self.are_used.store(place.is_some(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn once(number: u32) -> TimerSource {
        TimerSource::Once(Box::new(number))
    }

    fn numbers(timers: &Timers, now: u64) -> Vec<Option<u32>> {
        let due = std::iter::from_fn(|| timers.pop(at(now)));
        due.map(|due| match due {
            Due::Message(message) => Some(*message.downcast::<u32>().unwrap()),
            Due::Idle => None,
        })
        .collect()
    }

    fn next(timers: &Timers) -> Option<Instant> {
        timers.next()
    }

    #[test]
    fn what_is_due_comes_in_the_order_of_its_time_and_a_key_has_one_timer() {
        let timers = Timers::default();
        assert!(timers.start("a".into(), at(30), once(1)));
        assert!(timers.start("b".into(), at(10), once(2)));
        assert!(timers.start("a".into(), at(20), once(3)));
        assert_eq!(next(&timers), Some(at(10)));
        assert_eq!(numbers(&timers, 9), []);
        assert_eq!(numbers(&timers, 40), [Some(2), Some(3)]);
        assert!(next(&timers).is_none() && !timers.is_active("a"));
    }

    #[test]
    fn one_that_comes_again_makes_up_for_nothing_and_ends_when_it_is_cancelled() {
        let timers = Timers::default();
        let mut count = 0_u32;
        let tick = move || -> Message {
            count += 1;
            Box::new(count)
        };
        timers.start(
            "t".into(),
            at(10),
            TimerSource::Each(Duration::from_millis(10), Box::new(tick)),
        );
        assert_eq!(numbers(&timers, 10), [Some(1)]);
        assert_eq!(numbers(&timers, 95), [Some(2)]);
        assert_eq!(next(&timers), Some(at(105)));
        assert!(timers.cancel("t") && !timers.cancel("t"));
        assert_eq!(numbers(&timers, 1_000), []);
    }

    #[test]
    fn the_time_without_a_message_begins_anew_with_each_and_again_when_it_is_over() {
        let timers = Timers::default();
        timers.watch_idle(Some(Duration::from_millis(10)), at(0));
        timers.touch(|| at(5));
        assert_eq!(numbers(&timers, 14), []);
        assert_eq!(numbers(&timers, 15), [None]);
        assert_eq!(next(&timers), Some(at(25)));
        timers.watch_idle(None, at(20));
        assert_eq!(numbers(&timers, 100), []);
    }

    #[test]
    fn the_time_without_a_message_goes_on_when_the_last_timer_is_gone() {
        let timers = Timers::default();
        timers.watch_idle(Some(Duration::from_millis(10)), at(0));
        timers.start("a".into(), at(5), once(1));
        assert_eq!(numbers(&timers, 5), [Some(1)]);
        timers.start("a".into(), at(9), once(2));
        assert!(timers.cancel("a"));
        assert_eq!(next(&timers), Some(at(10)));
        assert_eq!(numbers(&timers, 10), [None]);
    }

    #[test]
    fn there_are_no_more_than_there_may_be() {
        let timers = Timers::default();
        for number in 0..TIMERS_MAX {
            assert!(timers.start(number.to_string().into(), at(1), once(0)));
        }
        assert!(!timers.start("more".into(), at(1), once(0)));
        assert!(timers.start("0".into(), at(2), once(0)), "instead of another");
        timers.clear();
        assert_eq!(numbers(&timers, 10), []);
    }
}
