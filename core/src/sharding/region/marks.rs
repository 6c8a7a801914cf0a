//! The sender's side of the order that messages keep: this region uses one home per shard at a time. Before
//! it uses another, or says that it has forgotten one, it marks behind what it sent there and waits for the
//! acknowledgement; what was not handled came back before that. Until then its messages for the shard wait.
//! Spec: sharding 10.14 b to d.

use alloc::vec::Vec;

use super::home::{HandOffReport, KnownHome, OpenMark};
use super::{RegionLifecycle, ShardRegion};
use crate::ident::{Address, UniqueAddress};
use crate::message::{ShardMark, ShardingBody, ShardingMsg};
use crate::sharding::Cx;
use crate::sharding::pending_message::RegionContext;
use crate::sharding::state::ids::{KindId, ShardId};
use crate::timer::RegionTimer;

/// Marks that one step sends again, so that it is bounded: the next goes on behind them.
const REPEATED_PER_STEP: usize = 4096;

impl ShardRegion {
    /// A shard lives there. If another home was used, what was sent there has to be acknowledged first.
    pub(super) fn set_home(&mut self, cx: &mut Cx<'_>, shard: ShardId, node: UniqueAddress) {
        let home = &mut self.shards.entry(shard).home;
        if let KnownHome::Marked(mark) = home {
            // There is a home again: nobody waits for this region to forget one.
            mark.report = None;
        }
        if home.node() == Some(&node) {
            return;
        }
        self.forget_home(cx, shard);
        self.shards.entry(shard).home.learn(node);
        self.send_starts(cx, shard);
    }

    /// A shard does not live where this region thinks. What it sent there has to be acknowledged before
    /// anything else is sent.
    pub(super) fn forget_home(&mut self, cx: &mut Cx<'_>, shard: ShardId) {
        self.flushing.remove(&shard);
        let number = self.order.last_mark + 1;
        if let Some(mark) = self.shards.forget_home(shard, cx.me(), number) {
            self.order.last_mark = number;
            send_mark(cx, self.kind.id, shard, mark);
            self.rearm_marks(cx);
        }
    }

    /// This node's coordinator moves a shard, and wants to know when everything that was sent to its home has
    /// arrived.
    pub(super) fn report_when_acknowledged(
        &mut self,
        cx: &mut Cx<'_>,
        shard: ShardId,
        report: HandOffReport,
    ) {
        match self.shards.known_mut(shard).map(|entry| &mut entry.home) {
            Some(KnownHome::Marked(mark)) => mark.report = Some(report),
            Some(KnownHome::Unknown | KnownHome::Known { .. }) | None => {
                self.say_forgotten(cx, shard, report)
            }
        }
    }

    /// A node says that it has seen this region's mark, and with it everything before.
    pub(crate) fn on_mark_ack(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        from: &UniqueAddress,
        mark: ShardMark,
    ) {
        let ShardMark { shard, number, .. } = mark;
        let mark = self.shards.known(shard).and_then(|entry| entry.home.mark());
        if mark.is_some_and(|mark| mark.at == *from && mark.number == number) {
            self.on_acknowledged(shared, shard);
        }
    }

    /// Nothing comes from a node any more: who waits for its acknowledgements waits no longer.
    pub(super) fn acknowledge_for(&mut self, shared: &mut RegionContext<'_, '_>, node: &UniqueAddress) {
        let marks = self.shards.marks_from(ShardId(0));
        let there = marks.filter(|(_, mark)| mark.at == *node);
        let shards: Vec<ShardId> = there.map(|(shard, _)| shard).collect();
        for shard in shards {
            self.on_acknowledged(shared, shard);
        }
    }

    /// A message of this region's came back from a node. Whether it sent messages there that are not
    /// acknowledged; if so, it sends no more of them before they are.
    pub(super) fn stops_sending_to(&mut self, cx: &mut Cx<'_>, shard: ShardId, node: &UniqueAddress) -> bool {
        let is_in_turn = self.is_in_turn(shard, node);
        let home = self.shards.known(shard).map(|entry| &entry.home);
        if matches!(home, Some(KnownHome::Known { node: home, .. }) if home == node) {
            self.forget_home(cx, shard);
        }
        is_in_turn
    }

    /// Whether what comes back from a node is older than all that this region has sent to another one.
    pub(super) fn is_in_turn(&self, shard: ShardId, from: &UniqueAddress) -> bool {
        let entry = self.shards.known(shard);
        entry.is_none_or(|entry| entry.home.is_in_turn(from))
    }

    /// This region ends: it stays until nothing that it sent can come back. Whether that is so.
    pub(super) fn is_acknowledged(&mut self, cx: &mut Cx<'_>) -> bool {
        let used = self.shards.iter().filter(|(_, entry)| entry.home.is_used());
        let used: Vec<ShardId> = used.map(|(shard, _)| shard).collect();
        for shard in used {
            if self.shards.home(shard) != Some(cx.me()) {
                self.forget_home(cx, shard);
            }
        }
        self.shards.marks() == 0
    }

    /// Sends marks again: links lose what is on them. Those at a node that does not answer keep none of the
    /// others back.
    pub(super) fn repeat_marks(&mut self, cx: &mut Cx<'_>) {
        let mut turn = self
            .shards
            .marks_from(self.order.repeat_from.unwrap_or(ShardId(0)));
        for (shard, mark) in turn.by_ref().take(REPEATED_PER_STEP) {
            send_mark(cx, self.kind.id, shard, mark);
        }
        self.order.repeat_from = turn.next().map(|(shard, _)| shard);
        self.rearm_marks(cx);
    }

    /// The queue to an address has room again: it took no mark as long as something that was offered to it
    /// was on its way back, so that nothing is left to come back of what a mark stands behind.
    pub(crate) fn repeat_marks_at(&self, cx: &mut Cx<'_>, address: &Address) {
        let marks = self.shards.marks_from(ShardId(0));
        let there = marks.filter(|(_, mark)| mark.at.address() == address);
        for (shard, mark) in there.take(REPEATED_PER_STEP) {
            send_mark(cx, self.kind.id, shard, mark);
        }
    }

    /// Everything this region sent for a shard has been delivered or has come back: what came back goes first
    /// from here on.
    fn on_acknowledged(&mut self, shared: &mut RegionContext<'_, '_>, shard: ShardId) {
        let Some(mark) = self.shards.acknowledge(shard) else {
            return;
        };
        if let Some(report) = mark.report
            && self.contact.seen.as_ref() == Some(&report.term)
        {
            self.say_forgotten(shared.cx, shard, report);
        }
        if self.buffers.has(shard) {
            if self.shards.has_home(shard) {
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

    fn say_forgotten(&self, cx: &mut Cx<'_>, shard: ShardId, HandOffReport { term, number }: HandOffReport) {
        let to = term.node.clone();
        self.say(cx, &to, ShardingBody::BeginHandOffAck { term, shard, number });
    }

    fn rearm_marks(&self, cx: &mut Cx<'_>) {
        if self.shards.marks() == 0 || self.lifecycle == RegionLifecycle::Stopped {
            self.cancel(cx, RegionTimer::Marks);
        } else if !self.is_set(cx, RegionTimer::Marks) {
            self.wake(cx, RegionTimer::Marks, self.kind.config.retry_interval);
        }
    }
}

fn send_mark(cx: &mut Cx<'_>, kind: KindId, shard: ShardId, mark: &OpenMark) {
    cx.counters().marks_sent += 1;
    let number = mark.number;
    cx.send(&mark.at, ShardingMsg::Mark(ShardMark { kind, shard, number }));
}
