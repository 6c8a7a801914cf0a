//! Events in the log: each on one line, with its name as the stable field `event`, what it is about as
//! fields, and its text; the core says all of them (`quorate_core::event::telling`). Decides nothing. Spec:
//! `README.md`.

use std::fmt;

use quorate_core::event::Event;
use quorate_core::event::telling::{
    EventArea, EventField, EventListener, EventMark, Fields, Severity, TellEvent,
};
use quorate_core::ident::UniqueAddress;
use quorate_core::time::Instant;
use quorate_core::view::View;
use tracing::field::display;

use super::hosted::{Hosted, RegisteredName};
use crate::log_limit::LogLimit;

/// Writes an event to the log. What is hosted has names for what events name by number only. What strangers
/// can cause has a limit.
pub(crate) fn event(view: &View, event: &Event, log: &mut LogLimit, now: Instant, names: &Hosted) {
    let me = view.me();
    let line = LogLine {
        me,
        kind: None,
        name: None,
        path: None,
        left_out: None,
    };
    let written = if let Event::Sharding { kind, event } = event {
        let kind = names.name(RegisteredName::Kind(*kind)).escape_debug().to_string();
        event.tell(&mut LogLine {
            kind: Some(&kind),
            ..line
        })
    } else if let Event::Singleton { singleton, event } = event {
        let name = names
            .name(RegisteredName::Singleton(*singleton))
            .escape_debug()
            .to_string();
        event.tell(&mut LogLine {
            name: Some(&name),
            ..line
        })
    } else if let Event::Path { path, event } = event {
        // The leader speaks of paths that this node has not registered.
        let known = view.gossip().paths().by_id(*path);
        let name = match known {
            Some(entry) => entry.name.to_string(),
            None => names.name(RegisteredName::Path(*path)).into_owned(),
        };
        event.tell(&mut LogLine {
            path: Some(&name),
            ..line
        })
    } else if let Event::Rejected { .. } = event {
        let Some(left_out) = log.take_line(now) else {
            return;
        };
        event.tell(&mut LogLine {
            left_out: Some(left_out),
            ..line
        })
    } else {
        event.tell(&mut { line })
    };
    debug_assert!(written.is_ok(), "a log takes every line");
}

/// A line to be written, and whose it is.
struct LogLine<'a> {
    me: &'a UniqueAddress,
    kind: Option<&'a str>,
    name: Option<&'a str>,
    path: Option<&'a str>,
    left_out: Option<u64>,
}

/// The target and the level of a line are constants of the place that writes it: there is one for each.
macro_rules! write_line {
    ($line:ident, $mark:ident, $text:ident, $about:ident, $($area:ident => $target:literal),+) => {
        match $mark.area {$(
            EventArea::$area => match $mark.severity {
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
            path = $line.path.map(display),
            member = $about(EventField::Member),
            status = $about(EventField::Status),
            node = $about(EventField::Node),
            leader = $about(EventField::Leader),
            role = $about(EventField::Role),
            shard = $about(EventField::Shard),
            slot = $about(EventField::Slot),
            token = $about(EventField::Token),
            strategy = $about(EventField::Strategy),
            decision = $about(EventField::Decision),
            reason = $about(EventField::Reason),
            rule = $about(EventField::Rule),
            down = $about(EventField::Down),
            left_out = $line.left_out,
            "{}", $text
        )
    };
}

impl EventListener for LogLine<'_> {
    fn hear(&mut self, mark: EventMark, fields: Fields<'_>, text: fmt::Arguments<'_>) -> fmt::Result {
        let about = |field: EventField| {
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
            Path => "cluster::path",
            Ddata => "cluster::ddata",
            Kv => "cluster::kv",
            Store => "cluster::store"
        );
        Ok(())
    }
}
