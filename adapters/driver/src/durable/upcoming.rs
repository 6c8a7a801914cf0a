//! What an entity shows of its reminders. Values only.

use std::time::{Duration, SystemTime};

use quorate_core::durable::{Reminder, Reminders};

use crate::entity::Upcoming;

/// All of them, for their entity.
pub(super) fn upcoming(reminders: &Reminders) -> Vec<Upcoming> {
    let upcoming = |(name, reminder): (&str, &Reminder)| Upcoming {
        name: name.to_owned(),
        at: SystemTime::UNIX_EPOCH + Duration::from_millis(reminder.at_ms),
        every: (reminder.every_ms > 0).then(|| Duration::from_millis(reminder.every_ms)),
    };
    reminders.iter().map(upcoming).collect()
}
