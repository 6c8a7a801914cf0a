//! One registrar or one announcer, one call, and what it says. Whole clusters are in
//! `sharding/tests/same_kind.rs`.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::claims::{CLAIMS_MAX, RegistrationClaims};
use super::*;
use crate::config::Config;
use crate::effect::Effect;
use crate::event::{Event, ShardingEvent};
use crate::fixture::{Fixture, member, node, picture};
use crate::ident::{ClusterName, Role};
use crate::input::SendTarget;
use crate::kv::state::bucket::BucketName;
use crate::kv::state::settings::{BucketFields, BucketSettings};
use crate::membership::state::member::{Status, UpNumber};
use crate::message::Message;
use crate::oldest::Oldest;
use crate::ordered::OrderedSet;
use crate::reject::{Rejection, ShardingRejection};
use crate::sharding::protocol::registry::{
    Announcement, Judgement, REGISTRATIONS_PER_NODE_MAX, RegistrationVerdict,
};
use crate::sharding::state::fields::{FieldDifference, FieldDifferences, KindFields, KindKeeping, StoreMode};
use crate::sharding::state::ids::Term;
use crate::sharding::state::remember::RememberStore;
use crate::signal::Signal;
use crate::singleton::state::fields::{SingletonFields, SingletonHosting};
use crate::timer::Timer;

fn a() -> UniqueAddress {
    node("a", 1)
}

fn b() -> UniqueAddress {
    node("b", 2)
}

fn c() -> UniqueAddress {
    node("c", 3)
}

fn d() -> UniqueAddress {
    node("d", 4)
}

fn age(number: u32) -> UpNumber {
    UpNumber::new(number)
}

fn fields(shards: u32) -> KindFields {
    KindFields {
        name: Arc::from("carts"),
        role: None,
        shards,
        extractor: Arc::from("siphash-1-3"),
        keeping: Some(KindKeeping {
            store: StoreMode::Memory,
            remember_entities: None,
            lease: false,
        }),
    }
}

fn proxy(shards: u32) -> KindFields {
    KindFields {
        keeping: None,
        ..fields(shards)
    }
}

fn new(fields: KindFields) -> Announcement {
    Announcement {
        fields: RegistrationFields::Kind(fields),
        accepted: None,
        running: false,
    }
}

fn old(fields: KindFields, number: u64, running: bool) -> Announcement {
    Announcement {
        fields: RegistrationFields::Kind(fields),
        accepted: Some(number),
        running,
    }
}

fn kind() -> RegistrationId {
    RegistrationId::Kind(fields(1).id())
}

/// Who is accepted when all of these claim the kind, in the order of their nodes.
fn accepted(claims: &[(UniqueAddress, Announcement)]) -> Vec<UniqueAddress> {
    let mut all = RegistrationClaims::default();
    for (at, (node, said)) in claims.iter().enumerate() {
        let age = age(u32::try_from(at).unwrap() + 1);
        assert!(all.put(node, age, said.clone()));
    }
    let judged = all.judge(&kind()).into_iter();
    let accepted = judged.filter(|judged| matches!(judged.verdict, RegistrationVerdict::Accepted { .. }));
    accepted.map(|judged| judged.node).collect()
}

#[test]
fn of_two_that_differ_the_one_that_runs_wins_over_an_older_registration() {
    let claims = [(a(), old(fields(8), 1, false)), (b(), old(fields(9), 2, true))];
    assert_eq!(accepted(&claims), [b()]);
}

#[test]
fn of_two_that_run_and_of_two_that_do_not_the_older_registration_wins() {
    for running in [true, false] {
        let claims = [
            (a(), old(fields(8), 5, running)),
            (b(), old(fields(9), 2, running)),
        ];
        assert_eq!(accepted(&claims), [b()]);
    }
    let claims = [(a(), new(fields(8))), (b(), old(fields(9), 7, false))];
    assert_eq!(
        accepted(&claims),
        [b()],
        "one that was accepted is older than one that was not"
    );
}

#[test]
fn of_two_new_ones_the_older_member_wins() {
    let claims = [(b(), new(fields(8))), (a(), new(fields(9)))];
    assert_eq!(accepted(&claims), [b()], "listed first, hence the older");
}

