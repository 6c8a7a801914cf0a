//! Who observed whom unreachable. Keeps every observer's own rows and nobody's opinion about them; only the
//! observer itself changes its rows, which is why merging may take the newer row set as a whole. Spec:
//! membership 1.5.

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::vector_clock::sort_by_node;
use crate::ident::UniqueAddress;

/// What one node says about another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReachabilityStatus {
    /// It answers.
    Reachable,
    /// It does not answer; it may come back.
    Unreachable,
    /// This incarnation is over: quarantined, or another one took its address. Final.
    Terminated,
}

/// One row: what `observer` said last about `subject`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReachabilityRecord {
    /// Who observed.
    pub observer: UniqueAddress,
    /// Who was observed.
    pub subject: UniqueAddress,
    /// What was observed.
    pub status: ReachabilityStatus,
    /// The observer's version when it wrote this row.
    pub version: u64,
}

/// The reachability table: rows sorted by observer and subject, and one version per observer that ever
/// changed a row. An observer to whom everybody is reachable has no rows, only its version, so that its old
/// rows cannot come back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reachability {
    records: Vec<ReachabilityRecord>,
    versions: Vec<(UniqueAddress, u64)>,
}

impl Reachability {
    /// The table in which everybody reaches everybody.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            records: Vec::new(),
            versions: Vec::new(),
        }
    }

    /// A table of these rows and versions in any order; `None` if a row or version appears twice, or a row's
    /// observer has no version or an older one than its row.
    #[must_use]
    pub fn from_parts(
        mut records: Vec<ReachabilityRecord>,
        mut versions: Vec<(UniqueAddress, u64)>,
    ) -> Option<Self> {
        records.sort_by(|left, right| key(left).cmp(&key(right)));
        let once = sort_by_node(&mut versions);
        let unique = once && records.windows(2).all(|pair| key(&pair[0]) != key(&pair[1]));
        let table = Self { records, versions };
        let dated = table.records.iter().all(|record| {
            table
                .version_slot(&record.observer)
                .is_ok_and(|at| record.version <= table.versions[at].1)
        });
        (unique && dated).then_some(table)
    }

    /// Notes that `observer` finds `subject` unreachable; `false` if that changes nothing.
    pub fn unreachable(&mut self, observer: &UniqueAddress, subject: &UniqueAddress) -> bool {
        self.change(observer, subject, ReachabilityStatus::Unreachable)
    }

    /// Notes that `observer` finds `subject` reachable again; `false` if that changes nothing.
    pub fn reachable(&mut self, observer: &UniqueAddress, subject: &UniqueAddress) -> bool {
        self.change(observer, subject, ReachabilityStatus::Reachable)
    }

    /// Notes that `observer` knows `subject` to be over; `false` if that changes nothing.
    pub fn terminated(&mut self, observer: &UniqueAddress, subject: &UniqueAddress) -> bool {
        self.change(observer, subject, ReachabilityStatus::Terminated)
    }

    /// Notes what `observer` says about `subject`; `false` if that changes nothing. Every change counts the
    /// observer's version up; a row that says Terminated never changes again.
    pub fn change(
        &mut self,
        observer: &UniqueAddress,
        subject: &UniqueAddress,
        status: ReachabilityStatus,
    ) -> bool {
        let rows = self.rows_of(observer);
        let slot = self.records[rows.clone()].binary_search_by(|record| record.subject.cmp(subject));
        match slot {
            Err(_) if rows.is_empty() && status == ReachabilityStatus::Reachable => return false,
            Ok(at) => {
                let old = self.records[rows.start + at].status;
                if old == ReachabilityStatus::Terminated || old == status {
                    return false;
                }
            }
            Err(_) => {}
        }
        let version = self.bump(observer);
        let others_reachable = self.records[rows.clone()]
            .iter()
            .all(|record| record.status == ReachabilityStatus::Reachable || record.subject == *subject);
        if status == ReachabilityStatus::Reachable && others_reachable {
            self.records.drain(rows);
            return true;
        }
        match slot {
            Ok(at) => {
                let record = &mut self.records[rows.start + at];
                record.status = status;
                record.version = version;
            }
            Err(at) => {
                let record = ReachabilityRecord {
                    observer: observer.clone(),
                    subject: subject.clone(),
                    status,
                    version,
                };
                self.records.insert(rows.start + at, record);
            }
        }
        true
    }

    /// Whether `observer` says here what it says in its own table, as far as subjects are `allowed`.
    pub(crate) fn agrees(
        &self,
        observer: &UniqueAddress,
        own: &Self,
        allowed: impl Fn(&UniqueAddress) -> bool,
    ) -> bool {
        let said = |record: &ReachabilityRecord| (record.subject.clone(), record.status);
        let mine = own.records[own.rows_of(observer)].iter();
        let mine = mine.filter(|record| allowed(&record.subject)).map(said);
        self.records[self.rows_of(observer)].iter().map(said).eq(mine)
    }

    /// Gives `observer` its own rows back, above whatever version others gave them. Only its own word counts,
    /// also about whom it calls terminated.
    pub(crate) fn overrule(
        &mut self,
        observer: &UniqueAddress,
        own: &Self,
        allowed: impl Fn(&UniqueAddress) -> bool,
    ) {
        let rows = self.rows_of(observer);
        let version = self.bump(observer);
        let mine = own.records[own.rows_of(observer)].iter();
        let mine = mine
            .filter(|record| allowed(&record.subject))
            .map(|record| ReachabilityRecord {
                version,
                ..record.clone()
            });
        self.records.splice(rows, mine);
    }

    /// Forgets everything these nodes said and everything said about them, their versions included.
    pub fn remove(&mut self, nodes: &[UniqueAddress]) {
        self.records
            .retain(|record| !nodes.contains(&record.observer) && !nodes.contains(&record.subject));
        self.versions.retain(|version| !nodes.contains(&version.0));
    }

    /// Forgets everything these nodes said, their versions included.
    pub fn remove_observers(&mut self, nodes: &[UniqueAddress]) {
        self.records.retain(|record| !nodes.contains(&record.observer));
        self.versions.retain(|version| !nodes.contains(&version.0));
    }

    /// The rows that `keep` accepts; the versions stay.
    #[must_use]
    pub fn filter_records(&self, keep: impl Fn(&ReachabilityRecord) -> bool) -> Self {
        let records = self
            .records
            .iter()
            .filter(|record| keep(record))
            .cloned()
            .collect();
        Self {
            records,
            versions: self.versions.clone(),
        }
    }

    /// For every observer the newer side's rows, as far as observer and subject are `allowed`; versions of
    /// others are dropped. Rows that only one side has stay only if that side is strictly newer. Equal
    /// versions mean equal rows among honest nodes; where they differ all the same, the greater row set wins
    /// on both sides.
    #[must_use]
    pub fn merge(&self, allowed: impl Fn(&UniqueAddress) -> bool, other: &Self) -> Self {
        let mut out = Self::new();
        let (mut left, mut right) = (&self.versions[..], &other.versions[..]);
        loop {
            let order = match (left.first(), right.first()) {
                (Some(ours), Some(theirs)) => ours.0.cmp(&theirs.0),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return out,
            };
            let ours = if order.is_le() { advance(&mut left) } else { None };
            let theirs = if order.is_ge() { advance(&mut right) } else { None };
            let Some(observer) = ours.or(theirs).map(|entry| &entry.0).filter(|node| allowed(node)) else {
                continue;
            };
            let (our_version, their_version) = (ours.map_or(0, |e| e.1), theirs.map_or(0, |e| e.1));
            let rows = newer_rows(
                (our_version, &self.records[self.rows_of(observer)]),
                (their_version, &other.records[other.rows_of(observer)]),
            );
            out.records
                .extend(rows.iter().filter(|record| allowed(&record.subject)).cloned());
            out.versions
                .push((observer.clone(), our_version.max(their_version)));
        }
    }

    /// Whether merging `other` into this table would add nothing, provided every name here is allowed.
    /// Allocates nothing.
    #[must_use]
    pub(crate) fn covers(&self, other: &Self) -> bool {
        other
            .versions
            .iter()
            .all(|(observer, theirs)| match self.version_of(observer).cmp(theirs) {
                Ordering::Less => false,
                Ordering::Greater => true,
                Ordering::Equal => {
                    self.records[self.rows_of(observer)] == other.records[other.rows_of(observer)]
                }
            })
    }

    /// What `observer` says about `subject`; reachable if it says nothing.
    #[must_use]
    pub fn status(&self, observer: &UniqueAddress, subject: &UniqueAddress) -> ReachabilityStatus {
        if self.records.is_empty() {
            return ReachabilityStatus::Reachable;
        }
        let slot = self
            .records
            .binary_search_by(|record| key(record).cmp(&(observer, subject)));
        slot.map_or(ReachabilityStatus::Reachable, |at| self.records[at].status)
    }

    /// The worst anybody says about `subject`.
    #[must_use]
    pub fn aggregate(&self, subject: &UniqueAddress) -> ReachabilityStatus {
        let said = self
            .records
            .iter()
            .filter(|record| record.subject == *subject)
            .map(|record| record.status);
        said.max().unwrap_or(ReachabilityStatus::Reachable)
    }

    /// Whether nobody says anything but Reachable.
    #[must_use]
    pub fn is_all_reachable(&self) -> bool {
        self.records
            .iter()
            .all(|record| record.status == ReachabilityStatus::Reachable)
    }

    /// Everybody whose aggregate is Unreachable, sorted; the terminated ones are not among them.
    #[must_use]
    pub fn all_unreachable(&self) -> Vec<UniqueAddress> {
        let mut subjects = self.all_unreachable_or_terminated();
        subjects.retain(|subject| self.aggregate(subject) == ReachabilityStatus::Unreachable);
        subjects
    }

    /// Everybody whose aggregate is not Reachable, sorted.
    #[must_use]
    pub fn all_unreachable_or_terminated(&self) -> Vec<UniqueAddress> {
        let bad = self
            .records
            .iter()
            .filter(|record| record.status != ReachabilityStatus::Reachable);
        let mut subjects: Vec<UniqueAddress> = bad.map(|record| record.subject.clone()).collect();
        subjects.sort();
        subjects.dedup();
        subjects
    }

    /// Everybody who has rows, sorted. An observer that only has a version is not among them.
    #[must_use]
    pub fn all_observers(&self) -> Vec<UniqueAddress> {
        let mut observers: Vec<UniqueAddress> = self
            .records
            .iter()
            .map(|record| record.observer.clone())
            .collect();
        observers.dedup();
        observers
    }

    /// The rows, sorted by observer and subject.
    #[must_use]
    pub fn records(&self) -> &[ReachabilityRecord] {
        &self.records
    }

    /// The version of every observer that ever changed a row, sorted by observer.
    #[must_use]
    pub fn versions(&self) -> &[(UniqueAddress, u64)] {
        &self.versions
    }

    /// The version of `observer`; 0 if it never changed a row.
    #[must_use]
    pub fn version_of(&self, observer: &UniqueAddress) -> u64 {
        self.version_slot(observer).map_or(0, |at| self.versions[at].1)
    }

    fn version_slot(&self, observer: &UniqueAddress) -> Result<usize, usize> {
        self.versions.binary_search_by(|entry| entry.0.cmp(observer))
    }

    fn bump(&mut self, observer: &UniqueAddress) -> u64 {
        match self.version_slot(observer) {
            Ok(at) => {
                self.versions[at].1 = self.versions[at].1.saturating_add(1);
                self.versions[at].1
            }
            Err(at) => {
                self.versions.insert(at, (observer.clone(), 1));
                1
            }
        }
    }

    fn rows_of(&self, observer: &UniqueAddress) -> core::ops::Range<usize> {
        let start = self.records.partition_point(|record| record.observer < *observer);
        let len = self.records[start..].partition_point(|record| record.observer == *observer);
        start..start + len
    }
}

fn key(record: &ReachabilityRecord) -> (&UniqueAddress, &UniqueAddress) {
    (&record.observer, &record.subject)
}

fn advance<'a, T>(rest: &mut &'a [T]) -> Option<&'a T> {
    let (first, tail) = rest.split_first()?;
    *rest = tail;
    Some(first)
}

fn newer_rows<'a>(
    ours: (u64, &'a [ReachabilityRecord]),
    theirs: (u64, &'a [ReachabilityRecord]),
) -> &'a [ReachabilityRecord] {
    match ours.0.cmp(&theirs.0) {
        Ordering::Greater => ours.1,
        Ordering::Less => theirs.1,
        // One empty side means it has pruned; two different sets mean a liar, and any rule does that is
        // symmetric.
        Ordering::Equal if ours.1.is_empty() || theirs.1.is_empty() => &[],
        Ordering::Equal => {
            let rank =
                |rows: &'a [ReachabilityRecord]| rows.iter().map(|r| (&r.subject, r.status, r.version));
            if rank(ours.1).gt(rank(theirs.1)) {
                ours.1
            } else {
                theirs.1
            }
        }
    }
}
