//! Shards that need a lease (1.4, 1.16).

use super::*;
use crate::lease::protocol::{LeaseOrder, LeaseOutcome};
use crate::owner::Requester;

const GRANTED: LeaseOutcome = LeaseOutcome::Granted { token: 1 };

impl Rig {
    fn leasing() -> Self {
        let mut rig = Self::registered(true);
        rig.region.kind.settings.lease = true;
        rig
    }

    fn hosts(&mut self) -> Vec<Effect> {
        self.act(|region, shared| region.on_host_shard(shared, &a(), term(), (SHARD, TOKEN)))
    }

    fn lease(&mut self, outcome: LeaseOutcome) -> Vec<Effect> {
        self.act(|region, shared| region.on_lease(shared, SHARD, outcome))
    }

    /// Lets time pass, with this region's timers.
    fn waits(&mut self, seconds: u64) -> Vec<Effect> {
        let until = self.fixture.mono() + Duration::from_secs(seconds);
        let mut effects = Vec::new();
        while let Some(timer) = self.fixture.next_timer(until) {
            if let Timer::Sharding(ShardingTimer::Region(_, timer)) = timer {
                effects.extend(self.act(|region, shared| region.on_timer(shared, &timer)));
            }
        }
        effects
    }

    fn ends(&mut self, slot: Slot) -> Vec<Effect> {
        let tenant = self.slots.release(slot).unwrap();
        self.act(|region, shared| region.on_entity_stopped(shared, tenant.shard, &tenant.entity))
    }
}

fn name() -> crate::lease::protocol::LeaseName {
    "test-shard-files-3".into()
}

fn acquires() -> Effect {
    let order = LeaseOrder::Acquire {
        name: name(),
        owner: node("b", 2),
        time_to_live: Duration::from_secs(120),
    };
    Effect::Lease(Requester::Sharding, order)
}

fn releases() -> Effect {
    let order = LeaseOrder::Release {
        name: name(),
        owner: node("b", 2),
    };
    Effect::Lease(Requester::Sharding, order)
}

fn kills(slot: Slot) -> Effect {
    Effect::Host(Requester::Sharding, HostOrder::Kill { slot })
}

fn lost() -> Effect {
    event(ShardingEvent::ShardLeaseLost { shard: SHARD })
}

fn starts_in(effects: &[Effect]) -> usize {
    let starts =
        |effect: &&Effect| matches!(effect, Effect::Host(Requester::Sharding, HostOrder::Start { .. }));
    effects.iter().filter(starts).count()
}

#[test]
fn s_144_without_its_lease_a_shard_starts_nobody_and_what_waits_is_delivered_when_it_is_granted() {
    let mut rig = Rig::leasing();
    rig.route("1");
    let effects = rig.hosts();
    assert!(effects.contains(&acquires()), "{effects:?}");
    assert_eq!(starts_in(&effects), 0);
    assert_eq!(rig.lease(LeaseOutcome::Denied), []);
    assert_eq!(rig.route("2"), [], "the region buffers");
    assert_eq!(rig.waits(4), []);
    assert_eq!(rig.waits(1), [acquires()], "after lease_retry_interval");
    assert_eq!(rig.lease(LeaseOutcome::Denied), []);
    assert_eq!(rig.waits(5), [acquires()]);
    let effects = rig.lease(GRANTED);
    assert_eq!(starts_in(&effects), 1);
    assert_eq!(effects[1..], [delivers(slot(0), "1"), delivers(slot(0), "2")]);
    assert_eq!(rig.lease(GRANTED), [], "said twice");
    assert_eq!(rig.waits(60), []);
}

#[test]
fn s_145_a_lost_lease_kills_the_entities_at_once_and_they_begin_again_with_the_next_one() {
    let mut rig = Rig::leasing();
    rig.hosts();
    rig.lease(GRANTED);
    rig.route("1");
    assert_eq!(
        rig.lease(LeaseOutcome::Lost),
        [lost(), kills(slot(0))],
        "without a stop message"
    );
    assert_eq!(rig.fixture.stats.sharding.shard_leases_lost, 1);
    assert_eq!(rig.route("2"), [], "nobody takes it");
    assert_eq!(rig.lease(LeaseOutcome::Lost), [], "said twice");
    let effects = rig.ends(slot(0));
    assert!(
        effects.contains(&acquires()) && !effects.contains(&releases()),
        "{effects:?}"
    );
    assert_eq!(starts_in(&effects), 0);
    let effects = rig.lease(GRANTED);
    assert_eq!(starts_in(&effects), 1);
    assert!(matches!(
        effects.last(),
        Some(Effect::Host(Requester::Sharding, HostOrder::Deliver { .. }))
    ));
}