#[test]
fn every_field_that_differs_is_named_with_both_values() {
    let ours = fields(8);
    let theirs = KindFields {
        role: Some(Role::new("worker").unwrap()),
        shards: 9,
        extractor: Arc::from("murmur2"),
        keeping: Some(KindKeeping {
            store: StoreMode::Other { code: 3 },
            remember_entities: Some(RememberStore::Events),
            lease: true,
        }),
        ..fields(9)
    };
    let text = alloc::format!("{}", FieldDifferences::between(&ours, &theirs).unwrap());
    let expected = "role is none here and worker in the cluster; shards is 8 here and 9 in the cluster; \
                    extractor is siphash-1-3 here and murmur2 in the cluster; \
                    store mode is memory here and number 3 of a later version in the cluster; \
                    remember-entities is off here and events in the cluster; \
                    lease is off here and on in the cluster";
    assert_eq!(text, expected);
    assert_eq!(FieldDifferences::between(&ours, &ours), None);
    let other = KindFields {
        name: Arc::from("orders"),
        ..fields(8)
    };
    let named = ours.differences(&other);
    assert!(matches!(named[..], [FieldDifference::Name { .. }]), "{named:?}");
}

#[test]
fn a_proxy_agrees_with_every_way_of_keeping_and_the_first_host_says_which() {
    let kept = |remember_entities, lease| KindFields {
        keeping: Some(KindKeeping {
            store: StoreMode::Memory,
            remember_entities,
            lease,
        }),
        ..fields(8)
    };
    let claims = [
        (a(), old(proxy(8), 1, false)),
        (b(), new(kept(Some(RememberStore::Data), false))),
        (c(), new(kept(None, false))),
        (d(), new(kept(Some(RememberStore::Events), false))),
    ];
    assert_eq!(accepted(&claims), [a(), b()]);
    let claims = [
        (a(), old(proxy(8), 1, false)),
        (b(), new(kept(None, true))),
        (c(), new(kept(None, false))),
        (d(), new(kept(None, true))),
    ];
    assert_eq!(accepted(&claims), [a(), b(), d()], "a proxy has no leases");
    let claims = [(a(), old(proxy(8), 1, false)), (b(), new(proxy(9)))];
    assert_eq!(accepted(&claims), [a()], "the rest counts for proxies too");
}

#[test]
fn claims_are_bounded() {
    let mut claims = RegistrationClaims::default();
    for shards in 1..=u32::try_from(CLAIMS_MAX).unwrap() {
        let node = node("n", u64::from(shards));
        assert!(claims.put(&node, age(1), new(fields(shards))));
    }
    assert!(
        !claims.put(&a(), age(1), new(fields(5_000))),
        "a new one does not fit"
    );
    assert!(
        claims.put(&a(), age(1), new(fields(5))),
        "one that agrees takes nothing"
    );
}

struct Rig {
    fixture: Fixture,
    registry: Registry,
}

impl Rig {
    /// The registry of `me` among `a`, `b` and `c`, all Up.
    fn on(me: UniqueAddress) -> Self {
        let mut config = Config::lan(ClusterName::new("test").unwrap());
        config.downing.down_removal_margin = Some(Duration::from_secs(20));
        let mut rig = Self {
            fixture: Fixture::with_config(me, config),
            registry: Registry::default(),
        };
        rig.view(&[(a(), Status::Up), (b(), Status::Up), (c(), Status::Up)]);
        rig
    }

    fn view(&mut self, members: &[(UniqueAddress, Status)]) -> Vec<Effect> {
        let members = members.iter().map(|(node, status)| member(node, *status));
        let after = picture(&self.fixture.me, members, &[]);
        let (before, after) = self.fixture.see(after);
        let cx = &mut self.fixture.cx();
        self.registry.on_view_changed(cx, &before, &after, |_| false);
        self.fixture.effects()
    }

