//! Who in the driver hears of an event, beside the log and those who subscribed to events: one table, which
//! the pump and the loop look into. Decides nothing.

use quorate_core::ddata::state::key::Key;
use quorate_core::event::{
    Audit, DataChange, DdataEvent, DetectorEvent, Event, JoinFailure, KvEvent, MembershipEvent,
    ShardingEvent, ShutdownProgress, WatchNews,
};
use quorate_core::sharding::ids::KindId;

/// Who hears of an event.
pub(crate) enum Listener<'a> {
    /// The pump alone: streams of a value's changes. Every write of anybody is one.
    Streams(&'a [u64], &'a Key, &'a DataChange),
    /// The pump alone: a stream of changes in a bucket.
    Follower(u64, &'a WatchNews),
    /// The pump alone: the door's audit.
    Audit(&'a Audit),
    /// The pump: whether entities may begin with a message. They may not after a pause of the process, until
    /// the node knows that it is still a member.
    Gate(Gate),
    /// The pump: the node is no member, and takes back what it runs.
    Removed,
    /// The loop: the application's tasks for when the node is Up.
    Up,
    /// The loop: the phases of the node's end.
    HandedOver(ShutdownProgress),
    /// The loop: who tells or asks entities of a kind whose buffer is full, or has room again.
    Buffer(KindId, Buffer),
    /// The loop: who waits for the node to be Up.
    JoinFailed(&'a JoinFailure),
    /// Nobody else.
    Nobody,
}

/// Whether entities may begin with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Hold,
    Release,
}

/// Whether a kind's buffer takes messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Buffer {
    Full,
    HasRoom,
}

impl<'a> Listener<'a> {
    /// Who hears of this one.
    pub(crate) fn of(event: &'a Event) -> Self {
        match event {
            Event::Ddata(DdataEvent::Changed {
                subscribers,
                key,
                change,
            }) => Self::Streams(subscribers, key, change),
            Event::Kv {
                event: KvEvent::Watched { watch, news },
                ..
            } => Self::Follower(*watch, news),
            Event::Membership(event) => Self::of_membership(event),
            Event::Detector(DetectorEvent::Paused { .. } | DetectorEvent::Refused { .. }) => {
                Self::Gate(Gate::Hold)
            }
            Event::Detector(DetectorEvent::StillMember) => Self::Gate(Gate::Release),
            Event::Sharding {
                kind,
                event: ShardingEvent::BufferFull { .. },
            } => Self::Buffer(*kind, Buffer::Full),
            Event::Sharding {
                kind,
                event: ShardingEvent::BufferHasRoom,
            } => Self::Buffer(*kind, Buffer::HasRoom),
            Event::Detector(_)
            | Event::Downing(_)
            | Event::Sharding { .. }
            | Event::Ddata(_)
            | Event::Singleton { .. }
            | Event::Path { .. }
            | Event::Journal(_)
            | Event::Kv { .. }
            | Event::Rejected { .. } => Self::Nobody,
            // What a later version of the core says.
            _ => Self::Nobody,
        }
    }

    fn of_membership(event: &'a MembershipEvent) -> Self {
        match event {
            MembershipEvent::Asked(audit) => Self::Audit(audit),
            MembershipEvent::SelfUp => Self::Up,
            MembershipEvent::SelfRemoved => Self::Removed,
            MembershipEvent::HandedOver { phase } => Self::HandedOver(*phase),
            MembershipEvent::JoinFailed { reason } => Self::JoinFailed(reason),
            MembershipEvent::Changed { .. }
            | MembershipEvent::LeaderIncapacitated { .. }
            | MembershipEvent::PathsNotHandedOver { .. }
            | MembershipEvent::ShutdownPhaseTimedOut { .. } => Self::Nobody,
            // What a later version of the core says.
            _ => Self::Nobody,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sharding(event: ShardingEvent) -> Event {
        let kind = KindId::of("k");
        Event::Sharding { kind, event }
    }

    #[test]
    fn each_event_is_heard_of_by_whom_it_concerns() {
        let heard = |event: MembershipEvent| Event::Membership(event);
        let reason = JoinFailure::NoWelcome;
        let part = ShutdownProgress::Sharding;
        let excess = Duration::from_secs(3);
        let paused = Event::Detector(DetectorEvent::Paused { excess });
        let still = Event::Detector(DetectorEvent::StillMember);
        let failed = heard(MembershipEvent::JoinFailed { reason });
        let over = heard(MembershipEvent::HandedOver { phase: part });
        let full = sharding(ShardingEvent::BufferFull { messages: 7 });
        let room = sharding(ShardingEvent::BufferHasRoom);
        let (up, removed) = (
            heard(MembershipEvent::SelfUp),
            heard(MembershipEvent::SelfRemoved),
        );
        let drained = sharding(ShardingEvent::Drained);
        assert!(matches!(Listener::of(&paused), Listener::Gate(Gate::Hold)));
        assert!(matches!(Listener::of(&still), Listener::Gate(Gate::Release)));
        assert!(matches!(
            Listener::of(&failed),
            Listener::JoinFailed(JoinFailure::NoWelcome)
        ));
        assert!(matches!(Listener::of(&over), Listener::HandedOver(of) if of == part));
        let is_of = |kind: KindId| kind == KindId::of("k");
        assert!(matches!(Listener::of(&full), Listener::Buffer(kind, Buffer::Full) if is_of(kind)));
        assert!(matches!(Listener::of(&room), Listener::Buffer(kind, Buffer::HasRoom) if is_of(kind)));
        assert!(matches!(Listener::of(&up), Listener::Up));
        assert!(matches!(Listener::of(&removed), Listener::Removed));
        assert!(matches!(Listener::of(&drained), Listener::Nobody));
    }
}
