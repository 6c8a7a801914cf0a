//! The membership machine alone: state in, one call, drained effects out. Effects are compared as text, so
//! that a whole list fits a line; see [`show`] for the words. Spec: membership §1.7, §2, §6 F to J, §8;
//! reliability §3c.

mod claims;
mod downing;
mod events;
mod finished;
mod forged;
mod gossip_receive;
mod gossip_send;
mod joining;
mod leader;
mod leaving;
mod lifecycle;
mod news;
mod paths;
mod rejections;
mod restarts;
mod seeds;
mod settings;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::{clock, g, n, names, seen};
use crate::agreement::Settings;
use crate::config::Config;
use crate::drain::DrainPart;
use crate::effect::{Answer, CommandError, Effect, HaltReason, ShardingAnswer};
use crate::event::{DetectorEvent, DowningEvent, Event, JoinFailure, MembershipEvent};
use crate::fixture::Fixture;
use crate::ident::{Address, ClusterName, Roles, UniqueAddress};
use crate::input::{SendTarget, Token};
use crate::membership::Cx;
use crate::membership::joining::JoinStage;
use crate::membership::machine::Membership;
use crate::membership::state::app_version::AppVersion;
use crate::membership::state::events::MembershipChange;
use crate::membership::state::gossip::{Gossip, SharedGossipParts};
use crate::membership::state::member::{Member, Status};
use crate::message::{
    DetectorMsg, GossipEnvelope, GossipStatus, InitJoin, InitJoinAck, Join, JoinRefused, MembershipMsg,
    Message, ShardingMsg, Welcome,
};
use crate::signal::Signal;
use crate::timer::{MembershipTimer, Timer};
use crate::view::View;

/// The name of every command in these tests.
const TOKEN: Token = 7;
/// Long enough for what is to happen at once, in a step of its own.
const MOMENT: Duration = Duration::from_micros(1);

/// One machine and what it touches.
#[derive(Clone)]
struct Rig {
    f: Fixture,
    m: Membership,
    start: crate::time::Instant,
}

impl Rig {
    /// Not joined, with the documented defaults.
    fn idle(me: &str) -> Self {
        Self::configured(me, |_| ())
    }

    /// Not joined, with some settings changed.
    fn configured(me: &str, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::lan(ClusterName::new("test").unwrap());
        change(&mut config);
        let f = Fixture::with_config(n(me), config);
        let start = f.mono();
        Self {
            f,
            m: Membership::new(),
            start,
        }
    }

    /// In a cluster with this state.
    fn member(me: &str, gossip: Gossip) -> Self {
        Self::idle(me).with_state(gossip)
    }

    /// The same node in a cluster with this state, as if it had always held it.
    fn with_state(mut self, gossip: Gossip) -> Self {
        assert!(gossip.contains(&self.f.me), "a member is in its own table");
        self.m.joining = JoinStage::Done;
        self.m.own_clock = gossip.version().get(&self.f.me);
        for node in gossip.tombstones() {
            self.m.tombstones_since.insert(node.clone(), self.f.mono());
        }
        self.m.gossip = Arc::new(gossip);
        self.call(|m, cx| m.publish(cx));
        self.did();
        self.heard();
        self
    }