    fn hears(&mut self, from: &UniqueAddress, message: RegistryMsg) -> (Vec<NewJudgement>, Vec<Effect>) {
        let cx = &mut self.fixture.cx();
        let decided = self.registry.on_message(cx, from, message, |_| false);
        (decided, self.fixture.effects())
    }

    fn announce(&mut self, from: &UniqueAddress, all: Vec<Announcement>) -> Vec<Effect> {
        self.hears(from, RegistryMsg::Announce { round: 1, all }).1
    }

    fn fire(&mut self, after: Duration) -> Vec<Effect> {
        let until = self.fixture.mono() + after;
        while let Some(timer) = self.fixture.next_timer(until) {
            match timer {
                Timer::Oldest(timer) => Oldest.on_timer(&mut self.fixture.cx(), &timer),
                Timer::Sharding(ShardingTimer::Registry(timer)) => {
                    self.registry.on_timer(&mut self.fixture.cx(), timer, |_| false);
                }
                other => panic!("{other:?}"),
            }
        }
        self.fixture.effects()
    }
}

fn term() -> Term {
    Term {
        up_number: UpNumber::FIRST,
        node: a(),
    }
}

fn says(to: UniqueAddress, message: RegistryMsg) -> Effect {
    Effect::Send {
        to: SendTarget::Node(to),
        message: Message::Sharding(ShardingMsg::Registry(message)),
    }
}

fn verdict(verdict: RegistrationVerdict) -> RegistryMsg {
    RegistryMsg::Verdicts {
        term: term(),
        round: 1,
        verdicts: vec![(kind(), verdict)],
    }
}

fn query() -> RegistryMsg {
    RegistryMsg::Query { term: term() }
}

#[test]
fn the_oldest_decides_only_when_every_member_has_spoken() {
    let mut rig = Rig::on(a());
    let asked = rig.announce(&b(), vec![new(fields(8))]);
    assert_eq!(asked, vec![says(c(), query())], "and itself, over the loopback");
    rig.fixture.outbox.loopback.clear();
    assert_eq!(rig.announce(&a(), vec![]), vec![]);
    assert_eq!(
        rig.fire(Duration::from_secs(2)),
        vec![says(c(), query())],
        "asked again"
    );
    let accepted = |number| verdict(RegistrationVerdict::Accepted { number });
    assert_eq!(rig.announce(&c(), vec![]), vec![says(b(), accepted(1))]);
    assert_eq!(
        rig.announce(&b(), vec![new(fields(8))]),
        vec![says(b(), accepted(1))],
        "repeated for who asks again"
    );
    assert_eq!(
        rig.announce(&c(), vec![new(fields(8))]),
        vec![says(c(), accepted(2))]
    );
}

#[test]
fn a_different_kind_is_refused_with_what_stands_and_said_once() {
    let mut rig = Rig::on(a());
    rig.announce(&a(), vec![]);
    rig.announce(&b(), vec![new(fields(8))]);
    rig.announce(&c(), vec![]);
    rig.fixture.effects();
    let refused = says(
        c(),
        verdict(RegistrationVerdict::Refused {
            standing: RegistrationFields::Kind(fields(8)),
        }),
    );
    let event = Effect::Notify(Event::Sharding {
        kind: fields(1).id(),
        event: ShardingEvent::KindRefusedOn {
            node: c(),
            difference: FieldDifferences::between(&fields(9), &fields(8)).unwrap(),
        },
    });
    assert_eq!(
        rig.announce(&c(), vec![new(fields(9))]),
        vec![event, refused.clone()]
    );
    assert_eq!(rig.announce(&c(), vec![new(fields(9))]), vec![refused]);
    // Once the first one has no such kind any more, the other may have it.
    rig.announce(&b(), vec![]);
    let effects = rig.announce(&c(), vec![new(fields(9))]);
    assert_eq!(
        effects,
        vec![says(c(), verdict(RegistrationVerdict::Accepted { number: 2 }))]
    );
}

