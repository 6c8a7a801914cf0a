//! Who votes about logs: stores, chosen once by the oldest member among those it knows, and settled when each
//! of them has durably agreed. From then on they never change, so any two majorities there ever are share a
//! store; a store that was lost comes back with another number, and does not vote. Decides nothing about
//! logs. Spec: sharding 10.7, 10.16; reliability I-84.
//!
//! A store agrees to one choice in its life. So of two choices that share a store one at most is ever
//! settled.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::Cx;
use super::layout;
use super::protocol::{Event, Msg, Rejection, Timer, VoterBody, VoterMsg};
use super::state::{StoreId, Voters};
use crate::ident::UniqueAddress;
use crate::membership::state::leader::oldest_first;
use crate::membership::state::member::{Member, Status};
use crate::ordered::OrderedMap;
use crate::reject::Rejection as AnyRejection;
use crate::rng;
use crate::store::{Change, StoreAnswer, StoreError, StoreOrder, StoreReport, StoreRequest};
use crate::view::View;

/// From this number on requests to the store are the electorate's; those below are the replica's.
pub(super) const FIRST_REQUEST: u64 = 1 << 63;

/// Members that are asked in one step: a crowd that joins at once is asked in the next ones.
const ASKED_PER_STEP_MAX: usize = 64;

/// What this node's store says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum IdentityStage {
    /// It was not asked, or could not answer.
    #[default]
    Unknown,
    /// It is asked which one it is.
    Identifying,
    /// It is asked which voters it has agreed to.
    Loading(StoreId),
    /// It keeps which voters it agrees to.
    Agreeing(StoreId, Voters),
    /// Nothing is asked. `None`: this node has no store.
    Ready(Option<StoreId>),
    /// What it holds about the voters is damaged: it takes no part.
    Damaged,
}

/// What another member has said.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PeerStore {
    store: Option<StoreId>,
    voters: Option<Voters>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct StoreElectorate {
    stage: IdentityStage,
    /// What this node has agreed to, or knows to be settled.
    voters: Option<Voters>,
    peers: OrderedMap<UniqueAddress, PeerStore>,
    last_request: u64,
    /// The member with other voters that was reported last.
    reported: Option<UniqueAddress>,
}

impl StoreElectorate {
    /// The stores that vote, once that is settled.
    pub(super) fn settled(&self) -> Option<&Arc<[StoreId]>> {
        self.voters
            .as_ref()
            .filter(|voters| voters.is_settled)
            .map(|voters| &voters.stores)
    }

    /// This node's store.
    pub(super) const fn store(&self) -> Option<StoreId> {
        match &self.stage {
            IdentityStage::Agreeing(store, _) => Some(*store),
            IdentityStage::Ready(store) => *store,
            IdentityStage::Unknown
            | IdentityStage::Identifying
            | IdentityStage::Loading(_)
            | IdentityStage::Damaged => None,
        }
    }

    /// The one member that has this store; `None` if none is known, or two say so.
    pub(super) fn node_of(&self, cx: &Cx<'_>, store: StoreId) -> Option<UniqueAddress> {
        let mine = (self.store() == Some(store)).then(|| cx.me().clone());
        let of_peers = self.peers.iter().filter(|(_, peer)| peer.store == Some(store));
        let mut nodes = mine.into_iter().chain(of_peers.map(|(node, _)| node.clone()));
        let node = nodes.next();
        node.filter(|_| nodes.next().is_none())
    }

    /// The members have changed.
    pub(super) fn on_view_changed(&mut self, cx: &mut Cx<'_>, view: &View) {
        self.peers.retain(|node, _| view.member(node).is_some());
        let is_new = |member: &Member| !self.peers.contains_key(&member.node) && member.node != *cx.me();
        if self.stage == IdentityStage::Unknown || others(view).any(is_new) {
            self.go_on(cx);
        }
    }

