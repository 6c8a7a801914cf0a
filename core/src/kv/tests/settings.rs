//! Settings of one bucket that differ between nodes: whoever has others takes no part, and hears in what they
//! differ. The registry of kinds is played by the world: what is registered first stands.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

use super::world::{World, carts, get, settings, values};
use crate::effect::{Answer as AnyAnswer, CommandError};
use crate::ident::Role;
use crate::journal::state::StoreId;
use crate::kv::protocol::{BucketBody, Event, KvCommandError, Msg, RangeStatement};
use crate::kv::state::level::Level;
use crate::kv::state::settings::{BucketFields, BucketSettings};
use crate::sharding::protocol::registry::Judgement;
use crate::sharding::state::fields::FieldDifferences;

const SECOND: Duration = Duration::from_secs(1);

/// What the registry knows.
#[derive(Default)]
pub(super) struct Registry {
    standing: Option<BucketSettings>,
    /// What it has not decided about, while it decides nothing.
    waiting: Option<Vec<(usize, BucketFields)>>,
}

impl World {
    /// A node has registered a bucket.
    pub(super) fn on_registered(&mut self, index: usize, fields: BucketFields) {
        match &mut self.registry.waiting {
            Some(waiting) => waiting.push((index, fields)),
            None => self.judge(index, fields),
        }
    }

    fn judge(&mut self, index: usize, BucketFields { name, settings }: BucketFields) {
        let standing = self.registry.standing.get_or_insert_with(|| settings.clone());
        let judgement = match settings.differs_from(standing) {
            Some(difference) => Judgement::Refused(difference),
            None => Judgement::Accepted,
        };
        self.with(index, |machine, cx| machine.on_judged(cx, &name, judgement));
    }
}

fn others() -> [BucketSettings; 7] {
    let of = |change: fn(&mut BucketSettings)| {
        let mut other = settings();
        change(&mut other);
        other
    };
    [
        of(|it| it.copies = 4),
        of(|it| it.read_least = Level::All),
        of(|it| it.write_least = Level::Replicas(3)),
        of(|it| it.ranges = 16),
        of(|it| it.merge = Some("union".into())),
        of(|it| it.is_durable = true),
        of(|it| it.role = Some(Role::new("keeper").unwrap())),
    ]
}

fn differs(difference: &FieldDifferences) -> Option<AnyAnswer> {
    let difference = difference.clone();
    let error = KvCommandError::Differs { difference };
    Some(AnyAnswer::Refused(CommandError::Kv(error)))
}

#[test]
fn every_setting_is_compared_and_both_values_are_named() {
    let said: Vec<_> = others()
        .iter()
        .map(|other| other.differs_from(&settings()).unwrap().to_string())
        .collect();
    let expected = [
        "copies is 4 here and 3 in the cluster; least R is 3 here and 2 in the cluster; least W is 3 here \
         and 2 in the cluster",
        "least R is 3 here and 2 in the cluster",
        "least W is 3 here and 2 in the cluster",
        "ranges is 16 here and 8 in the cluster",
        "merge is union here and none in the cluster",
        "durable is on here and off in the cluster",
        "role is keeper here and none in the cluster",
    ];
    assert_eq!(said, expected);
    let counted = BucketSettings {
        read_least: Level::Replicas(2),
        ..settings()
    };
    assert_eq!(counted.differs_from(&settings()), None, "as many of the copies");
}

#[test]
fn who_opens_a_bucket_with_other_settings_is_refused_and_hears_which_stand() {
    for other in others() {
        let mut world = World::new(4);
        world.open(0..3);
        let difference = other.differs_from(&settings()).unwrap();
        let token = world.open_as(3, other);
        world.run(SECOND * 5);
        assert_eq!(world.peers[3].answers.get(&token).cloned(), differs(&difference));
        let names = |key: &[u8]| key.windows(5).any(|part| part == b"carts");
        let is_kept = world.peers[3].store.entries().any(|(key, _)| names(key));
        assert!(!is_kept, "nothing of it is kept");
        assert_eq!(world.peers[3].events, [Event::Refused { difference }]);
        assert!(world.peers[3].machine.lead(&carts()).is_none());
        world.put(0, "a", "1");
        let again = world.open_as(3, settings());
        world.run(SECOND);
        assert_eq!(world.peers[3].answers.get(&again), Some(&AnyAnswer::Done));
        assert_eq!(values(&world.get(3, "a")), ["1"]);
    }
}