#[test]
fn i_100_who_says_that_he_runs_it_and_was_accepted_first_does_not_take_the_place_of_what_stands() {
    let mut rig = Rig::on(a());
    rig.announce(&a(), vec![]);
    rig.announce(&b(), vec![new(fields(8))]);
    rig.announce(&c(), vec![]);
    let effects = rig.announce(&c(), vec![old(fields(9), 0, true)]);
    let standing = RegistrationFields::Kind(fields(8));
    assert!(effects.contains(&says(c(), verdict(RegistrationVerdict::Refused { standing }))));
    let is_to_b =
        |effect: &&Effect| matches!(effect, Effect::Send { to: SendTarget::Node(to), .. } if *to == b());
    assert_eq!(
        effects.iter().find(is_to_b),
        None,
        "nothing changes for who agrees with it"
    );
    assert_eq!(
        rig.announce(&b(), vec![new(fields(8))]),
        vec![says(b(), verdict(RegistrationVerdict::Accepted { number: 1 }))]
    );
}

#[test]
fn a_member_that_was_removed_unheard_may_run_the_kind_for_a_margin() {
    let mut rig = Rig::on(a());
    rig.announce(&a(), vec![]);
    rig.announce(&b(), vec![new(fields(8))]);
    rig.view(&[(a(), Status::Up), (b(), Status::Up), (c(), Status::Down)]);
    assert_eq!(rig.fire(Duration::from_secs(5)), vec![], "Down is not removed");
    assert_eq!(rig.view(&[(a(), Status::Up), (b(), Status::Up)]), vec![]);
    assert_eq!(rig.fire(Duration::from_secs(19)), vec![]);
    let accepted = verdict(RegistrationVerdict::Accepted { number: 1 });
    assert_eq!(rig.fire(Duration::from_secs(1)), vec![says(b(), accepted)]);
}

#[test]
fn what_a_removed_member_ran_stands_for_a_margin() {
    let mut rig = Rig::on(a());
    rig.announce(&a(), vec![]);
    rig.announce(&b(), vec![]);
    rig.announce(&c(), vec![new(fields(8))]);
    rig.view(&[(a(), Status::Up), (b(), Status::Up), (c(), Status::Down)]);
    rig.view(&[(a(), Status::Up), (b(), Status::Up)]);
    rig.fire(Duration::from_secs(19));
    let effects = rig.announce(&b(), vec![new(fields(9))]);
    let refused = verdict(RegistrationVerdict::Refused {
        standing: RegistrationFields::Kind(fields(8)),
    });
    assert!(effects.contains(&says(b(), refused)), "{effects:?}");
    rig.fire(Duration::from_secs(2));
    let effects = rig.announce(&b(), vec![new(fields(9))]);
    let accepted = verdict(RegistrationVerdict::Accepted { number: 2 });
    assert_eq!(effects, vec![says(b(), accepted)]);
}

#[test]
fn b_58_strange_and_doubled_kinds_are_refused_and_change_nothing() {
    let mut rig = Rig::on(a());
    let what = "announced kinds";
    let rejected = vec![Effect::Notify(Event::Rejected {
        peer: b(),
        rejection: Rejection::Sharding(ShardingRejection::OutOfRange { what }),
    })];
    assert_eq!(rig.announce(&b(), vec![new(fields(0))]), rejected);
    assert_eq!(rig.announce(&b(), vec![new(fields(8)), new(fields(9))]), rejected);
    assert_eq!(
        rig.announce(&node("x", 9), vec![new(fields(8))]),
        vec![],
        "a stranger"
    );
    let mut other = Rig::on(b());
    assert_eq!(
        other.announce(&c(), vec![new(fields(8))]),
        vec![],
        "not the oldest"
    );
}

