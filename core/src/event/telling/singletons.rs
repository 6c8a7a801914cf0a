//! Events of a singleton as they are told. Decides nothing.

use core::fmt;

use super::{AreaMarks, EventArea, EventField, EventListener, TellEvent};
use crate::event::SingletonEvent;

impl TellEvent for SingletonEvent {
    fn tell(&self, to: &mut dyn EventListener) -> fmt::Result {
        let marks = AreaMarks(EventArea::Singleton);
        match self {
            Self::MayRunTwice { strategy } => to.hear(
                marks.warn("may_run_twice"),
                &[(EventField::Strategy, strategy)],
                format_args!("under {strategy} both sides of a partition go on: each would run an instance"),
            ),
            Self::Refused { difference } => to.hear(
                marks.error("singleton_refused"),
                &[],
                format_args!(
                    "the singleton differs from the cluster's; this node neither hosts nor reaches \
it: {difference}"
                ),
            ),
            Self::RefusedOn { node, difference } => to.hear(
                marks.warn("singleton_refused_on"),
                &[(EventField::Node, node)],
                format_args!("the singleton of {node} is refused, 'here' is that node: {difference}"),
            ),
            Self::Started { token } => to.hear(
                marks.info("singleton_started"),
                &[(EventField::Token, token)],
                format_args!("instance {token} was started"),
            ),
            Self::Stopped { token } => to.hear(
                marks.info("singleton_terminated"),
                &[(EventField::Token, token)],
                format_args!("instance {token} has stopped"),
            ),
            Self::Failed { token, restart_after } => to.hear(
                marks.warn("singleton_failed"),
                &[(EventField::Token, token)],
                format_args!("instance {token} ended by itself; the next one starts in {restart_after:?}"),
            ),
            Self::StopTimeout { token } => to.hear(
                marks.warn("singleton_stop_timeout"),
                &[(EventField::Token, token)],
                format_args!(
                    "instance {token} did not stop in time and is killed; its successor waits for \
its end"
                ),
            ),
            Self::Superseded { token, term } => to.hear(
                marks.warn("singleton_superseded"),
                &[(EventField::Token, token)],
                format_args!("another node took the term {term}; instance {token} is stale and was stopped"),
            ),
            Self::TermsUsedUp => to.hear(
                marks.error("terms_used_up"),
                &[],
                format_args!("no term is left, because a store holds one that no cluster can have taken; run `lower_terms`"),
            ),
            Self::HandedOver { to: node } => to.hear(
                marks.info("singleton_handed_over"),
                &[(EventField::Node, node)],
                format_args!("handed over to {node}"),
            ),
            Self::LeaseLost => to.hear(
                marks.warn("singleton_lease_lost"),
                &[],
                format_args!("the lease was lost"),
            ),
            Self::HandOverStuck => to.hear(
                marks.warn("singleton_hand_over_stuck"),
                &[],
                format_args!("no member answers, and none is known to be gone; the hand-over starts again"),
            ),
            Self::DeadLetter { reason } => to.hear(
                marks.debug("dead_letter"),
                &[(EventField::Reason, reason)],
                format_args!("a message was not handled: {reason}"),
            ),
        }
    }
}