    /// Time to look whether something is missing.
    pub(super) fn on_timer(&mut self, cx: &mut Cx<'_>) {
        self.go_on(cx);
    }

    fn go_on(&mut self, cx: &mut Cx<'_>) {
        match &self.stage {
            IdentityStage::Unknown => {
                self.stage = IdentityStage::Identifying;
                self.ask_store(cx, StoreOrder::Identify);
            }
            IdentityStage::Identifying
            | IdentityStage::Loading(_)
            | IdentityStage::Agreeing(..)
            | IdentityStage::Damaged => {}
            IdentityStage::Ready(_) => {
                self.introduce_to_strangers(cx);
                self.elect(cx);
            }
        }
        self.wake(cx);
    }

    /// Comes back while something is missing.
    fn wake(&self, cx: &mut Cx<'_>) {
        let view = Arc::clone(cx.view());
        let knows_all =
            others(&view).all(|member| member.node == *cx.me() || self.peers.contains_key(&member.node));
        let is_ready = matches!(self.stage, IdentityStage::Ready(_));
        if self.stage == IdentityStage::Damaged || (is_ready && self.settled().is_some() && knows_all) {
            cx.cancel(Timer::Introduce);
        } else if !cx.is_set(Timer::Introduce) {
            let at = cx.mono() + cx.config().journal.retry_interval;
            cx.wake(Timer::Introduce, at);
        }
    }

    fn introduce_to_strangers(&self, cx: &mut Cx<'_>) {
        let view = Arc::clone(cx.view());
        let me = cx.me();
        let (known, strangers): (Vec<&Member>, Vec<&Member>) = others(&view)
            .filter(|member| member.node != *me)
            .partition(|member| self.peers.contains_key(&member.node));
        for member in strangers.iter().take(ASKED_PER_STEP_MAX) {
            self.introduce(cx, &member.node, true);
        }
        // Somebody may have heard of it meanwhile.
        if self.settled().is_none() && !known.is_empty() {
            let pick = rng::below(cx.rng(), known.len());
            if let Some(member) = known.get(pick) {
                self.introduce(cx, &member.node, true);
            }
        }
    }

    fn introduce(&self, cx: &mut Cx<'_>, to: &UniqueAddress, asks: bool) {
        let body = VoterBody::Introduction {
            asks,
            store: self.store(),
            voters: self.voters.clone(),
        };
        say(cx, to, body);
    }

    /// A member says who it is.
    pub(super) fn on_introduction(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        asks: bool,
        store: Option<StoreId>,
        voters: Option<Voters>,
    ) {
        if voters
            .as_ref()
            .is_some_and(|voters| !Voters::are_possible(&voters.stores))
        {
            return cx.reject(from, AnyRejection::Journal(Rejection::BadVoters));
        }
        let peer = PeerStore {
            store,
            voters: voters.clone(),
        };
        let is_news = self.peers.get(from) != Some(&peer);
        if from != cx.me() {
            self.peers.insert(from.clone(), peer);
        }
        let IdentityStage::Ready(mine) = self.stage else {
            // Who asks, asks again.
            return;
        };
        if asks {
            self.introduce(cx, from, false);
        }
        if let Some(voters) = voters {
            self.learn(cx, from, mine, voters);
        }
        if is_news {
            self.elect(cx);
            self.wake(cx);
        }
    }

    /// Somebody has agreed to voters, or knows them to be settled.
    fn learn(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, mine: Option<StoreId>, voters: Voters) {
        if let Some(held) = &self.voters {
            if held.stores != voters.stores {
                cx.counters().voters_conflicts += 1;
                if self.reported.as_ref() != Some(from) {
                    self.reported = Some(from.clone());
                    cx.notify(Event::Conflict { node: from.clone() });
                }
                return;
            }
            if held.is_settled {
                return;
            }
        }
        if voters.is_settled {
            self.settle(cx, mine, voters);
        }
    }