#[test]
fn b_59_an_older_oldest_and_an_earlier_round_are_not_believed() {
    let mut rig = Rig::on(c());
    let cx = &mut rig.fixture.cx();
    rig.registry
        .add(cx, RegistrationFields::Kind(fields(8)), Some(7), |_| false);
    let announced = RegistryMsg::Announce {
        round: 1,
        all: vec![new(fields(8))],
    };
    assert_eq!(rig.fixture.effects(), vec![says(a(), announced)]);
    let (decided, _) = rig.hears(
        &b(),
        RegistryMsg::Verdicts {
            term: Term {
                up_number: age(2),
                node: b(),
            },
            round: 1,
            verdicts: vec![(kind(), RegistrationVerdict::TooMany)],
        },
    );
    assert!(decided.is_empty(), "a is older and stays");
    let members = [(a(), Status::Leaving), (b(), Status::Up), (c(), Status::Up)];
    let members = members.iter().map(|(node, status)| member(node, *status));
    rig.fixture.view = Arc::new(picture(&rig.fixture.me, members, &[]));
    let from_b = |round| RegistryMsg::Verdicts {
        term: Term {
            up_number: age(2),
            node: b(),
        },
        round,
        verdicts: vec![(kind(), RegistrationVerdict::Accepted { number: 1 })],
    };
    assert!(rig.hears(&b(), from_b(0)).0.is_empty(), "about an earlier list");
    let (decided, effects) = rig.hears(&a(), verdict(RegistrationVerdict::Accepted { number: 1 }));
    assert!(decided.is_empty(), "b is younger, and has spoken");
    let stale = Rejection::Sharding(ShardingRejection::StaleTerm);
    let rejected = Effect::Notify(Event::Rejected {
        peer: a(),
        rejection: stale,
    });
    assert_eq!(effects, vec![rejected]);
    let (decided, _) = rig.hears(&b(), from_b(1));
    assert_eq!((decided.len(), decided[0].waits), (1, Some(7)));
    assert_eq!(decided[0].judgement, Judgement::Accepted);
}

#[test]
fn what_is_not_decided_is_announced_again_and_to_the_new_oldest_at_once() {
    let mut rig = Rig::on(c());
    let cx = &mut rig.fixture.cx();
    rig.registry
        .add(cx, RegistrationFields::Kind(fields(8)), None, |_| false);
    rig.fixture.effects();
    let announced = || RegistryMsg::Announce {
        round: 1,
        all: vec![new(fields(8))],
    };
    assert_eq!(rig.fire(Duration::from_millis(100)), vec![says(a(), announced())]);
    assert_eq!(
        rig.fire(Duration::from_millis(100)),
        vec![],
        "less often each time"
    );
    assert_eq!(rig.fire(Duration::from_millis(100)), vec![says(a(), announced())]);
    let effects = rig.view(&[(a(), Status::Down), (b(), Status::Up), (c(), Status::Up)]);
    assert_eq!(effects, vec![], "nobody decides until the oldest is removed");
    let effects = rig.view(&[(b(), Status::Up), (c(), Status::Up)]);
    assert_eq!(effects, vec![says(b(), announced())]);
}

#[test]
fn the_kinds_of_a_node_are_bounded_in_number_and_in_bytes() {
    let mut rig = Rig::on(b());
    let named = |number: usize| KindFields {
        name: Arc::from(alloc::format!("kind {number}")),
        ..fields(8)
    };
    let mut ids = OrderedSet::new();
    for number in 0..KINDS_PER_NODE_MAX {
        let cx = &mut rig.fixture.cx();
        assert!(
            rig.registry
                .has_room_for(cx, &RegistrationFields::Kind(named(number)))
        );
        rig.registry
            .add(cx, RegistrationFields::Kind(named(number)), None, |_| false);
        ids.insert(named(number).id());
    }
    assert_eq!(ids.len(), KINDS_PER_NODE_MAX);
    let cx = &mut rig.fixture.cx();
    assert!(
        !rig.registry
            .has_room_for(cx, &RegistrationFields::Kind(named(999)))
    );
    let long = KindFields {
        name: Arc::from("n".repeat(255)),
        role: Some(Role::new(&"r".repeat(64)).unwrap()),
        extractor: Arc::from("e".repeat(64)),
        ..fields(65_536)
    };
    let all = KINDS_PER_NODE_MAX * (long.bytes_max() + 9);
    assert!(all < rig.fixture.config.limits.control_frame_bytes_max, "{all}");
}

fn billing(role: Option<&str>, hosting: Option<SingletonHosting>) -> RegistrationFields {
    RegistrationFields::Singleton(SingletonFields {
        name: Arc::from("carts"),
        role: role.map(|role| Role::new(role).unwrap()),
        hosting,
    })
}

