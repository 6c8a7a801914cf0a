//! The shards that a region knows: one value per shard, with what is known of its home, for sending, and what
//! runs here, for hosting. The sets beside them are indexes, changed in this file only. Decides nothing.
//! Spec: sharding 1.3.
//!
//! What runs here goes through these stages (`Stopping` has [its own words](crate::sharding::shard::Stop) for
//! what follows):
//!
//! | from | what happens | to |
//! |---|---|---|
//! | `Nothing` | wanted in a pause | `Wanted` |
//! | `Nothing` | begun | `Hosted` |
//! | `Wanted` | wanted in a pause | `Wanted` |
//! | `Wanted` | not wanted | `Nothing` |
//! | `Wanted` | the pause is over | `Nothing` |
//! | `Wanted` | begun | `Hosted` |
//! | `Hosted` | ended | `Nothing` |
//! | `Hosted` | ended, wanted in a pause | `Wanted` |

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::home::{KnownHome, OpenMark};
use super::leasing::ShardLease;
use crate::ident::UniqueAddress;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::sharding::shard::Shard;
use crate::sharding::state::ids::{ShardId, Term};
use crate::token::Token;

/// What a region knows of one shard.
#[derive(Clone, Debug, Default)]
pub(super) struct ShardEntry {
    pub(super) home: KnownHome,
    here: ShardHere,
    /// With which token it was placed here, if that is known.
    pub(super) token: Option<Token>,
    /// Its lease, if the kind has any and something is known of it.
    pub(super) lease: Option<ShardLease>,
}

/// What runs here of a shard.
#[derive(Clone, Debug, Default)]
enum ShardHere {
    /// Nothing.
    #[default]
    Nothing,
    /// Nothing; this coordinator wants it here, and it begins after the pause.
    Wanted(Term),
    /// It is loaded, runs or stops here.
    Hosted(Box<Shard>),
}

/// Every shard of which anything is known, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct ShardTable {
    entries: OrderedMap<ShardId, ShardEntry>,
    /// How many run or stop here.
    hosted: usize,
    /// Those with a mark that has not been acknowledged.
    marked: OrderedSet<ShardId>,
}

impl ShardHere {
    fn into_hosted(self) -> Option<Box<Shard>> {
        match self {
            Self::Hosted(shard) => Some(shard),
            Self::Nothing | Self::Wanted(_) => None,
        }
    }
}

impl ShardEntry {
    /// What is known of its home, and the shard as it runs or stops here.
    pub(super) fn parts(&mut self) -> (&mut KnownHome, Option<&mut Shard>) {
        let here = match &mut self.here {
            ShardHere::Hosted(shard) => Some(&mut **shard),
            ShardHere::Nothing | ShardHere::Wanted(_) => None,
        };
        (&mut self.home, here)
    }

    /// The shard as it runs or stops here.
    pub(super) fn hosted(&self) -> Option<&Shard> {
        match &self.here {
            ShardHere::Hosted(shard) => Some(shard),
            ShardHere::Nothing | ShardHere::Wanted(_) => None,
        }
    }

    /// The same, to change it.
    pub(super) fn hosted_mut(&mut self) -> Option<&mut Shard> {
        self.parts().1
    }
}

impl ShardTable {
    /// What is known of a shard.
    pub(super) fn entry(&mut self, shard: ShardId) -> &mut ShardEntry {
        self.entries.entry(shard).or_default()
    }

    /// The same, if anything is.
    pub(super) fn known(&self, shard: ShardId) -> Option<&ShardEntry> {
        self.entries.get(&shard)
    }

    /// The same, to change it.
    pub(super) fn known_mut(&mut self, shard: ShardId) -> Option<&mut ShardEntry> {
        self.entries.get_mut(&shard)
    }

