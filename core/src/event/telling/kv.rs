//! Events of a bucket as they are told. Decides nothing.

use core::fmt;

use super::{AreaMarks, EventArea, EventField, EventListener, TellEvent};
use crate::event::KvEvent;
use crate::kv::protocol::ranges::{RangeEvent, UndoReason};
use crate::kv::protocol::watching::WatchNews;

impl TellEvent for KvEvent {
    fn tell(&self, to: &mut dyn EventListener) -> fmt::Result {
        let marks = AreaMarks(EventArea::Kv);
        match self {
            Self::Coordinating { term, ranges } => to.hear(
                marks.info("coordinating"),
                &[(EventField::Token, term)],
                format_args!("this node coordinates its ranges as {term}; {ranges} have owners"),
            ),
            Self::CoordinatorOutdone => to.hear(
                marks.warn("coordinator_outdone"),
                &[],
                format_args!(
                    "a store has adopted owners that this node has not decided; they are found again"
                ),
            ),
            Self::CoordinatorRefused { error } => to.hear(
                marks.warn("coordinator_refused"),
                &[(EventField::Reason, error)],
                format_args!("voters refuse this node: {error}"),
            ),
            Self::TableDamaged => to.hear(
                marks.error("table_damaged"),
                &[],
                format_args!("what voters keep of it is damaged"),
            ),
            Self::Ranges(event) => event.tell(to),
            Self::RefusedOn { node, difference } => to.hear(
                marks.warn("refused_on"),
                &[(EventField::Node, node)],
                format_args!("the bucket of {node} is refused, 'here' is that node: {difference}"),
            ),
            Self::Refused { difference } => to.hear(
                marks.error("refused"),
                &[],
                format_args!("other members have opened it with other settings: {difference}"),
            ),
            Self::StoreDamaged => to.hear(
                marks.error("store_damaged"),
                &[],
                format_args!("what the store of this node holds of it is damaged"),
            ),
            Self::StoreFull { bytes } => to.hear(
                marks.error("store_full"),
                &[],
                format_args!("{bytes} bytes are held: no new value is taken"),
            ),
            Self::Watched { news, .. } => to.hear(marks.debug("watched"), &[], format_args!("{news}")),
            Self::OwnerOf { range } => to.hear(
                marks.debug("owner"),
                &[],
                format_args!("this node's store owns range {}", range.0),
            ),
            Self::OwnerNoMore { range } => to.hear(
                marks.debug("owner_no_more"),
                &[],
                format_args!("this node's store owns range {} no more", range.0),
            ),
        }
    }
}

impl TellEvent for RangeEvent {
    fn tell(&self, to: &mut dyn EventListener) -> fmt::Result {
        let marks = AreaMarks(EventArea::Kv);
        match self {
            Self::Given { ranges } => to.hear(
                marks.info("ranges_given"),
                &[],
                format_args!("{ranges} ranges were given to owners"),
            ),
            Self::MoveBegun {
                range,
                from,
                to: target,
                reason,
            } => to.hear(
                marks.info("move_begun"),
                &[(EventField::Reason, &format_args!("{reason:?}"))],
                format_args!("range {} is to move from {:x} to {:x}", range.0, from.0, target.0),
            ),
            Self::MoveEnded { range } => to.hear(
                marks.info("move_ended"),
                &[],
                format_args!("the move of range {} is over", range.0),
            ),
            Self::MoveUndone { range, reason } => to.hear(
                marks.warn("move_undone"),
                &[(EventField::Reason, reason)],
                format_args!("range {} stays with its owners: {reason}", range.0),
            ),
            Self::CopiesLost { range } => to.hear(
                marks.error("copies_lost"),
                &[],
                format_args!(
                    "so many owners of range {} are gone that acknowledged writes may be lost",
                    range.0
                ),
            ),
            Self::MoveRefused { range, error } => to.hear(
                marks.warn("move_refused"),
                &[(EventField::Reason, error)],
                format_args!("range {} cannot be moved as commanded: {error}", range.0),
            ),
        }
    }
}

impl fmt::Display for WatchNews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed(keys) => write!(f, "a subscriber hears of {} changed keys", keys.len()),
            Self::Lagged => f.write_str("a subscriber may have missed changes"),
            Self::Refused => f.write_str("an owner has too many subscriptions"),
        }
    }
}

impl fmt::Display for UndoReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NewcomerGone => "the store that was to own it is gone, away or leaves",
            Self::TooLong => "it took too long",
        })
    }
}
