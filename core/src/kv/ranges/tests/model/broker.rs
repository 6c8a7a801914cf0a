//! Who reads and writes: asks the owners under the configuration that it knows, and counts by
//! [`OwnersTally`]. What it acknowledges is checked against everything that was acknowledged before it began.

use alloc::vec::Vec;

use super::words::{Body, Bug, Cell, Place, REQUEST_LIFE};
use super::world::World;
use crate::journal::state::StoreId;
use crate::kv::state::configuration::{Configuration, Owners, OwnersTally};

#[derive(Clone, Debug)]
pub(super) struct ModelRequest {
    key: usize,
    /// What is written; nothing by a read.
    cell: Cell,
    configuration: Configuration,
    tally: OwnersTally,
    begun: u64,
    stage: RequestStage,
    /// Stores that answered under configurations before, which count only if a bug says so.
    early: Vec<StoreId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestStage {
    Writing,
    /// What it has found, and what had been acknowledged when it began.
    Reading {
        found: Cell,
        floor: Cell,
    },
    /// What it has found is written back.
    WritingBack {
        floor: Cell,
    },
}

impl World {
    /// A put, a delete, a promise or a get.
    pub(super) fn begin_request(&mut self) {
        // One key is mostly read, so that its tombstones stay for long enough to be reaped.
        let key = usize::from(self.below(3) == 0);
        match (key, self.below(24)) {
            (0, 0..=8) | (1, 0) => self.put(key, false),
            (0, 9..=11) | (1, 1..=2) => self.put(key, true),
            (0, 12..=14) => {
                let token = self.number();
                let cell = Cell {
                    token,
                    ..Cell::default()
                };
                self.begin(key, cell, RequestStage::Writing);
            }
            _ => self.get(key),
        }
    }

    pub(super) fn put(&mut self, key: usize, is_deleted: bool) {
        let version = self.number();
        let token = 0;
        let cell = Cell {
            version,
            is_deleted,
            token,
        };
        self.begin(key, cell, RequestStage::Writing);
    }

    pub(super) fn get(&mut self, key: usize) {
        let (found, floor) = (Cell::default(), self.acknowledged[key]);
        self.begin(key, found, RequestStage::Reading { found, floor });
    }

    /// Begins under some configuration that somebody knows.
    fn begin(&mut self, key: usize, cell: Cell, stage: RequestStage) {
        let known: Vec<Configuration> = self
            .stores
            .values()
            .filter_map(|store| store.held.clone())
            .collect();
        if known.is_empty() {
            return;
        }
        let configuration = known[self.below(known.len())].clone();
        let begun = self.now;
        self.ask(ModelRequest {
            key,
            cell,
            tally: self.tally(&configuration),
            configuration,
            begun,
            stage,
            early: Vec::new(),
        });
    }

    fn tally(&self, configuration: &Configuration) -> OwnersTally {
        let mut counted = configuration.clone();
        if self.bug == Some(Bug::OneSideOfJoint)
            && let Owners::Joint { to, .. } = &configuration.owners
        {
            counted.owners = Owners::Stable(to.clone());
        }
        OwnersTally::new(counted)
    }

    fn ask(&mut self, request: ModelRequest) {
        let id = self.number();
        self.requests.insert(id, request);
        self.ask_again(id);
    }

    pub(super) fn ask_any_again(&mut self) {
        let ids: Vec<u64> = self.requests.keys().copied().collect();
        if !ids.is_empty() {
            let id = ids[self.below(ids.len())];
            self.ask_again(id);
        }
    }

    /// Asks all owners, once more.
    pub(super) fn ask_again(&mut self, id: u64) {
        let Some(request) = self.requests.get(&id).cloned() else {
            return;
        };
        let ModelRequest {
            key,
            cell,
            configuration,
            ..
        } = request;
        for store in configuration.owners.all() {
            let configuration = configuration.clone();
            let body = Body::Request {
                id,
                key,
                cell,
                configuration,
            };
            self.send(Place::Store(store), body);
        }
    }

    pub(super) fn at_broker(&mut self, body: Body) {
        let now = self.now;
        self.requests
            .retain(|_, request| now - request.begun <= REQUEST_LIFE);
        match body {
            Body::Newer { id, configuration } => {
                let tally = self.tally(&configuration);
                let Some(request) = self.requests.get_mut(&id) else {
                    return;
                };
                if configuration.epoch <= request.configuration.epoch {
                    return;
                }
                let before = &request.configuration.owners;
                request
                    .early
                    .extend(before.all().filter(|store| request.tally.has(*store)));
                (request.configuration, request.tally) = (configuration, tally);
                self.ask_again(id);
                self.finish(id);
            }
            Body::Answer {
                id,
                store,
                epoch,
                cell,
            } => {
                let Some(request) = self.requests.get_mut(&id) else {
                    return;
                };
                if request.tally.count(store, epoch)
                    && let RequestStage::Reading { found, .. } = &mut request.stage
                {
                    found.merge(cell);
                }
                self.finish(id);
            }
            other => panic!("not for a broker: {other:?}"),
        }
    }

    /// Goes on with a request if its level is met.
    fn finish(&mut self, id: u64) {
        let levels = self.settings.levels;
        let Some(request) = self.requests.get(&id) else {
            return;
        };
        let level = match request.stage {
            RequestStage::Reading { .. } => levels.reads(),
            RequestStage::Writing | RequestStage::WritingBack { .. } => levels.writes(),
        };
        let mut is_met = request.tally.meets(level);
        if self.bug == Some(Bug::AcknowledgementsOfBothEpochs) {
            let early = request.early.iter().filter(|store| !request.tally.has(**store));
            is_met = request.tally.answered() + early.count() >= level;
        }
        if !is_met {
            return;
        }
        let Some(mut request) = self.requests.remove(&id) else {
            return;
        };
        match request.stage {
            RequestStage::Writing => self.acknowledge(request.key, request.cell),
            RequestStage::Reading { found, floor } => {
                request.cell = found;
                request.stage = RequestStage::WritingBack { floor };
                request.tally = self.tally(&request.configuration);
                request.early.clear();
                self.ask(request);
            }
            RequestStage::WritingBack { floor } => {
                self.check(request.key, request.cell, floor);
                self.acknowledge(request.key, request.cell);
            }
        }
    }

    fn acknowledge(&mut self, key: usize, cell: Cell) {
        self.answered += 1;
        self.acknowledged[key].merge(cell);
    }

    /// A read that found nothing has seen the tombstone that was reaped.
    fn check(&mut self, key: usize, found: Cell, floor: Cell) {
        let seen = if found.version == 0 {
            self.reaped[key]
        } else {
            found.version
        };
        if seen < floor.version {
            self.fail("a read went back behind what was acknowledged, or found what was deleted");
        }
        if found.token < floor.token {
            self.fail("a promise was forgotten");
        }
    }
}