    fn settle(&mut self, cx: &mut Cx<'_>, mine: Option<StoreId>, voters: Voters) {
        match mine.filter(|store| voters.stores.contains(store)) {
            Some(store) => self.agree(cx, store, voters),
            None => {
                self.voters = Some(voters);
                self.wake(cx);
            }
        }
    }

    /// The oldest member has chosen.
    pub(super) fn on_elect(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, stores: Arc<[StoreId]>) {
        let IdentityStage::Ready(mine) = self.stage else {
            return;
        };
        let store = mine.filter(|store| stores.contains(store));
        let fits = stores.len() == cx.config().journal.voters && Voters::are_possible(&stores);
        let Some(store) = store.filter(|_| fits) else {
            return cx.reject(from, AnyRejection::Journal(Rejection::BadVoters));
        };
        if self.voters.is_none() {
            let is_settled = false;
            self.agree(cx, store, Voters { stores, is_settled });
        } else {
            self.introduce(cx, from, false);
        }
    }

    fn agree(&mut self, cx: &mut Cx<'_>, store: StoreId, voters: Voters) {
        let change = Change::Put {
            key: layout::voters_key(),
            value: layout::value(&voters),
        };
        self.stage = IdentityStage::Agreeing(store, voters);
        self.ask_store(cx, StoreOrder::Write { batch: vec![change] });
    }

    /// The oldest member chooses, and sees whether all have agreed.
    fn elect(&mut self, cx: &mut Cx<'_>) {
        let IdentityStage::Ready(mine) = self.stage else {
            return;
        };
        let view = Arc::clone(cx.view());
        let up: Vec<&Member> = up_by_age(&view);
        if self.settled().is_some() || up.first().is_none_or(|oldest| oldest.node != *cx.me()) {
            return;
        }
        let stores: OrderedMap<StoreId, (&UniqueAddress, Option<&Voters>)> = up
            .iter()
            .filter_map(|member| {
                let peer = self.peers.get(&member.node);
                match peer {
                    Some(peer) => Some((peer.store?, (&member.node, peer.voters.as_ref()))),
                    None if member.node == *cx.me() => Some((mine?, (&member.node, self.voters.as_ref()))),
                    None => None,
                }
            })
            .collect();
        let held = stores.values().find_map(|(_, voters)| *voters);
        let chosen: Arc<[StoreId]> = match held {
            // Somebody has agreed to these already: they, or none.
            Some(voters) => Arc::clone(&voters.stores),
            None => match choose(&up, &stores, cx.config().journal.voters) {
                Some(chosen) => chosen,
                None => return,
            },
        };
        let agrees = |store: &StoreId| {
            let voters = stores.get(store).and_then(|(_, voters)| *voters);
            voters.is_some_and(|voters| voters.stores == chosen)
        };
        let missing: Vec<StoreId> = chosen.iter().copied().filter(|store| !agrees(store)).collect();
        if missing.is_empty() {
            let voters = Voters {
                stores: chosen,
                is_settled: true,
            };
            self.settle(cx, mine, voters);
            return self.tell_all(cx);
        }
        let nodes: Vec<UniqueAddress> = missing
            .iter()
            .filter_map(|store| stores.get(store).map(|(node, _)| (*node).clone()))
            .collect();
        for node in nodes {
            let stores = Arc::clone(&chosen);
            say(cx, &node, VoterBody::Elect { stores });
        }
    }

