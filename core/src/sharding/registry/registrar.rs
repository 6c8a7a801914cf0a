//! The oldest member's part: hears every node's registrations and says which of them stand. Decides
//! nothing before all members have spoken and those removed unheard have certainly stopped; until then who
//! was accepted before goes on. Never tells a node to stop what agrees with what stands. Spec: sharding
//! 10.11.

use alloc::vec::Vec;

use crate::event::ShardingEvent;
use crate::ident::UniqueAddress;
use crate::membership::state::member::{Member, Status, UpNumber};
use crate::oldest::state::departures::Departure;
use crate::oldest::state::oldest;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::reject::ShardingRejection;
use crate::sharding::Cx;
use crate::sharding::protocol::registry::{
    Announcement, REGISTRATIONS_PER_NODE_MAX, RegistrationId, RegistrationVerdict, RegistryMsg, RegistryTimer,
};
use crate::sharding::registry::claims::{JudgedClaim, RegistrationClaims};
use crate::sharding::registry::{send, timer};
use crate::sharding::state::fields::FieldDifferences;
use crate::sharding::state::ids::Term;
use crate::time::Instant;
use crate::view::View;

/// Refusals that are remembered so that each is said once; past it they are said again.
const TOLD_MAX: usize = 1_024;

/// Where the registrar is in its life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum RegistrarTenure {
    /// Another member is the oldest, or nobody has announced anything yet.
    #[default]
    Idle,
    /// Asks every member which kinds it has.
    Recovering(Term),
    /// Knows them all; decides.
    Deciding(Term),
}

/// What the oldest member knows about everybody's registrations.
#[derive(Clone, Debug, Default)]
pub(super) struct Registrar {
    tenure: RegistrarTenure,
    /// This process stood still: another member may decide by now.
    paused: bool,
    claims: RegistrationClaims,
    /// Members that have spoken, with the round of their last list, and some removed less than a margin ago.
    heard: OrderedMap<UniqueAddress, u32>,
    /// Refusals that have been said as events.
    told: OrderedSet<(UniqueAddress, RegistrationId)>,
}

impl Registrar {
    /// A node says what it has registered.
    pub(super) fn on_announce(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        round: u32,
        all: Vec<Announcement>,
    ) {
        let Some(term) = my_term(cx).filter(|_| !self.paused) else {
            return;
        };
        // A stranger's announcement is early: this picture lags, and it will be repeated.
        let Some(age) = cx.view().member(from).map(|member| member.up_number) else {
            return;
        };
        let ids: OrderedSet<RegistrationId> = all.iter().map(|said| said.fields.id()).collect();
        let legal = |said: &Announcement| said.fields.is_legal();
        if ids.len() != all.len() || all.len() > REGISTRATIONS_PER_NODE_MAX || !all.iter().all(legal) {
            let what = "announced kinds";
            return cx.reject(from, ShardingRejection::OutOfRange { what });
        }
        if self.tenure == RegistrarTenure::Idle {
            self.tenure = RegistrarTenure::Recovering(term);
            self.heard.insert(from.clone(), round);
            self.query_missing(cx);
        }
        self.heard.insert(from.clone(), round);
        for gone in self.claims.claimed_by(from) {
            if !ids.contains(&gone) {
                self.claims.withdraw(from, &gone);
            }
        }
        self.take_in(cx, from, age, all);
        match self.tenure {
            RegistrarTenure::Idle => {}
            RegistrarTenure::Recovering(_) => self.try_decide(cx),
            RegistrarTenure::Deciding(_) => {
                let mut judged = Vec::new();
                for id in &ids {
                    judged.extend(self.claims.judge(id));
                }
                self.tell(cx, judged, Some(from));
            }
        }
    }

    /// This process stood still, or is known to be a member after that.
    pub(super) const fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// The picture changed: this node may not be the oldest any more, or somebody who was silent has been
    /// removed.
    pub(super) fn on_view_changed(&mut self, cx: &mut Cx<'_>) {
        let known = match &self.tenure {
            RegistrarTenure::Idle => return,
            RegistrarTenure::Recovering(term) | RegistrarTenure::Deciding(term) => term,
        };
        if my_term(cx).as_ref() == Some(known) {
            self.look_again(cx);
        } else {
            self.halt(cx);
        }
    }