    /// All of them, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ShardId, &ShardEntry)> {
        self.entries.iter().map(|(id, entry)| (*id, entry))
    }

    /// A shard that runs or stops here.
    pub(super) fn hosted(&self, shard: ShardId) -> Option<&Shard> {
        self.entries.get(&shard)?.hosted()
    }

    /// The same, to change it.
    pub(super) fn hosted_mut(&mut self, shard: ShardId) -> Option<&mut Shard> {
        self.entries.get_mut(&shard)?.hosted_mut()
    }

    /// A shard whose entities are served here.
    pub(super) fn running(&self, shard: ShardId) -> Option<&Shard> {
        self.hosted(shard).filter(|here| here.is_running())
    }

    /// The same, to change it.
    pub(super) fn running_mut(&mut self, shard: ShardId) -> Option<&mut Shard> {
        self.hosted_mut(shard).filter(|here| here.is_running())
    }

    /// All that run or stop here, by number, not before this one.
    pub(super) fn hosted_from(&self, first: ShardId) -> impl Iterator<Item = (ShardId, &Shard)> {
        let from = self.entries.range(first..);
        from.filter_map(|(id, entry)| Some((*id, entry.hosted()?)))
    }

    /// All that run or stop here, by number.
    pub(super) fn all_hosted(&self) -> impl Iterator<Item = (ShardId, &Shard)> {
        self.hosted_from(ShardId(0))
    }

    /// The same, to change them.
    pub(super) fn hosted_from_mut(&mut self, first: ShardId) -> impl Iterator<Item = (ShardId, &mut Shard)> {
        let from = self.entries.range_mut(first..);
        from.filter_map(|(id, entry)| Some((*id, entry.hosted_mut()?)))
    }

    /// The numbers of all that run or stop here.
    pub(super) fn hosted_ids(&self) -> Vec<ShardId> {
        self.all_hosted().map(|(id, _)| id).collect()
    }

    /// How many run or stop here.
    pub(super) const fn hosted_len(&self) -> usize {
        self.hosted
    }

    /// A shard begins here.
    pub(super) fn begin(&mut self, shard: ShardId, here: Shard) {
        let entry = self.entries.entry(shard).or_default();
        if entry.hosted().is_none() {
            self.hosted += 1;
        }
        entry.here = ShardHere::Hosted(Box::new(here));
    }

    /// A shard has ended here.
    pub(super) fn end(&mut self, shard: ShardId) -> Option<Box<Shard>> {
        let here = &mut self.entries.get_mut(&shard)?.here;
        let ShardHere::Hosted(stopped) = here else {
            return None;
        };
        let next = stopped
            .take_wanted()
            .map_or(ShardHere::Nothing, ShardHere::Wanted);
        let ended = core::mem::replace(here, next);
        self.hosted -= 1;
        ended.into_hosted()
    }

    /// A coordinator wants a shard here that does not run, or stops; it begins after the pause.
    pub(super) fn want(&mut self, shard: ShardId, term: Term) {
        let entry = self.entries.entry(shard).or_default();
        match &mut entry.here {
            ShardHere::Nothing | ShardHere::Wanted(_) => entry.here = ShardHere::Wanted(term),
            ShardHere::Hosted(here) => here.want(term),
        }
    }

    /// Nothing is to begin after the pause: the coordinator that wants it, if one does.
    pub(super) fn take_wanted(&mut self, shard: ShardId) -> Option<Term> {
        let here = &mut self.entries.get_mut(&shard)?.here;
        match here {
            ShardHere::Nothing => None,
            ShardHere::Wanted(term) => {
                let term = term.clone();
                *here = ShardHere::Nothing;
                Some(term)
            }
            ShardHere::Hosted(stops) => stops.take_wanted(),
        }
    }

    /// The pause is over: all that a coordinator wants here, and which.
    pub(super) fn take_all_wanted(&mut self) -> Vec<(ShardId, Term)> {
        let ids: Vec<ShardId> = self.entries.keys().copied().collect();
        let wanted = ids.into_iter();
        wanted
            .filter_map(|id| Some((id, self.take_wanted(id)?)))
            .collect()
    }

    /// Where a shard lives, as far as this region knows.
    pub(super) fn home(&self, shard: ShardId) -> Option<&UniqueAddress> {
        self.entries.get(&shard)?.home.node()
    }

    /// Whether it is known where a shard lives.
    pub(super) fn has_home(&self, shard: ShardId) -> bool {
        self.home(shard).is_some()
    }

    /// Whether messages for a shard have to wait for an acknowledgement.
    pub(super) fn is_marked(&self, shard: ShardId) -> bool {
        !self.marked.is_empty() && self.marked.contains(&shard)
    }

    /// How many marks have not been acknowledged.
    pub(super) fn marks(&self) -> usize {
        self.marked.len()
    }

    /// Those that have not been acknowledged, from this shard on and then those before it.
    pub(super) fn marks_from(&self, from: ShardId) -> impl Iterator<Item = (ShardId, &OpenMark)> {
        let turn = self.marked.range(from..).chain(self.marked.range(..from));
        turn.filter_map(|id| Some((*id, self.entries.get(id)?.home.mark()?)))
    }

    /// A shard does not live where this region thinks. Gives the mark that is to be sent, with this number,
    /// if there is one.
    pub(super) fn forget_home(
        &mut self,
        shard: ShardId,
        me: &UniqueAddress,
        number: u64,
    ) -> Option<&OpenMark> {
        let mark = self.entries.get_mut(&shard)?.home.forget(me, number)?;
        self.marked.insert(shard);
        Some(mark)
    }

    /// A mark is acknowledged.
    pub(super) fn acknowledge(&mut self, shard: ShardId) -> Option<Box<OpenMark>> {
        self.marked.remove(&shard);
        self.entries.get_mut(&shard)?.home.acknowledge()
    }

    /// The placement with which a shard was here is over.
    pub(super) fn forget_token(&mut self, shard: ShardId) {
        if let Some(entry) = self.entries.get_mut(&shard) {
            entry.token = None;
        }
    }

    /// A node is gone: no shard lives there.
    pub(super) fn lose_homes_on(&mut self, node: &UniqueAddress) {
        for entry in self.entries.values_mut() {
            entry.home.lose(node);
        }
    }

    /// The node is finished: forgets everything but what still runs, and leases.
    pub(super) fn forget_placements(&mut self) {
        self.marked.clear();
        for entry in self.entries.values_mut() {
            (entry.home, entry.token) = (KnownHome::Unknown, None);
            match &mut entry.here {
                ShardHere::Wanted(_) => entry.here = ShardHere::Nothing,
                ShardHere::Hosted(here) => drop(here.take_wanted()),
                ShardHere::Nothing => {}
            }
        }
    }

    /// What must hold between the calls: the indexes fit, and so does where a shard lives with what runs of
    /// it here.
    pub(super) fn check_invariants(&self, me: &UniqueAddress) -> Result<(), String> {
        if self.hosted != self.all_hosted().count() {
            return Err(String::from("region: the number of its shards is wrong"));
        }
        let marked = self.iter().filter(|(_, entry)| entry.home.mark().is_some());
        if !marked.map(|(id, _)| id).eq(self.marked.iter().copied()) {
            return Err(String::from("region: the index of marks is wrong"));
        }
        for (id, ShardEntry { home, here, .. }) in &self.entries {
            let is_here = home.node().map(|node| node == me);
            let is_stopping = match here {
                ShardHere::Nothing | ShardHere::Wanted(_) => None,
                ShardHere::Hosted(here) => Some(here.is_stopping()),
            };
            match (is_here, is_stopping) {
                (Some(true), Some(_)) | (None, _) | (Some(false), None | Some(true)) => {}
                (Some(false), Some(false)) => {
                    return Err(format!("region: shard {id} runs here and lives elsewhere"));
                }
                (Some(true), None) => {
                    return Err(format!("region: shard {id} lives here and does not run"));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::node;
    use crate::membership::state::member::UpNumber;
    use crate::sharding::passivation::PassivationSettings;
    use crate::sharding::shard::{ShardLifecycle, ShardStop};

    const S: ShardId = ShardId(3);

    fn term() -> Term {
        let (up_number, node) = (UpNumber::FIRST, node("a", 1));
        Term { up_number, node }
    }

    fn stage(shards: &ShardTable) -> &'static str {
        match shards.known(S).map(|entry| &entry.here) {
            None | Some(ShardHere::Nothing) => "Nothing",
            Some(ShardHere::Wanted(_)) => "Wanted",
            Some(ShardHere::Hosted(_)) => "Hosted",
        }
    }

    fn begins(shards: &mut ShardTable) {
        shards.begin(S, Shard::new(S, &PassivationSettings::off(), None));
    }

    fn happens(shards: &mut ShardTable, what: &str) {
        match what {
            "wanted in a pause" => shards.want(S, term()),
            "begun" => begins(shards),
            "not wanted" => drop(shards.take_wanted(S)),
            "the pause is over" => drop(shards.take_all_wanted()),
            "ended" => drop(shards.end(S)),
            "ended, wanted in a pause" => {
                if let Some(here) = shards.hosted_mut(S) {
                    here.lifecycle = ShardLifecycle::Stopping(ShardStop::default());
                }
                shards.want(S, term());
                drop(shards.end(S));
            }
            other => panic!("{other} does not happen to shards"),
        }
    }

    #[test]
    fn every_step_is_one_of_the_table() {
        let rows = include_str!("shards.rs")
            .lines()
            .filter_map(|line| line.strip_prefix("//! | `"));
        let mut checked = 0;
        for row in rows {
            let cells: Vec<&str> = row.trim_end_matches("` |").split(" | ").collect();
            let [from, what, to] = cells[..] else {
                panic!("three cells: {row}")
            };
            let mut shards = ShardTable::default();
            match from {
                "Nothing`" => {}
                "Wanted`" => shards.want(S, term()),
                "Hosted`" => begins(&mut shards),
                other => panic!("{other} is no stage"),
            }
            happens(&mut shards, what);
            assert_eq!(format!("`{}", stage(&shards)), to, "{from}, {what}");
            assert_eq!(shards.hosted_len(), usize::from(stage(&shards) == "Hosted"));
            checked += 1;
        }
        assert_eq!(checked, 8);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let me = node("a", 1);
        let named = |shards: &ShardTable| shards.check_invariants(&me).unwrap_err();
        let mut shards = ShardTable::default();
        begins(&mut shards);
        assert_eq!(shards.check_invariants(&me), Ok(()));
        shards.hosted += 1;
        assert_eq!(named(&shards), "region: the number of its shards is wrong");
        shards.hosted -= 1;
        shards.marked.insert(S);
        assert_eq!(named(&shards), "region: the index of marks is wrong");
        shards.marked.clear();
        shards.entry(S).home = KnownHome::Known {
            node: node("b", 2),
            used: false,
        };
        assert_eq!(named(&shards), "region: shard 3 runs here and lives elsewhere");
        shards.entry(ShardId(4)).home = KnownHome::Known {
            node: me.clone(),
            used: false,
        };
        drop(shards.end(S));
        assert_eq!(named(&shards), "region: shard 4 lives here and does not run");
    }
}
