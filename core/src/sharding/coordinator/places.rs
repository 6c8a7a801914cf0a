//! Where each shard is, as its coordinator knows: one value per shard, with the token of its placement.
//! Decides nothing. Spec: sharding 1.1, 10.16.
//!
//! | from | what happens | to |
//! |---|---|---|
//! | `Nowhere` | stored elsewhere | `Returning` |
//! | `Nowhere` | chosen | `Chosen` |
//! | `Nowhere` | claimed | `Home` |
//! | `Returning` | given up | `Nowhere` |
//! | `Returning` | chosen | `Chosen` |
//! | `Returning` | claimed | `Home` |
//! | `Chosen` | dropped | `Nowhere` |
//! | `Chosen` | stored | `Home` |
//! | `Chosen` | claimed | `Home` |
//! | `Home` | freed | `Nowhere` |

use alloc::vec::Vec;

use super::record::PlacedHome;
use crate::ident::UniqueAddress;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::sharding::state::ids::ShardId;
use crate::token::Token;

/// Where a shard is that is somewhere.
#[derive(Clone, Debug)]
enum ShardPlace {
    /// Its stored home is a node that is no member (yet): it waits for it, for some time.
    Returning(UniqueAddress),
    /// There it is to be, and that is not stored yet. It counts as that region's; nobody has heard of it.
    Chosen(PlacedHome),
    /// There.
    Home(CurrentHome),
}

#[derive(Clone, Debug)]
struct CurrentHome {
    at: PlacedHome,
    /// It was told to start it, and has not said yet that it did.
    unconfirmed: bool,
    /// It was given another token, which is not stored yet.
    renewed: bool,
}

/// All shards that are somewhere, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct PlacedShards {
    places: OrderedMap<ShardId, ShardPlace>,
    /// The shards that have been chosen: with 65,536 of them, each decision is about a few.
    chosen: OrderedSet<ShardId>,
    /// The shards whose homes were given another token.
    renewed: OrderedSet<ShardId>,
}

impl PlacedShards {
    /// Where a shard lives.
    pub(super) fn home(&self, shard: ShardId) -> Option<&UniqueAddress> {
        Some(&self.at_home(shard)?.at.node)
    }

    /// Whether a shard has a home.
    pub(super) fn has_home(&self, shard: ShardId) -> bool {
        self.at_home(shard).is_some()
    }

    /// Whether a home is being stored for a shard.
    pub(super) fn is_chosen(&self, shard: ShardId) -> bool {
        matches!(self.places.get(&shard), Some(ShardPlace::Chosen(_)))
    }

    /// Whether nothing has to be found for a shard.
    pub(super) fn is_somewhere(&self, shard: ShardId) -> bool {
        self.places.contains_key(&shard)
    }

    /// The home of a shard, or the one that is being stored.
    pub(super) fn placement(&self, shard: ShardId) -> Option<&PlacedHome> {
        match self.places.get(&shard)? {
            ShardPlace::Chosen(at) | ShardPlace::Home(CurrentHome { at, .. }) => Some(at),
            ShardPlace::Returning(_) => None,
        }
    }

    /// The token of that; none without one.
    pub(super) fn token(&self, shard: ShardId) -> Token {
        self.placement(shard).map_or(Token::NONE, |at| at.token)
    }

    /// The node for which a shard waits.
    pub(super) fn returning(&self, shard: ShardId) -> Option<&UniqueAddress> {
        match self.places.get(&shard)? {
            ShardPlace::Returning(node) => Some(node),
            ShardPlace::Chosen(_) | ShardPlace::Home(_) => None,
        }
    }

    /// Shards and where they live.
    pub(super) fn homes(&self) -> impl Iterator<Item = (ShardId, &UniqueAddress)> {
        self.at_homes().map(|(shard, home)| (shard, &home.at.node))
    }

    /// Homes that are being stored.
    pub(super) fn all_chosen(&self) -> impl Iterator<Item = (ShardId, &PlacedHome)> {
        let chosen = self.chosen.iter();
        chosen.filter_map(|shard| Some((*shard, self.placement(*shard)?)))
    }

    /// Homes that were given another token, which may be stored by now.
    pub(super) fn all_renewed(&self) -> impl Iterator<Item = (ShardId, &PlacedHome)> {
        let renewed = self.renewed.iter();
        renewed.filter_map(|shard| Some((*shard, self.placement(*shard)?)))
    }

    /// Shards that wait for a node, and for which.
    pub(super) fn all_returning(&self) -> impl Iterator<Item = (ShardId, &UniqueAddress)> {
        let all = self.places.keys();
        all.filter_map(|shard| Some((*shard, self.returning(*shard)?)))
    }

