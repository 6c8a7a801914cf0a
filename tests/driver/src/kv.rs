//! The keyed store over real links: buckets are called from nodes that own nothing and from owners, one of
//! which is lost; ranges move to a newcomer. Spec: sharding 5.6, 10.7, 10.19.

use std::collections::BTreeSet;
use std::time::Duration;

use quorate_conformance::support::{
    all_up, both, cluster_of, eventually, first, joined, joined_as, node, within,
};
use quorate_core::event::Event;
use quorate_driver::kv::{
    BucketSettingsError, CallError, Kv, KvBuilder, KvCommandError, KvContext, KvEvent, KvGetError,
    KvPutError, KvPutIfError, Level, LevelError, PutError, VALUES_BYTES_MAX,
};
use quorate_driver::spi::Adapter;
use quorate_driver::store::{MemoryStore, Store};
use quorate_driver::{Cluster, ClusterError, ClusterEvent, CommandError, Security};

/// Members that own ranges; two others only call.
const KEEPERS: usize = 3;
pub(crate) const RANGES: u16 = 32;

/// The bucket of these tests on a node.
pub(crate) fn described<V>(node: &Cluster, name: &str) -> KvBuilder<V> {
    node.kv(name).copies(3).ranges(RANGES).memory()
}

/// Three keepers and two callers, Up, the callers last.
async fn keepers_and_callers<A: Adapter>(security: &Security) -> Vec<Cluster> {
    let mut nodes = cluster_of::<A>(KEEPERS, || node::<A>(security).role("keeper")).await;
    let seed = nodes[0].address().address().clone();
    for _ in 0..2 {
        nodes.push(joined::<A>(&seed, security).await);
    }
    for node in &nodes {
        all_up::<A>(node, nodes.len()).await;
    }
    nodes
}

/// The bucket, opened on all nodes.
pub(crate) async fn opened<A: Adapter, V>(
    nodes: &[Cluster],
    describe: impl Fn(&Cluster) -> KvBuilder<V>,
) -> Vec<Kv<V>> {
    let mut handles = Vec::new();
    for node in nodes {
        let open = describe(node).open();
        let handle = within::<A, _>("a bucket is open", open).await;
        handles.push(handle.expect("all say the same of it"));
    }
    handles
}

/// How many copies of ranges the nodes have together.
pub(crate) async fn copies(nodes: &[Cluster]) -> u64 {
    let mut all = 0;
    for node in nodes {
        let counters = node.stats().await.expect("it runs").core.kv;
        all += counters.ranges_taken - counters.ranges_given;
    }
    all
}

/// Whether a range is being moved. Who ends a move may not be the one that has begun it.
async fn is_moving(nodes: &[Cluster]) -> bool {
    let (mut begun, mut over) = (0, 0);
    for node in nodes {
        let counters = node.stats().await.expect("it runs").core.kv;
        begun += counters.moves_begun;
        over += counters.moves_ended + counters.moves_undone;
    }
    begun > over
}

/// Waits until every range has three copies on these nodes, and none is being moved: a call at the level of
/// all needs who comes as well. Between two moves of a balance there is one look with none at most.
pub(crate) async fn whole<A: Adapter>(nodes: &[Cluster]) {
    let wanted = 3 * u64::from(RANGES);
    let mut looks = 0;
    eventually::<A>("every range has three copies", async || {
        let is_still = copies(nodes).await == wanted && !is_moving(nodes).await;
        looks = if is_still { looks + 1 } else { 0 };
        looks == 5
    })
    .await;
}

/// The values of a key, in their order.
pub(crate) async fn values<V: serde::de::DeserializeOwned + Ord + 'static>(
    bucket: &Kv<V>,
    key: &str,
) -> Vec<V> {
    let mut values = bucket.get(key).await.expect("it is answered").values;
    values.sort_unstable();
    values
}