#[test]
fn users_of_the_oldest_member_hear_whose_bucket_was_refused() {
    let mut world = World::new(2);
    let node = world.peers[1].fixture.me.clone();
    let difference = others()[6].differs_from(&settings()).unwrap();
    let said = (node.clone(), difference.clone());
    world.with(0, |machine, cx| {
        machine.on_refused_on(cx, carts(), said.0, said.1)
    });
    assert_eq!(world.peers[0].events, [Event::RefusedOn { node, difference }]);
}

#[test]
fn nobody_hears_of_a_bucket_before_its_settings_stand() {
    let mut world = World::new(3);
    world.registry.waiting = Some(Vec::new());
    world.lose = |_| panic!("somebody hears of it");
    let tokens: Vec<u64> = (0..3).map(|index| world.open_as(index, settings())).collect();
    world.run(SECOND * 5);
    for (index, token) in tokens.iter().enumerate() {
        let peer = &world.peers[index];
        assert_eq!(peer.answers.get(token), None);
        assert!(peer.machine.lead(&carts()).is_none());
    }
    world.lose = |_| false;
    for (index, fields) in world.registry.waiting.take().unwrap() {
        world.judge(index, fields);
    }
    world.run(SECOND * 5);
    for (index, token) in tokens.iter().enumerate() {
        assert_eq!(world.peers[index].answers.get(token), Some(&AnyAnswer::Done));
    }
    world.put(2, "a", "1");
}

#[test]
fn a_bucket_that_is_refused_after_all_ends_and_goes_on_when_its_settings_stand() {
    let mut world = World::new(3);
    world.open(0..3);
    world.put(0, "a", "1");
    let difference = settings().differs_from(&others()[6]).unwrap();
    for index in 0..3 {
        let refused = Judgement::Refused(difference.clone());
        world.with(index, |machine, cx| machine.on_judged(cx, &carts(), refused));
        let difference = difference.clone();
        assert!(world.peers[index].events.contains(&Event::Refused { difference }));
    }
    world.run(SECOND * 3);
    assert!(world.peers[0].machine.lead(&carts()).is_none());
    let token = world.begin(1, "a", get());
    let closed = AnyAnswer::Refused(CommandError::Kv(KvCommandError::NotOpen));
    assert_eq!(world.peers[1].answers.get(&token), Some(&closed));
    for index in 0..3 {
        world.with(index, |machine, cx| {
            machine.on_judged(cx, &carts(), Judgement::Accepted)
        });
    }
    world.run(SECOND * 5);
    assert_eq!(values(&world.get(1, "a")), ["1"], "what it holds is the same");
}

#[test]
fn a_bucket_for_which_the_cluster_has_no_room_is_refused() {
    let mut world = World::new(1);
    world.registry.waiting = Some(Vec::new());
    let token = world.open_as(0, settings());
    world.with(0, |machine, cx| {
        machine.on_judged(cx, &carts(), Judgement::TooMany)
    });
    let refused = AnyAnswer::Refused(CommandError::Kv(KvCommandError::TooManyBuckets));
    assert_eq!(world.peers[0].answers.get(&token), Some(&refused));
}

#[test]
fn a_coordinator_with_other_settings_says_so_and_gives_way_when_nobody_has_them() {
    let mut world = World::new(4);
    let other = others()[3].clone();
    let difference = settings().differs_from(&other).unwrap();
    // Of a member that the registry does not know any more.
    let look = Msg {
        to_uid: world.peers[0].fixture.me.uid(),
        bucket: carts(),
        body: BucketBody::Ranges(RangeStatement::Look {
            settings: other.clone(),
            store: Some(StoreId(77)),
        }),
    };
    let from = world.peers[3].fixture.me.clone();
    world.with(0, |machine, cx| machine.on_message(cx, &from, look));
    let token = world.open_as(1, settings());
    world.run(SECOND);
    assert_eq!(world.peers[1].answers.get(&token).cloned(), differs(&difference));
    world.remove(3);
    let token = world.open_as(1, settings());
    world.run(SECOND * 5);
    assert_eq!(world.peers[1].answers.get(&token), Some(&AnyAnswer::Done));
    let lead = world.peers[0].machine.lead(&carts()).unwrap();
    assert_eq!(lead.settings(), &settings());
}
