//! What a durable entity wants to be reminded of: kept in its log, so it outlives passivation, moves and
//! crashes. Says what is due; who wakes the entity for it is [`crate::wakeups`]. Never reads a clock: it is
//! told the time. Spec: issue "reminders".

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::failure::DurableFailure;
use super::note::DurableNote;
use crate::ordered::OrderedMap;
use crate::sharding::state::ids::Payload;

/// Reminders of one entity: each is written again with every snapshot.
pub const REMINDERS_MAX: usize = 1_024;

/// The bytes of a reminder's name: as of a kind's.
pub const REMINDER_NAME_BYTES_MAX: usize = 255;

/// After so long a reminder whose handler decided what could not be kept is handled again.
const REMIND_AGAIN: Duration = Duration::from_secs(1);

/// How long an entity waits for a reminder at most before it looks at the clock again, which may be set; one
/// whose command cannot be read rests as long.
const NAP_MAX: Duration = Duration::from_secs(60);

/// The shortest time between two of a reminder that comes again: each is a write.
const EVERY_MIN: Duration = Duration::from_millis(10);

/// What a decision says about a reminder, before its time is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReminderWish {
    /// To be reminded.
    Remind {
        /// Of this name, instead of another one of it.
        name: String,
        /// After so long.
        after: Duration,
        /// And again after so long.
        every: Option<Duration>,
        /// What is handled then. `None`: it cannot be encoded.
        message: Option<Payload>,
    },
    /// To be reminded no more.
    Forget {
        /// Of this name.
        name: String,
    },
}

/// One reminder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reminder {
    /// When it is due, in milliseconds since 1970.
    pub at_ms: u64,
    /// After how many it is due again; 0: it comes once.
    pub every_ms: u64,
    /// What is handled then.
    pub message: Payload,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reminders {
    all: OrderedMap<String, Reminder>,
}

impl Reminders {
    /// What a decision's wishes come to at this time, as what is to be kept.
    ///
    /// # Errors
    /// Why its command fails; nothing has changed.
    pub fn notes_of(
        &self,
        now_ms: u64,
        wishes: Vec<ReminderWish>,
    ) -> Result<Vec<DurableNote>, DurableFailure> {
        let mut added = 0_usize;
        let note = |wish| match wish {
            ReminderWish::Forget { name } => Ok(DurableNote::Forgotten { name }),
            ReminderWish::Remind {
                name,
                after,
                every,
                message,
            } => {
                if name.is_empty() || name.len() > REMINDER_NAME_BYTES_MAX {
                    return Err(DurableFailure::TooLarge);
                }
                added += usize::from(!self.all.contains_key(&name));
                Ok(DurableNote::Reminded {
                    name,
                    at_ms: now_ms.saturating_add(millis(after)),
                    every_ms: every.map_or(0, |every| millis(every.max(EVERY_MIN))),
                    message: message.ok_or(DurableFailure::TooLarge)?,
                })
            }
        };
        let notes = wishes.into_iter().map(note).collect::<Result<_, _>>()?;
        if added > 0 && self.all.len().saturating_add(added) > REMINDERS_MAX {
            return Err(DurableFailure::TooManyReminders);
        }
        Ok(notes)
    }

    /// A note is durable, or was read; `false` if it is about something else.
    pub fn learn(&mut self, note: &DurableNote) -> bool {
        match note {
            DurableNote::Reminded {
                name,
                at_ms,
                every_ms,
                message,
            } => {
                let reminder = Reminder {
                    at_ms: *at_ms,
                    every_ms: *every_ms,
                    message: message.clone(),
                };
                self.all.insert(name.clone(), reminder);
            }
            DurableNote::Again { name, at_ms } => {
                if let Some(reminder) = self.all.get_mut(name) {
                    reminder.at_ms = *at_ms;
                }
            }
            DurableNote::Forgotten { name } => drop(self.all.remove(name)),
            DurableNote::Sent { .. } | DurableNote::Confirmed { .. } | DurableNote::Given { .. } => {
                return false;
            }
        }
        true
    }

    /// When the next is due.
    #[must_use]
    pub fn next_ms(&self) -> Option<u64> {
        self.all.values().map(|reminder| reminder.at_ms).min()
    }