const PLAIN: Option<SingletonHosting> = Some(SingletonHosting {
    lease: false,
    durable: false,
});

fn announced(fields: RegistrationFields) -> Announcement {
    Announcement {
        fields,
        accepted: None,
        running: false,
    }
}

#[test]
fn s_10_11_a_singleton_is_compared_in_role_lease_and_durability_and_never_with_a_kind_of_its_name() {
    let leased = Some(SingletonHosting {
        lease: true,
        durable: true,
    });
    let mut claims = RegistrationClaims::default();
    let all = [
        (a(), RegistrationFields::Kind(fields(8))),
        (a(), billing(Some("front"), None)),
        (b(), billing(Some("front"), PLAIN)),
        (c(), billing(Some("back"), PLAIN)),
        (d(), billing(Some("front"), leased)),
    ];
    for (at, (node, fields)) in all.into_iter().enumerate() {
        assert!(claims.put(&node, age(u32::try_from(at).unwrap() + 1), announced(fields)));
    }
    let judged = claims.judge(&billing(None, None).id());
    let differing = |node: UniqueAddress| {
        let judged = judged.iter().find(|judged| judged.node == node).unwrap();
        judged.differs.as_ref().map(|differs| alloc::format!("{differs}"))
    };
    assert_eq!((differing(a()), differing(b())), (None, None));
    let role = "role is back here and front in the cluster";
    assert_eq!(differing(c()).as_deref(), Some(role));
    let hosting = "lease is on here and off in the cluster; durable is on here and off in the cluster";
    assert_eq!(differing(d()).as_deref(), Some(hosting));
    let kinds = claims.judge(&kind());
    assert!(
        kinds
            .iter()
            .all(|judged| judged.node == a() && judged.differs.is_none())
    );
}

#[test]
fn s_10_11_proxies_do_not_keep_what_hosts_agreed_on_that_are_gone() {
    let leased = Some(SingletonHosting {
        lease: true,
        durable: false,
    });
    let mut claims = RegistrationClaims::default();
    let kept = |lease| KindFields {
        keeping: fields(8).keeping.map(|keeping| KindKeeping { lease, ..keeping }),
        ..fields(8)
    };
    for (node, fields) in [
        (a(), billing(None, None)),
        (b(), billing(None, leased)),
        (a(), RegistrationFields::Kind(proxy(8))),
        (b(), RegistrationFields::Kind(kept(true))),
    ] {
        assert!(claims.put(&node, age(1), announced(fields)));
    }
    let singleton = billing(None, None).id();
    let accepts = |claims: &mut RegistrationClaims, node: &UniqueAddress, id: &RegistrationId| {
        let judged = claims.judge(id).into_iter().find(|judged| judged.node == *node);
        matches!(judged.unwrap().verdict, RegistrationVerdict::Accepted { .. })
    };
    claims.judge(&singleton);
    claims.judge(&kind());
    claims.put(&c(), age(2), announced(billing(None, PLAIN)));
    claims.put(&c(), age(2), announced(RegistrationFields::Kind(kept(false))));
    assert!(!accepts(&mut claims, &c(), &singleton));
    assert!(!accepts(&mut claims, &c(), &kind()));
    claims.forget(&b());
    claims.put(&c(), age(2), announced(billing(None, PLAIN)));
    claims.put(&c(), age(2), announced(RegistrationFields::Kind(kept(false))));
    assert!(accepts(&mut claims, &c(), &singleton), "only a proxy is left");
    assert!(accepts(&mut claims, &c(), &kind()));
}

