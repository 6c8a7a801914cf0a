//! The way of this node's users to the instances of paths: picks a slot, sends to its host, and marks at an
//! old host behind the last message to it. Keeps nothing: a path without a running instance is an error at
//! once. Spec: sharding 5.4, 10.17 c.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::protocol::{MoveRef, Msg, PathMark, PathMessage, PathPick};
use super::router::SlotChoice;
use super::state::name::PathId;
use super::state::settings::PathRouter;
use super::state::table::{MoveStatus, PathEpoch, PathTable};
use super::{Cx, Paths, dead_letter};
use crate::effect::{Answer as AnyAnswer, CommandError as AnyError};
use crate::ident::UniqueAddress;
use crate::input::Token;
use crate::membership::state::member::{Member, Status};
use crate::messaging::AskWait;
use crate::messaging::protocol::AskTicket;
use crate::ordered::OrderedMap;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::Payload;
use crate::view::View;

/// One slot as this node's messages go there.
#[derive(Clone, Debug, Default)]
struct SlotRoute {
    target: Option<UniqueAddress>,
    /// The counter of the last move.
    known: u64,
    /// Whether this node has never sent to an earlier host that may not have passed everything on.
    is_first: bool,
}

impl SlotRoute {
    fn delivery(&self, (path, slot): (PathId, u16), ask: Option<AskTicket>, payload: Payload) -> Msg {
        Msg::Delivery(PathMessage {
            path,
            slot,
            known: self.known,
            is_first: self.is_first,
            origin: None,
            ask,
            payload,
        })
    }
}

/// A mark that the old host has not acknowledged.
#[derive(Clone, Debug)]
struct OwedMark {
    change: MoveRef,
    to: UniqueAddress,
}

#[derive(Clone, Debug, Default)]
struct PathRoute {
    slots: Vec<SlotRoute>,
    next: usize,
    router: PathRouter,
    /// What load says of the slots, and in which round it said so.
    choice: (Option<u64>, SlotChoice),
    /// Nobody sends there any more; its hosts still wait for marks.
    is_removed: bool,
}

impl PathRoute {
    fn numbers(&self) -> impl Iterator<Item = u16> + use<> {
        0..u16::try_from(self.slots.len()).unwrap_or(u16::MAX)
    }

    /// Whether messages may go to a slot.
    fn is_there(&self, view: &View, slot: u16) -> bool {
        let target = self
            .slots
            .get(usize::from(slot))
            .and_then(|slot| slot.target.as_ref());
        let is_up = |host: &Member| host.status != Status::Down;
        let is_there = |host: &UniqueAddress| host == view.me() || view.member(host).is_some_and(is_up);
        may_route(view.self_status()) && target.is_some_and(is_there)
    }

    /// The first slot from this one on, around, that is there.
    fn next_from(&self, view: &View, start: usize) -> Option<u16> {
        let count = self.slots.len();
        let numbers = (0..count).filter_map(|step| u16::try_from((start + step) % count).ok());
        numbers.into_iter().find(|slot| self.is_there(view, *slot))
    }

    /// What the path's router chooses.
    fn routed(&mut self, cx: &mut Cx<'_>, view: &View) -> Option<u16> {
        if self.router != PathRouter::RoundRobin {
            self.look_at_load(cx);
        }
        let by_load = match &self.choice.1 {
            SlotChoice::Turn => None,
            SlotChoice::Best(slots) => {
                let turn = (0..slots.len()).map(|step| slots[(self.next + step) % slots.len()]);
                let found = turn.into_iter().find(|slot| self.is_there(view, *slot));
                if found.is_some() {
                    self.next = self.next.wrapping_add(1);
                }
                return found.or_else(|| self.next_from(view, 0));
            }
            SlotChoice::Tickets(weights) => {
                let ticket = 1 + cx.rng().next_u64() % weights.total().max(1);
                weights.pick(ticket).copied()
            }
        };
        let by_load = by_load.filter(|slot| self.is_there(view, *slot));
        let chosen = by_load.or_else(|| self.next_from(view, self.next))?;
        self.next = usize::from(chosen) + 1;
        Some(chosen)
    }

    /// Asks what is known of the hosts' load, once for each round of it.
    fn look_at_load(&mut self, cx: &Cx<'_>) {
        let round = cx.loads().round();
        if self.choice.0 != Some(round) {
            let capacity = |slot: &SlotRoute| {
                let known = cx.loads().get(slot.target.as_ref()?)?;
                known.sample.capacities().mix()
            };
            let slots = self.slots.iter().map(capacity);
            let hosts: Vec<(u16, Option<f64>)> = self.numbers().zip(slots).collect();
            self.choice = (Some(round), SlotChoice::of(self.router, &hosts));
        }
    }
}