    /// Asks again, and sees whether removed members have certainly stopped.
    pub(super) fn on_timer(&mut self, cx: &mut Cx<'_>) {
        if matches!(self.tenure, RegistrarTenure::Recovering(_)) {
            self.query_missing(cx);
        }
        self.look_again(cx);
    }

    /// Forgets everything: another member decides, or none.
    pub(super) fn halt(&mut self, cx: &mut Cx<'_>) {
        cx.cancel(timer(RegistryTimer::Recovery));
        let paused = self.paused;
        *self = Self::default();
        self.paused = paused;
    }

    /// Members that have not said which kinds they have. One that is Down may run some until it has been
    /// removed; one that joins may have been accepted by the last oldest member, whose picture was ahead of
    /// this one. Another data center has coordinators and an oldest member of its own.
    fn missing(&self, view: &View) -> Vec<UniqueAddress> {
        let here = view.self_member().map(Member::data_center);
        let members = view.members().iter();
        let silent = members
            .filter(|member| here == Some(member.data_center()) && !self.heard.contains_key(&member.node));
        silent.map(|member| member.node.clone()).collect()
    }

    fn take_in(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, age: UpNumber, all: Vec<Announcement>) {
        let mut refused = Vec::new();
        for said in all {
            let id = said.fields.id();
            if !self.claims.put(from, age, said) {
                let (node, verdict) = (from.clone(), RegistrationVerdict::TooMany);
                refused.push(JudgedClaim {
                    node,
                    id,
                    verdict,
                    differs: None,
                });
            }
        }
        self.tell(cx, refused, None);
    }

    fn query_missing(&mut self, cx: &mut Cx<'_>) {
        let RegistrarTenure::Recovering(term) = self.tenure.clone() else {
            return;
        };
        let view = alloc::sync::Arc::clone(cx.view());
        for node in self.missing(&view).iter().filter(|node| !view.is_lost(node)) {
            let term = term.clone();
            send(cx, node, RegistryMsg::Query { term });
        }
        let at = cx.mono() + cx.config().sharding.retry_interval;
        cx.wake(timer(RegistryTimer::Recovery), at);
    }

    /// Forgets removed members that have certainly stopped, and decides if that was all it waited for.
    fn look_again(&mut self, cx: &mut Cx<'_>) {
        let gone = |node: &&UniqueAddress| cx.view().member(node).is_none();
        let gone: Vec<UniqueAddress> = self.heard.keys().filter(gone).cloned().collect();
        let mut next = None;
        for node in gone {
            let safe_at = cx.succession().departures().safe_at_of(&node);
            if safe_at > cx.mono() {
                next = Some(next.map_or(safe_at, |next: Instant| next.min(safe_at)));
            } else {
                self.heard.remove(&node);
                self.claims.forget(&node);
            }
        }
        if let Some(at) = next {
            let recovery = timer(RegistryTimer::Recovery);
            if cx.due(recovery.clone()).is_none_or(|set| set > at) {
                cx.wake(recovery, at);
            }
        }
        self.try_decide(cx);
    }

    /// Begins to decide once nobody can host a kind that is not known here.
    fn try_decide(&mut self, cx: &mut Cx<'_>) {
        let RegistrarTenure::Recovering(term) = self.tenure.clone() else {
            return;
        };
        if self.paused || !self.missing(cx.view()).is_empty() {
            return;
        }
        let silent = |departure: &Departure| !self.heard.contains_key(&departure.node);
        let safe_at = cx.succession().departures().safe_at(None, silent);
        if safe_at > cx.mono() {
            return cx.wake(timer(RegistryTimer::Recovery), safe_at);
        }
        self.tenure = RegistrarTenure::Deciding(term);
        let mut judged = Vec::new();
        for id in self.claims.all() {
            judged.extend(self.claims.judge(&id));
        }
        self.tell(cx, judged, None);
    }

