//! I-33: in its own picture a starter is the oldest of the role: whoever is older exits. It is neither on its
//! way out nor Down, has not stood still since it last knew that it is a member (sharding 10.13), and the
//! cluster does not prepare to stop (10.12). In every run. A node that lost the singleton to another one
//! never has it again, so that it moves at most once per change of the oldest: within the safe shapes, else
//! counted.

use quorate_core::membership::member::Status;

use super::InstanceStart;
use crate::sim::History;

/// Yields how often a node has the singleton again that it had lost.
pub(super) fn on_start(start: &InstanceStart<'_>, history: &History) -> Result<u64, String> {
    may_start(start)?;
    let mut earlier = history
        .instances
        .iter()
        .filter(|it| it.singleton == start.singleton);
    let mut was_here = false;
    let is_back = earlier.any(|it| {
        was_here |= it.process == start.process;
        was_here && it.process != start.process
    });
    match is_back {
        true if start.safe => Err("starts what it had lost to another node".to_owned()),
        is_back => Ok(u64::from(is_back)),
    }
}

fn may_start(start: &InstanceStart<'_>) -> Result<(), String> {
    if start.in_doubt {
        return Err("starts before it knows that it is still a member".to_owned());
    }
    if start.view.is_shutting_down() {
        return Err("starts in a cluster that prepares to stop".to_owned());
    }
    let members = start.view.by_age(Some(start.role));
    let me = start.view.me();
    let Some(own) = members.iter().position(|member| member.node == *me) else {
        return Err("starts and is no member".to_owned());
    };
    match members[own].status {
        Status::Up | Status::Leaving => {}
        status @ (Status::PreparingForShutdown
        | Status::ReadyForShutdown
        | Status::Exiting
        | Status::Joining
        | Status::WeaklyUp
        | Status::Down
        | Status::Removed) => return Err(format!("starts although it is {status:?}")),
    }
    let stays = |status| status != Status::Exiting;
    match members[..own].iter().find(|older| stays(older.status)) {
        Some(older) => Err(format!(
            "starts although {} is older and {}",
            older.node, older.status
        )),
        None => Ok(()),
    }
}
