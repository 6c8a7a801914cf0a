//! Events in the log: each on one line, with its name as the stable field `event`, what it is about as
//! fields, and its text; the core says all of them (`quorate_core::event::telling`). Decides nothing. Spec:
//! `README.md`.

use std::fmt;

use quorate_core::event::Event;
use quorate_core::event::telling::{Area, Field, Fields, Listener, Mark, Severity, Tell};
use quorate_core::ident::UniqueAddress;
use quorate_core::time::Instant;
use tracing::field::display;

use super::hosted::{Hosted, Named};
use crate::log_limit::LogLimit;

/// Writes an event to the log. What is hosted has names for what events name by number only. What strangers
/// can cause has a limit.
pub(crate) fn event(me: &UniqueAddress, event: &Event, log: &mut LogLimit, now: Instant, names: &Hosted) {
    let line = Line {
        me,
        kind: None,
        name: None,
        left_out: None,
    };
    let written = if let Event::Sharding { kind, event } = event {
        let kind = names.name(Named::Kind(*kind)).escape_debug().to_string();
        event.tell(&mut Line {
            kind: Some(&kind),
            ..line
        })
    } else if let Event::Singleton { singleton, event } = event {
        let name = names
            .name(Named::Singleton(*singleton))
            .escape_debug()
            .to_string();
        event.tell(&mut Line {
            name: Some(&name),
            ..line
        })
    } else if let Event::Rejected { .. } = event {
        let Some(left_out) = log.take_line(now) else {
            return;
        };
        event.tell(&mut Line {
            left_out: Some(left_out),
            ..line
        })
    } else {
        event.tell(&mut { line })
    };
    debug_assert!(written.is_ok(), "a log takes every line");
}

/// A line to be written, and whose it is.
struct Line<'a> {
    me: &'a UniqueAddress,
    kind: Option<&'a str>,
    name: Option<&'a str>,
    left_out: Option<u64>,
}

/// The target and the level of a line are constants of the place that writes it: there is one for each.
macro_rules! write_line {
    ($line:ident, $mark:ident, $text:ident, $about:ident, $($area:ident => $target:literal),+) => {
        match $mark.area {$(
            Area::$area => match $mark.severity {
                Severity::Silent => {}
                Severity::Trace => write_line!(@trace $target, $line, $mark, $text, $about),
                Severity::Debug => write_line!(@debug $target, $line, $mark, $text, $about),
                Severity::Info => write_line!(@info $target, $line, $mark, $text, $about),
                Severity::Warn => write_line!(@warn $target, $line, $mark, $text, $about),
                Severity::Error => write_line!(@error $target, $line, $mark, $text, $about),
            }
        )+}
    };
    (@$level:ident $target:literal, $line:ident, $mark:ident, $text:ident, $about:ident) => {
        tracing::$level!(
            target: $target,
            event = $mark.name,
            me = %$line.me,
            kind = $line.kind.map(display),
            name = $line.name.map(display),
            member = $about(Field::Member),
            status = $about(Field::Status),
            node = $about(Field::Node),
            leader = $about(Field::Leader),
            role = $about(Field::Role),
            shard = $about(Field::Shard),
            token = $about(Field::Token),
            strategy = $about(Field::Strategy),
            decision = $about(Field::Decision),
            reason = $about(Field::Reason),
            rule = $about(Field::Rule),
            down = $about(Field::Down),
            left_out = $line.left_out,
            "{}", $text
        )
    };
}

impl Listener for Line<'_> {
    fn hear(&mut self, mark: Mark, fields: Fields<'_>, text: fmt::Arguments<'_>) -> fmt::Result {
        let about = |field: Field| {
            let found = fields.iter().find(|(name, _)| *name == field);
            found.map(|(_, value)| display(*value))
        };
        write_line!(
            self, mark, text, about,
            Membership => "cluster::membership",
            Gossip => "cluster::gossip",
            Detector => "cluster::fd",
            Downing => "cluster::sbr",
            Transport => "cluster::transport",
            Sharding => "cluster::sharding",
            Singleton => "cluster::singleton",
            Ddata => "cluster::ddata",
            Store => "cluster::store"
        );
        Ok(())
    }
}
