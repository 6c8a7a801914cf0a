//! I-30: instances of one singleton do not overlap while the run stays within the safe shapes; outside of
//! them overlaps are counted, as are those with a handler that holds its thread when its whole cluster has
//! ended and another has begun. In every run an instance starts only once a majority of those that vote in
//! its node's picture has promised its term, and its token is above that of every earlier instance of which
//! every majority knows: where those that do not know of it are more than half of the voters, it cannot be
//! known, and is counted. So is, outside of the safe shapes, one that begins anew after a failure under the
//! term that its process has: nobody is asked about that again. (What one database makes of tokens is in
//! `sim/singletons`.)

use quorate_core::membership::member::Status;

use super::{InstanceFound, InstanceStart};
use crate::sim::{History, InstanceRecord, Keeper};

/// A member that votes about terms.
#[derive(Clone, Copy, Debug)]
pub struct Voter {
    /// The highest term that it really has promised and has not forgotten.
    pub promised: u64,
    /// What remembers its promises.
    pub keeper: Keeper,
}

impl Voter {
    /// Whether a member with this status votes: all that were Up and neither are Down nor end.
    #[must_use]
    pub const fn votes(status: Status) -> bool {
        match status {
            Status::Up | Status::PreparingForShutdown | Status::ReadyForShutdown | Status::Leaving => true,
            Status::Joining | Status::WeaklyUp | Status::Exiting | Status::Down | Status::Removed => false,
        }
    }
}

pub(super) fn on_start(start: &InstanceStart<'_>, history: &History) -> Result<InstanceFound, String> {
    let mut found = InstanceFound::default();
    promised_by_a_majority(start)?;
    let earlier = history
        .instances
        .iter()
        .filter(|it| it.singleton == start.singleton);
    for other in earlier {
        if other.ended_at.is_none() {
            overlap(start, other, history)?;
            found.overlaps += 1;
        }
        if start.token <= other.token {
            if !begins_anew(start, history) && is_known_to_all_majorities(start, other, history) {
                return Err(format!("starts with {} after {other:?}", start.token));
            }
            found.unordered_tokens += 1;
        }
    }
    Ok(found)
}

fn promised_by_a_majority(start: &InstanceStart<'_>) -> Result<(), String> {
    let term = start.token.term;
    let promised = start.voters.iter().filter(|voter| voter.promised >= term).count();
    if promised * 2 > start.voters.len() {
        return Ok(());
    }
    let voters = start.voters.len();
    Err(format!(
        "starts with {}, which {promised} of {voters} promised",
        start.token
    ))
}

fn overlap(start: &InstanceStart<'_>, other: &InstanceRecord, history: &History) -> Result<(), String> {
    let is_expected = !start.safe || is_left_over(start, other, history);
    if !is_expected || other.process == start.process {
        return Err(format!(
            "starts with {} while another runs: {other:?}",
            start.token
        ));
    }
    Ok(())
}

/// Whether it is of a cluster that has ended, all of whose nodes were downed: it was told to stop, its
/// handler holds its thread, and nobody in the new cluster can know of it. Its token is void.
fn is_left_over(start: &InstanceStart<'_>, other: &InstanceRecord, history: &History) -> bool {
    let node = &history.processes[other.process as usize].node;
    other.told_to_stop && start.view.member(node).is_none() && !start.view.is_removed(node)
}

/// Whether its process has run the singleton under this term before, outside of the safe shapes.
fn begins_anew(start: &InstanceStart<'_>, history: &History) -> bool {
    let before = |it: &InstanceRecord| {
        it.singleton == start.singleton && it.process == start.process && it.token.term == start.token.term
    };
    !start.safe && history.instances.iter().any(before)
}

fn is_known_to_all_majorities(start: &InstanceStart<'_>, other: &InstanceRecord, history: &History) -> bool {
    let node = &history.processes[other.process as usize].node;
    let knows = |voter: &&Voter| history.knows_of((start.singleton, voter.keeper), other.token.term, node);
    let unaware = start.voters.len() - start.voters.iter().filter(knows).count();
    other.process == start.process || unaware * 2 <= start.voters.len()
}
