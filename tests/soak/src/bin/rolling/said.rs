//! What node processes say, a line each.

use std::time::Duration;

use crate::told::Course;

/// What a node says.
pub(crate) enum Said {
    /// It is Up, in a cluster of so many members.
    Up(usize),
    /// An ask ended: how long it took, and why it failed if it did.
    Asked(Duration, Option<Failed>),
    /// An entity handled an ask.
    Handled(u64),
    /// A region took a one-way message.
    Sent(Course, u64),
    /// A region did not take one.
    Refused,
    /// An entity handled one.
    Told(Course, u64, u64),
    Ended,
}

/// An ask that failed.
pub(crate) struct Failed {
    pub(crate) ask: u64,
    pub(crate) may_have_been_handled: bool,
    pub(crate) reason: String,
}

/// Reads a line; `None` if it is not one of these.
pub(crate) fn understood(line: &str) -> Option<Said> {
    let mut words = line.splitn(5, ' ');
    match words.next()? {
        "up" => Some(Said::Up(words.next()?.parse().ok()?)),
        "refused" => Some(Said::Refused),
        "sent" => {
            let course = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some(Said::Sent(course, words.next()?.parse().ok()?))
        }
        "told" => {
            let course = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some(Said::Told(
                course,
                words.next()?.parse().ok()?,
                words.next()?.parse().ok()?,
            ))
        }
        "handled" => Some(Said::Handled(words.next()?.parse().ok()?)),
        "asked" => {
            let took = Duration::from_micros(words.next()?.parse().ok()?);
            let ask = words.next()?.parse().ok()?;
            let failed = words.next().map(|may| Failed {
                ask,
                may_have_been_handled: may == "maybe",
                reason: words.next().unwrap_or_default().to_owned(),
            });
            Some(Said::Asked(took, failed))
        }
        _ => None,
    }
}
