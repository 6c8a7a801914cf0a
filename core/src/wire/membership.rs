//! Bodies of the small membership messages: fixed fields, little endian, nothing behind the last one.
//! Spec: membership 5, `docs/WIRE.md` 4.1.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use super::WireError;
use super::bytes::{Reader, put_node, put_text};
use crate::ident::{DATA_CENTER_ROLE_PREFIX, DEFAULT_DATA_CENTER, ROLES_MAX, Role, Roles, UniqueAddress};
use crate::membership::app_version::AppVersion;
use crate::message::{Heartbeat, InitJoin, InitJoinAck, Join, JoinRefused};
use crate::reject::JoinRefusal;

pub(super) fn put_init_join(body: InitJoin, out: &mut Vec<u8>) -> Result<(), WireError> {
    out.extend_from_slice(&body.config_digest.to_le_bytes());
    Ok(())
}

pub(super) fn read_init_join(reader: &mut Reader<'_>) -> Result<InitJoin, WireError> {
    Ok(InitJoin {
        config_digest: reader.u64()?,
    })
}

pub(super) fn put_init_join_ack(body: InitJoinAck, out: &mut Vec<u8>) -> Result<(), WireError> {
    out.push(u8::from(body.compatible));
    Ok(())
}

pub(super) fn read_init_join_ack(reader: &mut Reader<'_>) -> Result<InitJoinAck, WireError> {
    Ok(InitJoinAck {
        compatible: reader.bool("compatible")?,
    })
}

/// One zero: a frame's body is never empty.
pub(super) fn put_init_join_nack(out: &mut Vec<u8>) -> Result<(), WireError> {
    out.push(0);
    Ok(())
}

pub(super) fn read_init_join_nack(reader: &mut Reader<'_>) -> Result<(), WireError> {
    match reader.u8()? {
        0 => Ok(()),
        _ => Err(WireError::Malformed { what: "InitJoinNack" }),
    }
}

pub(super) fn put_join_refused(body: &JoinRefused, out: &mut Vec<u8>) -> Result<(), WireError> {
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
pub(super) fn read_join_refused(reader: &mut Reader<'_>) -> Result<JoinRefused, WireError> {
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

pub(super) fn put_node_only(node: &UniqueAddress, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_node(out, node)
}

pub(super) fn put_heartbeat(body: &Heartbeat, out: &mut Vec<u8>) -> Result<(), WireError> {
    out.extend_from_slice(&body.sequence.to_le_bytes());
    out.extend_from_slice(&body.sent_at_micros.to_le_bytes());
    put_node(out, &body.to)
}

pub(super) fn read_heartbeat(reader: &mut Reader<'_>) -> Result<Heartbeat, WireError> {
    let (sequence, sent_at_micros) = (reader.u64()?, reader.u64()?);
    Ok(Heartbeat {
        to: reader.node()?,
        sequence,
        sent_at_micros,
    })
}

pub(super) fn put_join(body: &Join, out: &mut Vec<u8>) -> Result<(), WireError> {
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

pub(super) fn read_join(reader: &mut Reader<'_>) -> Result<Join, WireError> {
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

/// The roles as they are written: without the default data center, which a reader adds where none is named (M-448).
pub(super) fn wire_roles(roles: &Roles) -> impl Iterator<Item = &Role> + Clone {
    roles
        .as_slice()
        .iter()
        .filter(|role| data_center(role) != Some(DEFAULT_DATA_CENTER))
}

/// The role that has no written form.
pub(super) const DEFAULT_DATA_CENTER_ROLE: &str = "dc-default";

pub(super) fn is_data_center(name: &str) -> bool {
    name.starts_with(DATA_CENTER_ROLE_PREFIX)
}

pub(super) fn data_center(role: &Role) -> Option<&str> {
    role.as_str().strip_prefix(DATA_CENTER_ROLE_PREFIX)
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