/// Whether a member of this status sends to paths. Who has not been Up may not be expected to mark by an old
/// host that does not know it.
const fn may_route(status: Status) -> bool {
    match status {
        Status::Up
        | Status::Leaving
        | Status::Exiting
        | Status::PreparingForShutdown
        | Status::ReadyForShutdown => true,
        Status::Joining | Status::WeaklyUp | Status::Down | Status::Removed => false,
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct PathRoutes {
    seen: Option<Arc<PathTable>>,
    paths: OrderedMap<PathId, PathRoute>,
    owed: OrderedMap<(PathId, u16), OwedMark>,
    /// The move of each slot that was marked last.
    marked: OrderedMap<(PathId, u16), PathEpoch>,
}

impl PathRoutes {
    pub(super) fn owe(&self) -> bool {
        !self.owed.is_empty()
    }

    /// The table may have changed.
    pub(super) fn look(&mut self, cx: &mut Cx<'_>, table: &Arc<PathTable>) {
        if self.seen.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, table)) {
            return;
        }
        let knew_nothing = self.seen.replace(Arc::clone(table)).is_none();
        let mut paths = OrderedMap::new();
        for entry in table.entries() {
            let path = entry.name.id();
            let before = self.paths.remove(&path).unwrap_or_default();
            let mut slots = Vec::with_capacity(entry.slots());
            for at in 0..entry.slots() {
                let Ok(slot) = u16::try_from(at) else { break };
                let old = before.slots.get(at);
                let mut route = SlotRoute {
                    target: entry.target(at).cloned(),
                    known: entry.last_move(at).map_or(0, |change| change.id.counter),
                    is_first: true,
                };
                if let Some(change) = entry.last_move(at)
                    && change.status == MoveStatus::Complete
                    && let Some(from) = &change.from
                {
                    let used = old.is_some_and(|old| old.target.as_ref() == Some(from));
                    let again = old.is_some_and(|old| old.known == route.known && !old.is_first);
                    route.is_first = knew_nothing || !(used || again);
                    if self.marked.insert((path, slot), change.id.clone()).as_ref() != Some(&change.id) {
                        let id = change.id.clone();
                        let change = MoveRef { path, slot, id };
                        let to = from.clone();
                        self.owed.insert((path, slot), OwedMark { change, to });
                        self.mark(cx, (path, slot));
                    }
                } else {
                    self.owed.remove(&(path, slot));
                }
                slots.push(route);
            }
            let next = before.next;
            let router = entry
                .settings()
                .map_or_else(PathRouter::default, |settings| settings.router);
            let is_removed = entry.settings().is_none();
            paths.insert(
                path,
                PathRoute {
                    slots,
                    next,
                    router,
                    choice: (None, SlotChoice::Turn),
                    is_removed,
                },
            );
        }
        self.paths = paths;
        let there = &self.paths;
        self.owed.retain(|(path, _), _| there.contains_key(path));
        self.marked.retain(|(path, _), _| there.contains_key(path));
    }

    fn mark(&self, cx: &mut Cx<'_>, at: (PathId, u16)) {
        if let Some(OwedMark { change, to }) = self.owed.get(&at).cloned() {
            let origin = None;
            cx.send(&to, Msg::Mark(PathMark { change, origin }));
        }
    }

    /// Says once more what was not acknowledged.
    pub(super) fn repeat(&mut self, cx: &mut Cx<'_>) {
        let view = Arc::clone(cx.view());
        self.owed.retain(|_, owed| view.member(&owed.to).is_some());
        for at in self.owed.keys() {
            self.mark(cx, *at);
        }
    }

    /// An old host has this node's mark.
    pub(super) fn on_marked(&mut self, from: &UniqueAddress, change: &MoveRef) {
        let at = (change.path, change.slot);
        let is_it = |owed: &OwedMark| owed.to == *from && owed.change == *change;
        if self.owed.get(&at).is_some_and(is_it) {
            self.owed.remove(&at);
        }
    }

    /// The path's slots, if messages may go there.
    fn route(&mut self, path: PathId) -> Result<&mut PathRoute, AskFailure> {
        let route = self.paths.get_mut(&path).filter(|route| !route.is_removed);
        route.ok_or(AskFailure::UnknownPath)
    }

    /// The slot that a message goes to.
    fn pick(&mut self, cx: &mut Cx<'_>, path: PathId, pick: PathPick) -> Result<u16, AskFailure> {
        let view = Arc::clone(cx.view());
        let route = self.route(path)?;
        let chosen = match pick {
            PathPick::Slot(slot) => Some(slot).filter(|slot| route.is_there(&view, *slot)),
            PathPick::Hash(hash) => {
                let count = route.slots.len().max(1) as u64;
                route.next_from(&view, usize::try_from(hash % count).unwrap_or(0))
            }
            PathPick::Routed => route.routed(cx, &view),
            PathPick::Every => None,
        };
        chosen.ok_or(AskFailure::NoInstance)
    }

    /// All slots that have an instance.
    fn every(&mut self, cx: &Cx<'_>, path: PathId) -> Result<Vec<u16>, AskFailure> {
        let view = cx.view();
        let route = self.route(path)?;
        let there = route.numbers().filter(|slot| route.is_there(view, *slot));
        let there: Vec<u16> = there.collect();
        if there.is_empty() {
            return Err(AskFailure::NoInstance);
        }
        Ok(there)
    }

    /// To whom a message for a slot goes, and how.
    fn way(&self, path: PathId, slot: u16) -> Option<(&UniqueAddress, &SlotRoute)> {
        let route = self.paths.get(&path)?.slots.get(usize::from(slot))?;
        Some((route.target.as_ref()?, route))
    }

    /// A message that expects no answer.
    fn tell(&self, cx: &mut Cx<'_>, path: PathId, slot: u16, payload: Payload) {
        if let Some((target, route)) = self.way(path, slot) {
            cx.send(target, route.delivery((path, slot), None, payload));
        }
    }
}

