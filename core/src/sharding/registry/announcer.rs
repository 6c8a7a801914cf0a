//! Every node's part: tells the oldest member what this node has registered, and holds each back
//! until it is accepted. Decides nothing itself. Spec: sharding 10.11.

use alloc::vec::Vec;
use core::time::Duration;

use crate::ident::UniqueAddress;
use crate::input::Token;
use crate::oldest::state::{may_act, may_speak};
use crate::ordered::OrderedMap;
use crate::reject::ShardingRejection;
use crate::sharding::Cx;
use crate::sharding::protocol::registry::{
    Announcement, Judgement, RegistrationFields, RegistrationId, RegistrationVerdict, RegistryMsg,
    RegistryTimer,
};
use crate::sharding::registry::registrar::decider;
use crate::sharding::registry::{send, timer};
use crate::sharding::state::fields::FieldDifferences;
use crate::sharding::state::ids::{KindId, Term};
use crate::view::View;

/// Shortest first repetition: below this an oldest member that is about to decide gains nothing.
const FIRST_RETRY_MIN: Duration = Duration::from_millis(100);

/// What has been decided about one of this node's registrations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sharding) enum AnnouncedStanding {
    /// Nothing yet.
    Pending,
    /// It may be hosted and reached.
    Accepted {
        /// Under this number.
        number: u64,
    },
    /// Not with these fields. It is announced again, because the others may go.
    Refused,
}

#[derive(Clone, Debug)]
struct LocalKind {
    fields: RegistrationFields,
    standing: AnnouncedStanding,
    /// The caller who waits for the decision.
    waits: Option<Token>,
}

/// A judgement that is new, and the caller to whom it is the answer.
pub(in crate::sharding) struct NewJudgement {
    pub(in crate::sharding) id: RegistrationId,
    pub(in crate::sharding) judgement: Judgement,
    pub(in crate::sharding) waits: Option<Token>,
}

/// This node's registrations, as far as the rest of the cluster is concerned.
#[derive(Clone, Debug, Default)]
pub(super) struct Announcer {
    registered: OrderedMap<RegistrationId, LocalKind>,
    round: u32,
    /// Who decided last; an older one is not believed any more.
    heard: Option<Term>,
    retry_delay: Duration,
}

impl Announcer {
    /// A registration is to be announced; `waits` hears what is decided. One that was refused before
    /// is replaced.
    pub(super) fn add(&mut self, fields: RegistrationFields, waits: Option<Token>) {
        let own = LocalKind {
            fields,
            standing: AnnouncedStanding::Pending,
            waits,
        };
        self.registered.insert(own.fields.id(), own);
        self.round = self.round.wrapping_add(1);
        self.retry_delay = Duration::ZERO;
    }

    /// Has a caller wait for what is decided about one; `false` if another one does already.
    pub(super) fn wait_for(&mut self, id: &RegistrationId, token: Token) -> bool {
        match self.registered.get_mut(id) {
            Some(own) if own.waits.is_none() => {
                own.waits = Some(token);
                true
            }
            Some(_) | None => false,
        }
    }

    /// One is gone.
    pub(super) fn remove(&mut self, id: &RegistrationId) {
        self.registered.remove(id);
        self.round = self.round.wrapping_add(1);
    }

    /// What has been decided about one; `None` if this node does not have it.
    pub(super) fn standing(&self, id: &RegistrationId) -> Option<&AnnouncedStanding> {
        self.registered.get(id).map(|own| &own.standing)
    }

    /// Callers who still wait, who will not hear anything else.
    pub(super) fn take_waiting(&mut self) -> Vec<Token> {
        self.registered
            .values_mut()
            .filter_map(|own| own.waits.take())
            .collect()
    }

    /// Bytes of an announcement of all but one.
    pub(super) fn bytes_max_beside(&self, id: &RegistrationId) -> usize {
        let others = self.registered.iter().filter(|(other, _)| *other != id);
        others.map(|(_, own)| own.fields.bytes_max()).sum()
    }

    /// How many kinds there are.
    pub(super) fn kinds(&self) -> usize {
        let is_kind = |id: &&RegistrationId| matches!(id, RegistrationId::Kind(_));
        self.registered.keys().filter(is_kind).count()
    }

    /// Tells the oldest member everything; looks later whether it has decided.
    pub(super) fn announce(&mut self, cx: &mut Cx<'_>, running: impl Fn(KindId) -> bool) {
        if self.registered.is_empty() || !may_act(cx.view().self_status()) {
            return;
        }
        if let Some(decider) = decider(cx.view()) {
            self.send(cx, &decider.node, running);
        }
        self.wait(cx);
    }

    /// Repeats what has not been accepted.
    pub(super) fn on_timer(&mut self, cx: &mut Cx<'_>, running: impl Fn(KindId) -> bool) {
        if self.has_unaccepted() {
            self.announce(cx, running);
        }
    }