    /// One call of the machine, after which its rules must hold.
    fn call<T>(&mut self, act: impl FnOnce(&mut Membership, &mut Cx<'_>) -> T) -> T {
        let out = act(&mut self.m, &mut self.f.cx());
        self.m.check_invariants(&self.f.me).unwrap();
        out
    }

    /// A member's state arrives.
    fn gossip(&mut self, from: &str, gossip: &Gossip) {
        let to = self.f.me.clone();
        self.gossip_to(from, to, gossip);
    }

    fn gossip_to(&mut self, from: &str, to: UniqueAddress, gossip: &Gossip) {
        let gossip = Arc::new(gossip.clone());
        self.call(|m, cx| {
            m.on_gossip(
                cx,
                &n(from),
                &GossipEnvelope {
                    to,
                    gossip: gossip.into(),
                },
            )
        });
    }

    /// A member's status arrives: the name and digest of this state.
    fn status(&mut self, from: &str, of: &Gossip) {
        self.status_that(from, of, false);
    }

    /// The same as an answer to mine.
    fn answered_status(&mut self, from: &str, of: &Gossip) {
        self.status_that(from, of, true);
    }

    fn status_that(&mut self, from: &str, of: &Gossip, is_answer: bool) {
        let status = GossipStatus {
            to_uid: self.f.me.uid(),
            state: crate::wire::digest(of, &self.f.config.limits).expect("it can be written"),
            seen_digest: of.seen_digest(),
            is_answer,
        };
        self.call(|m, cx| m.on_gossip_status(cx, &n(from), &status));
    }

    /// A node without roles asks me to take it in.
    fn join(&mut self, from: &str) {
        let join = Join {
            to: self.f.me.clone(),
            roles: Roles::default(),
            app_version: AppVersion::default(),
        };
        self.call(|m, cx| m.on_join(cx, &n(from), &join));
    }

    /// The state of the cluster that took me in arrives.
    fn welcome(&mut self, from: &str, to: &str, gossip: &Gossip) {
        let welcome = Welcome {
            to: n(to),
            gossip: Arc::new(gossip.clone()).into(),
        };
        self.call(|m, cx| m.on_welcome(cx, &n(from), &welcome));
    }

    /// A seed answers that it is in a cluster.
    fn ack(&mut self, from: &str) {
        self.call(|m, cx| m.on_init_join_ack(cx, &n(from), &answer(true)));
    }

    /// A seed answers that it is in none.
    fn nack(&mut self, from: &str) {
        self.call(|m, cx| m.on_init_join_nack(cx, &n(from)));
    }

    /// Somebody commands that I join through these hosts.
    fn seeds(&mut self, hosts: &str) {
        let contacts = hosts.split_whitespace().map(at).collect();
        self.call(|m, cx| m.on_join_command(cx, TOKEN, contacts));
    }

    fn leader_tick(&mut self) {
        self.call(|m, cx| m.on_timer(cx, &MembershipTimer::LeaderActions));
    }

    fn gossip_tick(&mut self) {
        self.call(|m, cx| m.on_timer(cx, &MembershipTimer::Gossip));
    }

    /// Lets time pass, with the timers that fall due.
    fn run(&mut self, duration: Duration) {
        let until = self.f.mono() + duration;
        while let Some(timer) = self.f.next_timer(until) {
            let Timer::Membership(timer) = timer else {
                unreachable!("membership sets only its own timers")
            };
            self.call(|m, cx| m.on_timer(cx, &timer));
        }
    }

    /// Takes the effects: everything, in order.
    fn did(&mut self) -> String {
        joined(self.f.effects().iter().filter_map(show))
    }

    /// Takes the effects, and keeps all but the events.
    fn sent(&mut self) -> String {
        let effects = self.f.effects();
        joined(effects.iter().filter(|e| !is_event(e)).filter_map(show))
    }

    /// As [`Rig::sent`] without order, for random choices.
    fn sent_in_any_order(&mut self) -> String {
        let effects = self.f.effects();
        let mut words: Vec<String> = effects.iter().filter(|e| !is_event(e)).filter_map(show).collect();
        words.sort();
        words.join(" ")
    }

    /// Takes the effects, and keeps the events.
    fn told(&mut self) -> String {
        let effects = self.f.effects();
        joined(effects.iter().filter(|e| is_event(e)).filter_map(show))
    }

    /// Takes the statements to other machines, the picture and who gossips aside.
    fn heard(&mut self) -> String {
        let word = |signal: &Signal| match signal {
            Signal::ViewChanged { .. } | Signal::GossipHeard(_) => None,
            Signal::ToldRemoved(by) => Some(alloc::format!("told-removed({})", names([by]))),
            Signal::DrainRequested(part) => Some(String::from(match part {
                DrainPart::Sharding => "drain",
                DrainPart::Singletons => "drain-singletons",
                DrainPart::Paths => "drain-paths",
                DrainPart::Kv => "drain-kv",
                DrainPart::Ddata => "drain-ddata",
            })),
            Signal::Verdicts(_)
            | Signal::DownDecided(_)
            | Signal::Drained(_)
            | Signal::Quarantine(_)
            | Signal::Registered(..)
            | Signal::Judged(..)
            | Signal::RefusedOn(..)
            | Signal::AgesChanged { .. }
            | Signal::MarginOver
            | Signal::PathsWritten(_)
            | Signal::Paused { .. }
            | Signal::PlacementOutdone { .. }
            | Signal::RollCall
            | Signal::LinksCut(_)
            | Signal::Disowned
            | Signal::StillMember => {
                unreachable!("membership does not say {signal:?}")
            }
        };
        joined(self.f.heard().iter().filter_map(word))
    }

    /// The members as §6 writes them.
    fn members(&self) -> String {
        codes(&self.m.gossip)
    }

    /// Who has seen the state.
    fn seen(&self) -> String {
        names(self.m.gossip.seen())
    }

    /// How often `node` changed the state.
    fn clock(&self, node: &str) -> u64 {
        self.m.gossip.version().get(&n(node))
    }

    /// Why the node is finished.
    fn halted(&mut self) -> Option<HaltReason> {
        self.m.take_halt()
    }

    /// What is waited for, and for how many milliseconds from the start of the test; but for news, which go
    /// at once.
    fn deadlines(&self) -> Vec<(MembershipTimer, u64)> {
        let mut timers = self.f.timers.clone();
        let mut out = Vec::new();
        while let Some((at, timer)) = timers.next() {
            let Timer::Membership(timer) = timer.clone() else {
                unreachable!("membership sets only its own timers")
            };
            let wait = u64::try_from(at.since(self.start).as_millis()).unwrap();
            if timer != MembershipTimer::News {
                out.push((timer, wait));
            }
            timers.pop_due(at);
        }
        out
    }
}

/// The answer of a member that does not tell its settings.
fn answer(compatible: bool) -> InitJoinAck {
    InitJoinAck {
        compatible,
        settings: Settings::default(),
    }
}

fn joined(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(" ")
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The address of a host.
fn at(host: &str) -> Address {
    n(host).address().clone()
}

/// Members as §6 writes them, who has seen the state, and who counted the clock up how often.
fn state(codes: &str, seen_by: &str, ticks: &str) -> Gossip {
    versioned(&seen(g(codes), seen_by), ticks)
}

/// The same state with this clock.
fn versioned(gossip: &Gossip, ticks: &str) -> Gossip {
    Gossip::assemble(SharedGossipParts {
        members: Arc::clone(gossip.members_arc()),
        reachability: Arc::clone(gossip.reachability_arc()),
        version: clock(ticks),
        tombstones: Arc::clone(gossip.tombstones_arc()),
        gone: Arc::default(),
        paths: Arc::clone(gossip.paths()),
    })
    .with_seen(gossip.seen_set().clone())
}

fn codes(gossip: &Gossip) -> String {
    let code = |member: &Member| {
        let letter = match member.status {
            Status::Joining => "J",
            Status::WeaklyUp => "W",
            Status::Up => "",
            Status::PreparingForShutdown => "P",
            Status::ReadyForShutdown => "R",
            Status::Leaving => "L",
            Status::Exiting => "X",
            Status::Down => "D",
            Status::Removed => "Z",
        };
        names([&member.node]) + letter
    };
    joined(gossip.members().iter().map(code))
}

fn is_event(effect: &Effect) -> bool {
    matches!(effect, Effect::Notify(_))
}

/// An effect in a word: `gossip>b` is a state sent to b in either form, `push>b` one that is pushed, `ack>b`
/// is said to the leader, `up(b:2)` is told when b becomes Up with number 2,
/// `converged(a b)` when the state seen by a and b is converged, `seen(a b)` when it is not. The leader of
/// the data-center role, which always changes with the leader, is left out.
fn show(effect: &Effect) -> Option<String> {
    Some(match effect {
        Effect::Send { to, message } | Effect::Offer { to, message } => {
            let to = match to {
                SendTarget::Node(node) => names([node]),
                SendTarget::Address(address) => String::from(address.host()),
            };
            alloc::format!("{}>{to}", show_message(message))
        }
        Effect::Notify(Event::Membership(MembershipEvent::Changed { change, view })) => {
            return show_change(change, view);
        }
        Effect::Notify(Event::Membership(MembershipEvent::SelfUp)) => String::from("self-up"),
        Effect::Notify(Event::Membership(MembershipEvent::PathsNotHandedOver { node })) => {
            alloc::format!("not-handed-over({})", names([node]))
        }
        Effect::Notify(Event::Membership(MembershipEvent::JoinFailed {
            reason: reason @ (JoinFailure::NoSeedAnswered { .. } | JoinFailure::IncompatibleConfig { .. }),
        })) => alloc::format!("failed({reason})"),
        Effect::Notify(Event::Membership(MembershipEvent::JoinFailed { reason })) => {
            alloc::format!("failed({reason:?})")
        }
        Effect::Notify(Event::Membership(MembershipEvent::HandedOver { phase })) => {
            alloc::format!("handed-over({phase:?})")
        }
        Effect::Notify(Event::Membership(MembershipEvent::ShutdownPhaseTimedOut { phase })) => {
            alloc::format!("timed-out({phase:?})")
        }
        Effect::Notify(Event::Membership(MembershipEvent::LeaderIncapacitated { ticks })) => {
            alloc::format!("incapacitated({ticks})")
        }
        Effect::Notify(Event::Rejected { peer, rejection }) => {
            alloc::format!("rejected({}: {rejection})", names([peer]))
        }
        Effect::Reply { token, answer } => {
            assert_eq!(*token, TOKEN);
            match answer {
                Answer::Done => String::from("done"),
                Answer::Refused(CommandError::Membership(error)) => alloc::format!("refused({error:?})"),
                Answer::Refused(error) => alloc::format!("refused({error:?})"),
                Answer::Sharding(
                    ShardingAnswer::Surveyed(_)
                    | ShardingAnswer::Entities(_)
                    | ShardingAnswer::ShardsStopped(_)
                    | ShardingAnswer::Explained(_)
                    | ShardingAnswer::ShutDown(_)
                    | ShardingAnswer::Terminated(_),
                ) => {
                    unreachable!("membership answers no ask")
                }
                Answer::Asked(_) => unreachable!("membership answers no ask"),
                Answer::Ddata(_) => unreachable!("membership holds no replicas"),
                Answer::Singleton(_) => unreachable!("membership answers no ask"),
                Answer::Journal(_) => unreachable!("membership keeps no logs"),
                Answer::Kv(_) => unreachable!("membership keeps no buckets"),
            }
        }
        Effect::Quarantine(node) => alloc::format!("quarantine({})", names([node])),
        Effect::Notify(
            Event::Membership(MembershipEvent::SelfRemoved | MembershipEvent::Asked(_))
            | Event::Downing(DowningEvent::Decision(_))
            | Event::Downing(DowningEvent::TooManyMembersToDecide { .. })
            | Event::Downing(DowningEvent::NobodyHasDowningRole { .. })
            | Event::Detector(DetectorEvent::Paused { .. })
            | Event::Detector(DetectorEvent::Refused { .. })
            | Event::Detector(DetectorEvent::StillMember)
            | Event::Sharding { .. }
            | Event::Singleton { .. }
            | Event::Path { .. }
            | Event::Ddata(_)
            | Event::Kv { .. }
            | Event::Journal(_),
        )
        | Effect::Host(..)
        | Effect::Lease(..)
        | Effect::Store(..)
        | Effect::Allocate(_)
        | Effect::Halt(_) => unreachable!("not membership's: {effect:?}"),
    })
}

fn show_message(message: &Message) -> String {
    String::from(match message {
        Message::Membership(MembershipMsg::InitJoin(InitJoin { .. })) => "init-join",
        Message::Membership(MembershipMsg::InitJoinAck(InitJoinAck { compatible: true, .. })) => "ack",
        Message::Membership(MembershipMsg::InitJoinAck(InitJoinAck {
            compatible: false, ..
        })) => "incompatible",
        Message::Membership(MembershipMsg::InitJoinNack) => "nack",
        Message::Membership(MembershipMsg::Join(_)) => "join",
        Message::Membership(MembershipMsg::JoinRefused(JoinRefused { reason, .. })) => {
            return alloc::format!("refused({reason:?})");
        }
        Message::Membership(MembershipMsg::Removed { .. }) => "removed-you",
        Message::Membership(MembershipMsg::Welcome(_)) => "welcome",
        Message::Membership(MembershipMsg::ExitingConfirmed { .. }) => "confirmed",
        Message::Membership(MembershipMsg::GossipStatus(_)) => "status",
        Message::Membership(MembershipMsg::Gossip(_)) => "gossip",
        Message::Membership(MembershipMsg::GossipDelta(delta)) if delta.is_push => "push",
        Message::Membership(MembershipMsg::GossipDelta(_)) => "gossip",
        Message::Membership(MembershipMsg::GossipSeen(_)) => "ack",
        Message::Membership(MembershipMsg::Leave(_))
        | Message::Membership(MembershipMsg::Down(_))
        | Message::Detector(DetectorMsg::Heartbeat(_))
        | Message::Detector(DetectorMsg::HeartbeatRsp(_))
        | Message::Sharding(ShardingMsg::Kind(_))
        | Message::Sharding(ShardingMsg::Entity(_))
        | Message::Sharding(
            ShardingMsg::AskReply(_)
            | ShardingMsg::Registry(_)
            | ShardingMsg::HandBack(_)
            | ShardingMsg::Mark(_)
            | ShardingMsg::MarkAck(_)
            | ShardingMsg::Survey(_)
            | ShardingMsg::Watch(_)
            | ShardingMsg::Start(_)
            | ShardingMsg::Started(_),
        )
        | Message::Singleton(_)
        | Message::Path(_)
        | Message::Ddata(_)
        | Message::Journal(_)
        | Message::Kv(_)
        | Message::Load(_) => unreachable!("membership does not say {message:?}"),
    })
}

fn show_change(change: &MembershipChange, view: &View) -> Option<String> {
    let about = |fact: &str, member: &Member| alloc::format!("{fact}({})", names([&member.node]));
    Some(match change {
        MembershipChange::TombstonesChanged => String::from("tombstones"),
        MembershipChange::Removed { member, previous } => {
            alloc::format!("removed({}:{previous})", names([&member.node]))
        }
        MembershipChange::Joined(member) => about("joined", member),
        MembershipChange::WeaklyUp(member) => about("weakly-up", member),
        MembershipChange::Up(member) => {
            alloc::format!("up({}:{})", names([&member.node]), member.up_number.get())
        }
        MembershipChange::Left(member) => about("left", member),
        MembershipChange::Exited(member) => about("exited", member),
        MembershipChange::Downed(member) => about("downed", member),
        MembershipChange::PreparingForShutdown(member) => about("preparing", member),
        MembershipChange::ReadyForShutdown(member) => about("ready", member),
        MembershipChange::Unreachable(member) => about("unreachable", member),
        MembershipChange::Reachable(member) => about("reachable", member),
        MembershipChange::LeaderChanged(leader) => alloc::format!("leader({})", names(leader)),
        MembershipChange::RoleLeaderChanged { role, .. } if role.as_str().starts_with("dc-") => return None,
        MembershipChange::RoleLeaderChanged { role, leader } => {
            alloc::format!("role-leader({role}:{})", names(leader))
        }
        MembershipChange::SeenChanged { converged, seen } => {
            assert_eq!(*seen, view.gossip().seen_count());
            let what = if *converged { "converged" } else { "seen" };
            alloc::format!("{what}({})", names(view.gossip().seen()))
        }
        MembershipChange::ReachabilityChanged => String::from("reachability"),
    })
}