/// A value that a node put which owns nothing is read at every level from every node; values of which nobody
/// saw the other are siblings until one is put that has seen both.
pub async fn s_332_a_bucket_is_read_and_written_from_every_node<A: Adapter>(security: &Security) {
    let nodes = keepers_and_callers::<A>(security).await;
    let carts = opened::<A, String>(&nodes, |node| described(node, "carts").role("keeper")).await;
    let [.., one, other] = &carts[..] else { panic!() };
    assert_eq!(values(one, "u-1").await, [""; 0], "nobody has put anything");

    let tea = "tea".to_owned();
    let put = one.put("u-1", &tea, &KvContext::default()).level(Level::All);
    put.await.expect("all owners have it");
    for cart in &carts {
        for level in [Level::One, Level::Quorum, Level::All, Level::Replicas(2)] {
            let found = cart.get("u-1").level(level).await.expect("it is answered");
            assert_eq!(
                (found.values, found.version),
                (vec![tea.clone()], None),
                "{level:?}"
            );
        }
    }
    assert_eq!(copies(&nodes[KEEPERS..]).await, 0, "callers own nothing");

    // The second has not seen the first.
    let milk = other.put("u-1", &"milk".to_owned(), &KvContext::default());
    milk.await.expect("a quorum has it");
    let found = one.get("u-1").await.expect("it is answered");
    assert_eq!(found.values.len(), 2);
    let context = KvContext::from_bytes(&found.context.to_bytes()).expect("it is one");
    let both = one.put("u-1", &"tea, milk".to_owned(), &context);
    both.await.expect("a quorum has it");
    assert_eq!(values(other, "u-1").await, ["tea, milk"]);

    // A deletion ends what was seen, and no more.
    let seen = other.get("u-1").await.expect("it is answered").context;
    one.put("u-1", &"rum".to_owned(), &KvContext::default())
        .await
        .expect("a quorum has it");
    other.delete("u-1", &seen).await.expect("a quorum has it");
    for cart in &carts {
        assert_eq!(values(cart, "u-1").await, ["rum"]);
    }

    // What ends by itself.
    let short = one
        .put("u-2", &tea, &KvContext::default())
        .ttl(Duration::from_millis(300));
    short.await.expect("a quorum has it");
    eventually::<A>("a value ends", async || values(other, "u-2").await.is_empty()).await;

    // A bucket of the same node, merged where it is read.
    let union = |mut one: BTreeSet<u32>, other: BTreeSet<u32>| {
        one.extend(other);
        one
    };
    let sets = opened::<A, BTreeSet<u32>>(&nodes, |node| {
        described(node, "sets").role("keeper").merge("union", union)
    })
    .await;
    for (number, set) in (0..).zip(&sets) {
        let own = BTreeSet::from([number, 7]);
        set.put("s", &own, &KvContext::default())
            .await
            .expect("a quorum has it");
    }
    let found = sets[3].get("s").await.expect("it is answered").into_value();
    assert_eq!(found, Some(BTreeSet::from([0, 1, 2, 3, 4, 7])));
}

