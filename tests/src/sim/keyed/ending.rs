//! Values with a time to live: each ends once, at the moment that the owner which made it set, as a tombstone
//! of the same dot at every owner, and is forgotten as what was deleted is. Looks at what owners hold; what
//! callers are shown is judged by `histories`. Spec: sharding 5.6, 10.19 g; reliability I-75.

use std::collections::BTreeMap;

use quorate_core::kv::state::clock::VersionDot;
use quorate_core::kv::state::siblings::{Siblings, Version, VersionContent};

use super::GRACE_SURE;
use crate::histories::dominance::TimeToLive;
use crate::sim::engine::Sim;
use crate::sim::history::ProcessId;
use crate::sim::plan::SECOND;
use crate::sim::process::UNIX_MS;

/// Wall clocks are ahead of the simulator's by two seconds at most, from their start on and wherever they
/// jump.
const CLOCKS_DIFFER_MS: u64 = 2_000;
/// A put that nobody hears of is made within this: its time-out, a pause of its owner, what delays frames.
const MADE_WITHIN: u64 = 20 * SECOND;

/// What a caller knows of the end of a value.
pub(super) const fn lives(ttl_ms: u64) -> TimeToLive {
    TimeToLive {
        ttl: ttl_ms * 1_000,
        made_within: MADE_WITHIN,
        clocks_differ: CLOCKS_DIFFER_MS * 1_000,
    }
}

/// The wall clock that is farthest ahead: what has not ended by it has not ended anywhere.
pub(super) const fn ended_everywhere(now: u64) -> u64 {
    UNIX_MS + now / 1_000 + CLOCKS_DIFFER_MS
}

/// One of them.
#[derive(Clone, Copy, Debug)]
struct Mortal {
    /// When it is to end, as the first owner says that was seen to hold it.
    end_ms: u64,
    has_ended: bool,
    is_forgotten: bool,
    /// Somebody has put something that overwrites it.
    is_overwritten: bool,
}

/// What was seen of values that end: of each key, by its place in the books.
#[derive(Clone, Debug, Default)]
pub(super) struct Endings(BTreeMap<usize, BTreeMap<VersionDot, Mortal>>);

impl Endings {
    fn count(&self, is_meant: impl Fn(&Mortal) -> bool) -> u64 {
        let all = self.0.values().flat_map(BTreeMap::values);
        all.filter(|mortal| is_meant(mortal)).count() as u64
    }

    pub(super) fn ended(&self) -> u64 {
        self.count(|mortal| mortal.has_ended)
    }

    pub(super) fn forgotten(&self) -> u64 {
        self.count(|mortal| mortal.is_forgotten)
    }
}

/// Looks at one version that an owner holds.
fn look(mortals: &mut BTreeMap<VersionDot, Mortal>, version: &Version, now: u64) -> Result<(), String> {
    let known = mortals.get_mut(&version.dot);
    let end = known.as_ref().map(|mortal| mortal.end_ms);
    match (&version.content, known) {
        (VersionContent::Value { expires_ms, .. }, Some(_)) if *expires_ms != end => {
            Err(format!("{version:?} was to end at {end:?}"))
        }
        (
            VersionContent::Value {
                expires_ms: Some(end),
                ..
            },
            None,
        ) => {
            let mortal = Mortal {
                end_ms: *end,
                has_ended: false,
                is_forgotten: false,
                is_overwritten: false,
            };
            mortals.insert(version.dot, mortal);
            Ok(())
        }
        (VersionContent::Tombstone, Some(mortal)) => {
            mortal.has_ended = true;
            if version.at_ms != mortal.end_ms || mortal.end_ms > ended_everywhere(now) {
                return Err(format!("{version:?} has ended, and was to end at {end:?}"));
            }
            Ok(())
        }
        (VersionContent::Value { .. } | VersionContent::Tombstone | VersionContent::Log(_), _) => Ok(()),
    }
}

impl Sim {
    /// Looks at every value that ends, wherever it is.
    pub(super) fn look_at_ends(&mut self) -> Result<(), (ProcessId, String)> {
        let mut endings = core::mem::take(&mut self.keyed.endings);
        let keys = 0..self.keyed.books.keys.len();
        let looked = keys.into_iter().try_for_each(|at| {
            let book = &self.keyed.books.keys[at];
            let is_promised = book.is_promised(self.now) && self.is_promised(self.keyed.buckets[at]);
            if is_promised && book.has_mortals() {
                self.compare_ends(at, endings.0.entry(at).or_default())
            } else {
                Ok(())
            }
        });
        self.keyed.endings = endings;
        looked
    }

    /// Looks at one key.
    fn compare_ends(
        &self,
        at: usize,
        mortals: &mut BTreeMap<VersionDot, Mortal>,
    ) -> Result<(), (ProcessId, String)> {
        let (book, key, (bucket, range)) = (&self.keyed.books.keys[at], self.key_of(at), self.range_of(at));
        let none = Siblings::new();
        for copy in self.copies(bucket, range) {
            let held = copy.hosted.entry(&key).map_or(&none, |entry| &entry.siblings);
            let wrong = |what: String| (copy.process, format!("{}: {what}", book.key));
            for version in held.versions() {
                look(mortals, version, self.now).map_err(wrong)?;
            }
            for (dot, mortal) in mortals.iter_mut().filter(|(_, mortal)| !mortal.is_overwritten) {
                let is_held = held.versions().iter().any(|version| version.dot == *dot);
                let grace = GRACE_SURE / 1_000;
                let may_be_forgotten =
                    self.keyed.forgets && mortal.end_ms + grace <= ended_everywhere(self.now);
                if may_be_forgotten {
                    mortal.is_forgotten |= mortal.has_ended && !held.clock().covers(*dot);
                } else if held.clock().covers(*dot) && !is_held {
                    mortal.is_overwritten = book.is_overwritten(*dot);
                    if !mortal.is_overwritten {
                        let what = format!("nobody has overwritten {dot:?}, and it is gone: {held:?}");
                        return Err(wrong(what));
                    }
                }
            }
        }
        Ok(())
    }
}