    /// The picture changed: another member may be the oldest, or this node may have become one that hosts.
    pub(super) fn on_view_changed(
        &mut self,
        cx: &mut Cx<'_>,
        before: &View,
        after: &View,
        running: impl Fn(KindId) -> bool,
    ) {
        if core::ptr::eq(before.members(), after.members()) && before.phase() == after.phase() {
            return;
        }
        let entered = may_act(after.self_status()) && !may_act(before.self_status());
        if entered || decider(before) != decider(after) {
            self.retry_delay = Duration::ZERO;
            self.announce(cx, running);
        }
    }

    /// The oldest member asks.
    pub(super) fn on_query(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        term: &Term,
        running: impl Fn(KindId) -> bool,
    ) {
        if self.believes(cx, from, term) {
            self.send(cx, from, running);
        }
    }

    /// The oldest member has decided. Verdicts about an earlier list say nothing about this one.
    pub(super) fn on_verdicts(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        term: &Term,
        round: u32,
        verdicts: Vec<(RegistrationId, RegistrationVerdict)>,
    ) -> Vec<NewJudgement> {
        if !self.believes(cx, from, term) || round != self.round {
            return Vec::new();
        }
        let mut decided = Vec::new();
        for (id, verdict) in verdicts {
            let Some(own) = self.registered.get_mut(&id) else {
                continue;
            };
            if let Some(judgement) = own.hear(verdict) {
                let waits = own.waits.take();
                decided.push(NewJudgement { id, judgement, waits });
            }
        }
        let announce = timer(RegistryTimer::Announce);
        if !self.has_unaccepted() {
            cx.cancel(announce);
        } else if !cx.is_set(announce) {
            self.wait(cx);
        }
        decided
    }

    /// Whether the sender may decide: it speaks for itself, under the number that it has in this picture, it
    /// is the oldest member or will be soon, and no younger one has been heard.
    fn believes(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, term: &Term) -> bool {
        let seen = self
            .heard
            .as_ref()
            .filter(|seen| !cx.view().is_removed(&seen.node));
        if seen.is_some_and(|seen| term < seen && term.node == *from) {
            cx.reject(from, ShardingRejection::StaleTerm);
            return false;
        }
        let is_known = seen == Some(term);
        if term.node != *from || !(is_known || may_speak(cx.view(), None, from, term.up_number)) {
            cx.reject(from, ShardingRejection::WrongSender);
            return false;
        }
        self.heard = Some(term.clone());
        true
    }

    fn has_unaccepted(&self) -> bool {
        let open = |own: &LocalKind| match own.standing {
            AnnouncedStanding::Pending | AnnouncedStanding::Refused => true,
            AnnouncedStanding::Accepted { .. } => false,
        };
        self.registered.values().any(open)
    }

    fn send(&self, cx: &mut Cx<'_>, to: &UniqueAddress, running: impl Fn(KindId) -> bool) {
        let all = self.registered.iter().map(|(id, own)| {
            let accepted = match own.standing {
                AnnouncedStanding::Accepted { number } => Some(number),
                AnnouncedStanding::Pending | AnnouncedStanding::Refused => None,
            };
            Announcement {
                fields: own.fields.clone(),
                accepted,
                running: match id {
                    RegistrationId::Kind(kind) => running(*kind),
                    // Where its instance is may have changed by the time this is read.
                    RegistrationId::Singleton(_) | RegistrationId::Bucket(_) => {
                        accepted.is_some() && own.fields.hosts()
                    }
                },
            }
        });
        let announce = RegistryMsg::Announce {
            round: self.round,
            all: all.collect(),
        };
        send(cx, to, announce);
    }

    fn wait(&mut self, cx: &mut Cx<'_>) {
        if !self.has_unaccepted() {
            return;
        }
        let longest = cx.config().sharding.retry_interval.max(FIRST_RETRY_MIN);
        let delay = self.retry_delay.max(FIRST_RETRY_MIN).min(longest);
        self.retry_delay = delay.saturating_mul(2);
        let at = cx.mono() + delay;
        cx.wake(timer(RegistryTimer::Announce), at);
    }
}

impl LocalKind {
    /// Takes a verdict; says what it changes, `None` if nothing.
    fn hear(&mut self, verdict: RegistrationVerdict) -> Option<Judgement> {
        let (standing, judgement) = match verdict {
            RegistrationVerdict::Accepted { number } => {
                (AnnouncedStanding::Accepted { number }, Judgement::Accepted)
            }
            RegistrationVerdict::TooMany => (AnnouncedStanding::Refused, Judgement::TooMany),
            RegistrationVerdict::Refused { standing } => {
                let differs = FieldDifferences::of(self.fields.differences(&standing))?;
                (AnnouncedStanding::Refused, Judgement::Refused(differs))
            }
        };
        let same = core::mem::discriminant(&standing) == core::mem::discriminant(&self.standing);
        self.standing = standing;
        (!same || self.waits.is_some()).then_some(judgement)
    }
}
