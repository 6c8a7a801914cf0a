//! Which placement of a shard came later: each one is given a token above all that this coordinator has given
//! or heard of. Where homes are stored the token is stored with them, and its term is the one that was
//! claimed with the log, so it is above every token that anybody was ever given; where they are in memory its
//! term is the coordinator's, and orders coordinators of one life of the cluster. Spec: sharding 10.15,
//! 10.16.

use alloc::vec::Vec;

use super::Coordinator;
use super::places::PlacedShards;
use super::record::PlacedHome;
use crate::event::ShardingEvent;
use crate::ident::UniqueAddress;
use crate::journal::protocol::TERM_STEP;
use crate::message::ShardingBody;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::reject::ShardingRejection;
use crate::sharding::Cx;
use crate::sharding::state::ids::{ShardId, Term};
use crate::token::{PLACEMENTS_MAX, Token};
use crate::view::View;

/// The highest count of a token that is believed: half of what a record of homes holds.
const COUNT_MAX: u64 = (u32::MAX / 2) as u64;

/// How far above what this coordinator has given a token of its own term may be: placements of an earlier
/// tenure under the same number.
const COUNT_STEP: u64 = 1 << 16;

/// Shards whose logs are promised to tokens above theirs.
#[derive(Clone, Debug, Default)]
pub(super) struct OutdoneShards {
    shards: OrderedSet<ShardId>,
    /// The term of the tokens that they get is above this one.
    pub(super) term: u64,
}

/// What is known of placements.
#[derive(Clone, Debug, Default)]
pub(super) struct PlacementTokens {
    /// What regions have said that have not registered since.
    announced: OrderedMap<UniqueAddress, OrderedMap<ShardId, Token>>,
    /// Regions that were asked for tokens that had not come with what they host.
    asked: OrderedSet<UniqueAddress>,
    /// The highest that was given or heard of.
    last: Token,
    /// The term, if it was claimed, so that only this coordinator counts in it.
    claimed: Option<u64>,
    /// The term of what this coordinator gives, once it does.
    term: Option<u64>,
    /// How many it has given, and the highest count of these.
    given: u64,
    highest: u64,
    /// Shards whose homes claim tokens that no coordinator can have given.
    void: OrderedSet<ShardId>,
}

impl PlacementTokens {
    /// Tokens are given from now on. What has been claimed until now, and nobody can have given, was told to
    /// its home by one that lied.
    pub(super) fn begin(&mut self, term: &Term, claimed: Option<u64>, places: &mut PlacedShards) {
        self.claimed = claimed;
        let term = claimed.unwrap_or_else(|| u64::from(term.up_number.get()));
        self.term = Some(term);
        self.last = Token::new(term, 0);
        for (shard, token) in places.tokens_mut() {
            if !self.is_possible(*token) {
                *token = Token::NONE;
                self.void.insert(shard);
            }
            self.last = self.last.max(*token);
        }
    }

    /// Whether a coordinator can have given this token: no earlier one had a higher term, and of this one's
    /// own term it has given less.
    fn is_possible(&self, token: Token) -> bool {
        let Some(term) = self.term else {
            return true;
        };
        let reach = self.highest.max(self.given.saturating_add(COUNT_STEP));
        token.count <= COUNT_MAX && (token.term < term || (token.term == term && token.count <= reach))
    }

    /// The term in which tokens will be given, as soon as it is known.
    pub(super) fn expect(&mut self, term: u64) {
        self.term = Some(term);
    }

    /// What a region's claim with this token is worth: as much as one without, if nobody can have given it.
    pub(super) fn believed(&self, token: Token) -> Token {
        if self.is_possible(token) {
            token
        } else {
            Token::NONE
        }
    }

    /// A home runs a shard with a token that nobody can have given.
    pub(super) fn note_void(&mut self, shard: ShardId) {
        self.void.insert(shard);
    }

    /// A placement begins: its token is above all others.
    pub(super) fn give(&mut self) -> Token {
        self.last = self.last.next();
        self.given += 1;
        self.highest = self.highest.max(self.last.count);
        self.last
    }