    /// Homes that have not said that they started their shard.
    pub(super) fn all_unconfirmed(&self) -> impl Iterator<Item = ShardId> {
        let homes = self.at_homes().filter(|(_, home)| home.unconfirmed);
        homes.map(|(shard, _)| shard)
    }

    /// Whether a shard has begun where it lives, with the token that it was told, as far as that was said.
    pub(super) fn has_begun(&self, shard: ShardId) -> bool {
        self.at_home(shard)
            .is_none_or(|home| !home.unconfirmed && !home.renewed)
    }

    /// Whether a home was told to start its shard and has not said that it did.
    pub(super) fn is_unconfirmed(&self, shard: ShardId) -> bool {
        self.at_home(shard).is_some_and(|home| home.unconfirmed)
    }

    /// Whether a home has another token than it was told.
    pub(super) fn is_renewed(&self, shard: ShardId) -> bool {
        self.at_home(shard).is_some_and(|home| home.renewed)
    }

    /// Its stored home may come back.
    pub(super) fn wait_for(&mut self, shard: ShardId, node: UniqueAddress) {
        self.put(shard, Some(ShardPlace::Returning(node)));
    }

    /// Nobody is waited for any more. Gives the shards that did.
    pub(super) fn give_up_returning(&mut self) -> Vec<ShardId> {
        let given_up: Vec<ShardId> = self.all_returning().map(|(shard, _)| shard).collect();
        for shard in &given_up {
            self.put(*shard, None);
        }
        given_up
    }

    /// There it is to be, once that is stored.
    pub(super) fn choose(&mut self, shard: ShardId, at: PlacedHome) {
        assert!(!self.has_home(shard), "a shard has at most one home");
        self.put(shard, Some(ShardPlace::Chosen(at)));
    }

    /// The choice is taken back, if there is one. Gives the node that was chosen.
    pub(super) fn drop_choice(&mut self, shard: ShardId) -> Option<UniqueAddress> {
        if !self.is_chosen(shard) {
            return None;
        }
        match self.put(shard, None)? {
            ShardPlace::Chosen(at) => Some(at.node),
            ShardPlace::Returning(_) | ShardPlace::Home(_) => None,
        }
    }

    /// It lives there.
    pub(super) fn live_at(&mut self, shard: ShardId, at: PlacedHome) {
        let (unconfirmed, renewed) = (false, false);
        let home = CurrentHome {
            at,
            unconfirmed,
            renewed,
        };
        self.put(shard, Some(ShardPlace::Home(home)));
    }

    /// It lives nowhere, if it lived anywhere. Gives the home.
    pub(super) fn free(&mut self, shard: ShardId) -> Option<UniqueAddress> {
        if !self.has_home(shard) {
            return None;
        }
        match self.put(shard, None)? {
            ShardPlace::Home(home) => Some(home.at.node),
            ShardPlace::Returning(_) | ShardPlace::Chosen(_) => None,
        }
    }

    /// A home has this token; whether it has to be told when that is stored.
    pub(super) fn set_token(&mut self, shard: ShardId, token: Token, renewed: bool) {
        if let Some(ShardPlace::Home(home)) = self.places.get_mut(&shard) {
            (home.at.token, home.renewed) = (token, renewed);
            list(&mut self.renewed, shard, renewed);
        }
    }

    /// A home knows its token by now.
    pub(super) fn tell_token(&mut self, shard: ShardId) {
        self.set_token(shard, self.token(shard), false);
    }

    /// A home was told to start its shard, or has said that it did. Whether it was told and had not.
    pub(super) fn set_unconfirmed(&mut self, shard: ShardId, unconfirmed: bool) -> bool {
        match self.places.get_mut(&shard) {
            Some(ShardPlace::Home(home)) => core::mem::replace(&mut home.unconfirmed, unconfirmed),
            Some(ShardPlace::Returning(_) | ShardPlace::Chosen(_)) | None => false,
        }
    }

    /// The tokens of all placements.
    pub(super) fn tokens_mut(&mut self) -> impl Iterator<Item = (ShardId, &mut Token)> {
        self.places.iter_mut().filter_map(|(shard, place)| match place {
            ShardPlace::Chosen(at) | ShardPlace::Home(CurrentHome { at, .. }) => {
                Some((*shard, &mut at.token))
            }
            ShardPlace::Returning(_) => None,
        })
    }

    /// Whether those listed are those that there are.
    pub(super) fn are_listed(&self) -> bool {
        let is_chosen = |place: &ShardPlace| matches!(place, ShardPlace::Chosen(_));
        let is_renewed = |place: &ShardPlace| matches!(place, ShardPlace::Home(home) if home.renewed);
        let every = |listed: fn(&ShardPlace) -> bool| {
            let of = self.places.iter().filter(move |(_, place)| listed(place));
            of.map(|(shard, _)| shard)
        };
        self.chosen.iter().eq(every(is_chosen)) && self.renewed.iter().eq(every(is_renewed))
    }