#[test]
fn i_43_what_waited_for_the_end_of_a_pause_goes_back_before_what_comes_after_the_lease_is_lost() {
    let mut rig = Rig::leasing();
    rig.hosts();
    rig.lease(GRANTED);
    rig.route("1");
    rig.region.on_paused();
    let sent = |text: &str, from: UniqueAddress| PendingMessage {
        from: Some(from),
        is_admitted: false,
        ..pending(text, None, 1)
    };
    let give = |rig: &mut Rig, text, from| rig.act(|region, shared| region.route(shared, sent(text, from)));
    assert_eq!(give(&mut rig, "2", c()), []);
    assert_eq!(
        give(&mut rig, "3", a()),
        [],
        "it waits until the node is sure again"
    );
    rig.lease(LeaseOutcome::Lost);
    assert_eq!(
        give(&mut rig, "4", c()),
        [
            hands_back(c(), envelope("2", None, 1)),
            hands_back(c(), envelope("4", None, 1))
        ],
        "in the order in which they were sent"
    );
    let mark = marks(1);
    assert_eq!(
        rig.act(|region, shared| region.on_mark(shared, &a(), mark)),
        [hands_back(a(), envelope("3", None, 1)), acknowledges(a(), 1)]
    );
}

#[test]
fn a_lease_is_given_back_after_the_shard_has_stopped_and_until_that_is_confirmed() {
    let mut rig = Rig::leasing();
    rig.hosts();
    rig.lease(GRANTED);
    rig.route("1");
    let effects = rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
    assert!(
        !effects.contains(&releases()),
        "something runs still: {effects:?}"
    );
    let effects = rig.ends(slot(0));
    let stopped = says(
        a(),
        ShardingBody::ShardStopped {
            term: term(),
            shard: SHARD,
        },
    );
    let at = |wanted: &Effect| effects.iter().position(|effect| effect == wanted);
    assert!(
        at(&releases()) < at(&stopped) && at(&releases()).is_some(),
        "{effects:?}"
    );
    assert_eq!(rig.waits(5), [releases()], "nobody has confirmed it");
    assert_eq!(rig.lease(LeaseOutcome::Released), []);
    assert_eq!(rig.waits(60), []);
    // It comes back: the word about the earlier one says nothing.
    assert!(rig.hosts().contains(&acquires()));
    assert_eq!(rig.lease(LeaseOutcome::Released), []);
    rig.lease(GRANTED);
    assert_eq!(starts_in(&rig.route("2")), 1);
}

#[test]
fn a_lease_that_is_granted_to_a_shard_that_has_gone_is_given_back() {
    let mut rig = Rig::leasing();
    rig.hosts();
    let effects = rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
    assert!(effects.contains(&releases()), "{effects:?}");
    assert_eq!(rig.lease(GRANTED), [releases()]);
}

#[test]
fn a_lease_that_is_granted_once_more_is_not_given_back_while_something_runs() {
    let mut rig = Rig::leasing();
    rig.hosts();
    rig.lease(GRANTED);
    rig.route("1");
    rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
    assert_eq!(rig.lease(GRANTED), [], "a late answer to a question asked twice");
    assert!(rig.ends(slot(0)).contains(&releases()));
    // One that was lost, and is granted while what was killed ends: the next incarnation has it.
    let mut rig = Rig::leasing();
    rig.hosts();
    rig.lease(GRANTED);
    rig.route("1");
    assert_eq!(rig.lease(LeaseOutcome::Lost), [lost(), kills(slot(0))]);
    assert_eq!(rig.lease(GRANTED), []);
    let effects = rig.ends(slot(0));
    assert!(
        !effects.contains(&releases()) && !effects.contains(&acquires()),
        "{effects:?}"
    );
    assert_eq!(starts_in(&rig.route("2")), 1);
}

/// It stops to begin anew where it is, and would keep its lease for that, or for a coordinator that waits for
/// it.
#[test]
fn i_54_a_shard_that_was_to_begin_anew_gives_its_lease_back_when_its_node_ends() {
    for reopens in [true, false] {
        let mut rig = Rig::leasing();
        rig.hosts();
        rig.lease(GRANTED);
        rig.route("1");
        rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
        if reopens {
            rig.hosts();
        }
        rig.act(|region, shared| region.halt(shared));
        let effects = rig.ends(slot(0));
        assert!(effects.contains(&releases()), "{effects:?}");
        assert!(!effects.contains(&acquires()), "{effects:?}");
    }
}

#[test]
fn a_shard_that_stops_for_a_hand_off_when_its_lease_is_lost_is_killed_and_handed_off() {
    let mut rig = Rig::leasing();
    rig.hosts();
    rig.lease(GRANTED);
    rig.route("1");
    rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
    assert_eq!(rig.lease(LeaseOutcome::Lost), [lost(), kills(slot(0))]);
    let effects = rig.ends(slot(0));
    assert!(
        !effects.contains(&releases()) && !effects.contains(&acquires()),
        "{effects:?}"
    );
    assert!(rig.region.runs_nothing());
}

