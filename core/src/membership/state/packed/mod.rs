//! A state as it came: checked, in columns, not yet opened. Says what [`relation`](super::relation) asks of
//! most states (which are equal to the receiver's own or older) from the columns, without allocating. Never
//! decides what to do with the state. Spec: membership 2.5, `docs/WIRE.md` 5.2, performance B2.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

pub(crate) mod columns;
mod open;
pub(crate) mod roles;
pub(crate) mod sections;

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use self::columns::{reach_of, status_number};
use self::roles::wire_roles;
use self::sections::Sections;
use crate::bytes::nodes::{NodeRow, TextCursor};
use crate::ident::{Roles, UniqueAddress};
use crate::membership::state::app_version::AppVersion;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::member::Member;
use crate::membership::state::member_set::MemberSet;
use crate::membership::state::relation::{CommonParts, NamedNode, StateForm};
use crate::membership::state::vector_clock::VectorClock;
use crate::paths::state::written::counter_of;

/// Largest counter of a clock or a reachability version: at one change per microsecond nine years, and so far
/// from the end that no merge or increment reaches it (B-36).
pub const COUNTER_MAX: u64 = 1 << 48;

/// A gossip state in its one written form, checked as a whole; holds its bytes and nothing else. Equal bytes
/// are equal states. [`PackedGossip::open`] makes a [`Gossip`] of it.
#[derive(Clone, PartialEq, Eq)]
pub struct PackedGossip {
    bytes: Vec<u8>,
}

/// What a state says about one of its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberFacts {
    /// Whether that member is known to have seen the state.
    pub seen: bool,
    /// Its counter in the state's clock; 0 if it has none.
    pub counter: u64,
}

impl PackedGossip {
    /// The bytes of a state that `wire` has checked as a whole.
    pub(crate) const fn from_checked(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// The state as it is written, uncompressed.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many members the state has.
    #[must_use]
    pub fn members(&self) -> usize {
        self.sections().counts.members
    }

    /// The state, sharing with `base` every part that is equal to a part of it. Allocates for what differs
    /// only.
    #[must_use]
    pub fn open(&self, base: &Gossip) -> Gossip {
        open::state(&self.sections(), base)
    }

    /// What the state says about `node`; `None` if it is no member. Linear.
    #[must_use]
    pub fn about(&self, node: &UniqueAddress) -> Option<MemberFacts> {
        let state = self.sections();
        let at = position(&state, node)?;
        let counter = state.clock.u16s().zip(state.counters.u64s());
        let counter = counter.into_iter().find(|entry| usize::from(entry.0) == at);
        Some(MemberFacts {
            seen: state
                .seen
                .get(at / 8)
                .is_some_and(|byte| byte & (1 << (at % 8)) != 0),
            counter: counter.map_or(0, |entry| entry.1),
        })
    }

    /// The parts; they were cut once before, so there is nothing to fail.
    pub(super) fn sections(&self) -> Sections<'_> {
        Sections::cut(&self.bytes, |_| Ok(())).unwrap_or_default()
    }
}

impl fmt::Debug for PackedGossip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.open(&Gossip::new()), f)
    }
}

/// A node as the columns name it: its row, and its host's name.
#[derive(Clone, Copy)]
pub(crate) struct WrittenNode<'a> {
    row: NodeRow,
    host: &'a [u8],
}

impl NamedNode for WrittenNode<'_> {
    #[inline]
    fn is(&self, node: &UniqueAddress) -> bool {
        self.row.is(self.host, node)
    }

    #[inline]
    fn order_to(&self, node: &UniqueAddress) -> Ordering {
        self.row.order_to(self.host, node)
    }
}

impl<'b> StateForm for Sections<'b> {
    type Node<'a>
        = WrittenNode<'b>
    where
        Self: 'a;

    fn clock(&self) -> impl Iterator<Item = (WrittenNode<'b>, u64)> {
        let (members, mut hosts) = (self.members, TextCursor::new(self.hosts));
        let entries = self.clock.u16s().zip(self.counters.u64s());
        entries.map(move |(at, counter)| {
            let row = members.row(usize::from(at)).unwrap_or_default();
            let host = hosts.seek(row.host);
            (WrittenNode { row, host }, counter)
        })
    }

    fn nodes(&self) -> impl Iterator<Item = WrittenNode<'b>> {
        let mut hosts = TextCursor::new(self.hosts);
        let rows = self.members.rows();
        rows.map(move |row| WrittenNode {
            row,
            host: hosts.seek(row.host),
        })
    }

    /// What came over the wire is nobody's memory but its own.
    fn shares_with(&self, _: &Gossip) -> CommonParts {
        CommonParts {
            clock: false,
            members: false,
        }
    }

    fn paths_counter(&self) -> u64 {
        counter_of(self.paths)
    }

    fn has_content_of(&self, held: &Gossip) -> bool {
        self.paths == &**held.paths().bytes()
            && same_members(self, held.members())
            && same_tombstones(self, held)
            && same_reachability(self, held)
    }

    /// They are named by their positions; members and tombstones are the same.
    fn is_gone_within(&self, held: &Gossip) -> bool {
        let mut positions = self.gone.u16s().map(usize::from).peekable();
        let nodes = held.members().iter().map(|member| &member.node);
        let mut said = nodes
            .chain(held.tombstones())
            .enumerate()
            .filter(|(at, _)| positions.next_if_eq(at).is_some());
        self.counts.gone == 0 || said.all(|(_, node)| held.is_gone(node))
    }

    fn is_seen_within(&self, held: &Gossip) -> bool {
        held.seen_set().contains_bits(self.seen)
    }
}

