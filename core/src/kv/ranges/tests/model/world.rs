//! The stores of a model: each holds two registers of one range, adopts configurations, and gives what it
//! holds to a newcomer. The registers only grow: a version, and a promised token. A version may be a
//! tombstone, which is reaped.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::broker::ModelRequest;
use super::words::{Body, Bug, Cell, Envelope, KEYS, MESSAGE_LIFE, Place};
use crate::journal::state::StoreId;
use crate::kv::moving::{Arrival, ArrivalEffect, PartLimits, RangeItem, RangePart, begins_empty};
use crate::kv::ranges::{RangeCoordinator, RangeSettings};
use crate::kv::state::configuration::Configuration;
use crate::kv::state::table::{RangeLevels, RangeTable, TableChange};
use crate::ordered::OrderedMap;
use crate::planner::NodeStanding;
use crate::rng;
use crate::time::Instant;
use crate::token::Token;

pub(super) const LIMITS: PartLimits = PartLimits {
    items_max: 1,
    bytes_max: 64,
    item_bytes_max: 64,
};
const ASK_AGAIN: Duration = Duration::from_micros(15);

#[derive(Clone, Debug)]
pub(super) struct ModelStore {
    pub(super) is_up: bool,
    pub(super) standing: NodeStanding,
    /// The latest coordinator that it has heard.
    term: u64,
    pub(super) held: Option<Configuration>,
    pub(super) cells: [Cell; KEYS],
    pub(super) arrival: Option<Arrival>,
}

/// See the module.
pub(super) struct World {
    pub(super) rng: ChaCha8Rng,
    pub(super) now: u64,
    pub(super) bug: Option<Bug>,
    pub(super) settings: RangeSettings,
    pub(super) stores: OrderedMap<StoreId, ModelStore>,
    pub(super) net: Vec<Envelope>,
    pub(super) coordinator: RangeCoordinator,
    pub(super) term: u64,
    pub(super) is_paused: bool,
    /// What voters keep, and what is on its way there.
    pub(super) log: RangeTable,
    pub(super) keeping: Option<TableChange>,
    /// The owners as whoever decided last has decided them.
    pub(super) newest: Option<Configuration>,
    pub(super) requests: OrderedMap<u64, ModelRequest>,
    /// By key: what was acknowledged, what was reaped.
    pub(super) acknowledged: [Cell; KEYS],
    pub(super) reaped: [u64; KEYS],
    /// By key: since when all copies are the same tombstone.
    pub(super) matched: [Option<(u64, u64, u64)>; KEYS],
    /// The last number that was drawn.
    pub(super) last: u64,
    pub(super) moves: usize,
    pub(super) undone: usize,
    pub(super) answered: usize,
    pub(super) violation: Option<String>,
}