    fn at_home(&self, shard: ShardId) -> Option<&CurrentHome> {
        match self.places.get(&shard)? {
            ShardPlace::Home(home) => Some(home),
            ShardPlace::Returning(_) | ShardPlace::Chosen(_) => None,
        }
    }

    fn at_homes(&self) -> impl Iterator<Item = (ShardId, &CurrentHome)> {
        self.places.iter().filter_map(|(shard, place)| match place {
            ShardPlace::Home(home) => Some((*shard, home)),
            ShardPlace::Returning(_) | ShardPlace::Chosen(_) => None,
        })
    }

    /// The only step from place to place.
    fn put(&mut self, shard: ShardId, to: Option<ShardPlace>) -> Option<ShardPlace> {
        let (chosen, renewed) = match &to {
            Some(ShardPlace::Chosen(_)) => (true, false),
            Some(ShardPlace::Home(home)) => (false, home.renewed),
            Some(ShardPlace::Returning(_)) | None => (false, false),
        };
        list(&mut self.chosen, shard, chosen);
        list(&mut self.renewed, shard, renewed);
        match to {
            Some(place) => self.places.insert(shard, place),
            None => self.places.remove(&shard),
        }
    }
}

/// A set has a shard, or has it no more.
fn list(set: &mut OrderedSet<ShardId>, shard: ShardId, listed: bool) {
    if listed {
        set.insert(shard);
    } else {
        set.remove(&shard);
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;
    use crate::fixture::node;

    const S: ShardId = ShardId(3);

    fn at(token: u64) -> PlacedHome {
        PlacedHome {
            node: node("a", 1),
            token: Token::new(2, token),
        }
    }

    fn stage(places: &PlacedShards) -> &'static str {
        match places.places.get(&S) {
            None => "Nowhere",
            Some(ShardPlace::Returning(_)) => "Returning",
            Some(ShardPlace::Chosen(_)) => "Chosen",
            Some(ShardPlace::Home(_)) => "Home",
        }
    }

    fn happens(places: &mut PlacedShards, what: &str) {
        match what {
            "stored elsewhere" => places.wait_for(S, node("a", 1)),
            "given up" => drop(places.give_up_returning()),
            "chosen" => places.choose(S, at(1)),
            "dropped" => drop(places.drop_choice(S)),
            "stored" | "claimed" => places.live_at(S, at(1)),
            "freed" => drop(places.free(S)),
            other => panic!("{other} does not happen to places"),
        }
    }

    #[test]
    fn every_step_is_one_of_the_table() {
        let rows = include_str!("places.rs").lines();
        let mut checked = 0;
        for row in rows.filter_map(|line| line.strip_prefix("//! | `")) {
            let cells: Vec<&str> = row.trim_end_matches("` |").split(" | ").collect();
            let [from, what, to] = cells[..] else {
                panic!("three cells: {row}")
            };
            let mut places = PlacedShards::default();
            match from {
                "Nowhere`" => {}
                "Returning`" => happens(&mut places, "stored elsewhere"),
                "Chosen`" => happens(&mut places, "chosen"),
                "Home`" => happens(&mut places, "claimed"),
                other => panic!("{other} is no place"),
            }
            happens(&mut places, what);
            assert_eq!(format!("`{}", stage(&places)), to, "{from}, {what}");
            assert_eq!(
                places.all_chosen().count(),
                usize::from(stage(&places) == "Chosen")
            );
            checked += 1;
        }
        assert_eq!(checked, 10);
    }

    #[test]
    fn a_home_is_freed_and_a_choice_dropped_and_not_the_other_way_round() {
        let mut places = PlacedShards::default();
        places.choose(S, at(1));
        assert_eq!(places.free(S), None);
        places.live_at(S, at(1));
        assert_eq!(places.drop_choice(S), None);
        assert_eq!(places.free(S), Some(node("a", 1)));
    }

    #[test]
    fn a_token_that_is_not_stored_is_told_once() {
        let mut places = PlacedShards::default();
        places.live_at(S, at(1));
        places.set_token(S, at(2).token, true);
        assert_eq!(places.all_renewed().next(), Some((S, &at(2))));
        assert!(!places.has_begun(S));
        places.tell_token(S);
        assert_eq!(places.all_renewed().next(), None);
        places.set_token(S, at(3).token, true);
        places.free(S);
        assert!(places.renewed.is_empty());
    }
}