#[test]
fn s_10_11_another_nodes_singleton_is_refused_with_what_stands_and_users_hear_of_it_once() {
    let mut rig = Rig::on(a());
    rig.announce(&a(), vec![]);
    rig.announce(&b(), vec![announced(billing(Some("front"), PLAIN))]);
    rig.announce(&c(), vec![]);
    rig.fixture.effects();
    rig.fixture.heard();
    let differing = || vec![announced(billing(Some("back"), PLAIN))];
    let id = billing(None, None).id();
    let standing = billing(Some("front"), PLAIN);
    let refused = says(
        c(),
        RegistryMsg::Verdicts {
            term: term(),
            round: 1,
            verdicts: vec![(id, RegistrationVerdict::Refused { standing })],
        },
    );
    let said = |rig: &mut Rig| {
        let mut told = Vec::new();
        for signal in rig.fixture.heard() {
            if let Signal::RefusedOn(_, node, difference) = signal {
                told.push((node, alloc::format!("{difference}")));
            }
        }
        told
    };
    assert_eq!(rig.announce(&c(), differing()), vec![refused.clone()]);
    let text = String::from("role is back here and front in the cluster");
    assert_eq!(said(&mut rig), [(c(), text)]);
    assert_eq!(rig.announce(&c(), differing()), vec![refused]);
    assert_eq!(said(&mut rig), []);
}

#[test]
fn as_much_can_be_announced_as_a_node_may_have() {
    assert_eq!(
        KINDS_PER_NODE_MAX + crate::singleton::SINGLETONS_MAX + crate::kv::protocol::BUCKETS_MAX,
        REGISTRATIONS_PER_NODE_MAX
    );
    let long = RegistrationFields::Singleton(SingletonFields {
        name: Arc::from("n".repeat(255)),
        role: Some(Role::new(&"r".repeat(64)).unwrap()),
        hosting: PLAIN,
    });
    let mut rig = Rig::on(b());
    let max = rig.fixture.config.limits.control_frame_bytes_max / 2;
    let mut bytes = 0;
    for number in 0.. {
        let mut name = alloc::format!("{number}");
        name.push_str(&"n".repeat(255 - name.len()));
        let RegistrationFields::Singleton(fields) = long.clone() else {
            unreachable!()
        };
        let fields = RegistrationFields::Singleton(SingletonFields {
            name: Arc::from(name),
            ..fields
        });
        bytes += fields.bytes_max();
        let cx = &mut rig.fixture.cx();
        assert_eq!(
            rig.registry.has_room_for(cx, &fields),
            bytes <= max,
            "{number} of them, {bytes} bytes"
        );
        if bytes > max {
            break;
        }
        rig.registry.add(cx, fields, None, |_| false);
    }
}

#[test]
fn i_100_a_registration_s_number_at_its_end_leaves_numbers_for_others() {
    for said in [u64::MAX, u64::MAX >> 16] {
        let mut all = RegistrationClaims::default();
        assert!(all.put(&a(), age(1), old(fields(8), said, false)));
        assert!(all.put(&b(), age(2), new(fields(8))));
        let judged = all.judge(&kind());
        assert_eq!(judged.len(), 2);
        for one in judged {
            let RegistrationVerdict::Accepted { number } = one.verdict else {
                panic!("{one:?}");
            };
            assert!(number <= u64::MAX >> 16, "{number}");
        }
    }
}

#[test]
fn s_10_11_buckets_that_differ_in_the_role_alone_are_seen_by_the_oldest_of_all_members() {
    let bucket = |role: &str| {
        RegistrationFields::Bucket(BucketFields {
            name: BucketName::new("carts").unwrap(),
            settings: BucketSettings {
                role: Some(Role::new(role).unwrap()),
                ..BucketSettings::default()
            },
        })
    };
    let mut rig = Rig::on(a());
    rig.announce(&a(), vec![]);
    rig.announce(&b(), vec![announced(bucket("front"))]);
    rig.announce(&c(), vec![]);
    rig.fixture.heard();
    let refused = says(
        c(),
        RegistryMsg::Verdicts {
            term: term(),
            round: 1,
            verdicts: vec![(
                bucket("front").id(),
                RegistrationVerdict::Refused {
                    standing: bucket("front"),
                },
            )],
        },
    );
    assert_eq!(rig.announce(&c(), vec![announced(bucket("back"))]), vec![refused]);
    let [Signal::RefusedOn(id, node, difference)] = &rig.fixture.heard()[..] else {
        panic!("users hear of it");
    };
    assert_eq!((id, node), (&bucket("front").id(), &c()));
    assert_eq!(
        alloc::format!("{difference}"),
        "role is back here and front in the cluster"
    );
}
