//! Bodies of membership's messages. Spec: membership 5, `docs/WIRE.md` 4, 4.1.

use alloc::vec::Vec;

use super::declare::{Bare, List, Rises, Rising, by_hand, codes, messages, record, text_as};
use crate::agreement::Settings;
use crate::bytes::WireError;
use crate::ident::{DEFAULT_DATA_CENTER, ROLES_MAX, Role, Roles, UniqueAddress};
use crate::membership::protocol::{
    GossipDelta, GossipEnvelope, GossipSeen, GossipStatus, InitJoin, InitJoinAck, Join, JoinRefusal,
    JoinRefused, Msg, Welcome,
};
use crate::membership::state::app_version::AppVersion;
use crate::membership::state::packed::roles::{data_center, wire_roles};

messages! {
    Msg {
        INIT_JOIN "InitJoin" InitJoin(ask: InitJoin),
        INIT_JOIN_ACK "InitJoinAck" InitJoinAck(answer: InitJoinAck),
        INIT_JOIN_NACK "InitJoinNack" InitJoinNack = Bare,
        JOIN "Join" Join(join: Join),
        WELCOME "Welcome" Welcome(welcome: Welcome),
        LEAVE "Leave" Leave(node: UniqueAddress),
        DOWN "Down" Down(node: UniqueAddress),
        EXITING_CONFIRMED "ExitingConfirmed" ExitingConfirmed { to: UniqueAddress },
        GOSSIP_STATUS "GossipStatus" GossipStatus(status: GossipStatus),
        GOSSIP "Gossip" Gossip(envelope: GossipEnvelope),
        GOSSIP_DELTA "GossipDelta" GossipDelta(delta: GossipDelta),
        GOSSIP_SEEN "GossipSeen" GossipSeen(seen: GossipSeen),
        JOIN_REFUSED "JoinRefused" JoinRefused(refused: JoinRefused),
        REMOVED "Removed" Removed { to: UniqueAddress },
    }
}

record! { InitJoin as "init join" { settings: Settings } }
record! { InitJoinAck as "init join ack" { compatible: bool, settings: Settings } }
record! { Join as "join" { to: UniqueAddress, app_version: AppVersion, roles: Roles } }
record! { JoinRefused as "join refused" { reason: JoinRefusal, to: UniqueAddress } }

codes! {
    JoinRefusal as "join refusal" {
        1 ShuttingDown,
        2 ReceiverLeaving,
        3 AddressConflict,
        4 UidRemoved,
        5 TooManyMembers,
        6 TooManyTombstones,
        7 NotAdmitted,
        8 StateTooLarge,
    } else Other
}

/// Names of roles, without that of the default data center.
type Names = Rising<List<u8, Role, ROLES_MAX>>;

text_as! {
    AppVersion: AppVersion, "text", AppVersion::as_str, |text| AppVersion::new(text).ok();
    Role: Role, "text", Role::as_str, |text| Role::from_wire(text).ok();
}

by_hand! {
    Roles: Roles, "roles", 1, |roles, what, out| {
        let names: Vec<Role> = wire_roles(roles).cloned().collect();
        Names::put(&names, what, out)
    }, |reader, what| read_roles(Names::read(reader, what)?);
}

impl Rises for Role {
    fn is_below(&self, next: &Self) -> bool {
        self < next
    }
}

/// A member's roles of names in rising order, with at most one data center among them, and not the default
/// one: it is what a member has that names none.
fn read_roles(names: Vec<Role>) -> Result<Roles, WireError> {
    let what = "roles";
    let centers = || names.iter().filter_map(data_center);
    if centers().any(|center| center == DEFAULT_DATA_CENTER) {
        return Err(WireError::NonCanonical { what });
    }
    if centers().count() > 1 {
        return Err(WireError::Malformed { what });
    }
    Roles::from_wire(names).map_err(|_| WireError::LimitExceeded { what })
}
