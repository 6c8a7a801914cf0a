//! Instances that count what they are told, and what the tests of paths wait for.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use quorate_core::ident::UniqueAddress;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::token::Token;
use quorate_driver::paths::{FaultTolerance, HandoffOptions, MoveError, PathCommandError, PathRefusal};
use quorate_driver::spi::Adapter;
use quorate_driver::{AskError, Cluster, ClusterError, CommandError, Entity, EntityContext, Path, Stateful};
use serde::{Deserialize, Serialize};

use quorate_conformance::support::eventually;

/// Numbers of different senders do not meet.
pub(super) const SENDERS_APART: u64 = 1_000_000_000;

/// What an instance is told or asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum CounterOrder {
    /// Count it.
    Count,
    /// Note a number.
    Note(u64),
    /// Ask this slot of your own path.
    AskSlot(u16),
    /// Fail.
    Panic,
}

/// Who says it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Counted {
    pub(super) node: String,
    pub(super) slot: Option<u16>,
    pub(super) below: Option<String>,
    pub(super) count: u64,
    /// Whether an instance could not ask itself.
    pub(super) own: bool,
}

pub(super) type Counter = Path<CounterOrder, Counted>;

/// What instances of a test have noted, on all nodes, in the order in which they did.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes(pub(super) Arc<Mutex<Vec<(u16, Token, u64)>>>);

impl Notes {
    pub(super) fn add(&self, noted: (u16, Token, u64)) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(noted);
    }

    pub(super) fn numbers(&self) -> Vec<u64> {
        let notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        notes.iter().map(|(_, _, number)| *number).collect()
    }

    /// The tokens of those that noted something for this slot, each once.
    pub(super) fn tokens(&self, of: u16) -> Vec<Token> {
        let notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tokens: Vec<Token> = notes
            .iter()
            .filter(|note| note.0 == of)
            .map(|note| note.1)
            .collect();
        tokens.dedup();
        tokens
    }
}

pub(super) struct CountingInstance {
    pub(super) count: u64,
    pub(super) notes: Notes,
}

impl Entity for CountingInstance {
    type Message = CounterOrder;
    type Reply = Counted;

    async fn handle(&mut self, context: &EntityContext, order: CounterOrder) -> Counted {
        let slot = context.path_slot();
        let mut own = false;
        match order {
            CounterOrder::Count => self.count += 1,
            CounterOrder::Note(number) => {
                self.count += 1;
                self.notes
                    .add((slot.unwrap_or(u16::MAX), context.token(), number));
            }
            CounterOrder::AskSlot(slot) => {
                let path = context.path().unwrap_or_default();
                let path = context
                    .path_ref::<CounterOrder, Counted>(path)
                    .expect("it is one");
                let asked = path.slot(slot).ask(CounterOrder::Count).await;
                own = asked == Err(AskError::OwnEntity);
            }
            CounterOrder::Panic => panic!("it was told to"),
        }
        Counted {
            node: context.node().to_string(),
            slot,
            below: context.below().map(|below| below.to_string()),
            count: self.count,
            own,
        }
    }
}

impl Stateful for CountingInstance {
    type State = u64;

    async fn into_state(self, _: &EntityContext) -> Result<u64, Box<dyn Error + Send + Sync>> {
        Ok(self.count)
    }
}

/// Hosts a path with so many instances on a node.
pub(super) async fn host(
    node: &Cluster,
    path: &str,
    lost_at_once: u16,
    options: HandoffOptions,
    notes: &Notes,
) -> Counter {
    let notes = notes.clone();
    let builder = node
        .instances(path)
        .fault_tolerance(FaultTolerance::Constant(lost_at_once));
    let builder = builder.handoff(options);
    let made = move |count: u64| CountingInstance {
        count,
        notes: notes.clone(),
    };
    let hosted = if options.transfer {
        builder
            .start_stateful(move |_, state| made(state.unwrap_or_default()))
            .await
    } else {
        builder.start(move |_| made(0)).await
    };
    hosted.expect("the leader takes it")
}

/// Hosts it on every node.
pub(super) async fn hosted(
    nodes: &[Cluster],
    path: &str,
    lost_at_once: u16,
    options: HandoffOptions,
) -> (Vec<Counter>, Notes) {
    let (mut handles, notes) = (Vec::new(), Notes::default());
    for node in nodes {
        handles.push(host(node, path, lost_at_once, options, &notes).await);
    }
    (handles, notes)
}

/// Who hosts the slots, as a node knows it: nothing of it moves.
pub(super) async fn hosts(node: &Cluster, path: &str) -> Option<Vec<UniqueAddress>> {
    let all = node.paths_state().await.expect("the node runs");
    let state = all.into_iter().find(|state| state.name.as_str() == path)?;
    let settled = |at: &quorate_driver::paths::PathSlotState| match &at.last_move {
        Some(last) if last.is_pending() => None,
        Some(_) | None => at.host.clone(),
    };
    state.slots.iter().map(settled).collect()
}

/// Waits until every node knows so many hosts and nothing moves.
pub(super) async fn settled<A: Adapter>(nodes: &[&Cluster], path: &str, slots: usize) -> Vec<UniqueAddress> {
    let mut found = Vec::new();
    eventually::<A>("every slot has a host", async || {
        let mut seen = BTreeSet::new();
        for node in nodes {
            seen.insert(hosts(node, path).await);
        }
        let Some(Some(hosts)) = seen.pop_first().filter(|_| seen.is_empty()) else {
            return false;
        };
        found = hosts;
        found.len() == slots
    })
    .await;
    found
}

/// Has the first slot moved. A member that was passed over because it had not registered the path yet is no
/// place for a while.
pub(super) async fn moved<A: Adapter>(path: &Counter, to: &UniqueAddress) {
    eventually::<A>("the leader plans it", async || {
        match path.move_slot(0, to).await {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(
                    Err(error),
                    refused::<()>(PathRefusal::Move(MoveError::NotEligible))
                );
                false
            }
        }
    })
    .await;
}

pub(super) fn failed<T>(failure: AskFailure) -> Result<T, AskError> {
    Err(AskError::Failed(failure))
}

pub(super) fn refused<T>(refusal: PathRefusal) -> Result<T, ClusterError> {
    let error = PathCommandError::Refused(refusal);
    Err(ClusterError::Refused(CommandError::Path(error)))
}
