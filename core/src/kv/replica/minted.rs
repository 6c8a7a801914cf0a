//! What became of requests for new versions: each is decided once, and the answer to a repetition is the
//! same. Remembered in memory, because another boot is another actor, which refuses requests to this one.
//! Spec: sharding 10.19 c; reliability I-73.

use crate::kv::state::call::RequestId;
use crate::kv::state::clock::VersionDot;
use crate::kv::state::exchange::{KvRefusal, Mint};
use crate::ordered::OrderedMap;

/// Requests of one incarnation that are remembered at most: as many as it may have open at one range.
pub(super) const REMEMBERED_MAX: usize = 4_096;

type MintOutcome = Result<VersionDot, KvRefusal>;

/// By origin.
#[derive(Clone, Debug, Default)]
pub(super) struct MintedRequests(OrderedMap<u64, OriginRequests>);

#[derive(Clone, Debug, Default)]
struct OriginRequests {
    /// Lower calls are over.
    open_from: u64,
    /// By call and attempt.
    outcomes: OrderedMap<(u64, u32), MintOutcome>,
}

impl MintedRequests {
    /// What became of a request; `None` if it is new, and may be decided now.
    pub(super) fn outcome(&mut self, mint: &Mint) -> Result<Option<MintOutcome>, KvRefusal> {
        let RequestId { call, attempt } = mint.request;
        let requests = self.0.entry(call.origin).or_default();
        if mint.open_from > requests.open_from {
            requests.open_from = mint.open_from;
            requests.outcomes = requests.outcomes.split_off(&(mint.open_from, 0));
        }
        if call.number < requests.open_from {
            return Err(KvRefusal::Over);
        }
        let known = requests.outcomes.get(&(call.number, attempt)).cloned();
        if known.is_none() && requests.outcomes.len() >= REMEMBERED_MAX {
            return Err(KvRefusal::Busy);
        }
        Ok(known)
    }

    pub(super) fn remember(&mut self, request: RequestId, outcome: MintOutcome) {
        let requests = self.0.entry(request.call.origin).or_default();
        requests
            .outcomes
            .insert((request.call.number, request.attempt), outcome);
    }

    pub(super) fn forget_origin(&mut self, origin: u64) {
        self.0.remove(&origin);
    }
}
