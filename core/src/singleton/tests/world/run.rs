//! How the few nodes run: time, messages, and what a host does about a node's orders.

use alloc::sync::Arc;
use core::time::Duration;

use super::{World, address};
use crate::effect::HostOrder;
use crate::effect::HostedInstance;
use crate::effect::{Answer, Effect};
use crate::event::Event;
use crate::fixture::picture_of;
use crate::ident::UniqueAddress;
use crate::input::{HostReport, SendTarget};
use crate::lease::protocol::LeaseOrder;
use crate::membership::state::gossip::Gossip;
use crate::message::{Message, SingletonMsg};
use crate::oldest::Oldest;
use crate::owner::Requester;
use crate::sharding::protocol::registry::RegistrationId;
use crate::signal::Signal;
use crate::store::{Change, StoreAnswer, StoreError, StoreOrder, StoreReport, StoreRequest};
use crate::timer::Timer;

impl World {
    /// Lets virtual time pass.
    pub(in crate::singleton::tests) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let live = self.peers.iter().filter(|peer| peer.alive);
            let next = live.filter_map(|peer| peer.fixture.timers.next().map(|(at, _)| at));
            let at = next.min().filter(|at| *at <= end);
            self.now = at.unwrap_or(end).max(self.now);
            for index in 0..self.peers.len() {
                let now = self.now;
                self.peers[index].fixture.now.mono = now;
                while let Some(timer) = self.peers[index].fixture.timers.pop_due(now) {
                    if self.peers[index].alive {
                        self.fire(index, timer);
                    }
                }
            }
            if at.is_none() {
                return;
            }
        }
    }

    fn fire(&mut self, at: usize, timer: Timer) {
        let peer = &mut self.peers[at];
        match timer {
            Timer::Oldest(timer) => {
                Oldest.on_timer(&mut peer.fixture.cx(), &timer);
                peer.singletons.on_margin_over(&mut peer.fixture.cx());
            }
            Timer::Singleton(timer) => peer.singletons.on_timer(&mut peer.fixture.cx(), timer),
            other => panic!("{other:?}"),
        }
        self.settle();
    }

    pub(super) fn publish(&mut self) {
        for at in 0..self.peers.len() {
            if !self.peers[at].alive {
                continue;
            }
            let mut gossip = Gossip::new();
            for node in &self.removed {
                gossip.remove(node);
            }
            for member in self.members.values() {
                gossip.upsert_member(member.clone());
            }
            let gossip = gossip.with_gone(Arc::new(self.gone.clone()));
            let peer = &mut self.peers[at];
            let (before, after) = peer.fixture.see(picture_of(&address(at), gossip));
            let cx = &mut peer.fixture.cx();
            peer.singletons.on_ages_changed(cx, &before, &after);
        }
        self.settle();
    }

    /// Delivers and obeys until nothing is left to do.
    pub(super) fn settle(&mut self) {
        loop {
            for at in 0..self.peers.len() {
                self.collect(at);
            }
            if self.held {
                break;
            }
            let Some((from, to, message)) = self.wire.pop_front() else {
                break;
            };
            if self.peers[to].alive && !self.cut.contains(&from) && !self.cut.contains(&to) {
                self.receive(from, to, message);
            }
        }
        let running = self.running();
        assert!(
            running.len() < 2 || self.may_overlap,
            "an instance on each of {running:?}"
        );
    }

    pub(super) fn receive(&mut self, from: usize, to: usize, message: Message) {
        let (from, peer) = (address(from), &mut self.peers[to]);
        let Message::Singleton(msg) = message else {
            panic!("{message:?}")
        };
        if let SingletonMsg::Statement(statement) = &msg {
            peer.heard.push((from.clone(), statement.epoch, statement.body));
        }
        peer.singletons.on_message(&mut peer.fixture.cx(), &from, msg);
    }

    fn collect(&mut self, at: usize) {
        loop {
            let peer = &mut self.peers[at];
            for signal in peer.fixture.heard() {
                peer.drained |= matches!(signal, Signal::Drained(_));
                if let Signal::Registered(RegistrationId::Singleton(id), Some(_)) = signal
                    && let Some(judgement) = self.judgement.clone()
                {
                    let cx = &mut peer.fixture.cx();
                    peer.singletons.on_judged(cx, id, judgement);
                }
            }
            if let Some(message) = peer.fixture.outbox.loopback.pop_front() {
                self.receive(at, at, message);
                continue;
            }
            peer.singletons.check_invariants().unwrap();
            let effects = peer.fixture.effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                self.perform(at, effect);
            }
        }
    }

    pub(super) fn index(&self, node: &UniqueAddress) -> usize {
        (0..self.peers.len())
            .find(|at| address(*at) == *node)
            .expect("a node")
    }

    fn perform(&mut self, at: usize, effect: Effect) {
        if !self.peers[at].alive {
            return;
        }
        match effect {
            Effect::Send {
                to: SendTarget::Node(to),
                message,
            } => self.wire.push_back((at, self.index(&to), message)),
            Effect::Notify(Event::Singleton { event, .. }) => self.peers[at].events.push(event),
            Effect::Notify(Event::Rejected { .. }) => self.peers[at].rejected += 1,
            Effect::Reply {
                token,
                answer: Answer::Asked(result),
            } => {
                let twice = self.peers[at].answers.insert(token, result);
                assert_eq!(twice, None, "ask {token} is answered twice");
            }
            Effect::Reply { answer, .. } => self.peers[at].registered = Some(answer),
            Effect::Host(Requester::Singleton, order) => self.obey(at, order),
            Effect::Lease(_, LeaseOrder::Acquire { .. }) => self.peers[at].host.leases_asked += 1,
            Effect::Lease(_, LeaseOrder::Release { .. }) => self.peers[at].host.leases_released += 1,
            Effect::Store(_, request) => self.store(at, request),
            other => panic!("{other:?}"),
        }
    }

    fn obey(&mut self, at: usize, order: HostOrder) {
        let host = &mut self.peers[at].host;
        let mut report = None;
        match order {
            HostOrder::Start { slot, instance } => {
                let HostedInstance::Singleton { token, .. } = instance else {
                    panic!("{instance:?}");
                };
                assert_eq!(host.running.replace(slot), None, "started twice");
                assert!(token > self.highest, "{token} after {}", self.highest);
                self.highest = token;
                self.starts += 1;
            }
            HostOrder::Deliver {
                slot,
                payload,
                reply_to,
                ..
            } => {
                assert_eq!(host.running, Some(slot));
                host.delivered += 1;
                let ask = reply_to.filter(|_| !host.silent);
                report = ask.map(|ask| HostReport::Answered {
                    ask,
                    result: Ok(payload),
                });
            }
            HostOrder::Stop { slot } | HostOrder::StopWithState { slot } | HostOrder::Kill { slot } => {
                if matches!(order, HostOrder::Kill { .. }) {
                    host.killed += 1;
                } else {
                    host.told_to_stop += 1;
                }
                if !host.slow_to_stop && host.running.take_if(|running| *running == slot).is_some() {
                    report = Some(HostReport::Stopped { slot });
                }
            }
        }
        if let Some(report) = report {
            let peer = &mut self.peers[at];
            peer.singletons.on_report(&mut peer.fixture.cx(), report);
        }
    }

    fn store(&mut self, at: usize, StoreRequest { id, order }: StoreRequest) {
        let host = &mut self.peers[at].host;
        let outcome = match order {
            _ if host.store_fails => Err(StoreError::Unavailable),
            StoreOrder::Read { key } => Ok(StoreAnswer::Value(host.store.get(&key).cloned())),
            StoreOrder::Write { batch } => {
                for change in batch {
                    match change {
                        Change::Put { key, value } => host.store.insert(key, value),
                        other => panic!("{other:?}"),
                    };
                }
                Ok(StoreAnswer::Written)
            }
            other => panic!("{other:?}"),
        };
        let peer = &mut self.peers[at];
        peer.singletons
            .on_stored(&mut peer.fixture.cx(), StoreReport { id, outcome });
    }
}