    /// There is such a token, whoever has it.
    pub(super) fn hear_of(&mut self, token: Token) {
        if self.is_possible(token) {
            self.last = self.last.max(token);
        }
    }

    /// Somebody was given a shard with this token.
    pub(super) fn adopt(&mut self, token: Token) {
        self.last = self.last.max(token);
    }

    /// What a region has said of its shards before it registered.
    pub(super) fn take_announced(&mut self, node: &UniqueAddress) -> OrderedMap<ShardId, Token> {
        self.announced.remove(node).unwrap_or_default()
    }

    /// Whether a region has said with which token it was given a shard.
    fn is_announced(&self, node: &UniqueAddress, shard: ShardId) -> bool {
        let announced = self.announced.get(node);
        announced.is_some_and(|tokens| tokens.contains_key(&shard))
    }

    /// Forgets what is kept of nodes that are members no more.
    pub(super) fn forget_strangers(&mut self, view: &View) {
        self.announced.retain(|node, _| view.member(node).is_some());
        self.asked.retain(|node| view.member(node).is_some());
    }

    /// Whether so many more do not fit into the claimed term: what writes with a placement's token counts its
    /// openings within it.
    pub(super) fn are_used_up(&self, more: usize) -> bool {
        self.claimed == Some(self.last.term) && self.last.count.saturating_add(more as u64) > PLACEMENTS_MAX
    }
}

impl Coordinator {
    /// A region is about to register, and says with which tokens it was given its shards.
    pub(crate) fn on_shard_tokens(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        tokens: Vec<(ShardId, Token)>,
    ) {
        if self.term().is_none() || cx.view().member(from).is_none() {
            return;
        }
        if tokens.iter().any(|(shard, _)| !self.kind.has(*shard)) {
            return cx.reject(from, ShardingRejection::NO_SHARD);
        }
        // No coordinator counts that far. What comes with it counts: a region may have been lied to about one
        // shard.
        if tokens.iter().any(|(_, token)| token.count > COUNT_MAX) {
            let what = "token";
            cx.reject(from, ShardingRejection::OutOfRange { what });
        }
        let (outdone, tokens): (Vec<_>, Vec<_>) = tokens.into_iter().partition(|(_, token)| token.count == 0);
        if !tokens.is_empty() {
            let announced = self.tokens.announced.entry(from.clone()).or_default();
            announced.extend(tokens);
        }
        self.place_above(cx, from, outdone);
    }

    /// The logs of shards that live there are promised to tokens of these terms, which no placement of them
    /// had: the shards get tokens above that, of another term if need be. One node's word raises it by a step
    /// at a time.
    fn place_above(&mut self, cx: &mut Cx<'_>, home: &UniqueAddress, outdone: Vec<(ShardId, Token)>) {
        let Some(claimed) = self.tokens.claimed.filter(|_| self.is_active() && !self.paused) else {
            return;
        };
        let lives = |(shard, _): &(ShardId, Token)| {
            self.places.home(*shard) == Some(home) && !self.hand_offs.contains_key(shard)
        };
        let outdone: Vec<(ShardId, Token)> = outdone.into_iter().filter(lives).collect();
        let Some(highest) = outdone.iter().map(|(_, promised)| promised.term).max() else {
            return;
        };
        self.outdone
            .shards
            .extend(outdone.into_iter().map(|(shard, _)| shard));
        if highest < claimed {
            self.renew_outdone();
            return self.store(cx);
        }
        self.outdone.term = highest.min(claimed.saturating_add(TERM_STEP));
        self.take_a_term(cx);
    }

    /// Gives shards that could not open their logs tokens above what those are promised to.
    pub(super) fn renew_outdone(&mut self) {
        for shard in core::mem::take(&mut self.outdone).shards {
            if self.places.has_home(shard) {
                let token = self.tokens.give();
                self.places.set_token(shard, token, true);
                self.ledger.note(shard);
            }
        }
    }

