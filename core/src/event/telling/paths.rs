//! Events of a path as they are told. Decides nothing.

use core::fmt;

use super::{AreaMarks, EventArea, EventField, EventListener, TellEvent};
use crate::event::PathEvent;
use crate::ident::UniqueAddress;
use crate::paths::protocol::AbortReason;

impl TellEvent for PathEvent {
    fn tell(&self, to: &mut dyn EventListener) -> fmt::Result {
        let marks = AreaMarks(EventArea::Path);
        match self {
            Self::Started { slot, token } => to.hear(
                marks.info("instance_started"),
                &[(EventField::Slot, slot), (EventField::Token, token)],
                format_args!("instance {slot} was started with token {token}"),
            ),
            Self::Stopped { slot, token } => to.hear(
                marks.info("instance_stopped"),
                &[(EventField::Slot, slot), (EventField::Token, token)],
                format_args!("instance {slot} with token {token} has stopped"),
            ),
            Self::Failed {
                slot,
                token,
                restart_after,
            } => to.hear(
                marks.warn("instance_failed"),
                &[(EventField::Slot, slot), (EventField::Token, token)],
                format_args!("instance {slot} ended by itself; the next one starts in {restart_after:?}"),
            ),
            Self::MoveBegun { slot, from, to: target } => {
                let (from, target) = (OrNobody(from.as_ref()), OrNobody(target.as_ref()));
                to.hear(
                    marks.info("move_begun"),
                    &[(EventField::Slot, slot), (EventField::Node, &target)],
                    format_args!("slot {slot} is to move from {from} to {target}"),
                )
            }
            Self::MovedAway { slot, to: target } => {
                let target = OrNobody(target.as_ref());
                to.hear(
                    marks.info("moved_away"),
                    &[(EventField::Slot, slot), (EventField::Node, &target)],
                    format_args!("slot {slot} has moved to {target}"),
                )
            }
            Self::MoveAborted { slot, reason } => to.hear(
                marks.warn("move_aborted"),
                &[(EventField::Slot, slot), (EventField::Reason, reason)],
                format_args!("slot {slot} stays here: {reason}"),
            ),
            Self::MarksMissing { slot, members } => to.hear(
                marks.warn("marks_missing"),
                &[(EventField::Slot, slot)],
                format_args!(
                    "{members} members have not turned to the new host of slot {slot}; their messages are passed on"
                ),
            ),
            Self::CodeMissing { slot } => to.hear(
                marks.error("code_missing"),
                &[(EventField::Slot, slot)],
                format_args!("this node is to host slot {slot} and has not registered the path as its host"),
            ),
            Self::ToleranceClamped { members } => to.hear(
                marks.warn("tolerance_clamped"),
                &[],
                format_args!(
                    "its fault tolerance is not below the {members} members that can host it, and counts as one less"
                ),
            ),
            Self::DeadLetter { reason } => to.hear(
                marks.debug("dead_letter"),
                &[(EventField::Reason, reason)],
                format_args!("a message was not handled: {reason}"),
            ),
        }
    }
}

impl fmt::Display for AbortReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotReady => "the new host was not ready in time",
            Self::NewHostGone => "the new host is no member any more",
            Self::CodeMissing => "the new host has not registered the path as its host",
            Self::StateTooLarge => "the state is larger than may be moved",
            Self::ByLeader => "the leader gave the move up",
        })
    }
}

/// A member, or nobody.
struct OrNobody<'a>(Option<&'a UniqueAddress>);

impl fmt::Display for OrNobody<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(node) => node.fmt(f),
            None => f.write_str("nobody"),
        }
    }
}
