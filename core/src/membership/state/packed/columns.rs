//! Codes, counts and limits of a state's columns, shared by its reader and its writer: what one side writes,
//! a peer with the same limits reads. Spec: `docs/WIRE.md` 5.2.

use crate::bytes::WireError;
use crate::membership::state::member::Status;
use crate::membership::state::reachability::ReachabilityStatus;

/// The layout of a state.
pub(crate) const LAYOUT: u8 = 1;

/// The fixed start of a state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StateCounts {
    pub(crate) hosts: usize,
    pub(crate) roles: usize,
    pub(crate) role_sets: usize,
    pub(crate) app_versions: usize,
    pub(crate) members: usize,
    pub(crate) tombstones: usize,
    pub(crate) observers: usize,
    pub(crate) clock: usize,
    pub(crate) gone: usize,
    pub(crate) paths: usize,
    pub(crate) records: usize,
}

pub(crate) const fn status_code(status: Status) -> Result<u8, WireError> {
    if matches!(status, Status::Removed) {
        return Err(WireError::Unencodable { what: "status" });
    }
    Ok(status_number(status))
}

pub(crate) const fn status_number(status: Status) -> u8 {
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

pub(crate) const fn status_of(code: u8) -> Result<Status, WireError> {
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

pub(crate) const fn reach_code(reach: ReachabilityStatus) -> u8 {
    match reach {
        ReachabilityStatus::Reachable => 0,
        ReachabilityStatus::Unreachable => 1,
        ReachabilityStatus::Terminated => 2,
    }
}

pub(crate) const fn reach_of(code: u8) -> Result<ReachabilityStatus, WireError> {
    Ok(match code {
        0 => ReachabilityStatus::Reachable,
        1 => ReachabilityStatus::Unreachable,
        2 => ReachabilityStatus::Terminated,
        _ => {
            return Err(WireError::Malformed {
                what: "reachability status",
            });
        }
    })
}