    /// The first that is due, and what is to be kept with what its handler decides: that it is over, or when
    /// it comes again. What was missed is not made up for.
    #[must_use]
    pub fn due(&self, now_ms: u64) -> Option<(&Reminder, DurableNote)> {
        let due = self.all.iter().filter(|(_, reminder)| reminder.at_ms <= now_ms);
        let (name, reminder) = due.min_by_key(|(_, reminder)| reminder.at_ms)?;
        let name = name.clone();
        let Reminder { at_ms, every_ms, .. } = *reminder;
        let Some(missed) = (now_ms - at_ms).checked_div(every_ms) else {
            return Some((reminder, DurableNote::Forgotten { name }));
        };
        let at_ms = at_ms.saturating_add(every_ms.saturating_mul(missed + 1));
        Some((reminder, DurableNote::Again { name, at_ms }))
    }

    /// What this note is about could not be handled now: not before so long. That is not kept.
    fn postpone(&mut self, over: &DurableNote, now_ms: u64, by: Duration) {
        if let DurableNote::Again { name, .. } | DurableNote::Forgotten { name } = over
            && let Some(reminder) = self.all.get_mut(name)
        {
            reminder.at_ms = now_ms.saturating_add(millis(by));
        }
    }

    /// Whether it wants to be reminded of nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// What a snapshot has to say of them.
    pub fn notes(&self) -> impl Iterator<Item = DurableNote> {
        self.all.iter().map(|(name, reminder)| DurableNote::Reminded {
            name: name.clone(),
            at_ms: reminder.at_ms,
            every_ms: reminder.every_ms,
            message: reminder.message.clone(),
        })
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Reminder)> {
        self.all.iter().map(|(name, reminder)| (name.as_str(), reminder))
    }

    /// How long until the next is due; shorter where that is long, because the wall clock may be set.
    #[must_use]
    pub fn wait(&self, now_ms: u64) -> Option<Duration> {
        let left = Duration::from_millis(self.next_ms()?.saturating_sub(now_ms));
        Some(left.min(NAP_MAX))
    }

    /// What was decided on the reminder that this note is about could not be kept: it is due again soon.
    pub fn on_not_kept(&mut self, over: &DurableNote, now_ms: u64) {
        self.postpone(over, now_ms, REMIND_AGAIN);
    }

    /// Its command cannot be read: it rests for longer.
    pub fn on_unreadable(&mut self, over: &DurableNote, now_ms: u64) {
        self.postpone(over, now_ms, NAP_MAX);
    }
}