    /// Tells each node the verdicts on its kinds. `asked` hears all of them; the others, who have heard
    /// before that they were accepted, hear only of refusals while this registrar decides.
    fn tell(&mut self, cx: &mut Cx<'_>, judged: Vec<JudgedClaim>, asked: Option<&UniqueAddress>) {
        let term = match &self.tenure {
            RegistrarTenure::Idle => return,
            RegistrarTenure::Recovering(term) | RegistrarTenure::Deciding(term) => term.clone(),
        };
        let mut by_node: OrderedMap<UniqueAddress, Vec<(RegistrationId, RegistrationVerdict)>> =
            OrderedMap::new();
        for JudgedClaim {
            node,
            id,
            verdict,
            differs,
        } in judged
        {
            let known = match &verdict {
                RegistrationVerdict::Accepted { .. } => {
                    self.told.remove(&(node.clone(), id.clone()));
                    asked.is_some_and(|asked| *asked != node)
                }
                RegistrationVerdict::Refused { .. } | RegistrationVerdict::TooMany => false,
            };
            if known || cx.view().member(&node).is_none() {
                continue;
            }
            if let Some(difference) = differs {
                self.say_refused(cx, &node, id.clone(), difference);
            }
            by_node.entry(node).or_default().push((id, verdict));
        }
        for (node, verdicts) in by_node {
            let Some(round) = self.heard.get(&node).copied() else {
                continue;
            };
            for verdicts in split(verdicts, cx.config().limits.control_frame_bytes_max / 2) {
                let term = term.clone();
                send(
                    cx,
                    &node,
                    RegistryMsg::Verdicts {
                        term,
                        round,
                        verdicts,
                    },
                );
            }
        }
    }

    /// Says once per node and registration that it was refused; the node repeats its announcement.
    fn say_refused(
        &mut self,
        cx: &mut Cx<'_>,
        node: &UniqueAddress,
        id: RegistrationId,
        difference: FieldDifferences,
    ) {
        if self.told.len() >= TOLD_MAX {
            self.told.clear();
        }
        if !self.told.insert((node.clone(), id.clone())) {
            return;
        }
        let node = node.clone();
        match id {
            RegistrationId::Kind(kind) => {
                cx.notify_sharding(kind, ShardingEvent::KindRefusedOn { node, difference });
            }
            RegistrationId::Singleton(_) | RegistrationId::Bucket(_) => {
                cx.say_refused_on(id, node, difference);
            }
        }
    }
}

/// Lists of about `bytes_max` bytes at most, at least one verdict each.
fn split(
    verdicts: Vec<(RegistrationId, RegistrationVerdict)>,
    bytes_max: usize,
) -> Vec<Vec<(RegistrationId, RegistrationVerdict)>> {
    let mut lists = Vec::new();
    let mut list = Vec::new();
    let mut bytes = 0_usize;
    for (id, verdict) in verdicts {
        let size = 24
            + match &verdict {
                RegistrationVerdict::Accepted { .. } | RegistrationVerdict::TooMany => 0,
                RegistrationVerdict::Refused { standing } => standing.bytes_max(),
            };
        if bytes.saturating_add(size) > bytes_max && !list.is_empty() {
            lists.push(core::mem::take(&mut list));
            bytes = 0;
        }
        bytes = bytes.saturating_add(size);
        list.push((id, verdict));
    }
    lists.push(list);
    lists
}

/// The term this node decides under: it is the oldest of all members, whatever its roles, and not Down.
fn my_term(cx: &Cx<'_>) -> Option<Term> {
    let up_number = cx.succession().up_number(None)?;
    let node = cx.me().clone();
    Some(Term { up_number, node })
}

/// Who decides about kinds in this picture; `None` while that is a member that is Down, or there is none.
pub(super) fn decider(view: &View) -> Option<Term> {
    let oldest = oldest(view, None).filter(|member| member.status != Status::Down)?;
    Some(Term {
        up_number: oldest.up_number,
        node: oldest.node.clone(),
    })
}