impl Paths {
    fn acceptable(&self, cx: &Cx<'_>, payload: &Payload) -> Result<(), AskFailure> {
        if self.halted {
            Err(AskFailure::NodeStoppedUnsent)
        } else if payload.len() > cx.config().limits.payload_bytes_max() {
            Err(AskFailure::TooLarge)
        } else {
            Ok(())
        }
    }

    /// A user's message that expects an answer.
    pub(crate) fn ask(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        (path, pick): (PathId, PathPick),
        payload: Payload,
        AskWait { timeout, chain }: AskWait,
    ) {
        let slot = self.acceptable(cx, &payload);
        let slot = slot.and_then(|()| self.routes.pick(cx, path, pick));
        let opened = slot.and_then(|slot| {
            let (id, deadline) = self.asks.open(cx, token, path, timeout)?;
            Ok((slot, id, deadline))
        });
        match opened {
            Ok((slot, id, deadline)) => {
                let mut ticket = AskTicket::of(cx.me(), id, chain);
                if let Some((target, route)) = self.routes.way(path, slot) {
                    self.asks.leaves(cx, &mut ticket, deadline, target);
                    cx.send(target, route.delivery((path, slot), Some(ticket), payload));
                }
            }
            Err(reason) => {
                cx.counters().asks_failed += 1;
                cx.reply(token, AnyAnswer::Asked(Err(reason)));
            }
        }
    }

    fn send_one_way(
        &mut self,
        cx: &mut Cx<'_>,
        (path, pick): (PathId, PathPick),
        payload: Payload,
    ) -> Result<(), AskFailure> {
        self.acceptable(cx, &payload)?;
        if pick == PathPick::Every {
            for slot in self.routes.every(cx, path)? {
                self.routes.tell(cx, path, slot, payload.clone());
            }
            return Ok(());
        }
        let slot = self.routes.pick(cx, path, pick)?;
        self.routes.tell(cx, path, slot, payload);
        Ok(())
    }

    /// A user's message that expects no answer.
    pub(crate) fn tell(&mut self, cx: &mut Cx<'_>, to: (PathId, PathPick), payload: Payload) {
        if let Err(reason) = self.send_one_way(cx, to, payload) {
            dead_letter(cx, to.0, reason);
        }
    }

    /// The same, of a caller who waits to hear that it was taken.
    pub(crate) fn tell_and_wait(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        to: (PathId, PathPick),
        payload: Payload,
    ) {
        let answer = match self.send_one_way(cx, to, payload) {
            Ok(()) => AnyAnswer::Done,
            Err(reason) => AnyAnswer::Refused(AnyError::Path(reason.into())),
        };
        cx.reply(token, answer);
    }
}