    /// The store answers.
    pub(super) fn on_stored(&mut self, cx: &mut Cx<'_>, report: StoreReport) {
        if report.id != self.last_request {
            return;
        }
        match core::mem::take(&mut self.stage) {
            stage @ (IdentityStage::Unknown | IdentityStage::Ready(_) | IdentityStage::Damaged) => {
                self.stage = stage
            }
            IdentityStage::Identifying => match report.outcome {
                Ok(StoreAnswer::Identity(identity)) => {
                    self.stage = IdentityStage::Loading(StoreId(identity.id));
                    let key = layout::voters_key();
                    self.ask_store(cx, StoreOrder::Read { key });
                }
                Err(StoreError::NoStore) => {
                    self.stage = IdentityStage::Ready(None);
                    self.go_on(cx);
                }
                Ok(_) | Err(_) => cx.counters().requests_failed += 1,
            },
            IdentityStage::Loading(store) => match report.outcome {
                Ok(StoreAnswer::Value(value)) => match value.map(|value| layout::parse(&value)).transpose() {
                    Ok(voters) => {
                        self.voters = voters;
                        self.stage = IdentityStage::Ready(Some(store));
                        self.say_number(cx);
                        self.go_on(cx);
                    }
                    Err(_) => self.end_damaged(cx),
                },
                Err(StoreError::Corrupt) => self.end_damaged(cx),
                Ok(_) | Err(_) => cx.counters().requests_failed += 1,
            },
            IdentityStage::Agreeing(store, voters) => {
                match report.outcome {
                    Ok(_) => {
                        self.stage = IdentityStage::Ready(Some(store));
                        self.voters = Some(voters);
                        self.tell_all(cx);
                        self.elect(cx);
                    }
                    // It may be there or not: it is read again before anything is said.
                    Err(_) => cx.counters().requests_failed += 1,
                }
            }
        }
        self.wake(cx);
    }

    fn end_damaged(&mut self, cx: &mut Cx<'_>) {
        self.stage = IdentityStage::Damaged;
        cx.notify(Event::Damaged);
    }

    /// What this node has agreed to concerns all.
    fn tell_all(&self, cx: &mut Cx<'_>) {
        let view = Arc::clone(cx.view());
        let me = cx.me();
        for member in others(&view).filter(|member| member.node != *me) {
            self.introduce(cx, &member.node, false);
        }
    }

    fn say_number(&self, cx: &mut Cx<'_>) {
        let configured = cx.config().journal.voters;
        if let Some(held) = self.voters.as_ref().map(|voters| voters.stores.len())
            && held != configured
        {
            cx.notify(Event::OtherNumber { held, configured });
        }
    }

    fn ask_store(&mut self, cx: &mut Cx<'_>, order: StoreOrder) {
        self.last_request = (self.last_request + 1).max(FIRST_REQUEST);
        let id = self.last_request;
        cx.order_store(StoreRequest { id, order });
    }
}

fn say(cx: &mut Cx<'_>, to: &UniqueAddress, body: VoterBody) {
    let meant = to.clone();
    cx.send(to, Msg::Voter(VoterMsg { to: meant, body }));
}

/// Members that take part: all that were Up and are not gone.
fn others(view: &View) -> impl Iterator<Item = &Member> {
    view.members().iter().filter(|member| takes_part(member.status))
}

pub(super) const fn takes_part(status: Status) -> bool {
    match status {
        Status::WeaklyUp
        | Status::Up
        | Status::PreparingForShutdown
        | Status::ReadyForShutdown
        | Status::Leaving
        | Status::Exiting => true,
        Status::Joining | Status::Down | Status::Removed => false,
    }
}

/// Members that are Up, of all data centers, the oldest first.
fn up_by_age(view: &View) -> Vec<&Member> {
    let mut up: Vec<&Member> = view.members_in(Status::Up).collect();
    oldest_first(&mut up);
    up
}

/// The stores of the oldest members, if there are enough.
fn choose<T>(
    up: &[&Member],
    stores: &OrderedMap<StoreId, (&UniqueAddress, T)>,
    count: usize,
) -> Option<Arc<[StoreId]>> {
    let store_of = |member: &&Member| {
        let found = stores.iter().find(|(_, (node, _))| **node == member.node);
        found.map(|(store, _)| *store)
    };
    let mut chosen: Vec<StoreId> = up.iter().filter_map(store_of).take(count).collect();
    chosen.sort_unstable();
    (chosen.len() == count && count > 0).then(|| Arc::from(chosen))
}
