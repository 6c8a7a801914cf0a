//! The seed process: asking contacts whether they are in a cluster and whether the settings fit, and
//! answering those who ask. Only the first seed may form a cluster, and never beside a seed that refused it.
//! Compares no settings itself: that is `agreement`. Spec: membership 2.2, M-184 to M-195.

use alloc::vec::Vec;
use core::time::Duration;

use crate::agreement::{Differences, JoinCheckers};
use crate::effect::{Answer, CommandError, HaltReason, MembershipCommandError};
use crate::event::{JoinFailure, MembershipEvent, SeedCause};
use crate::ident::{Address, UniqueAddress};
use crate::input::Token;
use crate::membership::Cx;
use crate::membership::joining::{JoinStage, SeedProcess};
use crate::membership::machine::Membership;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::member::Member;
use crate::message::{InitJoin, InitJoinAck, MembershipMsg};
use crate::ordered::OrderedMap;
use crate::reject::{MembershipRejection, Rejection};
use crate::timer::MembershipTimer;

/// All seeds are asked this often, or five times within the timeout if that is shorter: an answer may be lost
/// with a link to the node that was at this address before, and one that was in no cluster a moment ago may
/// be in one now.
const SEED_RETRY_MAX: Duration = Duration::from_millis(500);
/// A joiner that one seed refused for its settings waits so long for what the others say, and no longer than
/// its seed timeout: it halts in any case, and those who fix it should hear of all at once.
const REFUSALS_HEARD_MAX: Duration = Duration::from_secs(1);

impl Membership {
    /// Somebody wants this node to join through these contacts.
    pub(crate) fn on_join_command(&mut self, cx: &mut Cx<'_>, token: Token, contacts: Vec<Address>) {
        let refusal = match &self.joining {
            JoinStage::Done => Some(CommandError::Membership(MembershipCommandError::AlreadyJoined)),
            JoinStage::Over => Some(CommandError::Stopped),
            JoinStage::Idle | JoinStage::Seeding(_) | JoinStage::Waiting { .. } => contacts
                .is_empty()
                .then_some(CommandError::Membership(MembershipCommandError::NoSeeds)),
        };
        if let Some(error) = refusal {
            return cx.reply(token, Answer::Refused(error));
        }
        cx.reply(token, Answer::Done);
        if let Some(after) = cx.config().membership.shutdown_after_unsuccessful_join {
            let at = cx.mono() + after;
            cx.wake(MembershipTimer::JoinAbort, at);
        }
        self.ask_contacts(cx, contacts, 1);
    }

    pub(super) fn ask_contacts(&mut self, cx: &mut Cx<'_>, contacts: Vec<Address>, attempt: u32) {
        Self::cancel_process_timers(cx);
        let me = cx.me().address();
        let seeding = SeedProcess {
            first: contacts.first() == Some(me),
            contacts,
            answers: OrderedMap::new(),
            attempt,
            until: cx.mono() + cx.config().membership.seed_node_timeout,
        };
        if seeding.is_answered(me) {
            return self.form_cluster(cx);
        }
        if seeding.first && attempt == 1 {
            cx.wake(MembershipTimer::SeedSelfJoin, seeding.until);
        }
        self.ask_others(cx, seeding);
        self.publish(cx);
    }

    fn ask_others(&mut self, cx: &mut Cx<'_>, seeding: SeedProcess) {
        let ask = InitJoin {
            settings: cx.config().shared_settings().clone(),
        };
        for contact in &seeding.others(cx.me().address()) {
            let ask = MembershipMsg::InitJoin(ask.clone());
            cx.send_to_address(contact, ask);
        }
        let pause = SEED_RETRY_MAX.min(cx.config().membership.seed_node_timeout / 5);
        cx.wake(MembershipTimer::SeedRetry, cx.mono() + pause);
        self.joining = JoinStage::Seeding(seeding);
    }

    /// Nobody has taken this node in: ask again. Or a seed refused, and the others have had their time.
    pub(super) fn on_seed_retry(&mut self, cx: &mut Cx<'_>) {
        let JoinStage::Seeding(seeding) = &self.joining else {
            return;
        };
        if seeding.is_refused() {
            return self.end_refused(cx);
        }
        let mut seeding = seeding.clone();
        if !seeding.first && cx.mono() >= seeding.until {
            let reason = JoinFailure::NoSeedAnswered {
                attempt: seeding.attempt,
                seeds: seeding.failures(cx.me().address()),
            };
            seeding.answers.clear();
            seeding.until = cx.mono() + cx.config().membership.seed_node_timeout;
            seeding.attempt = seeding.attempt.saturating_add(1);
            cx.notify(MembershipEvent::JoinFailed { reason });
        }
        self.ask_others(cx, seeding);
    }

    /// The first seed has waited long enough for the others.
    pub(super) fn on_seed_timeout(&mut self, cx: &mut Cx<'_>) {
        if matches!(&self.joining, JoinStage::Seeding(seeding) if seeding.first) {
            self.form_cluster(cx);
        }
    }

    /// A joiner asks whether it could join here.
    pub(crate) fn on_init_join(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, ask: &InitJoin) {
        let own = self.gossip.member(cx.me()).map(|m| m.status);
        let answer = match own {
            Some(status) if self.is_member() && !status.is_terminal() => {
                MembershipMsg::InitJoinAck(self.compare(cx, from, ask))
            }
            Some(_) | None => MembershipMsg::InitJoinNack,
        };
        cx.send(from, answer);
    }