/// Of two conditional puts that expect the same version one takes effect, and one that comes later hears of
/// it; both ways of writing a key exclude each other.
pub async fn of_two_conditional_puts_one_takes_effect_and_a_later_one_names_it<A: Adapter>(
    security: &Security,
) {
    let nodes = keepers_and_callers::<A>(security).await;
    let locks = opened::<A, u32>(&nodes, |node| described(node, "locks").role("keeper")).await;
    let (one, other) = (&locks[4], &locks[1]);
    let mut held = None;
    for round in 0..8_u32 {
        let values = [2 * round, 2 * round + 1];
        let puts = both(async { one.put_if("door", held, &values[0]).await }, async {
            other.put_if("door", held, &values[1]).await
        });
        let (first, second) = within::<A, _>("both are answered", puts).await;
        let mut seen = None;
        for lock in &locks {
            let found = lock.get("door").await.expect("it is answered");
            let version = found.version.expect("one of them took effect");
            assert_eq!(
                *seen.get_or_insert((version, found.values.clone())),
                (version, found.values)
            );
        }
        let (version, value) = seen.expect("five have read it");
        for (put, own) in [first, second].into_iter().zip(values) {
            match put {
                Ok(own_version) => assert_eq!((own_version, vec![own]), (version, value.clone())),
                Err(KvPutIfError::Conflict { present }) => assert_eq!(present, Some(version)),
                // It was overtaken in the middle.
                Err(error) => assert!(error.may_have_been_handled(), "{error}"),
            }
        }
        held = Some(version);
    }
    let late = other.put_if("door", None, &99).await;
    assert_eq!(late, Err(KvPutIfError::Conflict { present: held }));
    let ordinary = one.put("door", &1, &KvContext::default()).await;
    assert_eq!(ordinary, Err(KvPutError::Failed(CallError::Conditional)));
    let ended = one.delete_if("door", held).await.expect("it is the present one");
    let found = other.get("door").await.expect("it is answered");
    assert_eq!((found.values, found.version), (vec![], Some(ended)));
    // No value is expected, and none is there.
    one.put_if("door", None, &100).await.expect("it takes effect");

    one.put("gate", &1, &KvContext::default())
        .await
        .expect("a quorum has it");
    let conditional = other.put_if("gate", None, &2).await;
    assert_eq!(conditional, Err(KvPutError::Failed(CallError::Ordinary).into()));
}

/// A bucket that two members open with different roles has two oldest members, neither of which knows of the
/// other: the second is refused all the same, with the role on both sides, and the oldest member of all hears
/// of it. The other settings are compared in the same way.
pub async fn s_10_11_a_bucket_with_another_role_is_refused_from_any_member<A: Adapter>(security: &Security) {
    let nodes = keepers_and_callers::<A>(security).await;
    let [oldest, keeper, second, one, other] = &nodes[..] else {
        panic!()
    };
    let mut heard = oldest.events();
    let open = described::<u32>(keeper, "carts").role("keeper").open();
    within::<A, _>("the first one stands", open)
        .await
        .expect("it stands");
    for (node, differing, field) in [
        (
            one,
            described::<u32>(one, "carts"),
            "role is none here and keeper in the cluster",
        ),
        (
            other,
            described::<u32>(other, "carts").role("caller"),
            "role is caller here and keeper in the cluster",
        ),
        (
            second,
            described::<u32>(second, "carts")
                .role("keeper")
                .ranges(RANGES + 1),
            "ranges is 33 here and 32 in the cluster",
        ),
    ] {
        let refused = within::<A, _>("it is refused", differing.open()).await;
        let Err(ClusterError::Refused(CommandError::Kv(KvCommandError::Differs { difference }))) =
            refused.map(drop)
        else {
            panic!("it has other settings than the first one");
        };
        assert_eq!(difference.to_string(), field);
        let told = async {
            loop {
                let event = heard.next().await.expect("it runs");
                if let ClusterEvent::Event(Event::Kv {
                    event: KvEvent::RefusedOn { node, difference },
                    ..
                }) = event
                {
                    return (node, difference);
                }
            }
        };
        let told = within::<A, _>("the oldest member hears of it", told).await;
        assert_eq!(told, (node.address().clone(), difference));
    }
    let again = described::<u32>(one, "carts").role("keeper").open();
    within::<A, _>("it says the same now", again)
        .await
        .expect("it stands");
}

