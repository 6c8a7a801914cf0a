//! What load asks of the leader: an instance more or fewer of a path, and slots that go from the busiest
//! member to the idlest. Decides nothing about places: the planner does. Spec: sharding 5.2, 5.5, 10.20.

use alloc::vec::Vec;

use super::WantedSlot;
use super::draft::TableDraft;
use crate::ident::UniqueAddress;
use crate::load::state::mover::{LoadMoves, unit_rates};
use crate::load::state::moves::{Extremes, choose_unit};
use crate::load::state::sample::{LoadPartId, Loads};
use crate::load::state::share::LoadShare;
use crate::membership::state::member::Member;
use crate::ordered::OrderedMap;
use crate::paths::Cx;
use crate::paths::state::name::PathId;
use crate::paths::state::scale::{COOL_DOWN, LoadWindows, Scaling};
use crate::paths::state::settings::{INSTANCES_MAX, PathSettings};
use crate::paths::state::table::PathEntry;
use crate::planner::WantedMove;
use crate::view::View;

/// What the leader remembers of load. In memory only: the next leader begins anew.
#[derive(Clone, Debug, Default)]
pub(super) struct LeaderLoad {
    moves: LoadMoves<(PathId, u16)>,
    scaling: OrderedMap<PathId, LoadWindows>,
    /// How many instances each path had in the last round.
    counts: OrderedMap<PathId, u16>,
}

impl LeaderLoad {
    /// This node leads no more.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Takes note of a new round, if there is one.
    pub(super) fn look(&mut self, cx: &Cx<'_>, view: &View, draft: &TableDraft) {
        let loads = cx.loads();
        let known = (&**loads, cx.config().load.selector);
        if !self.moves.look(cx.mono(), known, view, |_| true) {
            return;
        }
        let entries = draft.entries();
        self.moves.keep(|(path, slot)| {
            let mut entries = entries.iter();
            entries.any(|entry| entry.name.id() == *path && usize::from(*slot) < entry.slots())
        });
        self.scaling
            .retain(|path, _| entries.iter().any(|entry| entry.name.id() == *path));
        self.counts
            .retain(|path, _| entries.iter().any(|entry| entry.name.id() == *path));
        for entry in entries.iter().filter(|entry| is_scaled(entry)) {
            if let Some(load) = load_of(loads, entry) {
                let windows = self.scaling.entry(entry.name.id()).or_default();
                windows.on_window(cx.mono(), load);
            }
        }
    }

    /// How many instances the path's load asks for; `bounds` are the fewest and the most that it may have.
    pub(super) fn scale(&mut self, cx: &Cx<'_>, entry: &PathEntry, now_has: u16, bounds: (u16, u16)) -> u16 {
        let path = entry.name.id();
        let present = entry.record.scale;
        if !is_scaled(entry) {
            return 0;
        }
        let Some(windows) = self.scaling.get_mut(&path) else {
            return present;
        };
        if self
            .counts
            .insert(path, now_has)
            .is_some_and(|before| before != now_has)
        {
            windows.on_change(cx.mono(), COOL_DOWN);
        }
        match windows.decide(now_has, bounds.0, bounds.1) {
            Scaling::More => now_has.saturating_add(1),
            Scaling::Fewer => now_has.saturating_sub(1),
            Scaling::Stay => present,
        }
    }