    /// Whether a region has to say all of it again: it hosts a shard, and with which token has not come,
    /// because a link broke before it or this coordinator had not begun. Without it the shard would be given
    /// another token, and begin anew for that. A region is asked once in a term; one that has no tokens says
    /// the same again, and that counts.
    pub(super) fn asks_for_tokens(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        hosted: &[ShardId],
    ) -> bool {
        let lacks = |shard: &ShardId| {
            self.places.home(*shard) != Some(from) && !self.tokens.is_announced(from, *shard)
        };
        if !self.ledger.is_durable() || !hosted.iter().any(lacks) || cx.view().member(from).is_none() {
            return false;
        }
        let Some(term) = self.term().cloned() else {
            return false;
        };
        let asks = self.tokens.asked.insert(from.clone());
        if asks {
            self.say(cx, from, ShardingBody::RegionQuery { term });
        }
        asks
    }

    /// The home of a shard says again that it hosts it.
    pub(super) fn claim_again(
        &mut self,
        cx: &mut Cx<'_>,
        node: &UniqueAddress,
        shard: ShardId,
        token: Token,
    ) {
        let known = self.places.token(shard);
        if token > known {
            self.tokens.adopt(token);
            self.places.set_token(shard, token, false);
            self.ledger.note(shard);
            self.renew_unless_stored(cx, shard);
        } else if token < known && token > Token::NONE && !self.hand_offs.contains_key(&shard) {
            // What it was told since has not come.
            self.host(cx, shard, node);
        }
    }

    /// A shard that runs on two nodes goes on there, where it was placed later.
    pub(super) fn move_home(&mut self, cx: &mut Cx<'_>, shard: ShardId, node: &UniqueAddress, token: Token) {
        self.clear_home(cx, shard);
        let node = node.clone();
        self.set_home(shard, PlacedHome { node, token });
        self.renew_unless_stored(cx, shard);
    }

    /// A live region's claim goes before the store; where that holds another token somebody else may have
    /// written with it, so the region gets one above it, and begins anew with that.
    pub(super) fn renew_unless_stored(&mut self, cx: &mut Cx<'_>, shard: ShardId) {
        let at = self
            .places
            .placement(shard)
            .filter(|_| self.places.has_home(shard));
        if !self.is_active() || at.is_none_or(|at| self.ledger.holds(shard, at)) {
            return;
        }
        cx.counters().claims_renewed += 1;
        let token = self.tokens.give();
        self.places.set_token(shard, token, true);
        self.ledger.note(shard);
    }

    /// A home runs a shard no more of which it has not said with which token it ran it: it begins again with
    /// a new one.
    pub(super) fn give_unless_known(&mut self, cx: &mut Cx<'_>, shard: ShardId) {
        if self.places.token(shard) == Token::NONE {
            let (token, is_renewed) = (self.tokens.give(), self.places.is_renewed(shard));
            self.places.set_token(shard, token, is_renewed);
            self.renew_unless_stored(cx, shard);
            self.store(cx);
        }
    }

    /// Tells homes the tokens that are stored by now.
    pub(super) fn tell_renewed(&mut self, cx: &mut Cx<'_>) {
        if !self.is_active() || self.paused {
            return;
        }
        let renewed = self.places.all_renewed();
        let stored: Vec<(ShardId, UniqueAddress)> = renewed
            .filter(|(shard, at)| !self.hand_offs.contains_key(shard) && self.ledger.holds(*shard, at))
            .map(|(shard, at)| (shard, at.node.clone()))
            .collect();
        for (shard, home) in stored {
            self.places.tell_token(shard);
            let event = ShardingEvent::ShardAllocated {
                shard,
                home: home.clone(),
            };
            self.notify(cx, event);
            self.host(cx, shard, &home);
        }
    }

    /// Stops shards that run with tokens which no coordinator can have given: their regions take no lower one
    /// before that, and go on with what they are given then.
    pub(super) fn stop_void(&mut self, cx: &mut Cx<'_>) {
        if !self.is_active() || self.paused {
            return;
        }
        for shard in core::mem::take(&mut self.tokens.void) {
            cx.counters().claims_void += 1;
            if !self.hand_offs.contains_key(&shard) {
                self.begin_hand_off(cx, shard);
            }
        }
    }

    /// The tokens of this term are used up: another one is claimed.
    pub(super) fn take_a_term(&mut self, cx: &mut Cx<'_>) {
        self.halt(cx);
        self.consider_takeover(cx);
    }
}
