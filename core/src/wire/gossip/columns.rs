//! Codes, counts and limits of a state's columns, shared by its reader and its writer: what one side writes, a peer with
//! the same limits reads. Spec: `docs/WIRE.md` 5.2.

use super::META_BYTES_MAX;
use crate::config::Limits;
use crate::ident::ROLES_MAX;
use crate::membership::member::Status;
use crate::membership::reachability::Reach;
use crate::wire::WireError;

/// The layout of the state; another layout gets another number.
pub(super) const STATE_VERSION: u8 = 1;

/// The fixed start of a state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) hosts: usize,
    pub(super) roles: usize,
    pub(super) role_sets: usize,
    pub(super) app_versions: usize,
    pub(super) members: usize,
    pub(super) tombstones: usize,
    pub(super) observers: usize,
    pub(super) clock: usize,
    pub(super) meta: usize,
    pub(super) records: usize,
}

impl Counts {
    /// Demands that every table fits its limit and that no table has more entries than can be used.
    pub(super) fn check(&self, limits: &Limits) -> Result<(), WireError> {
        let members = self.members;
        let records_max = members.saturating_mul(limits.reachability_records_per_member_max);
        let bounds = [
            (members, limits.members_max, "members"),
            (self.tombstones, limits.tombstones_max, "tombstones"),
            (self.hosts, members.saturating_add(self.tombstones), "hosts"),
            (self.roles, self.role_sets.saturating_mul(ROLES_MAX), "roles"),
            (self.role_sets, members, "role sets"),
            (self.app_versions, members, "app versions"),
            (self.observers, members, "reachability versions"),
            (self.records, records_max, "reachability records"),
            (self.clock, members, "clock entries"),
            (self.meta, META_BYTES_MAX, "meta bytes"),
        ];
        match bounds.into_iter().find(|(count, max, _)| count > max) {
            Some((_, _, what)) => Err(WireError::LimitExceeded { what }),
            None => Ok(()),
        }
    }
}

pub(super) const fn status_code(status: Status) -> Result<u8, WireError> {
    match status {
        Status::Removed => Err(WireError::Unencodable { what: "status" }),
        stored => Ok(status_number(stored)),
    }
}

pub(super) const fn status_number(status: Status) -> u8 {
    match status {
        Status::Joining => 0,
        Status::Up => 1,
        Status::Leaving => 2,
        Status::Exiting => 3,
        Status::Down => 4,
        // It stands for this in the table, and in no state.
        Status::Removed => 5,
        Status::WeaklyUp => 6,
        Status::PreparingForShutdown => 7,
        Status::ReadyForShutdown => 8,
    }
}

pub(super) const fn status_of(code: u8) -> Result<Status, WireError> {
    Ok(match code {
        0 => Status::Joining,
        1 => Status::Up,
        2 => Status::Leaving,
        3 => Status::Exiting,
        4 => Status::Down,
        6 => Status::WeaklyUp,
        7 => Status::PreparingForShutdown,
        8 => Status::ReadyForShutdown,
        _ => return Err(WireError::Malformed { what: "status" }),
    })
}

pub(super) const fn reach_code(reach: Reach) -> u8 {
    match reach {
        Reach::Reachable => 0,
        Reach::Unreachable => 1,
        Reach::Terminated => 2,
    }
}

pub(super) const fn reach_of(code: u8) -> Result<Reach, WireError> {
    Ok(match code {
        0 => Reach::Reachable,
        1 => Reach::Unreachable,
        2 => Reach::Terminated,
        _ => {
            return Err(WireError::Malformed {
                what: "reachability status",
            });
        }
    })
}