/// What no bucket, key, level or value can be is refused, by name.
pub async fn b_62_what_no_bucket_can_take_is_refused<A: Adapter>(security: &Security) {
    let nodes = cluster_of::<A>(3, || node::<A>(security)).await;
    let settings = async |builder: KvBuilder<u32>| builder.open().await.map(drop);
    let refused = |error: BucketSettingsError| {
        let error = KvCommandError::Settings(error);
        Err(ClusterError::Refused(CommandError::Kv(error)))
    };
    let level = |found: usize| LevelError { copies: 3, found };
    let [first, second, ..] = &nodes[..] else { panic!() };
    assert_eq!(
        settings(described(first, "b").reads(Level::Replicas(4))).await,
        refused(level(4).into())
    );
    assert_eq!(
        settings(described(first, "b").ranges(0)).await,
        refused(BucketSettingsError::Ranges { found: 0 })
    );
    let nameless = settings(described(first, "b").merge("", u32::max)).await;
    assert_eq!(nameless, refused(BucketSettingsError::MergeName));
    assert!(settings(described(first, "b").copies(0)).await.is_err());
    for name in [String::new(), "n".repeat(65)] {
        let error = settings(described(first, &name)).await;
        assert!(matches!(error, Err(ClusterError::Bucket(_))), "{error:?}");
    }

    let buckets = opened::<A, Vec<u8>>(&nodes, |node| described(node, "b")).await;
    let differs = described::<u32>(second, "b").copies(2).open().await;
    assert!(
        matches!(
            differs.map(drop),
            Err(ClusterError::Refused(CommandError::Kv(
                KvCommandError::Differs { .. }
            )))
        ),
        "it is open with other settings"
    );
    let (bucket, none) = (&buckets[2], KvContext::default());
    let long = "k".repeat(256);
    for key in ["", &long] {
        assert_eq!(bucket.get(key).await, Err(KvGetError::BadKey));
        assert_eq!(bucket.put(key, &vec![], &none).await, Err(KvPutError::BadKey));
    }
    for (count, found) in [(0, 0), (4, 4)] {
        let asked = bucket.get("k").level(Level::Replicas(count)).await;
        assert_eq!(asked, Err(KvGetError::Failed(CallError::Level(level(found)))));
    }
    // As long as may be, with its own length in front, and one byte more.
    let mut value = vec![7; VALUES_BYTES_MAX - 3];
    let put = bucket.put(&long[1..], &value, &none);
    put.await.expect("it has room");
    assert_eq!(
        bucket.get(&long[1..]).await.expect("it is there").values[0].len(),
        value.len()
    );
    value.push(7);
    let more = bucket.put("k", &value, &none).await;
    assert_eq!(more, Err(KvPutError::Failed(CallError::Put(PutError::Bytes))));
    let eternal = bucket.put("k", &vec![], &none).ttl(Duration::MAX).await;
    assert_eq!(eternal, Err(KvPutError::Failed(CallError::Ttl)));
}

/// Every key is answered when an owner is lost, is copied to who took no part, and goes over to a newcomer;
/// nothing that was acknowledged is missing.
pub async fn i_70_keys_outlive_an_owner_and_go_over_to_a_newcomer<A: Adapter>(security: &Security) {
    const KEYS: u32 = 100;
    let mut nodes = cluster_of::<A>(4, || node::<A>(security)).await;
    let mut words = opened::<A, u32>(&nodes, |node| described(node, "words")).await;
    whole::<A>(&nodes).await;
    let key = |number: u32| format!("w-{number}");
    for number in 0..KEYS {
        let word = &words[number as usize % words.len()];
        let put = word.put(key(number), &number, &KvContext::default());
        put.await.expect("a quorum has it");
    }

    // Not the oldest, which coordinates.
    let lost = nodes.pop().expect("there are four");
    words.pop();
    lost.stop().await;
    for number in 0..KEYS {
        let word = &words[number as usize % words.len()];
        assert_eq!(values(word, &key(number)).await, [number], "while one is missing");
    }
    for node in &nodes {
        all_up::<A>(node, nodes.len()).await;
    }
    whole::<A>(&nodes).await;

    let seed = nodes[0].address().address().clone();
    let newcomer = joined_as::<A>(node::<A>(security), &seed).await;
    let own = within::<A, _>("it is open", described(&newcomer, "words").open()).await;
    let own = own.expect("it says the same as all");
    nodes.push(newcomer);
    let newest = &nodes[nodes.len() - 1..];
    eventually::<A>("ranges go over to the newcomer", async || {
        copies(newest).await > 0
    })
    .await;
    words.push(own);
    for number in 0..KEYS {
        let word = &words[number as usize % words.len()];
        let context = word.get(key(number)).await.expect("it is answered").context;
        let put = word.put(key(number), &(number + KEYS), &context);
        put.await.expect("a quorum has it");
    }
    whole::<A>(&nodes).await;
    for number in 0..KEYS {
        let found = words[number as usize % words.len()].get(key(number));
        let found = found.level(Level::All).await.expect("all answer");
        assert_eq!(found.values, [number + KEYS]);
    }
}

