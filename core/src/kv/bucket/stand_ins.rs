//! Who stands in for owners that are away, in a sloppy bucket: the next stores of reachable members on the
//! ring, clockwise from the range's place, that do not own the range; the first for the first owner that is
//! away, the next for the next. Follows from the table and the picture alone, so that callers who know the
//! same ask the same. Spec: sharding 5.6, 10.19 e.

use alloc::vec::Vec;

use super::OpenBucket;
use crate::ident::UniqueAddress;
use crate::journal::state::StoreId;
use crate::kv::state::configuration::{Configuration, Owners};
use crate::kv::state::table::RangeId;
use crate::membership::state::member::Status;
use crate::view::View;

impl OpenBucket {
    /// Where a store is that can be reached.
    fn place_there(&self, store: StoreId, view: &View) -> Option<&UniqueAddress> {
        let node = self.node_of(store)?;
        (view.member(node).is_some() && view.is_reachable(node)).then_some(node)
    }

    /// Who is asked in place of an owner, and where; `None` if the owner itself is.
    pub(in crate::kv) fn stand_in(
        &mut self,
        (range, owner): (RangeId, StoreId),
        owners: &Configuration,
        view: &View,
    ) -> Option<(StoreId, UniqueAddress)> {
        if !self.settings.is_sloppy || self.place_there(owner, view).is_some() {
            return None;
        }
        let mut away = owners
            .owners
            .all()
            .filter(|one| self.place_there(*one, view).is_none());
        let number = away.position(|one| one == owner)?;
        let arc = u128::MAX / u128::from(self.settings.ranges.max(1));
        let from = StoreId(arc * u128::from(range.0));
        let ring = self.nodes.range(from..).chain(self.nodes.range(..from));
        let others = ring
            .map(|(store, _)| *store)
            .filter(|store| !owners.owners.contains(*store));
        let mut there = others.filter_map(|store| Some((store, self.place_there(store, view)?.clone())));
        let found = there.nth(number);
        // Somebody may be there whose store the table did not name yet.
        self.is_behind |= found.is_none() && self.lacks_stores(view);
        found
    }

    /// Whether there are more members of the role than stores that are known.
    fn lacks_stores(&self, view: &View) -> bool {
        let role = self.settings.role.as_ref();
        let up = view
            .members_in(Status::Up)
            .filter(|member| view.is_reachable(&member.node));
        let able = up.filter(|member| role.is_none_or(|role| member.roles.contains(role)));
        let known = self
            .nodes
            .keys()
            .filter(|store| self.place_there(**store, view).is_some());
        able.count() > known.count()
    }

    /// Who is to be given a hint for an owner: that one, if it owns the range still; else all who do, and
    /// while one is being replaced. Empty if they cannot be reached. Who leaves gives it to those who can.
    pub(in crate::kv) fn hint_targets(
        &self,
        owners: &Configuration,
        owner: StoreId,
        is_leaving: bool,
        view: &View,
    ) -> Vec<StoreId> {
        let is_there = |store: &StoreId| self.place_there(*store, view).is_some();
        let targets: Vec<StoreId> = match &owners.owners {
            Owners::Stable(stores) if stores.contains(&owner) && (is_there(&owner) || !is_leaving) => {
                [owner].into()
            }
            Owners::Stable(_) | Owners::Joint { .. } => owners.owners.all().collect(),
        };
        let count = targets.len();
        let there: Vec<StoreId> = targets.into_iter().filter(is_there).collect();
        if is_leaving || there.len() == count {
            there
        } else {
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;
    use crate::fixture::{member, node, picture};
    use crate::kv::protocol::StoreAt;
    use crate::kv::state::settings::BucketSettings;
    use crate::kv::state::table::TableChange;
    use crate::token::Token;

    const RANGES: u16 = 8;

    /// The store that is the first clockwise from this range's place, on the node of this number.
    fn store(number: u16) -> StoreId {
        StoreId(u128::MAX / u128::from(RANGES) * u128::from(number) + 5)
    }

    fn at(number: u16) -> UniqueAddress {
        node(&format!("n{number}"), u64::from(number) + 1)
    }

    fn bucket(is_sloppy: bool, known: u16) -> OpenBucket {
        let settings = BucketSettings {
            ranges: RANGES,
            is_sloppy,
            ..BucketSettings::default()
        };
        let levels = settings.check().unwrap();
        let mut open = OpenBucket::new(settings, levels);
        let stores = (0..known).map(|number| StoreAt {
            store: store(number),
            node: at(number),
        });
        open.on_table(Token::new(1, 1), stores.collect(), TableChange::default());
        open
    }

    fn stable(owners: [u16; 3]) -> Configuration {
        let owners = Owners::Stable(owners.map(store).into());
        Configuration { epoch: 1, owners }
    }

    fn view(away: &[u16]) -> View {
        let me = at(0);
        let members = (0..RANGES).map(|number| member(&at(number), Status::Up));
        let away: Vec<UniqueAddress> = away.iter().map(|number| at(*number)).collect();
        let rows: Vec<_> = away.iter().map(|away| (&me, away)).collect();
        picture(&me, members, &rows)
    }

    fn stands_in(open: &mut OpenBucket, range: u16, owners: &Configuration, away: &[u16]) -> Vec<u16> {
        let found = away.iter().filter_map(|owner| {
            let (found, node) = open.stand_in((RangeId(range), store(*owner)), owners, &view(away))?;
            let number = (0..RANGES).find(|number| store(*number) == found)?;
            assert_eq!(node, at(number));
            Some(number)
        });
        found.collect()
    }

    #[test]
    fn the_next_stores_on_the_ring_stand_in_each_for_one_owner() {
        let mut open = bucket(true, RANGES);
        let owners = stable([1, 2, 3]);
        assert_eq!(stands_in(&mut open, 2, &owners, &[2]), [4]);
        assert_eq!(stands_in(&mut open, 2, &owners, &[1, 2, 3]), [4, 5, 6]);
        assert_eq!(
            stands_in(&mut open, 6, &owners, &[1, 2, 3]),
            [6, 7, 0],
            "the ring has no end"
        );
        assert_eq!(
            stands_in(&mut open, 2, &owners, &[2, 4]),
            [5],
            "who is away stands in for nobody"
        );
        let joint = Configuration {
            epoch: 2,
            owners: Owners::Joint {
                from: [1, 2, 3].map(store).into(),
                to: [1, 2, 4].map(store).into(),
            },
        };
        assert_eq!(
            stands_in(&mut open, 2, &joint, &[2]),
            [5],
            "an owner of neither set"
        );
        assert!(!open.is_behind, "all stores are known");
    }

    #[test]
    fn nobody_stands_in_for_who_is_there_or_in_a_strict_bucket() {
        let owners = stable([1, 2, 3]);
        let mut open = bucket(true, RANGES);
        let there = open.stand_in((RangeId(2), store(1)), &owners, &view(&[2]));
        assert_eq!(there, None);
        assert_eq!(stands_in(&mut bucket(false, RANGES), 2, &owners, &[1, 2, 3]), []);
    }

    #[test]
    fn the_table_is_asked_for_where_members_are_there_whose_stores_are_not_known() {
        let owners = stable([1, 2, 3]);
        let mut open = bucket(true, 4);
        assert_eq!(stands_in(&mut open, 2, &owners, &[1]), [0]);
        assert!(!open.is_behind);
        assert_eq!(stands_in(&mut open, 2, &owners, &[1, 2]), [0]);
        assert!(open.is_behind);
    }
}
