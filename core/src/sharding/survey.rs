//! Asks every node that may host a kind what it hosts, for people and programs that watch: who does not answer in time is named. Never
//! has anything done about what it hears. Spec: sharding 1.3 (queries).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use crate::effect::{Answer, CommandError, ShardingAnswer, ShardingCommandError};
use crate::ident::UniqueAddress;
use crate::input::Token;
use crate::membership::state::member::Status;
use crate::message::ShardingMsg;
use crate::sharding::protocol::survey::{RegionCounts, Survey, SurveyMsg};
use crate::sharding::state::ids::KindId;
use crate::sharding::{Cx, Sharding};
use crate::time::Instant;
use crate::timer::ShardingTimer;

/// Surveys of this node that may be open at once: people who look, and a page that they look at.
const OPEN_MAX: usize = 16;

/// Shortest and longest time of a survey; anything else is clamped.
const TIMEOUT_MIN: Duration = Duration::from_millis(1);
const TIMEOUT_MAX: Duration = Duration::from_secs(60);

/// Bytes of a message around its list of shards, and of a shard in it.
const AROUND_BYTES: usize = 64;
const SHARD_BYTES: usize = 6;

#[derive(Clone, Debug)]
struct Open {
    token: Token,
    kind: KindId,
    deadline: Instant,
    waits_for: BTreeSet<UniqueAddress>,
    found: Survey,
}

/// The surveys that are open here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surveys {
    open: BTreeMap<u64, Open>,
    last: u64,
}

impl Surveys {
    fn arm(&self, cx: &mut Cx<'_>) {
        match self.open.values().map(|open| open.deadline).min() {
            Some(at) => cx.wake(ShardingTimer::Survey, at),
            None => {
                cx.cancel(ShardingTimer::Survey);
            }
        }
    }

    /// Answers those that are complete.
    fn finish(&mut self, cx: &mut Cx<'_>) {
        let complete = self.open.iter().filter(|(_, open)| open.waits_for.is_empty());
        for id in complete.map(|(id, _)| *id).collect::<Vec<_>>() {
            if let Some(open) = self.open.remove(&id) {
                cx.reply(open.token, Answer::Sharding(ShardingAnswer::Surveyed(open.found)));
            }
        }
        self.arm(cx);
    }

    /// Those who are no members any more need not answer.
    pub(crate) fn on_lost(&mut self, cx: &mut Cx<'_>, lost: &[UniqueAddress]) {
        if self.open.is_empty() {
            return;
        }
        for open in self.open.values_mut() {
            open.waits_for.retain(|node| !lost.contains(node));
        }
        self.finish(cx);
    }

    /// The time of some is over.
    pub(crate) fn on_deadline(&mut self, cx: &mut Cx<'_>) {
        let now = cx.mono();
        for open in self.open.values_mut().filter(|open| open.deadline <= now) {
            let silent = core::mem::take(&mut open.waits_for);
            open.found.silent.extend(silent);
        }
        self.finish(cx);
    }

    /// This node has ended.
    pub(crate) fn halt(&mut self, cx: &mut Cx<'_>) {
        for (_, open) in core::mem::take(&mut self.open) {
            cx.reply(open.token, Answer::Refused(CommandError::Stopped));
        }
        cx.cancel(ShardingTimer::Survey);
    }
}

impl Sharding {
    /// A user wants to know what hosts a kind. Answered when all have, or when the time is over.
    pub(super) fn survey(&mut self, cx: &mut Cx<'_>, token: Token, kind: KindId, timeout: Duration) {
        let refused = |error| Answer::Refused(CommandError::Sharding(error));
        if self.halted {
            return cx.reply(token, Answer::Refused(CommandError::Stopped));
        }
        let Some(machines) = self.kinds.get(&kind) else {
            return cx.reply(token, refused(ShardingCommandError::NotRegistered));
        };
        if self.surveys.open.len() >= OPEN_MAX {
            return cx.reply(token, refused(ShardingCommandError::TooManySurveys));
        }
        let role = machines.region.kind().settings.role.clone();
        let me = cx.me().clone();
        let hosts = cx.view().members().iter().filter(|member| {
            let may = role.as_ref().is_none_or(|role| member.roles.contains(role));
            may && !matches!(member.status, Status::Joining | Status::Down | Status::Removed)
        });
        let waits_for: BTreeSet<UniqueAddress> = hosts
            .map(|member| member.node.clone())
            .filter(|node| *node != me)
            .collect();
        self.surveys.last += 1;
        let id = self.surveys.last;
        for node in &waits_for {
            cx.send(node, ShardingMsg::Survey(SurveyMsg::Query { id, kind }));
        }
        let mut found = Survey::default();
        found.regions.insert(me, self.counts(kind, usize::MAX));
        let open = Open {
            token,
            kind,
            deadline: cx.mono() + timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX),
            waits_for,
            found,
        };
        self.surveys.open.insert(id, open);
        self.surveys.finish(cx);
    }

    /// Another node asks, or answers.
    pub(super) fn on_survey(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, message: SurveyMsg) {
        match message {
            SurveyMsg::Query { id, kind } => {
                let room = cx
                    .config()
                    .limits
                    .control_frame_bytes_max
                    .saturating_sub(AROUND_BYTES);
                let region = self.counts(kind, room / SHARD_BYTES);
                cx.send(from, ShardingMsg::Survey(SurveyMsg::Counts { id, region }));
            }
            SurveyMsg::Counts { id, region } => {
                let Some(open) = self.surveys.open.get_mut(&id) else {
                    // Its time was over before.
                    return;
                };
                if !open.waits_for.remove(from) {
                    return;
                }
                let shards = self
                    .kinds
                    .get(&open.kind)
                    .map(|machines| machines.region.kind().settings.shards);
                let region = region.filter(|region| {
                    let last = region.shards.last().map_or(0, |(shard, _)| shard.0);
                    shards.is_some_and(|shards| last < shards && region.shards_total <= shards)
                });
                open.found.regions.insert(from.clone(), region);
                self.surveys.finish(cx);
            }
        }
    }

    fn counts(&self, kind: KindId, most: usize) -> Option<RegionCounts> {
        let machines = self.kinds.get(&kind).filter(|_| self.is_accepted(kind))?;
        Some(machines.region.counts(most))
    }
}