/// Where `node` is among the members.
fn position(state: &Sections<'_>, node: &UniqueAddress) -> Option<usize> {
    let host = state.hosts.position(node.address().host().as_bytes())?;
    let start = state.members.first_of(host);
    let (port, uid) = (node.address().port(), node.uid());
    let mut at = start;
    loop {
        let row = state.members.row(at).filter(|row| row.host == host)?;
        if (row.port(), row.uid()) == (port, uid) {
            return Some(at);
        }
        at = at.saturating_add(1);
    }
}

/// Whether these are exactly the members of the state.
pub(super) fn same_members(state: &Sections<'_>, members: &[Member]) -> bool {
    if state.counts.members != members.len() {
        return false;
    }
    let mut hosts = TextCursor::new(state.hosts);
    let mut shared = MemberComparison::new(state);
    let fields = state.statuses.iter().zip(state.up_numbers.u32s());
    let parts = state
        .member_role_sets
        .u16s()
        .zip(state.member_app_versions.u16s());
    let rows = state.members.rows().zip(fields).zip(parts);
    rows.zip(members)
        .all(|(((row, (status, up_number)), parts), member)| {
            *status == status_number(member.status)
                && up_number == member.up_number.get()
                && row.is(hosts.seek(row.host), &member.node)
                && shared.are(parts, &member.roles, &member.app_version)
        })
}

/// Compares what members share; remembers the last comparison, because neighbours mostly share these.
struct MemberComparison<'a, 'b> {
    state: &'b Sections<'a>,
    roles: TextCursor<'a>,
    app_versions: TextCursor<'a>,
    last: Option<((u16, u16), &'b Roles, &'b AppVersion)>,
}

impl<'a, 'b> MemberComparison<'a, 'b> {
    fn new(state: &'b Sections<'a>) -> Self {
        Self {
            state,
            roles: TextCursor::new(state.roles),
            app_versions: TextCursor::new(state.app_versions),
            last: None,
        }
    }

    #[inline]
    fn are(&mut self, parts: (u16, u16), roles: &'b Roles, app_version: &'b AppVersion) -> bool {
        let known = self
            .last
            .is_some_and(|last| last.0 == parts && last.1.is_same(roles) && last.2.is_same(app_version));
        known || self.are_after_a_look(parts, roles, app_version)
    }

    fn are_after_a_look(
        &mut self,
        (set, version): (u16, u16),
        roles: &'b Roles,
        app_version: &'b AppVersion,
    ) -> bool {
        self.last = Some(((set, version), roles, app_version));
        self.are_roles(set, roles) && self.app_versions.seek(version) == app_version.as_str().as_bytes()
    }

    fn are_roles(&mut self, set: u16, roles: &Roles) -> bool {
        let names = &mut self.roles;
        let written = self.state.role_set(set).u16s();
        written
            .map(|role| names.seek(role))
            .eq(wire_roles(roles).map(|role| role.as_str().as_bytes()))
    }
}

pub(super) fn same_tombstones(state: &Sections<'_>, held: &Gossip) -> bool {
    let mut hosts = TextCursor::new(state.hosts);
    state.counts.tombstones == held.tombstones().len()
        && state
            .tombstones
            .rows()
            .zip(held.tombstones())
            .all(|(row, node)| row.is(hosts.seek(row.host), node))
}

pub(super) fn same_reachability(state: &Sections<'_>, held: &Gossip) -> bool {
    let table = held.reachability();
    let counts = (state.counts.observers, state.counts.records);
    if counts != (table.versions().len(), table.records().len()) {
        return false;
    }
    let mut hosts = TextCursor::new(state.hosts);
    let mut is = |at: u16, node: &UniqueAddress| {
        let row = state.members.row(usize::from(at)).unwrap_or_default();
        row.is(hosts.seek(row.host), node)
    };
    let observers = state.observers.u16s().zip(state.observer_versions.u64s());
    let same_observers = observers
        .zip(table.versions())
        .all(|((at, version), (node, known))| version == *known && is(at, node));
    let rows = state.subjects.u16s().zip(state.record_statuses);
    let same_rows = rows.zip(state.record_versions.u64s()).zip(table.records()).all(
        |(((at, status), version), record)| {
            version == record.version && reach_of(*status) == Ok(record.status) && is(at, &record.subject)
        },
    );
    // Whose rows they are: the observers are the same, so it is enough that each has as many.
    let mut records = table.records();
    same_observers
        && same_rows
        && state
            .observer_rows
            .u16s()
            .zip(table.versions())
            .all(|(count, (node, _))| {
                let (own, rest) = records.split_at_checked(usize::from(count)).unwrap_or_default();
                records = rest;
                own.iter().all(|record| record.observer == *node)
            })
}

pub(super) fn same_clock(state: &Sections<'_>, clock: &VectorClock) -> bool {
    let mut hosts = TextCursor::new(state.hosts);
    let entries = state.clock.u16s().zip(state.counters.u64s());
    state.counts.clock == clock.len()
        && entries
            .zip(clock.entries())
            .all(|((at, counter), (node, known))| {
                let row = state.members.row(usize::from(at)).unwrap_or_default();
                counter == *known && row.is(hosts.seek(row.host), node)
            })
}

pub(super) fn same_seen(state: &Sections<'_>, seen: &MemberSet) -> bool {
    let ones: usize = state.seen.iter().map(|byte| byte.count_ones() as usize).sum();
    ones == seen.len() && seen.contains_bits(state.seen)
}

/// The positions whose bits are set.
pub(super) fn seen_positions(bits: &[u8]) -> impl Iterator<Item = usize> {
    bits.iter().enumerate().flat_map(|(at, byte)| {
        let start = at.saturating_mul(8);
        (0..8_usize)
            .filter(move |bit| byte & (1 << bit) != 0)
            .map(move |bit| start.saturating_add(bit))
    })
}
