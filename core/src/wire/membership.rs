//! Bodies of the small membership messages: fixed fields, little endian, nothing behind the last one.
//! Spec: membership 5, `docs/WIRE.md` 4, 4.1.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use super::deflate::Packer;
use super::{gossip, settings};
use crate::bytes::WireError;
use crate::bytes::{Reader, put_node, put_text};
use crate::config::Limits;
use crate::ident::{DEFAULT_DATA_CENTER, ROLES_MAX, Role, Roles};
use crate::membership::protocol::{
    GossipEnvelope, InitJoin, InitJoinAck, Join, JoinRefusal, JoinRefused, Msg, Welcome,
};
use crate::membership::state::app_version::AppVersion;
use crate::membership::state::packed::roles::{data_center, wire_roles};
use crate::message::Tag;

pub(super) fn put(
    msg: &Msg,
    limits: &Limits,
    packer: &mut Packer,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    match msg {
        Msg::InitJoin(body) => {
            out.extend_from_slice(&body.config_digest.to_le_bytes());
            settings::put(&body.settings, out)
        }
        Msg::InitJoinAck(body) => {
            out.push(u8::from(body.compatible));
            settings::put(&body.settings, out)
        }
        Msg::InitJoinNack => {
            // A frame's body is never empty.
            out.push(0);
            Ok(())
        }
        Msg::Join(body) => put_join(body, out),
        Msg::Leave(node) | Msg::Down(node) => put_node(out, node),
        Msg::JoinRefused(body) => put_join_refused(body, out),
        Msg::ExitingConfirmed { to } | Msg::Removed { to } => put_node(out, to),
        Msg::GossipStatus(body) => gossip::put_status(body, limits, out),
        Msg::Welcome(body) => gossip::put_addressed(&body.to, &body.gossip, limits, packer, out),
        Msg::Gossip(body) => gossip::put_addressed(&body.to, &body.gossip, limits, packer, out),
    }
}

pub(super) fn read(tag: Tag, reader: &mut Reader<'_>, limits: &Limits) -> Result<Msg, WireError> {
    Ok(match tag {
        Msg::INIT_JOIN => Msg::InitJoin(InitJoin {
            config_digest: reader.u64()?,
            settings: settings::read(reader)?,
        }),
        Msg::INIT_JOIN_ACK => Msg::InitJoinAck(InitJoinAck {
            compatible: reader.bool("compatible")?,
            settings: settings::read(reader)?,
        }),
        Msg::INIT_JOIN_NACK => match reader.u8()? {
            0 => Msg::InitJoinNack,
            _ => return Err(WireError::Malformed { what: "InitJoinNack" }),
        },
        Msg::JOIN => Msg::Join(read_join(reader)?),
        Msg::JOIN_REFUSED => Msg::JoinRefused(read_join_refused(reader)?),
        Msg::REMOVED => Msg::Removed { to: reader.node()? },
        Msg::LEAVE => Msg::Leave(reader.node()?),
        Msg::DOWN => Msg::Down(reader.node()?),
        Msg::EXITING_CONFIRMED => Msg::ExitingConfirmed { to: reader.node()? },
        Msg::GOSSIP_STATUS => Msg::GossipStatus(gossip::read_status(reader, limits)?),
        Msg::WELCOME => {
            let (to, gossip) = gossip::read_addressed(reader, limits)?;
            Msg::Welcome(Welcome { to, gossip })
        }
        Msg::GOSSIP => {
            let (to, gossip) = gossip::read_addressed(reader, limits)?;
            Msg::Gossip(GossipEnvelope { to, gossip })
        }
        Tag { kind, .. } => return Err(WireError::UnknownKind { kind }),
    })
}

fn put_join_refused(body: &JoinRefused, out: &mut Vec<u8>) -> Result<(), WireError> {
    out.push(match body.reason {
        JoinRefusal::ShuttingDown => 1,
        JoinRefusal::ReceiverLeaving => 2,
        JoinRefusal::AddressConflict => 3,
        JoinRefusal::UidRemoved => 4,
        JoinRefusal::TooManyMembers => 5,
        JoinRefusal::TooManyTombstones => 6,
        JoinRefusal::NotAdmitted => 7,
        JoinRefusal::StateTooLarge => 8,
        JoinRefusal::Other { code } => code,
    });
    put_node(out, &body.to)
}

/// A number that this version does not know is kept: a later version may have more reasons.
fn read_join_refused(reader: &mut Reader<'_>) -> Result<JoinRefused, WireError> {
    let reason = match reader.u8()? {
        0 => return Err(WireError::Malformed { what: "join refusal" }),
        1 => JoinRefusal::ShuttingDown,
        2 => JoinRefusal::ReceiverLeaving,
        3 => JoinRefusal::AddressConflict,
        4 => JoinRefusal::UidRemoved,
        5 => JoinRefusal::TooManyMembers,
        6 => JoinRefusal::TooManyTombstones,
        7 => JoinRefusal::NotAdmitted,
        8 => JoinRefusal::StateTooLarge,
        code => JoinRefusal::Other { code },
    };
    Ok(JoinRefused {
        to: reader.node()?,
        reason,
    })
}

fn put_join(body: &Join, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_node(out, &body.to)?;
    put_text(out, body.app_version.as_str(), "app version")?;
    let written = wire_roles(&body.roles);
    let count =
        u8::try_from(written.clone().count()).map_err(|_| WireError::Unencodable { what: "roles" })?;
    out.push(count);
    for role in written {
        put_text(out, role.as_str(), "role")?;
    }
    Ok(())
}

fn read_join(reader: &mut Reader<'_>) -> Result<Join, WireError> {
    let to = reader.node()?;
    let app_version = read_app_version(reader.text("app version")?)?;
    let count = usize::from(reader.u8()?);
    if count > ROLES_MAX {
        return Err(WireError::LimitExceeded { what: "roles" });
    }
    let mut roles: Vec<Role> = Vec::with_capacity(count.saturating_add(1));
    for _ in 0..count {
        let role = read_role(reader.text("role")?)?;
        if roles.last().is_some_and(|last| *last >= role) {
            return Err(WireError::NonCanonical { what: "roles" });
        }
        roles.push(role);
    }
    Ok(Join {
        to,
        roles: read_roles(roles)?,
        app_version,
    })
}

/// A role name; the default data center has no written form.
pub(super) fn read_role(text: &str) -> Result<Role, WireError> {
    let role = Role::from_wire(text).map_err(|_| WireError::Malformed { what: "role" })?;
    if data_center(&role) == Some(DEFAULT_DATA_CENTER) {
        return Err(WireError::NonCanonical { what: "roles" });
    }
    Ok(role)
}

/// A member's roles of names in rising order, with at most one data center among them.
pub(super) fn read_roles(names: Vec<Role>) -> Result<Roles, WireError> {
    if names.iter().filter(|role| data_center(role).is_some()).count() > 1 {
        return Err(WireError::Malformed { what: "roles" });
    }
    Roles::from_wire(names).map_err(|_| WireError::LimitExceeded { what: "roles" })
}

pub(super) fn read_app_version(text: &str) -> Result<AppVersion, WireError> {
    AppVersion::new(text).map_err(|_| WireError::Malformed { what: "app version" })
}
