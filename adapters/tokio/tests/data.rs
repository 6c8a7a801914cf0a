//! Replicated data over real sockets: counters and sets changed on three nodes, read on all, heard by who
//! listens.

use crate::common;

use common::{cluster, node, within};
use quorate_tokio::data::WriteError;
use quorate_tokio::data::{
    CustomChange, CustomError, CustomType, DataReadError, DataWriteError, FlagKind, Minting, ObservedSet,
    OwnType, Read, ValueChange, Write,
};
use quorate_tokio::{Cluster, Security, StartError};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_and_sets_changed_on_three_nodes_are_read_on_all_of_them() {
    let nodes = cluster(3).await;
    let mut changes = nodes[2].data().counter("likes").changes();
    for node in &nodes {
        let likes = node.data().counter("likes");
        let tags = node.data().set::<String>("tags");
        for number in 0..20_u32 {
            within(likes.increment(1, Write::Majority)).await.unwrap();
            within(tags.add(format!("tag-{number}"), Write::Local))
                .await
                .unwrap();
        }
        within(tags.remove("tag-7".to_owned(), Write::All)).await.unwrap();
    }
    for node in &nodes {
        assert_eq!(
            within(node.data().counter("likes").read(Read::Majority)).await,
            Ok(60)
        );
        let tags = within(node.data().set::<String>("tags").read(Read::All))
            .await
            .unwrap();
        assert_eq!(tags.len(), 19);
        assert!(!tags.contains(&"tag-7".to_owned()));
        let wrong = within(node.data().flag("likes").read(Read::Local)).await;
        assert_eq!(wrong, Err(DataReadError::WrongType));
    }
    within(async { while changes.next().await != Some(Ok(ValueChange::Value(60))) {} }).await;
    let registers = nodes[0].data().register_map::<u32, String>("names");
    within(registers.put(1, "one".to_owned(), Write::All))
        .await
        .unwrap();
    let read = nodes[1].data().register_map::<u32, String>("names");
    assert_eq!(
        within(read.read(Read::Local)).await,
        Ok(vec![(1, "one".to_owned())])
    );
    assert_eq!(within(nodes[1].data().replicas()).await, Ok(3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_map_of_sets_is_merged_key_by_key() {
    let nodes = cluster(2).await;
    let baskets = |at: usize| nodes[at].data().map::<String, ObservedSet<u32>>("baskets");
    let (ada, bob) = ("ada".to_owned(), "bob".to_owned());
    within(baskets(0).add(&ada, 1, Write::All)).await.unwrap();
    within(baskets(1).add(&ada, 2, Write::All)).await.unwrap();
    within(baskets(0).add(&bob, 3, Write::All)).await.unwrap();
    within(baskets(1).remove_element(&ada, 1, Write::All))
        .await
        .unwrap();
    for at in 0..2 {
        let held = within(baskets(at).read(Read::Local)).await;
        assert_eq!(held, Ok(vec![(ada.clone(), vec![2]), (bob.clone(), vec![3])]));
    }
    within(baskets(1).remove(&bob, Write::All)).await.unwrap();
    let held = within(baskets(0).read(Read::Local)).await;
    assert_eq!(held, Ok(vec![(ada, vec![2])]));
    let flags = nodes[0].data().map::<String, FlagKind>("baskets");
    assert_eq!(
        within(flags.read(Read::Local)).await,
        Err(DataReadError::WrongType)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_changes_that_cannot_be_had_says_why_and_ends() {
    let alone = node().config(|config| config.ddata.subscribers_max = 2);
    let alone = alone.start().await.unwrap();
    alone.join([alone.address().address()]).await.unwrap();
    within(alone.up()).await.unwrap();
    let stream = || alone.data().counter("likes").changes();
    let mut illegal = alone.data().counter("").changes();
    assert_eq!(within(illegal.next()).await, Some(Err(DataReadError::BadKey)));
    assert_eq!(within(illegal.next()).await, None);
    let (mut first, _second, mut third) = (stream(), stream(), stream());
    assert_eq!(
        within(third.next()).await,
        Some(Err(DataReadError::TooManySubscribers))
    );
    assert_eq!(within(third.next()).await, None);
    let likes = alone.data().counter("likes");
    within(likes.increment(1, Write::Local)).await.unwrap();
    assert_eq!(within(first.next()).await, Some(Ok(ValueChange::Value(1))));
    // A place that is given back can be had again.
    drop((first, third));
    let again = async {
        loop {
            let change = stream().next().await;
            if change != Some(Err(DataReadError::TooManySubscribers)) {
                return change;
            }
            tokio::task::yield_now().await;
        }
    };
    assert_eq!(within(again).await, Some(Ok(ValueChange::Value(1))));
}

/// The greatest number that anybody said.
#[derive(Debug, Default)]
struct Maximum;

fn number(bytes: &[u8]) -> Result<u64, CustomError> {
    let bytes = bytes.try_into();
    Ok(u64::from_be_bytes(bytes.map_err(|_| {
        CustomError("a number has eight bytes".to_owned())
    })?))
}

impl CustomType for Maximum {
    fn name(&self) -> &str {
        "maximum"
    }

    fn initial(&self) -> Vec<u8> {
        vec![0; 8]
    }

    fn check(&self, state: &[u8]) -> Result<(), CustomError> {
        number(state).map(drop)
    }

    fn apply(&self, state: &[u8], op: &[u8], _: &mut Minting) -> Result<CustomChange, CustomError> {
        let state = self.merge(state, op)?;
        let delta = None;
        Ok(CustomChange { state, delta })
    }

    fn merge(&self, left: &[u8], right: &[u8]) -> Result<Vec<u8>, CustomError> {
        Ok(number(left)?.max(number(right)?).to_be_bytes().to_vec())
    }
}

impl OwnType for Maximum {
    type Value = u64;

    fn value(&self, state: &[u8]) -> Option<u64> {
        number(state).ok()
    }
}

fn builder() -> quorate_tokio::ClusterBuilder<Security> {
    quorate_tokio::builder("own")
        .bind("127.0.0.1:0")
        .security(Security::insecure_plaintext())
        .fast_profile()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_type_of_ones_own_is_merged_on_two_nodes_and_refused_where_nobody_made_it_known() {
    let mut nodes = Vec::<Cluster>::new();
    for _ in 0..2 {
        let node = within(builder().data_type(Maximum).start()).await.unwrap();
        let seed = nodes.first().map_or_else(|| node.address(), Cluster::address);
        node.join([seed.address()]).await.unwrap();
        within(node.up()).await.unwrap();
        nodes.push(node);
    }
    for (node, bid) in nodes.iter().zip([7_u64, 5]) {
        let highest = node.data().own::<Maximum>("highest");
        within(highest.apply(&bid.to_be_bytes(), Write::All))
            .await
            .unwrap();
        assert_eq!(within(highest.read(Read::All)).await, Ok(7));
        let refused = within(highest.apply(b"no number", Write::Local)).await;
        assert!(
            matches!(&refused, Err(DataWriteError::Failed(WriteError::Refused(_)))),
            "{refused:?}"
        );
        assert!(!refused.unwrap_err().may_have_been_handled());
    }
    let counter = within(nodes[0].data().counter("highest").read(Read::Local)).await;
    assert_eq!(counter, Err(DataReadError::WrongType));

    let stranger = within(builder().start()).await.unwrap();
    stranger.join([stranger.address().address()]).await.unwrap();
    within(stranger.up()).await.unwrap();
    let unknown = stranger.data().own::<Maximum>("highest");
    let refused = within(unknown.apply(&[0; 8], Write::Local)).await;
    assert!(format!("{}", refused.unwrap_err()).contains("`maximum` is not registered"));

    let twice = builder().data_type(Maximum).data_type(Maximum).start().await;
    assert!(matches!(twice, Err(StartError::DataType(_))));
}
