//! Codes and counts of a state's columns, shared by its reader and its writer. Spec: `docs/WIRE.md` 5.2.

use crate::membership::member::Status;
use crate::membership::reachability::Reach;
use crate::wire::WireError;

/// The layout of the state; another layout gets another number.
pub(super) const STATE_VERSION: u8 = 1;

/// The fixed start of a state.
#[derive(Clone, Copy, Debug)]
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

pub(super) const fn status_code(status: Status) -> Result<u8, WireError> {
    Ok(match status {
        Status::Joining => 0,
        Status::Up => 1,
        Status::Leaving => 2,
        Status::Exiting => 3,
        Status::Down => 4,
        Status::WeaklyUp => 6,
        Status::PreparingForShutdown => 7,
        Status::ReadyForShutdown => 8,
        // Number 5 stands for it in the table, and in no state.
        Status::Removed => return Err(WireError::Unencodable { what: "status" }),
    })
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