/// A time in milliseconds, at most some millennia: what is added to it is far from where numbers end.
fn millis(time: Duration) -> u64 {
    const MOST: u64 = 1 << 47;
    u64::try_from(time.as_millis()).unwrap_or(MOST).min(MOST)
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;
    use alloc::string::ToString;
    use alloc::vec;

    use super::*;

    fn remind(name: &str, after: u64, every: Option<u64>) -> ReminderWish {
        ReminderWish::Remind {
            name: name.to_owned(),
            after: Duration::from_millis(after),
            every: every.map(Duration::from_millis),
            message: Some(Payload::from(name.as_bytes())),
        }
    }

    fn with(now: u64, wishes: Vec<ReminderWish>) -> Reminders {
        let mut reminders = Reminders::default();
        let notes = reminders.notes_of(now, wishes).unwrap();
        assert!(notes.iter().all(|note| reminders.learn(note)));
        reminders
    }

    /// What is due until then, one after the other.
    fn taken(reminders: &mut Reminders, now: u64) -> Vec<String> {
        let mut names = Vec::new();
        while let Some((reminder, note)) = reminders.due(now) {
            names.push(String::from_utf8(reminder.message.to_vec()).unwrap());
            reminders.learn(&note);
        }
        names
    }

    #[test]
    fn what_is_due_comes_in_the_order_of_its_time_and_once() {
        let mut reminders = with(1_000, vec![remind("b", 20, None), remind("a", 30, None)]);
        assert_eq!(reminders.next_ms(), Some(1_020));
        assert!(reminders.due(1_019).is_none());
        assert_eq!(taken(&mut reminders, 2_000), ["b", "a"]);
        assert!(reminders.is_empty() && reminders.next_ms().is_none());
    }

    #[test]
    fn one_that_comes_again_makes_up_for_nothing() {
        let mut reminders = with(0, vec![remind("t", 10, Some(100))]);
        assert_eq!(taken(&mut reminders, 10), ["t"]);
        assert_eq!(reminders.next_ms(), Some(110));
        assert_eq!(taken(&mut reminders, 555), ["t"]);
        assert_eq!(reminders.next_ms(), Some(610), "in step with the first");
        let quick = with(0, vec![remind("q", 0, Some(0))]);
        let every: Vec<u64> = quick.iter().map(|(_, reminder)| reminder.every_ms).collect();
        assert_eq!(every, [10]);
    }

    #[test]
    fn a_name_has_one_reminder_and_a_snapshot_has_them_all() {
        let again = vec![
            remind("a", 10, None),
            remind("a", 50, None),
            remind("b", 5, Some(20)),
        ];
        let mut reminders = with(100, again);
        assert_eq!(reminders.next_ms(), Some(105));
        let mut copy = Reminders::default();
        assert!(reminders.notes().all(|note| copy.learn(&note)));
        assert_eq!(copy, reminders);
        let upcoming: Vec<(&str, u64)> = copy
            .iter()
            .map(|(name, reminder)| (name, reminder.at_ms))
            .collect();
        assert_eq!(upcoming, [("a", 150), ("b", 105)]);
        let forget = ReminderWish::Forget { name: "b".to_owned() };
        for note in reminders.notes_of(0, vec![forget]).unwrap() {
            reminders.learn(&note);
        }
        assert_eq!(taken(&mut reminders, 1_000), ["a"]);
    }

    #[test]
    fn there_are_no_more_than_there_may_be() {
        let names = (0..REMINDERS_MAX).map(|number| remind(&number.to_string(), 1, None));
        let reminders = with(0, names.collect());
        let refused = |wish| reminders.notes_of(0, vec![wish]).err();
        assert_eq!(
            refused(remind("more", 1, None)),
            Some(DurableFailure::TooManyReminders)
        );
        assert_eq!(refused(remind("0", 1, None)), None, "instead of another");
        let mut more = reminders.clone();
        assert!(more.learn(&DurableNote::Reminded {
            name: "more".to_owned(),
            at_ms: 1,
            every_ms: 0,
            message: Payload::from(*b"m"),
        }));
        let instead = more.notes_of(0, vec![remind("0", 1, None)]);
        assert!(instead.is_ok(), "one that was written under a higher limit");
        assert_eq!(refused(remind("", 1, None)), Some(DurableFailure::TooLarge));
        assert_eq!(
            refused(remind(&"n".repeat(256), 1, None)),
            Some(DurableFailure::TooLarge)
        );
        let forever = with(
            0,
            vec![ReminderWish::Remind {
                name: "a".to_owned(),
                after: Duration::MAX,
                every: Some(Duration::MAX),
                message: Some(Payload::from(*b"a")),
            }],
        );
        assert!(forever.next_ms().is_some_and(|at| at > 1 << 46) && forever.iter().count() == 1);
        let unencodable = ReminderWish::Remind {
            name: "a".to_owned(),
            after: Duration::ZERO,
            every: None,
            message: None,
        };
        assert_eq!(refused(unencodable), Some(DurableFailure::TooLarge));
    }

    #[test]
    fn one_that_could_not_be_handled_rests_and_is_due_again_behind_others() {
        let mut reminders = with(0, vec![remind("a", 10, None), remind("b", 15, Some(100))]);
        let (_, over) = reminders.due(20).expect("the first");
        reminders.on_not_kept(&over, 20);
        assert_eq!(reminders.next_ms(), Some(15));
        assert_eq!(taken(&mut reminders, 99), ["b"]);
        assert_eq!(reminders.wait(100), Some(Duration::from_millis(15)));
        let (_, over) = reminders
            .due(1_020)
            .filter(|(_, over)| matches!(over, DurableNote::Again { .. }))
            .expect("b");
        reminders.on_unreadable(&over, 1_020);
        assert_eq!(taken(&mut reminders, 1_020), ["a"]);
        assert_eq!(reminders.wait(1_020), Some(Duration::from_secs(60)));
        assert_eq!(
            reminders.wait(0),
            Some(Duration::from_secs(60)),
            "the clock may be set"
        );
    }
}