impl World {
    pub(super) fn new(
        seed: u64,
        (copies, reads, writes): (u8, u8, u8),
        (is_durable, is_kept): (bool, bool),
        bug: Option<Bug>,
    ) -> Self {
        let settings = RangeSettings {
            ranges: 1,
            levels: RangeLevels::new(copies, reads, writes).unwrap(),
            term: Token { term: 1, count: 1 },
            is_durable,
            is_kept,
            away_max: Duration::from_micros(120),
            tell_again: Duration::from_micros(15),
            move_timeout: Duration::from_micros(250),
        };
        let mut world = Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            now: 0,
            bug,
            coordinator: RangeCoordinator::new(settings.clone()),
            settings,
            stores: OrderedMap::new(),
            net: Vec::new(),
            term: 0,
            is_paused: false,
            log: RangeTable::new(),
            keeping: None,
            newest: None,
            requests: OrderedMap::new(),
            acknowledged: [Cell::default(); KEYS],
            reaped: [0; KEYS],
            matched: [None; KEYS],
            last: 0,
            moves: 0,
            undone: 0,
            answered: 0,
            violation: None,
        };
        for _ in 0..copies + 1 {
            world.add_store();
        }
        world.renew_coordinator();
        world
    }

    pub(super) fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        rng::below(&mut self.rng, bound)
    }

    pub(super) const fn at(&self) -> Instant {
        Instant::from_micros(self.now)
    }

    pub(super) fn add_store(&mut self) {
        let id = StoreId(u128::from(self.number()));
        self.stores.insert(
            id,
            ModelStore {
                is_up: true,
                standing: NodeStanding::Open,
                term: 0,
                held: None,
                cells: [Cell::default(); KEYS],
                arrival: None,
            },
        );
    }

    pub(super) fn send(&mut self, to: Place, body: Body) {
        let sent = self.now;
        self.net.push(Envelope { to, sent, body });
    }

    pub(super) fn fail(&mut self, what: &str) {
        if self.violation.is_none() {
            self.violation = Some(format!("step {}: {what}", self.now));
        }
    }

    /// Messages that are too old are lost.
    pub(super) fn forget_old(&mut self) {
        let now = self.now;
        self.net.retain(|message| now - message.sent <= MESSAGE_LIFE);
    }

    /// The message at this place is delivered.
    pub(super) fn deliver(&mut self, at: usize) {
        let Envelope { to, body, .. } = self.net.remove(at);
        match to {
            Place::Store(store) => {
                if self.stores.get(&store).is_some_and(|known| known.is_up) {
                    self.at_store(store, body);
                }
            }
            Place::Broker => self.at_broker(body),
            Place::Coordinator => self.at_coordinator(body),
        }
    }

    fn store(&mut self, store: StoreId) -> &mut ModelStore {
        self.stores.get_mut(&store).expect("a store of the model")
    }

    /// Adopts what is newer; what is held then.
    fn adopt(&mut self, me: StoreId, configuration: &Configuration) -> Configuration {
        let (now, levels, keeps) = (
            self.at(),
            self.settings.levels,
            self.bug == Some(Bug::LeftoversKept),
        );
        let store = self.store(me);
        let is_newer = store
            .held
            .as_ref()
            .is_none_or(|held| held.epoch < configuration.epoch);
        if is_newer {
            if begins_empty(me, store.held.as_ref(), configuration) && !keeps {
                store.cells = [Cell::default(); KEYS];
            }
            store.held = Some(configuration.clone());
            store.arrival = None;
            if configuration.owners.newcomer() == Some(me) {
                store.arrival = Arrival::new(configuration, levels, LIMITS, (now, ASK_AGAIN));
            }
        }
        let held = store.held.clone().expect("it has just adopted one");
        self.flush(me);
        held
    }

    fn at_store(&mut self, me: StoreId, body: Body) {
        let hastens = self.bug == Some(Bug::MergeBeforeRefusal);
        match body {
            Body::Request {
                id,
                key,
                cell,
                configuration,
            } => {
                let held = self.adopt(me, &configuration);
                if held.epoch > configuration.epoch {
                    return self.send(
                        Place::Broker,
                        Body::Newer {
                            id,
                            configuration: held,
                        },
                    );
                }
                let cells = &mut self.store(me).cells;
                cells[key].merge(cell);
                let cell = cells[key];
                let epoch = configuration.epoch;
                self.send(
                    Place::Broker,
                    Body::Answer {
                        id,
                        store: me,
                        epoch,
                        cell,
                    },
                );
            }
            Body::Tell { term, configuration } => {
                if !self.hears(me, term) {
                    return;
                }
                self.adopt(me, &configuration);
                self.report(me);
            }
            Body::AskFound { term } => {
                if !self.hears(me, term) {
                    return;
                }
                let held = self.store(me).held.clone();
                self.send(
                    Place::Coordinator,
                    Body::Found {
                        term,
                        store: me,
                        held,
                    },
                );
            }
            Body::Refuse {
                newcomer,
                configuration,
            } => {
                let mut epoch = configuration.epoch;
                if !hastens {
                    epoch = self.adopt(me, &configuration).epoch;
                }
                self.send(Place::Store(newcomer), Body::Refused { owner: me, epoch });
            }
            Body::Give {
                newcomer,
                configuration,
                after,
            } => {
                if !hastens && self.adopt(me, &configuration).epoch > configuration.epoch {
                    return;
                }
                let (epoch, part) = (configuration.epoch, self.part(me, after.as_deref()));
                let owner = me;
                self.send(
                    Place::Store(newcomer),
                    Body::Part {
                        owner,
                        epoch,
                        after,
                        part,
                    },
                );
            }
            Body::Refused { owner, epoch } => {
                let now = self.at();
                if let Some(arrival) = &mut self.store(me).arrival {
                    arrival.on_refusal(owner, epoch, now);
                }
                self.flush(me);
            }
            Body::Part {
                owner,
                epoch,
                after,
                part,
            } => {
                if let Some(arrival) = &mut self.store(me).arrival {
                    let taken = arrival.on_part(owner, (epoch, after.as_deref()), part);
                    assert_eq!(taken, Ok(()), "all are honest");
                }
                self.flush(me);
            }
            Body::Reap { key, epoch, version } => {
                let store = self.store(me);
                let cell = &mut store.cells[key];
                let is_present = store.held.as_ref().is_some_and(|held| held.epoch == epoch);
                if is_present && (cell.version, cell.is_deleted) == (version, true) {
                    (cell.version, cell.is_deleted) = (0, false);
                }
            }
            Body::Answer { .. } | Body::Newer { .. } | Body::Adopted { .. } | Body::Found { .. } => {}
        }
    }

    /// Whether a store hears a coordinator: not when it has heard a later one.
    fn hears(&mut self, me: StoreId, term: u64) -> bool {
        let store = self.store(me);
        store.term = store.term.max(term);
        store.term == term
    }

    /// Tells the coordinator what the store has adopted and merged.
    fn report(&mut self, me: StoreId) {
        let store = self.store(me);
        let epoch = store.held.as_ref().map_or(0, |held| held.epoch);
        let merged = store.arrival.iter().flat_map(Arrival::merged).collect();
        self.send(
            Place::Coordinator,
            Body::Adopted {
                store: me,
                epoch,
                merged,
            },
        );
    }

    fn part(&self, me: StoreId, after: Option<&[u8]>) -> RangePart {
        let (cells, loses) = (self.stores[&me].cells, self.bug == Some(Bug::PromisesLeftBehind));
        let items = (0_u8..).zip(cells).map(|(key, cell)| RangeItem {
            key: Arc::from([key]),
            content: Arc::from([&cell.version.to_le_bytes()[..], &[u8::from(cell.is_deleted)]].concat()),
            promised: Token::new(0, if loses { 0 } else { cell.token }),
        });
        RangePart::cut(
            items.filter(|item| after.is_none_or(|after| &*item.key > after)),
            LIMITS,
        )
    }

    /// Does what a newcomer asks for.
    pub(super) fn flush(&mut self, me: StoreId) {
        let now = self.at();
        while let Some(arrival) = &mut self.store(me).arrival {
            let effects = arrival.take_effects();
            if effects.is_empty() {
                return;
            }
            let configuration = self.store(me).held.clone().expect("it has adopted the move");
            let newcomer = me;
            for effect in effects {
                let configuration = configuration.clone();
                match effect {
                    ArrivalEffect::AskRefusal { owner } => {
                        self.send(
                            Place::Store(owner),
                            Body::Refuse {
                                newcomer,
                                configuration,
                            },
                        );
                    }
                    ArrivalEffect::AskPart { owner, after } => {
                        self.send(
                            Place::Store(owner),
                            Body::Give {
                                newcomer,
                                configuration,
                                after,
                            },
                        );
                    }
                    ArrivalEffect::Merge { owner, items } => {
                        let store = self.store(me);
                        for item in items {
                            let version = item.content[..8].try_into().expect("a version");
                            store.cells[usize::from(item.key[0])].merge(Cell {
                                version: u64::from_le_bytes(version),
                                is_deleted: item.content[8] == 1,
                                token: item.promised.count,
                            });
                        }
                        if let Some(arrival) = &mut store.arrival {
                            arrival.on_kept(owner, now);
                        }
                    }
                    ArrivalEffect::Report => self.report(me),
                }
            }
        }
    }
}
