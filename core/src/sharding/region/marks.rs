//! The sender's side of the order that messages keep: this region uses one home per shard at a time. Before it uses another, or says
//! that it has forgotten one, it marks behind what it sent there and waits for the acknowledgement; what was not handled came
//! back before that. Until then its messages for the shard wait. Spec: sharding 10.14 b to d.

use alloc::vec::Vec;

use super::{Region, RegionLifecycle};
use crate::ident::UniqueAddress;
use crate::message::{ShardMark, ShardingBody, ShardingMsg};
use crate::sharding::Cx;
use crate::sharding::pending_message::Shared;
use crate::sharding::state::ids::{ShardId, Term};
use crate::timer::{RegionTimer, ShardingTimer};

/// Marks that one step sends again, so that it is bounded: the next goes on behind them.
const REPEATED_PER_STEP: usize = 4096;

/// Where a shard lives, as far as this region knows.
#[derive(Clone, Debug)]
pub(super) struct Home {
    pub(super) node: UniqueAddress,
    /// Messages were sent there behind which no mark has been acknowledged; or handled, if that is here.
    pub(super) used: bool,
}

/// A mark without acknowledgement.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    /// The home that was used.
    at: UniqueAddress,
    number: u64,
    /// Who is told that this region has forgotten the home, and for which hand-off.
    report: Option<(Term, u64)>,
}

impl Region {
    /// A shard lives there. If another home was used, what was sent there is settled first.
    pub(super) fn set_home(&mut self, cx: &mut Cx<'_>, shard: ShardId, node: UniqueAddress) {
        if let Some(mark) = self.marks.get_mut(&shard) {
            // There is a home again: nobody waits for this region to forget one.
            mark.report = None;
        }
        if self.homes.get(&shard).is_some_and(|home| home.node == node) {
            return;
        }
        self.forget_home(cx, shard);
        self.homes.insert(shard, Home { node, used: false });
        self.send_starts(cx, shard);
    }

    /// A shard does not live where this region thinks. What it sent there is settled before anything else is sent.
    pub(super) fn forget_home(&mut self, cx: &mut Cx<'_>, shard: ShardId) {
        self.flushing.remove(&shard);
        if let Some(home) = self.homes.remove(&shard)
            && home.used
            && home.node != *cx.me()
        {
            self.mark(cx, shard, home.node);
        }
    }

    /// This node's coordinator moves a shard, and wants to know when everything that was sent to its home has arrived.
    pub(super) fn report_when_settled(&mut self, cx: &mut Cx<'_>, term: Term, shard: ShardId, number: u64) {
        match self.marks.get_mut(&shard) {
            Some(mark) => mark.report = Some((term, number)),
            None => self.say_forgotten(cx, term, shard, number),
        }
    }

    /// Whether messages for a shard have to wait for an acknowledgement.
    pub(super) fn is_settling(&self, shard: ShardId) -> bool {
        !self.marks.is_empty() && self.marks.contains_key(&shard)
    }

    /// A node says that it has seen this region's mark, and with it everything before.
    pub(crate) fn on_mark_ack(&mut self, shared: &mut Shared<'_, '_>, from: &UniqueAddress, mark: ShardMark) {
        let ShardMark { shard, number, .. } = mark;
        let is_it = |mark: &Mark| mark.at == *from && mark.number == number;
        if self.marks.get(&shard).is_some_and(is_it) {
            self.on_settled(shared, shard);
        }
    }

    /// Nothing comes from these homes any more: who waits for their acknowledgements waits no longer.
    pub(super) fn settle_marks_at(&mut self, shared: &mut Shared<'_, '_>, node: &UniqueAddress) {
        let there = self.marks.iter().filter(|(_, mark)| mark.at == *node);
        let shards: Vec<ShardId> = there.map(|(shard, _)| *shard).collect();
        for shard in shards {
            self.on_settled(shared, shard);
        }
    }

    /// A message of this region's came back from a node. Whether it sent messages there that are not settled; if so, it
    /// sends no more of them before they are.
    pub(super) fn stops_sending_to(&mut self, cx: &mut Cx<'_>, shard: ShardId, node: &UniqueAddress) -> bool {
        if let Some(mark) = self.marks.get(&shard) {
            return mark.at == *node;
        }
        let Some(home) = self.homes.get(&shard) else {
            return true;
        };
        let was_it = home.node == *node;
        let is_free = !home.used;
        if was_it {
            self.forget_home(cx, shard);
        }
        was_it || is_free
    }

    /// This region ends: it stays until nothing that it sent can come back. Whether that is so.
    pub(super) fn all_settled(&mut self, cx: &mut Cx<'_>) -> bool {
        let me = cx.me();
        let used = self
            .homes
            .iter()
            .filter(|(_, home)| home.used && home.node != *me);
        let used: Vec<ShardId> = used.map(|(shard, _)| *shard).collect();
        for shard in used {
            self.forget_home(cx, shard);
        }
        self.marks.is_empty()
    }

    /// Sends marks again: links lose what is on them. Those at a node that does not answer keep none of the others back.
    pub(super) fn repeat_marks(&mut self, cx: &mut Cx<'_>) {
        let from = self.repeat_from;
        let mut turn = self.marks.range(from..).chain(self.marks.range(..from));
        for (shard, mark) in turn.by_ref().take(REPEATED_PER_STEP) {
            self.send_mark(cx, *shard, mark);
        }
        self.repeat_from = turn.next().map_or(ShardId(0), |(shard, _)| *shard);
        self.rearm_marks(cx);
    }

    fn mark(&mut self, cx: &mut Cx<'_>, shard: ShardId, at: UniqueAddress) {
        self.last_mark += 1;
        let (number, report) = (self.last_mark, None);
        let mark = Mark { at, number, report };
        self.send_mark(cx, shard, &mark);
        self.marks.insert(shard, mark);
        self.rearm_marks(cx);
    }

    fn send_mark(&self, cx: &mut Cx<'_>, shard: ShardId, mark: &Mark) {
        let (kind, number) = (self.kind.id, mark.number);
        cx.counters().marks_sent += 1;
        cx.send(&mark.at, ShardingMsg::Mark(ShardMark { kind, shard, number }));
    }

    /// Everything this region sent for a shard has been delivered or has come back: what came back goes first from here on.
    fn on_settled(&mut self, shared: &mut Shared<'_, '_>, shard: ShardId) {
        let Some(mark) = self.marks.remove(&shard) else {
            return;
        };
        if let Some((term, number)) = mark.report
            && self.seen.as_ref() == Some(&term)
        {
            self.say_forgotten(shared.cx, term, shard, number);
        }
        if self.buffers.has(shard) {
            if self.homes.contains_key(&shard) {
                self.flushing.insert(shard);
            } else if self.may_ask_at_once(shard) {
                self.ask_home(shared.cx, shard);
            } else {
                self.rearm_retry(shared.cx);
            }
        }
        self.flush(shared);
        self.try_finish(shared);
    }

    fn say_forgotten(&self, cx: &mut Cx<'_>, term: Term, shard: ShardId, number: u64) {
        let to = term.node.clone();
        self.say(cx, &to, ShardingBody::BeginHandOffAck { term, shard, number });
    }

    fn rearm_marks(&self, cx: &mut Cx<'_>) {
        let timer = ShardingTimer::Region(self.kind.id, RegionTimer::Marks);
        if self.marks.is_empty() || self.lifecycle == RegionLifecycle::Stopped {
            cx.cancel(timer);
        } else if !cx.is_set(timer.clone()) {
            let at = cx.mono() + self.kind.config.retry_interval;
            cx.wake(timer, at);
        }
    }
}