/// All nodes of a durable bucket are killed and started again, in another order: what was acknowledged is
/// there, and conditional puts know what they had decided.
pub async fn keys_are_there_after_all_nodes_were_killed<A: Adapter>(security: &Security) {
    let stores = [(); KEEPERS].map(|()| MemoryStore::new());
    keys_are_there_again_on::<A, _>(security, |index| stores[index].clone()).await;
}

/// The same with the stores that `open` makes, anew for each life of each of three nodes.
pub async fn keys_are_there_again_on<A: Adapter, S: Store>(security: &Security, open: impl Fn(usize) -> S) {
    const KEYS: u32 = 30;
    let key = |number: u32| format!("k-{number}");
    let mut decided = None;
    for (life, order) in (0..).zip([[0, 1, 2], [2, 0, 1]]) {
        let mut nodes: Vec<Cluster> = Vec::new();
        for index in order {
            let described = node::<A>(security).store(open(index));
            let seed = nodes.first().map(|node| node.address().address().clone());
            nodes.push(match seed {
                Some(seed) => joined_as::<A>(described, &seed).await,
                None => first::<A>(described).await,
            });
        }
        // Owners that were there before are found when all have opened it.
        let opens: Vec<Kv<u32>> = {
            let open = |node: &Cluster| node.kv::<u32>("stock").ranges(RANGES).open();
            let [one, two, three] = &nodes[..] else { panic!() };
            let all = both(open(one), both(open(two), open(three)));
            let (one, (two, three)) = within::<A, _>("the bucket is open", all).await;
            let opened = [one, two, three];
            opened.into_iter().map(|kv| kv.expect("they agree")).collect()
        };
        if life > 0 {
            for number in 0..KEYS {
                let stock = &opens[number as usize % opens.len()];
                assert_eq!(
                    values(stock, &key(number)).await,
                    [number],
                    "after all were killed"
                );
            }
            let found = opens[0].get("seat").await.expect("it is answered");
            assert_eq!((found.values, found.version), (vec![7], decided));
            let late = opens[1].put_if("seat", None, &9).await;
            assert_eq!(late, Err(KvPutIfError::Conflict { present: decided }));
        } else {
            for number in 0..KEYS {
                let stock = &opens[number as usize % opens.len()];
                let put = stock.put(key(number), &number, &KvContext::default());
                put.await.expect("a quorum has it");
            }
            let put = opens[2].put_if("seat", None, &7).await;
            decided = Some(put.expect("nobody else puts"));
        }
        for node in nodes {
            node.stop().await;
        }
    }
}

/// A durable bucket is refused on a member that owns ranges and could not keep them.
pub async fn a_durable_bucket_needs_a_store_on_its_owners<A: Adapter>(security: &Security) {
    let node = first::<A>(node::<A>(security)).await;
    let error = node.kv::<u32>("stock").open().await.map(drop);
    let no_store = CommandError::Kv(KvCommandError::NoStore);
    assert_eq!(error, Err(ClusterError::Refused(no_store)));
}
