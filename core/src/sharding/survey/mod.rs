//! Asks every node that may host a kind what it hosts, and the coordinator where a shard is and why, for
//! people and programs that watch: who does not answer in time is named. Never has anything done about what
//! it hears. Spec: sharding 1.3 (queries).

mod listing;

use alloc::vec::Vec;
use core::time::Duration;

use crate::effect::{Answer, CommandError, ShardingAnswer, ShardingCommandError};
use crate::ident::UniqueAddress;
use crate::input::Token;
use crate::membership::state::member::Status;
use crate::message::ShardingMsg;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::sharding::protocol::survey::{Explained, RegionCounts, Survey, SurveyMsg};
use crate::sharding::state::ids::{KindId, ShardId};
use crate::sharding::survey::listing::OpenListing;
use crate::sharding::{Cx, KindMachines, Sharding};
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
struct OpenSurvey {
    token: Token,
    kind: KindId,
    deadline: Instant,
    waits_for: OrderedSet<UniqueAddress>,
    found: SurveyFindings,
}

/// What has been said so far.
#[derive(Clone, Debug)]
enum SurveyFindings {
    Hosts(Survey),
    Place(Explained),
    Entities(OpenListing),
}

impl SurveyFindings {
    fn into_answer(self) -> Answer {
        Answer::Sharding(match self {
            Self::Hosts(survey) => ShardingAnswer::Surveyed(survey),
            Self::Place(explained) => ShardingAnswer::Explained(explained),
            Self::Entities(listing) => ShardingAnswer::Entities(listing.into_page()),
        })
    }
}

impl OpenSurvey {
    /// A part of an answer, or all of it.
    fn hear(&mut self, from: &UniqueAddress, region: Option<RegionCounts>) {
        let SurveyFindings::Hosts(found) = &mut self.found else {
            return;
        };
        let said = found.regions.entry(from.clone()).or_default();
        match (said, region) {
            (Some(known), Some(part)) => {
                let last = known.shards.last().map(|(shard, _)| *shard);
                let new = part.shards.into_iter().filter(|(shard, _)| Some(*shard) > last);
                known.shards.extend(new);
                (known.shards_total, known.entities_total) = (part.shards_total, part.entities_total);
            }
            (said, region) => *said = region,
        }
    }

    /// Nobody waits for a node any more; a part of its answer says too little.
    fn give_up_on(&mut self, node: &UniqueAddress) {
        let waited = self.waits_for.remove(node);
        match &mut self.found {
            SurveyFindings::Hosts(found) if waited => {
                found.regions.remove(node);
            }
            SurveyFindings::Hosts(_) | SurveyFindings::Place(_) | SurveyFindings::Entities(_) => {}
        }
    }
}

/// The surveys that are open here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surveys {
    open: OrderedMap<u64, OpenSurvey>,
    last: u64,
}