#[test]
fn the_name_of_a_shards_lease_leads_back_to_it() {
    let mut rig = Rig::leasing();
    let cx = rig.fixture.cx();
    let leased = |name: &'static str| crate::sharding::region::leased(&cx, name);
    assert_eq!(leased("test-shard-files-3"), Some(("files", SHARD)));
    assert_eq!(leased("test-shard-a-7-12"), Some(("a-7", ShardId(12))));
    for strange in [
        "test-singleton-files",
        "test-shard-files",
        "other-shard-files-3",
        "test-shard-files-x",
        "",
    ] {
        assert_eq!(leased(strange), None, "{strange}");
    }
}

#[test]
fn a_hand_off_that_is_cancelled_takes_back_nothing_whose_lease_was_lost() {
    let mut rig = Rig::leasing();
    rig.hosts();
    rig.lease(GRANTED);
    rig.route("1");
    rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
    rig.lease(LeaseOutcome::Lost);
    assert_eq!(rig.hosts(), [], "it does not run");
    assert_eq!(rig.route("2"), []);
    let effects = rig.ends(slot(0));
    assert!(effects.contains(&acquires()), "{effects:?}");
    assert_eq!(starts_in(&effects), 0);
    assert_eq!(starts_in(&rig.lease(GRANTED)), 1);
}

/// A shard of which some have not been started when its lease is lost is started from the beginning with the
/// next one.
#[test]
fn s_145_nobody_of_an_earlier_lease_is_still_to_be_started_under_the_next() {
    use super::remembering::{config, lives, slot_of};
    use crate::sharding::state::extractor::ShardExtractor;
    use crate::sharding::state::remember::{EntityRecovery, RememberStore};

    let mut config = config();
    config.sharding.entity_recovery = EntityRecovery::ConstantRate {
        frequency: Duration::from_secs(2),
        entities: 2,
    };
    let mut rig = Rig::with_config(true, config);
    rig.region.kind.settings.lease = true;
    rig.region.kind.settings.remember_entities = Some(RememberStore::Data);
    rig.region.kind.settings.extractor = ShardExtractor::custom("third", |_, _| SHARD.0);
    rig.act(|region, shared| region.on_register_ack(shared, &a(), term()));
    rig.hosts();
    rig.lease(GRANTED);
    let all = ["v", "w", "x", "y", "z"];
    rig.load(&all);
    let effects = rig.wait(Duration::from_secs(1));
    assert_eq!(lives(&effects), ["start v", "start w"]);
    let running = ["v", "w"].map(|entity| slot_of(&effects, entity));
    rig.lease(LeaseOutcome::Lost);
    for slot in running {
        rig.stop(slot);
    }
    rig.lease(GRANTED);
    rig.load(&all);
    for batch in [&["start v", "start w"][..], &["start x", "start y"], &["start z"]] {
        assert_eq!(
            lives(&rig.wait(Duration::from_secs(2))),
            batch,
            "from the beginning"
        );
    }
}

/// Who has the lease by then moves them too, and whoever was moved may have stopped and been forgotten since.
#[test]
fn s_145_nobody_is_moved_out_of_a_shard_whose_lease_is_lost() {
    use super::remembering::{config, slot_of};
    use super::starting::{RETRY, by_name, said, tells};
    use crate::sharding::state::remember::RememberStore;

    let moved = ["moved"];
    for is_handed_off in [false, true] {
        let mut rig = Rig::with_config(true, config());
        rig.region.kind.settings.lease = true;
        rig.region.kind.settings.remember_entities = Some(RememberStore::Data);
        rig.region.kind.settings.extractor = by_name();
        rig.act(|region, shared| region.on_register_ack(shared, &a(), term()));
        rig.hosts();
        rig.lease(GRANTED);
        rig.load(&["moved", "stays"]);
        let stays = slot_of(&rig.wait(Duration::from_millis(1)), "stays");
        assert_eq!(said(&rig.lives_at(c())), [tells(c(), &moved)]);
        rig.lease(LeaseOutcome::Lost);
        assert_eq!(said(&rig.wait(RETRY * 3)), [], "while it stops");
        if is_handed_off {
            rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
        }
        rig.stop(stays);
        assert_eq!(said(&rig.wait(RETRY * 3)), [], "without a lease");
        assert_eq!(said(&rig.started(&moved)), []);
        assert!(!rig.is_asked(), "nothing is forgotten");
        if !is_handed_off {
            rig.lease(GRANTED);
            rig.load(&["moved", "stays"]);
            assert_eq!(said(&rig.wait(RETRY)), [tells(c(), &moved)], "under the next one");
        }
    }
}
