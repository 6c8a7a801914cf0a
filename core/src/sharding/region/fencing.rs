//! With which tokens the shards of this region were placed here: what was given with a lower one is stale,
//! what runs with a lower one begins anew. Never invents a token. Spec: sharding 10.15, 10.16.

use alloc::vec::Vec;

use super::ShardRegion;
use super::shards::ShardEntry;
use crate::effect::PlacementToken;
use crate::ident::UniqueAddress;
use crate::message::ShardingBody;
use crate::sharding::Cx;
use crate::sharding::pending_message::RegionContext;
use crate::sharding::state::fields::StoreMode;
use crate::sharding::state::ids::{ShardId, Term};
use crate::token::Token;

/// Bytes of a frame around the tokens, and of a shard with its token.
const AROUND_TOKENS_BYTES: usize = 64;
const TOKEN_BYTES: usize = 18;

impl ShardRegion {
    /// The coordinator gives a shard with this token; `false` if it was given here with a higher one, which
    /// it does not know: it hears of that. None: the coordinator has not heard which one it is. What has one
    /// here goes on with that, anything else is given again.
    pub(super) fn take_token(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        term: &Term,
        (shard, token): (ShardId, Token),
    ) -> bool {
        let entry = self.shards.known(shard);
        let running = entry.and_then(ShardEntry::hosted).map(|here| here.token.token);
        let given = entry.and_then(|entry| entry.token);
        let held = running.max(given).unwrap_or(Token::NONE);
        if token == Token::NONE {
            if held == Token::NONE {
                let term = term.clone();
                self.say(cx, from, ShardingBody::ShardStopped { term, shard });
            }
            return held > Token::NONE;
        }
        if token < held {
            cx.counters().tokens_stale += 1;
            self.send_register(cx, from);
            return false;
        }
        self.shards.entry(shard).token = Some(token);
        true
    }

    /// The token with which a shard was given to this region, or with which it runs here.
    pub(super) fn placement(&self, shard: ShardId) -> PlacementToken {
        let entry = self.shards.known(shard);
        let token = entry.and_then(|entry| {
            let running = || entry.hosted().map(|here| here.token.token);
            entry.token.or_else(running)
        });
        PlacementToken {
            token: token.unwrap_or(Token::NONE),
            is_stored: match self.kind.settings.store_mode {
                Some(StoreMode::DistributedData | StoreMode::Events) => true,
                Some(StoreMode::Memory | StoreMode::Other { .. }) | None => false,
            },
        }
    }

    /// Whether a shard runs with an earlier token than it has by now, so that it has to begin anew. One
    /// without an entity just takes it.
    pub(super) fn is_reopened(&mut self, shard: ShardId, token: PlacementToken) -> bool {
        let here = self.shards.hosted_mut(shard);
        let Some(here) = here.filter(|here| here.token != token && !here.is_stopping()) else {
            return false;
        };
        if here.runs_nothing() {
            here.token = token;
            return false;
        }
        true
    }

    /// A shard lives here, the coordinator says. If it neither runs here nor was given with a token that is
    /// known still, the coordinator hears that it does not, and gives it again.
    pub(super) fn is_home(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        from: &UniqueAddress,
        term: &Term,
        shard: ShardId,
    ) {
        let entry = self.shards.known(shard);
        let is_placed = entry.is_some_and(|entry| entry.hosted().is_some() || entry.token.is_some());
        if !self.hosts || is_placed {
            self.host(shared, from, term, shard);
            return;
        }
        let term = term.clone();
        self.say(shared.cx, from, ShardingBody::ShardStopped { term, shard });
    }

    /// The log of a shard that is placed here with this token, or of one of its entities, is promised to a
    /// higher one of this term. The coordinator hears of the term: if it lives here still, it gives it with a
    /// token above.
    pub(crate) fn say_outdone(&self, cx: &mut Cx<'_>, placement: Token, held: Token) {
        let Some(to) = self.coordinator().cloned() else {
            return;
        };
        let running = self.shards.all_hosted();
        let outdone = running.filter(|(_, here)| here.token.stored() == Some(placement));
        // No placement has this count.
        let promised = Token::new(held.term, 0);
        let tokens: Vec<(ShardId, Token)> = outdone.map(|(shard, _)| (shard, promised)).collect();
        if !tokens.is_empty() && promised != Token::NONE {
            self.say(cx, &to, ShardingBody::ShardTokens { tokens });
        }
    }

    /// Says with which tokens the shards that it hosts were given, before it says that it hosts them.
    pub(super) fn say_tokens(&self, cx: &mut Cx<'_>, to: &UniqueAddress) {
        let running = self.shards.all_hosted();
        let tokens: Vec<(ShardId, Token)> = running.map(|(shard, here)| (shard, here.token.token)).collect();
        let limit = cx.config().limits.control_frame_bytes_max;
        let room = limit.saturating_sub(AROUND_TOKENS_BYTES) / TOKEN_BYTES;
        for tokens in tokens.chunks(room.max(1)) {
            let tokens = tokens.to_vec();
            self.say(cx, to, ShardingBody::ShardTokens { tokens });
        }
    }
}