    /// The slot that is to go from the busiest member to the idlest, if three rounds agree.
    pub(super) fn wanted(&mut self, cx: &Cx<'_>, view: &View, draft: &TableDraft) -> Option<WantedSlot> {
        if !cx.config().load.moves {
            return None;
        }
        let entries = draft.entries();
        let is_pending = |node: &UniqueAddress| {
            let mut moves = entries.iter().flat_map(|entry| entry.moves.iter().flatten());
            moves.any(|change| {
                let touches = |end: &Option<UniqueAddress>| end.as_ref() == Some(node);
                change.is_pending() && (touches(&change.from) || touches(&change.to))
            })
        };
        let Extremes { hot, cold, gap } = self.moves.due(cx.mono(), is_pending)?;
        let cold_member = view.member(&cold)?;
        let movable = entries.iter().flat_map(|entry| {
            let slots = (0..entry.slots()).filter(|at| entry.host(*at) == Some(&hot));
            let slots = slots.filter(|_| can_take(cold_member, entry));
            slots.filter_map(move |at| Some((entry, u16::try_from(at).ok()?)))
        });
        let hosts = entries
            .iter()
            .flat_map(|entry| entry.record.hosts.iter().flatten());
        let count = hosts.filter(|host| **host == hot).count();
        let rates = unit_rates(cx.loads(), cx.config().load.selector, &hot, count);
        let rated = movable.map(|(entry, slot)| ((entry, slot), rates(LoadPartId(entry.name.id().raw()))));
        let (entry, slot) = choose_unit(gap, rated)?;
        Some(WantedMove {
            unit: entry.name.clone(),
            slot,
            from: hot,
            to: cold,
        })
    }

    /// A slot goes because of load.
    pub(super) fn moved(&mut self, cx: &Cx<'_>, wanted: &WantedSlot) {
        let unit = (wanted.unit.id(), wanted.slot);
        self.moves
            .moved(cx.mono(), unit, wanted.from.clone(), wanted.to.clone());
    }

    /// Whether a slot goes from one member to another because of load.
    pub(super) fn has_sent(&self, path: PathId, slot: u16, ends: (&UniqueAddress, &UniqueAddress)) -> bool {
        self.moves.course(&(path, slot)) == Some(ends)
    }

    /// Where a slot counts that this member hosts, if it has come from there because of load.
    pub(super) fn counts_at(&self, path: PathId, slot: u16, host: &UniqueAddress) -> Option<&UniqueAddress> {
        self.moves.counts_at(&(path, slot), host)
    }
}

/// Whether a path's number of instances follows its load: only where its users have bounded it.
fn is_scaled(entry: &PathEntry) -> bool {
    let bounded = |settings: &PathSettings| {
        settings.instances_max < INSTANCES_MAX && settings.instances_min < settings.instances_max
    };
    entry.settings().is_some_and(|settings| bounded(settings))
}

/// Whether a member can host one more slot of this path.
fn can_take(member: &Member, entry: &PathEntry) -> bool {
    let has_role = |settings: &PathSettings| {
        settings
            .role
            .as_ref()
            .is_none_or(|role| member.roles.contains(role))
    };
    entry.settings().is_some_and(|settings| has_role(settings)) && !entry.names(&member.node)
}

/// The load of a path: of what its instances use most (mailboxes, processor, stalls of the executor), the
/// mean over their hosts, times what users expect. `None` if nothing is known of any of them.
fn load_of(loads: &Loads, entry: &PathEntry) -> Option<f64> {
    let part = LoadPartId(entry.name.id().raw());
    let hosts = entry.record.hosts.iter().flatten();
    let known: Vec<_> = hosts.filter_map(|host| loads.get(host)).collect();
    let mean = |of: &dyn Fn(&crate::load::state::sample::KnownLoad) -> Option<LoadShare>| {
        let shares: Vec<f64> = known
            .iter()
            .filter_map(|known| of(known))
            .map(LoadShare::as_f64)
            .collect();
        let count = u32::try_from(shares.len()).ok().filter(|count| *count > 0)?;
        Some(shares.iter().sum::<f64>() / f64::from(count))
    };
    let mailboxes = mean(&|known| {
        let parts = known.parts.iter().find(|load| load.part == part);
        parts.map(|load| load.mailboxes)
    });
    let cpu = mean(&|known| known.sample.cpu);
    let stall = mean(&|known| known.sample.stall);
    let measured = [mailboxes, cpu, stall].into_iter().flatten().reduce(f64::max)?;
    let expected = entry.settings().map_or(100, |settings| settings.expected_load);
    Some(measured * f64::from(expected) / 100.0)
}