    /// Whether a joiner's settings fit, said to it and, if they do not, to the users here.
    fn compare(&mut self, cx: &mut Cx<'_>, joiner: &UniqueAddress, ask: &InitJoin) -> InitJoinAck {
        let differences = cx.config().differences(&ask.settings);
        let own = cx.config().shared_settings();
        let settings = match ask.settings == *own {
            true => Default::default(),
            false => own.for_reader_of(&ask.settings),
        };
        let compatible = differences.is_empty();
        if !compatible {
            cx.counters().joiners_with_other_settings += 1;
            if self.told_differing.is_due(joiner, cx.mono()) {
                let rejection = MembershipRejection::SettingsDiffer(differences);
                cx.reject(joiner, Rejection::Membership(rejection));
            }
        }
        InitJoinAck { compatible, settings }
    }

    /// A contact is in a cluster.
    pub(crate) fn on_init_join_ack(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, ack: &InitJoinAck) {
        let seeding = match &mut self.joining {
            JoinStage::Seeding(seeding) if seeding.contacts.contains(from.address()) => seeding,
            // All contacts were asked and the first answer was taken: the others' answers are late, not
            // wrong.
            JoinStage::Waiting { contacts, .. } if contacts.contains(from.address()) => return,
            JoinStage::Done | JoinStage::Over => return,
            JoinStage::Idle | JoinStage::Seeding(_) | JoinStage::Waiting { .. } => {
                return Self::unexpected(cx, from, "InitJoinAck");
            }
        };
        let (contacts, attempt) = (seeding.contacts.clone(), seeding.attempt);
        match differences_with_seed(cx, ack) {
            None if seeding.is_refused() => return self.note_answer(cx, from.address(), SeedCause::Agrees),
            None => {}
            Some(differences) => {
                let seed = from.address().clone();
                let reason = JoinFailure::IncompatibleConfig {
                    seed,
                    differences: differences.clone(),
                };
                cx.notify(MembershipEvent::JoinFailed { reason });
                if cx.config().membership.enforce_config_on_join {
                    let cause = SeedCause::SettingsDiffer(differences);
                    return self.note_answer(cx, from.address(), cause);
                }
            }
        }
        self.wait_for_welcome(cx, from, contacts, attempt);
    }

    /// A contact is in no cluster. If no other contact is left, the first seed forms one at once.
    pub(crate) fn on_init_join_nack(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress) {
        self.note_answer(cx, from.address(), SeedCause::InNoCluster);
    }

    /// A contact has said something else than that it takes this node in.
    fn note_answer(&mut self, cx: &mut Cx<'_>, seed: &Address, answer: SeedCause) {
        let JoinStage::Seeding(seeding) = &mut self.joining else {
            return;
        };
        if !seeding.contacts.contains(seed) {
            return;
        }
        let was_refused = seeding.is_refused();
        seeding.answers.insert(seed.clone(), answer);
        let is_last = seeding.is_answered(cx.me().address());
        if seeding.is_refused() && is_last {
            self.end_refused(cx);
        } else if seeding.is_refused() && !was_refused {
            // It joins no more, and forms no cluster; what it still waits for are the others' reasons.
            Self::cancel_process_timers(cx);
            let wait = REFUSALS_HEARD_MAX.min(cx.config().membership.seed_node_timeout);
            cx.wake(MembershipTimer::SeedRetry, cx.mono() + wait);
        } else if seeding.first && is_last {
            self.form_cluster(cx);
        }
    }

    /// Ends this node, whose settings a seed refused, with what every seed had against it.
    fn end_refused(&mut self, cx: &mut Cx<'_>) {
        if let JoinStage::Seeding(seeding) = &self.joining {
            let seeds = seeding.failures(cx.me().address());
            let attempt = seeding.attempt;
            if seeds.len() > 1 {
                let reason = JoinFailure::NoSeedAnswered { attempt, seeds };
                cx.notify(MembershipEvent::JoinFailed { reason });
            }
        }
        Self::cancel_join_timers(cx);
        self.halt(cx, HaltReason::IncompatibleConfig);
    }

    fn form_cluster(&mut self, cx: &mut Cx<'_>) {
        Self::cancel_join_timers(cx);
        self.joining = JoinStage::Done;
        let mut next = Gossip::new();
        let (roles, version) = (cx.config().node_roles().clone(), cx.config().app_version.clone());
        next.upsert_member(Member::joining(cx.me().clone(), roles, version));
        self.update(cx, next);
        Self::start_periodic_tasks(cx);
        self.act_as_leader(cx);
    }
}

/// Where this node and a seed do not agree; `None` if they do. Both have to be content.
fn differences_with_seed(cx: &Cx<'_>, ack: &InitJoinAck) -> Option<Differences> {
    if ack.settings.is_empty() {
        return (!ack.compatible).then(Differences::default);
    }
    let differences = cx.config().differences(&ack.settings);
    if ack.compatible || !differences.is_empty() {
        return (!differences.is_empty()).then_some(differences);
    }
    // A checker of the seed is stricter than this node's: what differs at all has to be it.
    let own = cx.config().shared_settings();
    Some(own.differences(&ack.settings, &JoinCheckers::default()))
}
