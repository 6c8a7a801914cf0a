//! What a host keeps for its node (step 9): a store, here one that forgets everything with the process and
//! therefore answers at once, and the way to a lease keeper, here a table that all hosts of the process
//! share. A real store is a thread of its own, a real keeper a service; what the node asks and hears is the
//! same.
#![allow(clippy::disallowed_types, reason = "a lease keeper has a clock of its own")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use quorate_core::config::{Config, DowningStrategy, LeaseMajorityConfig, ValidConfig};
use quorate_core::effect::{AllocationNeed, AllocationQuestion};
use quorate_core::ident::{ClusterName, UniqueAddress};
use quorate_core::input::{Command, Input, ShardingCommand, Token};
use quorate_core::lease::protocol::{LeaseName, LeaseOrder, LeaseOutcome, LeaseReport};
use quorate_core::owner::Requester;
use quorate_core::sharding::fields::StoreMode;
use quorate_core::sharding::protocol::{AllocationAnswer, AllocationDecided};
use quorate_core::store::memory::MemoryMap;
use quorate_core::store::{StoreReport, StoreRequest};

use super::Failure;

/// A lease is renewed so often in its time to live.
const RENEWALS: u32 = 4;

/// The settings of all hosts: a lease decides which side of a partition stays, and where shards live is on a
/// majority of three stores.
pub(crate) fn config() -> Result<ValidConfig, Failure> {
    let mut config = Config::fast(ClusterName::new("custom-loop")?);
    config.downing.strategy = DowningStrategy::LeaseMajority(LeaseMajorityConfig::default());
    config.sharding.state_store_mode = StoreMode::Events;
    config.journal.voters = 3;
    Ok(config.validate()?)
}

/// Commands of the host itself, whose answers nobody waits for.
const NOBODY: Token = Token::MAX;

/// Where shards of a kind with `AllocationSettings::Asked` go (step 8): one node after the other, and nothing
/// moves. A host that has to look it up somewhere answers later, before the question's deadline.
pub(crate) fn allocate(question: AllocationQuestion) -> Input<'static> {
    let AllocationQuestion { kind, number, .. } = question;
    let decided = match question.need {
        AllocationNeed::Homes(wanted) => {
            let node_of = |shard: u32| {
                question.regions[shard as usize % question.regions.len()]
                    .node
                    .clone()
            };
            let homes = wanted
                .iter()
                .map(|wanted| (wanted.shard, node_of(wanted.shard.0)));
            AllocationDecided::Homes(homes.collect())
        }
        AllocationNeed::Moves { .. } => AllocationDecided::Moves(Vec::new()),
    };
    let answer = AllocationAnswer {
        kind,
        number,
        decided,
    };
    let (token, command) = (
        NOBODY,
        Command::Sharding(ShardingCommand::AnswerAllocation(answer)),
    );
    Input::Command { token, command }
}

/// Who holds each lease until when, and its token, which grows with every change of hands.
type Leases = BTreeMap<LeaseName, (UniqueAddress, Instant, u64)>;

/// What all hosts of the process share.
#[derive(Clone, Default)]
pub(crate) struct ProcessKeeper {
    pub(crate) leases: Arc<Mutex<Leases>>,
    /// The logs of durable entities.
    pub(crate) logs: Arc<Mutex<MemoryMap>>,
}

/// A lease that the node holds.
struct HeldLease {
    asked_by: Requester,
    owner: UniqueAddress,
    time_to_live: Duration,
    renew_at: Instant,
}

/// The store of one node, and its leases.
pub(crate) struct NodeKeeping {
    pub(crate) store: MemoryMap,
    keeper: ProcessKeeper,
    held: BTreeMap<LeaseName, HeldLease>,
}

impl NodeKeeping {
    /// `id` tells this store from all others.
    pub(crate) fn new(keeper: &ProcessKeeper, id: u64) -> Self {
        let mut store = MemoryMap::new();
        // It counts its lives before it does anything else.
        store.boot(u128::from(id));
        let (keeper, held) = (keeper.clone(), BTreeMap::new());
        Self { store, keeper, held }
    }

    /// Does what the node asks of its store, and answers.
    pub(crate) fn obey(&mut self, owner: Requester, request: &StoreRequest) -> Input<'static> {
        let (id, outcome) = (request.id, self.store.obey(owner.space(), &request.order));
        Input::Stored(owner, StoreReport { id, outcome })
    }

    /// Asks the keeper for what the node wants of a lease.
    pub(crate) fn lease(&mut self, asked_by: Requester, order: LeaseOrder) -> Input<'static> {
        let (now, mut table) = (
            Instant::now(),
            self.keeper.leases.lock().unwrap_or_else(PoisonError::into_inner),
        );
        let report = match order {
            LeaseOrder::Acquire {
                name,
                owner,
                time_to_live,
            } => {
                let before = table.get(&name);
                let is_mine = before.is_some_and(|(holder, ..)| *holder == owner);
                let is_free = before.is_none_or(|(_, until, _)| *until <= now);
                let token = before.map_or(0, |(.., token)| *token) + u64::from(is_free);
                let outcome = if is_free || is_mine {
                    let renew_at = now + time_to_live / RENEWALS;
                    table.insert(name.clone(), (owner.clone(), now + time_to_live, token));
                    let held = HeldLease {
                        asked_by,
                        owner,
                        time_to_live,
                        renew_at,
                    };
                    self.held.insert(name.clone(), held);
                    LeaseOutcome::Granted { token }
                } else {
                    LeaseOutcome::Denied
                };
                LeaseReport { name, outcome }
            }
            LeaseOrder::Release { name, owner } => {
                if let Some((_, until, _)) = table.get_mut(&name).filter(|(holder, ..)| *holder == owner) {
                    *until = now;
                }
                self.held.remove(&name);
                let outcome = LeaseOutcome::Released;
                LeaseReport { name, outcome }
            }
        };
        Input::Lease(asked_by, report)
    }

    /// Renews what is due. Whoever was too late has lost it, and hears so.
    pub(crate) fn renew(&mut self) -> Vec<Input<'static>> {
        let (now, mut lost) = (Instant::now(), Vec::new());
        let mut table = self.keeper.leases.lock().unwrap_or_else(PoisonError::into_inner);
        self.held.retain(|name, held| {
            if held.renew_at > now {
                return true;
            }
            held.renew_at = now + held.time_to_live / RENEWALS;
            let mine = |entry: &&mut (UniqueAddress, Instant, u64)| entry.0 == held.owner && entry.1 > now;
            if let Some((_, until, _)) = table.get_mut(name).filter(mine) {
                *until = now + held.time_to_live;
                return true;
            }
            let (name, outcome) = (name.clone(), LeaseOutcome::Lost);
            lost.push(Input::Lease(held.asked_by, LeaseReport { name, outcome }));
            false
        });
        lost
    }
}