impl Surveys {
    const fn next_id(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

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
                cx.reply(open.token, open.found.into_answer());
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
            for node in lost {
                open.give_up_on(node);
            }
        }
        self.finish(cx);
    }

    /// The time of some is over.
    pub(crate) fn on_deadline(&mut self, cx: &mut Cx<'_>) {
        let now = cx.mono();
        for open in self.open.values_mut().filter(|open| open.deadline <= now) {
            let silent = open.waits_for.clone();
            for node in &silent {
                open.give_up_on(node);
            }
            match &mut open.found {
                SurveyFindings::Hosts(survey) => survey.silent.extend(silent),
                SurveyFindings::Entities(listing) => listing.silent.extend(silent),
                // That it has said nothing says that it was silent.
                SurveyFindings::Place(_) => {}
            }
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
        if let Err(error) = self.may_survey(kind) {
            return cx.reply(token, Answer::Refused(error));
        }
        let me = cx.me().clone();
        let waits_for = self.may_host(cx, kind);
        let id = self.surveys.next_id();
        for node in &waits_for {
            cx.send(node, ShardingMsg::Survey(SurveyMsg::Query { id, kind }));
        }
        let mut found = Survey::default();
        found.regions.insert(me, self.counts(kind));
        let open = OpenSurvey {
            token,
            kind,
            deadline: cx.mono() + timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX),
            waits_for,
            found: SurveyFindings::Hosts(found),
        };
        self.surveys.open.insert(id, open);
        self.surveys.finish(cx);
    }

    /// A user wants to know where a shard is and why. Answered when the coordinator has said so, or when the
    /// time is over.
    pub(super) fn explain(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        (kind, shard): (KindId, ShardId),
        timeout: Duration,
    ) {
        let machines = match self.may_survey(kind) {
            Ok(machines) => machines,
            Err(error) => return cx.reply(token, Answer::Refused(error)),
        };
        let may_run_twice = machines.region.kind().may_run_twice;
        let coordinator = machines.region.coordinator().cloned();
        let is_here = coordinator.as_ref() == Some(cx.me());
        let placement = is_here.then(|| machines.coordinator.placement(shard)).flatten();
        let asked = coordinator.clone().filter(|_| !is_here);
        let id = self.surveys.next_id();
        if let Some(node) = &asked {
            cx.send(node, ShardingMsg::Survey(SurveyMsg::Where { id, kind, shard }));
        }
        let mut found = Explained {
            shard,
            coordinator,
            placement: None,
            may_run_twice,
        };
        found.hear(placement, cx.config().downing.strategy.name());
        let open = OpenSurvey {
            token,
            kind,
            deadline: cx.mono() + timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX),
            waits_for: asked.into_iter().collect(),
            found: SurveyFindings::Place(found),
        };
        self.surveys.open.insert(id, open);
        self.surveys.finish(cx);
    }

    /// Other members that may host a kind.
    fn may_host(&self, cx: &Cx<'_>, kind: KindId) -> OrderedSet<UniqueAddress> {
        let machines = self.kinds.get(&kind);
        let role = machines.and_then(|machines| machines.region.kind().settings.role.as_ref());
        let hosts = cx.view().members().iter().filter(|member| {
            let may = role.is_none_or(|role| member.roles.contains(role));
            may && !matches!(member.status, Status::Joining | Status::Down | Status::Removed)
        });
        hosts
            .map(|member| member.node.clone())
            .filter(|node| node != cx.me())
            .collect()
    }

    /// What a kind may be asked about, if there is room for one more question.
    fn may_survey(&self, kind: KindId) -> Result<&KindMachines, CommandError> {
        if self.halted {
            return Err(CommandError::Stopped);
        }
        let not_registered = CommandError::Sharding(ShardingCommandError::NotRegistered);
        let machines = self.kinds.get(&kind).ok_or(not_registered)?;
        if self.surveys.open.len() >= OPEN_MAX {
            return Err(CommandError::Sharding(ShardingCommandError::TooManySurveys));
        }
        Ok(machines)
    }

    /// Another node asks, or answers.
    pub(super) fn on_survey(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, message: SurveyMsg) {
        match message {
            SurveyMsg::Query { id, kind } => self.answer_survey(cx, from, id, kind),
            SurveyMsg::List {
                id,
                kind,
                after,
                bytes,
            } => self.answer_list(cx, from, (id, kind), (after.as_ref(), bytes)),
            SurveyMsg::Entities { id, listed } => self.on_listed(cx, from, id, listed),
            SurveyMsg::Where { id, kind, shard } => {
                let machines = self.kinds.get(&kind).filter(|_| self.is_accepted(kind));
                let mut placement = machines.and_then(|machines| machines.coordinator.placement(shard));
                let limit = cx.config().limits.control_frame_bytes_max;
                if let Some(placement) = &mut placement {
                    placement.fit(limit.saturating_sub(AROUND_BYTES));
                }
                cx.send(from, ShardingMsg::Survey(SurveyMsg::There { id, placement }));
            }
            SurveyMsg::There { id, placement } => {
                let Some(open) = self.surveys.open.get_mut(&id) else {
                    return;
                };
                if let SurveyFindings::Place(explained) = &mut open.found
                    && open.waits_for.remove(from)
                {
                    explained.hear(placement, cx.config().downing.strategy.name());
                    self.surveys.finish(cx);
                }
            }
            SurveyMsg::Counts { id, region, more } => {
                let Some(open) = self.surveys.open.get_mut(&id) else {
                    // Its time was over before.
                    return;
                };
                let is_asked =
                    matches!(open.found, SurveyFindings::Hosts(_)) && open.waits_for.contains(from);
                if !is_asked {
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
                open.hear(from, region);
                if !more {
                    open.waits_for.remove(from);
                }
                self.surveys.finish(cx);
            }
        }
    }

    fn answer_survey(&self, cx: &mut Cx<'_>, from: &UniqueAddress, id: u64, kind: KindId) {
        let mut rest = self.counts(kind);
        let limit = cx.config().limits.control_frame_bytes_max;
        let most = limit.saturating_sub(AROUND_BYTES) / SHARD_BYTES;
        while let Some(whole) = rest.as_mut().filter(|whole| whole.shards.len() > most) {
            let behind = whole.shards.split_off(most);
            let region = Some(RegionCounts {
                shards: core::mem::replace(&mut whole.shards, behind),
                ..*whole
            });
            let more = true;
            cx.send(from, ShardingMsg::Survey(SurveyMsg::Counts { id, region, more }));
        }
        let (region, more) = (rest, false);
        cx.send(from, ShardingMsg::Survey(SurveyMsg::Counts { id, region, more }));
    }

    fn counts(&self, kind: KindId) -> Option<RegionCounts> {
        let machines = self.kinds.get(&kind).filter(|_| self.is_accepted(kind))?;
        Some(machines.region.counts())
    }
}
