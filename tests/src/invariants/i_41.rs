//! I-41: a coordinator allocates only once it has recovered, in its own term, and never a shard that still
//! has a home; terms of one cluster grow, unless nobody lives who has been Up under the one before and to
//! whom its node is a member (numbers begin anew where nobody remembers them, and fall when the youngest
//! members leave); a region never goes back to an older term, and starts only shards that the term's
//! coordinator gave it, or knows to be there.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::event::ShardingEvent;
use quorate_core::ident::UniqueAddress;
use quorate_core::sharding::ids::{KindId, ShardId, Term};

use super::{Said, Step};
use crate::sim::{History, ProcessId};

/// A kind within one cluster.
type Scope = (ProcessId, KindId);

/// What each coordinator did in its term.
#[derive(Debug, Default)]
pub(super) struct OneHome {
    /// The newest term of each kind in each cluster.
    newest: BTreeMap<Scope, Term>,
    /// The newest term that each process has coordinated or registered under, until its node is removed
    /// there.
    known: BTreeMap<(Scope, ProcessId), Term>,
    /// Terms whose coordinator has recovered.
    recovered: BTreeSet<(Scope, Term)>,
    /// The term each process coordinates under.
    coordinates: BTreeMap<(ProcessId, KindId), Term>,
    /// Who was ever given which shard in which term.
    given: BTreeSet<(Scope, Term, ShardId, ProcessId)>,
    /// Shards that a fault gives to somebody in the coordinator's name.
    planted: BTreeSet<(KindId, Term, ShardId, ProcessId)>,
    /// The newest term under which a process started a shard.
    served: BTreeMap<(ProcessId, KindId), Term>,
}

impl OneHome {
    /// A fault is about to give a shard to somebody, in the name of this term's coordinator.
    pub(super) fn plant(&mut self, kind: KindId, term: Term, shard: ShardId, process: ProcessId) {
        self.planted.insert((kind, term, shard, process));
    }

    /// A node's picture changed: a region forgets the term of a node that is removed.
    pub(super) fn on_step(&mut self, step: &Step<'_>) {
        let is_over = |term: &Term| step.after.is_removed(&term.node);
        self.known
            .retain(|(_, who), term| *who != step.process || !is_over(term));
    }

    /// A liar is gone: its terms count no more.
    pub(super) fn forget_lies(&mut self, liar: &UniqueAddress) {
        self.served.retain(|_, term| term.node != *liar);
        self.known.retain(|_, term| term.node != *liar);
    }

    pub(super) fn on_event(
        &mut self,
        Said { process, kind, event }: Said<'_>,
        cluster: ProcessId,
        safe: bool,
        history: &History,
    ) -> Result<u64, String> {
        let scope = (cluster, kind);
        match event {
            ShardingEvent::CoordinatorStarted { term } => self.started(process, scope, term, safe, history),
            ShardingEvent::CoordinatorRecovered { term, .. } => {
                self.recovered.insert((scope, term.clone()));
                Ok(0)
            }
            ShardingEvent::ShardAllocated { shard, home } => {
                let term = self.coordinates.get(&(process, kind)).cloned();
                let Some(term) = term.filter(|term| self.recovered.contains(&(scope, term.clone()))) else {
                    return Err(format!("allocates {shard:?} before it has recovered"));
                };
                let Some(owner) = history.process_of(home) else {
                    return Err(format!("gives {shard:?} to {home}, which never lived"));
                };
                self.given.insert((scope, term, *shard, owner));
                other_host(history, (kind, *shard), owner, safe, "allocates")
            }
            ShardingEvent::ShardStarted { shard, term } => {
                let served = self.served.entry((process, kind)).or_insert_with(|| term.clone());
                // Until it is removed, the liar's coordinator says which term it likes, and gives its shards
                // to whom it likes.
                if history.is_liar(&term.node) {
                    return Ok(0);
                }
                if *term < *served && !history.is_liar(&served.node) {
                    return Err(format!("starts {shard:?} for {term:?} after {served:?}"));
                }
                *served = term.clone();
                let is_planted = self.planted.contains(&(kind, term.clone(), *shard, process));
                if !is_planted && !self.given.contains(&(scope, term.clone(), *shard, process)) {
                    return Err(format!("starts {shard:?}, which {term:?} never gave it"));
                }
                Ok(0)
            }
            ShardingEvent::RegionRegistered { term } => {
                self.known.insert((scope, process), term.clone());
                Ok(0)
            }
            ShardingEvent::KindRefused { .. }
            | ShardingEvent::KindRefusedOn { .. }
            | ShardingEvent::MayRunTwice { .. }
            | ShardingEvent::AllocationUnanswered { .. }
            | ShardingEvent::ShardStopped { .. }
            | ShardingEvent::ShardFailed { .. }
            | ShardingEvent::RememberedDamaged { .. }
            | ShardingEvent::ShardLeaseLost { .. }
            | ShardingEvent::CoordinatorStateLate { .. }
            | ShardingEvent::CoordinatorRefused { .. }
            | ShardingEvent::CoordinatorStateDamaged
            | ShardingEvent::ShardStopTimeout { .. }
            | ShardingEvent::HandOffTimeout { .. }
            | ShardingEvent::HandOffCancelled { .. }
            | ShardingEvent::ShardConflict { .. }
            | ShardingEvent::ShardMovesByLoad { .. }
            | ShardingEvent::DeadLetter { .. }
            | ShardingEvent::EnvelopeUnmatched
            | ShardingEvent::BufferFull { .. }
            | ShardingEvent::BufferHasRoom
            | ShardingEvent::Drained => Ok(0),
            // A later version's; its checker is still to be written.
            _ => Ok(0),
        }
    }

    fn started(
        &mut self,
        process: ProcessId,
        scope: Scope,
        term: &Term,
        safe: bool,
        history: &History,
    ) -> Result<u64, String> {
        if term.node != history.processes[process as usize].node {
            return Err(format!("coordinates under another node's term {term:?}"));
        }
        self.coordinates.insert((process, scope.1), term.clone());
        let newest = self.newest.entry(scope).or_insert_with(|| term.clone());
        if *term < *newest && Self::is_remembered(&self.known, scope, process, term, history) {
            let what = format!("coordinates under {term:?} after {newest:?}");
            return if safe { Err(what) } else { Ok(1) };
        }
        *newest = term.clone();
        self.known.insert((scope, process), term.clone());
        Ok(0)
    }

    /// Whether the newcomer has been part of an earlier term, or somebody lives who knows a later one.
    fn is_remembered(
        known: &BTreeMap<(Scope, ProcessId), Term>,
        scope: Scope,
        process: ProcessId,
        term: &Term,
        history: &History,
    ) -> bool {
        known.contains_key(&(scope, process))
            || known.iter().any(|((cluster, who), later)| {
                *cluster == scope && later > term && history.processes[*who as usize].ended_at == u64::MAX
            })
    }
}

/// Whether a live process other than `owner` hosts the shard.
pub(super) fn other_host(
    history: &History,
    shard: (KindId, ShardId),
    owner: ProcessId,
    safe: bool,
    verb: &str,
) -> Result<u64, String> {
    let other = history.processes.iter().enumerate().find(|(at, process)| {
        let is_liar = history.liar.is_some_and(|liar| liar as usize == *at);
        *at != owner as usize && !is_liar && process.shards.contains(&shard)
    });
    let safe = safe && !history.placed_by_liar.contains(&shard);
    match other {
        Some((at, _)) if safe => Err(format!("{verb} {:?} for p{owner} while p{at} hosts it", shard.1)),
        Some(_) => Ok(1),
        None => Ok(0),
    }
}
