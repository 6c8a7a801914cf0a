//! The table as the leader is about to write it: changes are collected, and get one epoch. Decides nothing.
//! Spec: sharding 10.17 a and b.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::bytes::WireError;
use crate::ident::UniqueAddress;
use crate::paths::state::name::PathName;
use crate::paths::state::options::HandoffOptions;
use crate::paths::state::settings::PathSettings;
use crate::paths::state::table::{MoveStatus, PathEntry, PathEpoch, PathRecord, PathTable, SlotMove};
use crate::paths::state::written::COUNTER_MAX;
use crate::view::View;

/// See the module.
pub(super) struct TableDraft {
    entries: Vec<Arc<PathEntry>>,
    epoch: PathEpoch,
    forgotten: u64,
    placed: Option<(PathEpoch, UniqueAddress)>,
    changed: bool,
}

impl TableDraft {
    /// The table as it is. The first one of a cluster counts from the wall clock on, in milliseconds: the
    /// tokens of its instances are above those that an earlier cluster's left in stores.
    pub(super) fn of(view: &View, unix_ms: u64) -> Self {
        let table = view.gossip().paths();
        let last = match table.counter() {
            0 => unix_ms.min(COUNTER_MAX / 2),
            last => last,
        };
        Self {
            entries: table.entries().to_vec(),
            epoch: PathEpoch {
                counter: last + 1,
                leader: view.me().clone(),
            },
            forgotten: table.forgotten(),
            placed: table.placed().cloned(),
            changed: false,
        }
    }

    /// The paths as they are now.
    pub(super) fn entries(&self) -> Vec<Arc<PathEntry>> {
        self.entries.clone()
    }

    pub(super) fn get(&self, name: &PathName) -> Option<&Arc<PathEntry>> {
        let at = self.entries.binary_search_by(|entry| entry.name.cmp(name)).ok()?;
        self.entries.get(at)
    }

    /// Changes an entry; its record is of this epoch then.
    fn edit(&mut self, name: &PathName, change: impl FnOnce(&mut PathEntry)) {
        if let Ok(at) = self.entries.binary_search_by(|entry| entry.name.cmp(name))
            && let Some(entry) = self.entries.get_mut(at)
        {
            let mut new = PathEntry::clone(entry);
            change(&mut new);
            new.record.epoch = self.epoch.clone();
            *entry = Arc::new(new);
            self.changed = true;
        }
    }

    /// A path is there, or has other settings.
    pub(super) fn set_settings(&mut self, settings: &Arc<PathSettings>) {
        if self.get(&settings.name).is_some() {
            let settings = Some(Arc::clone(settings));
            let name = settings.as_ref().map(|settings| settings.name.clone());
            if let Some(name) = name {
                self.edit(&name, |entry| entry.record.settings = settings);
            }
            return;
        }
        let at = self.entries.partition_point(|entry| entry.name < settings.name);
        let entry = PathEntry {
            name: settings.name.clone(),
            record: PathRecord {
                epoch: self.epoch.clone(),
                settings: Some(Arc::clone(settings)),
                scale: 0,
                hosts: Vec::new(),
            },
            moves: Vec::new(),
        };
        self.entries.insert(at, Arc::new(entry));
        self.changed = true;
    }

    /// The load of a path asks for so many instances.
    pub(super) fn set_scale(&mut self, name: &PathName, scale: u16) {
        self.edit(name, |entry| entry.record.scale = scale);
    }

    /// A path is removed; its instances stop.
    pub(super) fn remove(&mut self, name: &PathName) {
        self.edit(name, |entry| entry.record.settings = None);
    }

    /// Removed paths that have no instance, and whose record is not above this epoch, are forgotten.
    pub(super) fn forget_up_to(&mut self, counter: u64) {
        let before = self.entries.len();
        self.entries
            .retain(|entry| entry.record.epoch.counter > counter || !entry.has_ended());
        if self.entries.len() != before {
            self.forgotten = self.forgotten.max(counter);
            self.changed = true;
        }
    }

    pub(super) fn set_host(&mut self, name: &PathName, slot: usize, host: Option<&UniqueAddress>) {
        self.edit(name, |entry| {
            if entry.record.hosts.len() <= slot {
                entry.record.hosts.resize(slot + 1, None);
            }
            entry.record.hosts[slot] = host.cloned();
        });
    }

    /// A move is over, and this is the host.
    pub(super) fn apply(&mut self, name: &PathName, slot: usize, host: Option<&UniqueAddress>) {
        self.set_host(name, slot, host);
        self.edit(name, |entry| {
            if let Some(Some(change)) = entry.moves.get_mut(slot) {
                change.status = MoveStatus::Applied;
            }
        });
    }

    /// A move begins.
    pub(super) fn begin(
        &mut self,
        name: &PathName,
        slot: u16,
        from: Option<UniqueAddress>,
        to: Option<UniqueAddress>,
    ) {
        let id = self.epoch.clone();
        let slot = usize::from(slot);
        self.edit(name, |entry| {
            // Those of a path that is removed go without a word to each other.
            let options = entry
                .settings()
                .map_or(HandoffOptions::STATELESS, |settings| settings.handoff);
            if entry.moves.len() <= slot {
                entry.moves.resize(slot + 1, None);
            }
            if entry.record.hosts.len() <= slot {
                entry.record.hosts.resize(slot + 1, None);
            }
            entry.moves[slot] = Some(SlotMove {
                id,
                status: MoveStatus::Awaiting,
                from,
                to,
                options,
            });
        });
    }

    pub(super) fn placed_last(&self) -> Option<UniqueAddress> {
        self.placed.as_ref().map(|(_, node)| node.clone())
    }

    pub(super) fn set_placed(&mut self, node: Option<UniqueAddress>) {
        if self.placed_last() != node {
            self.placed = node.map(|node| (self.epoch.clone(), node));
            self.changed = true;
        }
    }

    /// The table as it would be written.
    pub(super) fn table(&self) -> Result<PathTable, WireError> {
        PathTable::of(
            self.epoch.counter,
            self.forgotten,
            self.placed.clone(),
            self.entries.clone(),
        )
    }

    /// The new table; `None` if nothing changed.
    pub(super) fn finish(self) -> Result<Option<PathTable>, WireError> {
        if self.changed {
            self.table().map(Some)
        } else {
            Ok(None)
        }
    }

    /// How it was, to go back to.
    pub(super) fn mark(&self) -> (Vec<Arc<PathEntry>>, bool) {
        (self.entries.clone(), self.changed)
    }

    pub(super) fn go_back(&mut self, (entries, changed): (Vec<Arc<PathEntry>>, bool)) {
        self.entries = entries;
        self.changed = changed;
    }
}
