//! Checks a state's columns in one pass: every index, every order, every value, and that the state is written
//! in its one legal form. What passes can be opened. Allocates three small sets of marks, whatever the size.
//! Spec: reliability 3c B-18 to B-36, `docs/WIRE.md` 5.2.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec;
use alloc::vec::Vec;

use crate::bytes::Column;
use crate::bytes::WireError;
use crate::bytes::nodes::{check_host_use, check_hosts};
use crate::config::Limits;
use crate::ident::{ROLES_MAX, check_role};
use crate::membership::state::app_version::AppVersion;
use crate::membership::state::member::{Status, UpNumber};
use crate::membership::state::packed::COUNTER_MAX;
use crate::membership::state::packed::columns::{StateCounts, reach_of, status_of};
use crate::membership::state::packed::roles::{DEFAULT_DATA_CENTER_ROLE, is_data_center};
use crate::membership::state::packed::sections::Sections;
use crate::paths::state::written::{self, table_bytes_max};

/// Demands that every table fits its limit and that no table has more entries than can be used.
pub(super) fn check_counts(counts: &StateCounts, limits: &Limits) -> Result<(), WireError> {
    let members = counts.members;
    let records_max = members.saturating_mul(limits.reachability_records_per_member_max);
    let bounds = [
        (members, limits.members_max, "members"),
        (counts.tombstones, limits.tombstones_max, "tombstones"),
        (counts.hosts, members.saturating_add(counts.tombstones), "hosts"),
        (counts.roles, counts.role_sets.saturating_mul(ROLES_MAX), "roles"),
        (counts.role_sets, members, "role sets"),
        (counts.app_versions, members, "app versions"),
        (counts.observers, members, "reachability versions"),
        (counts.records, records_max, "reachability records"),
        (counts.clock, members, "clock entries"),
        (counts.gone, members.saturating_add(counts.tombstones), "gone"),
        (
            counts.paths,
            table_bytes_max(limits.gossip_frame_bytes_max),
            "path bytes",
        ),
    ];
    match bounds.into_iter().find(|(count, max, _)| count > max) {
        Some((_, _, what)) => Err(WireError::LimitExceeded { what }),
        None => Ok(()),
    }
}

impl Sections<'_> {
    pub(super) fn check(&self) -> Result<(), WireError> {
        check_hosts(self.hosts)?;
        self.check_role_sets()?;
        for text in self.app_versions.rising() {
            AppVersion::check(text?).map_err(|_| WireError::Malformed { what: "app version" })?;
        }
        if !self.members.all_ports_legal() || !self.tombstones.all_ports_legal() {
            return Err(WireError::Malformed { what: "address" });
        }
        self.members.check_rising("member")?;
        self.tombstones.check_rising("tombstone")?;
        check_host_use(self.members, self.tombstones, self.counts.hosts)?;
        self.check_members()?;
        self.check_seen()?;
        self.check_reachability()?;
        self.check_positions(self.clock, "clock")?;
        self.counters.u64s().try_for_each(check_counter)?;
        self.check_gone()?;
        written::check(self.paths)
    }

    /// Only who is on its way out, or was removed, can be gone.
    fn check_gone(&self) -> Result<(), WireError> {
        let mut last = None;
        let all = self.counts.members.saturating_add(self.counts.tombstones);
        for at in self.gone.u16s() {
            check_rise(&mut last, at, "gone")?;
            let at = usize::from(at);
            if at >= all {
                return Err(WireError::DanglingIndex { what: "gone" });
            }
            match self.statuses.get(at).copied().map(status_of).transpose()? {
                None | Some(Status::Exiting | Status::Down) => {}
                Some(_) => return Err(WireError::Malformed { what: "gone" }),
            }
        }
        Ok(())
    }

    /// Role names, then sets of them; every name is in a set.
    fn check_role_sets(&self) -> Result<(), WireError> {
        // Role names that name a data center are neighbours, because all start alike.
        let (mut centers, mut at) = (0..0_usize, 0_usize);
        for name in self.roles.rising() {
            let name = name?;
            check_role(name).map_err(|_| WireError::Malformed { what: "role" })?;
            if name == DEFAULT_DATA_CENTER_ROLE {
                return Err(WireError::NonCanonical { what: "roles" });
            }
            if is_data_center(name) {
                centers = if centers.is_empty() { at..at } else { centers };
                centers.end = at.saturating_add(1);
            }
            at = at.saturating_add(1);
        }
        let mut used = UseCheck::new(self.counts.roles);
        let mut rest = self.role_indexes;
        let mut last: Option<Column<'_, 2>> = None;
        for len in self.role_set_lengths {
            let set = rest.split_front(usize::from(*len))?;
            if set.u16s().zip(set.u16s().skip(1)).any(|(a, b)| a >= b)
                || last.is_some_and(|last| !last.u16s().lt(set.u16s()))
            {
                return Err(WireError::NonCanonical { what: "role sets" });
            }
            let mut set_centers = 0_usize;
            for role in set.u16s() {
                used.mark(role, "roles")?;
                set_centers = set_centers.saturating_add(usize::from(centers.contains(&usize::from(role))));
            }
            check_set_size(usize::from(*len), set_centers)?;
            last = Some(set);
        }
        used.finish("roles")
    }

    fn check_members(&self) -> Result<(), WireError> {
        // Both folds look at everything, so that the compiler can take many at a time.
        if !self
            .statuses
            .iter()
            .fold(true, |ok, code| ok & (*code <= 8) & (*code != 5))
        {
            self.statuses
                .iter()
                .try_for_each(|code| status_of(*code).map(drop))?;
        }
        if self.up_numbers.u32s().fold(0, |all, number| all | number) > UpNumber::NONE.get() {
            return Err(WireError::Malformed { what: "up number" });
        }
        let columns = [
            (self.member_role_sets, self.counts.role_sets, "role sets"),
            (self.member_app_versions, self.counts.app_versions, "app versions"),
        ];
        for (column, entries, what) in columns {
            let mut used = UseCheck::new(entries);
            let mut last = None;
            for at in column.u16s() {
                // Neighbours mostly share these.
                if last.replace(at) != Some(at) {
                    used.mark(at, what)?;
                }
            }
            used.finish(what)?;
        }
        Ok(())
    }

    fn check_seen(&self) -> Result<(), WireError> {
        let spare = self.counts.members % 8;
        let beyond = self
            .seen
            .last()
            .filter(|_| spare != 0)
            .map_or(0, |last| last >> spare);
        if beyond == 0 {
            Ok(())
        } else {
            Err(WireError::DanglingIndex { what: "seen" })
        }
    }

    fn check_reachability(&self) -> Result<(), WireError> {
        let total: usize = self.observer_rows.u16s().map(usize::from).sum();
        if total != self.counts.records {
            return Err(WireError::Malformed {
                what: "reachability records",
            });
        }
        self.check_positions(self.observers, "observers")?;
        self.observer_versions.u64s().try_for_each(check_counter)?;
        let mut rows = self
            .subjects
            .u16s()
            .zip(self.record_statuses)
            .zip(self.record_versions.u64s());
        for (version, count) in self.observer_versions.u64s().zip(self.observer_rows.u16s()) {
            let mut last = None;
            for ((subject, status), row_version) in rows.by_ref().take(usize::from(count)) {
                check_rise(&mut last, subject, "reachability subject")?;
                if row_version > version {
                    return Err(WireError::Malformed {
                        what: "reachability version",
                    });
                }
                self.check_position(subject, "reachability")?;
                reach_of(*status)?;
            }
        }
        Ok(())
    }

    /// Positions of members, rising.
    fn check_positions(&self, positions: Column<'_, 2>, what: &'static str) -> Result<(), WireError> {
        let mut last = None;
        for position in positions.u16s() {
            check_rise(&mut last, position, what)?;
            self.check_position(position, what)?;
        }
        Ok(())
    }

    fn check_position(&self, position: u16, what: &'static str) -> Result<(), WireError> {
        if usize::from(position) < self.counts.members {
            Ok(())
        } else {
            Err(WireError::DanglingIndex { what })
        }
    }
}

/// At most one data center among them, and room for the default one that is not written.
const fn check_set_size(names: usize, centers: usize) -> Result<(), WireError> {
    if centers > 1 {
        return Err(WireError::Malformed { what: "roles" });
    }
    if names.saturating_add(1).saturating_sub(centers) > ROLES_MAX {
        return Err(WireError::LimitExceeded { what: "roles" });
    }
    Ok(())
}

pub(super) const fn check_counter(counter: u64) -> Result<(), WireError> {
    if counter > COUNTER_MAX {
        return Err(WireError::LimitExceeded { what: "clock counts" });
    }
    Ok(())
}

fn check_rise(last: &mut Option<u16>, next: u16, what: &'static str) -> Result<(), WireError> {
    match last.replace(next) {
        Some(before) if before == next => Err(WireError::Duplicate { what }),
        Some(before) if before > next => Err(WireError::NonCanonical { what }),
        Some(_) | None => Ok(()),
    }
}

/// Finds out whether every entry of a table is used: a table with spare entries has more than one form.
struct UseCheck {
    used: Vec<bool>,
}

impl UseCheck {
    fn new(entries: usize) -> Self {
        Self {
            used: vec![false; entries],
        }
    }

    fn mark(&mut self, at: u16, what: &'static str) -> Result<(), WireError> {
        let slot = self.used.get_mut(usize::from(at));
        *slot.ok_or(WireError::DanglingIndex { what })? = true;
        Ok(())
    }

    fn finish(self, what: &'static str) -> Result<(), WireError> {
        if self.used.iter().all(|used| *used) {
            Ok(())
        } else {
            Err(WireError::NonCanonical { what })
        }
    }
}
