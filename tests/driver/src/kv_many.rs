//! Calls of the keyed store about more than one key, over real links: from a node that owns nothing, with
//! each key's outcome its own. Spec: sharding 5.6.

use std::collections::BTreeSet;
use std::time::Duration;

use quorate_conformance::support::{all_up, cluster_of, joined, node, within};
use quorate_driver::kv::{
    Kv, KvChanges, KvChangesError, KvContext, KvGetError, KvNotice, KvPlace, KvPutError, Level,
};
use quorate_driver::spi::Adapter;
use quorate_driver::{Cluster, Security};

/// Three owners, and a caller that owns nothing and is the last one; all have opened the bucket.
async fn owners_and_caller<A: Adapter>(security: &Security) -> (Vec<Cluster>, Vec<Kv<String>>) {
    let mut nodes = cluster_of::<A>(3, || node::<A>(security).role("keeper")).await;
    let seed = nodes[0].address().address().clone();
    nodes.push(joined::<A>(&seed, security).await);
    let mut handles = Vec::new();
    for node in &nodes {
        all_up::<A>(node, nodes.len()).await;
    }
    for node in &nodes {
        let open = node.kv("notes").ranges(8).memory().role("keeper").open();
        let handle = within::<A, _>("a bucket is open", open).await;
        handles.push(handle.expect("all say the same of it"));
    }
    (nodes, handles)
}

/// Values of many keys are put and read at once; a key that fails fails alone.
pub async fn many_keys_are_put_and_read_with_an_outcome_each<A: Adapter>(security: &Security) {
    let (_nodes, handles) = owners_and_caller::<A>(security).await;
    let [owner, .., caller] = &handles[..] else {
        panic!()
    };
    let context = KvContext::default();
    let keys: Vec<String> = (0..300).map(|key| format!("key {key}")).collect();
    let puts = keys.iter().map(|key| (key, key, &context));
    let empty = String::new();
    let puts = puts.chain([(&empty, &empty, &context)]);
    let put = within::<A, _>("all are put", async { caller.put_many(puts).await }).await;
    let put = put.expect("they are few");
    assert!(put[..300].iter().all(Result::is_ok), "{put:?}");
    assert_eq!(put[300..], [Err(KvPutError::BadKey)]);

    let named = keys.iter().map(String::as_str).chain(["", "nobody has put it"]);
    let found = owner.get_many(named).level(Level::Quorum).await;
    let found = found.expect("they are few");
    for (key, found) in keys.iter().zip(&found) {
        let found = found.as_ref().expect("it is answered");
        assert_eq!(found.values, [key.as_str()]);
    }
    assert_eq!(found[300], Err(KvGetError::BadKey));
    let missing = found[301].as_ref().expect("it is answered");
    assert_eq!(missing.values, [""; 0]);

    let overwritten = found[..300].iter().flatten();
    let puts: Vec<_> = keys.iter().zip(overwritten).collect();
    let new = "new".to_owned();
    let puts = puts.iter().map(|(key, found)| (key, &new, &found.context));
    let put = owner.put_many(puts).await.expect("they are few");
    assert!(put.iter().all(Result::is_ok), "{put:?}");
    let found = caller.get_many(&keys).await.expect("they are few");
    let found = found.into_iter().map(|found| found.map(|found| found.values));
    assert!(found.into_iter().all(|values| values == Ok(vec![new.clone()])));
}

/// All keys of a bucket, by pages of this size.
async fn listed<A: Adapter>(bucket: &Kv<String>, prefix: &str, size: usize) -> Vec<String> {
    let (mut all, mut place) = (Vec::new(), Some(KvPlace::default()));
    while let Some(from) = place {
        // As a caller elsewhere hands it back.
        let from = KvPlace::from_bytes(&from.to_bytes()).expect("it is one");
        let page = async { bucket.keys().prefix(prefix).from(from).limit(size).await };
        let page = within::<A, _>("a page", page).await.expect("it is answered");
        assert!(page.keys.len() <= size);
        all.extend(page.keys);
        place = page.next;
    }
    all.sort_unstable();
    all
}

/// Keys with a value are listed page by page from every node, while an owner is lost and its ranges move.
pub async fn keys_are_listed_page_by_page_from_every_node<A: Adapter>(security: &Security) {
    let (nodes, handles) = owners_and_caller::<A>(security).await;
    let [owner, .., caller] = &handles[..] else {
        panic!()
    };
    assert_eq!(listed::<A>(caller, "", 10).await, [""; 0]);
    let context = KvContext::default();
    let keys: Vec<String> = (100..200).map(|key| format!("key {key}")).collect();
    let puts = keys.iter().map(|key| (key, key, &context));
    let put = caller.put_many(puts).await.expect("they are few");
    assert!(put.iter().all(Result::is_ok), "{put:?}");
    for bucket in &handles {
        assert_eq!(listed::<A>(bucket, "", 7).await, keys);
    }
    assert_eq!(listed::<A>(owner, "key 15", 100).await, keys[50..60]);

    let seen = owner.get("key 150").await.expect("it is answered").context;
    owner.delete("key 150", &seen).await.expect("a quorum has it");
    let left: Vec<String> = keys.iter().filter(|key| *key != "key 150").cloned().collect();
    assert_eq!(listed::<A>(caller, "", 100).await, left);

    let page = caller.keys().limit(30).await.expect("it is answered");
    nodes[1].stop().await;
    let (mut all, mut place) = (page.keys, page.next);
    while let Some(from) = place {
        let page = caller
            .keys()
            .from(from)
            .limit(30)
            .await
            .expect("two owners answer");
        all.extend(page.keys);
        place = page.next;
    }
    all.sort_unstable();
    assert_eq!(all, left, "two of three are left");
    let all_owners = caller
        .keys()
        .level(Level::All)
        .timeout(Duration::from_millis(300));
    let late = all_owners.await.expect_err("one is gone");
    assert!(late.is_timeout(), "{late}");
}

/// The next key that has changed.
async fn next<A: Adapter>(changes: &mut KvChanges) -> Option<KvNotice> {
    let next = within::<A, _>("a notice", changes.next()).await;
    next.map(|notice| notice.expect("it is not refused"))
}

/// A node that owns nothing hears of changes of a key and of keys that begin alike, until it listens no more
/// or ends; what it reads behind the last notice is what was put.
pub async fn changes_of_keys_are_heard_on_every_node<A: Adapter>(security: &Security) {
    let (mut nodes, handles) = owners_and_caller::<A>(security).await;
    let [owner, .., caller] = &handles[..] else {
        panic!()
    };
    let mut one = caller.changes("key 1");
    let mut all = caller.changes_below("key ");
    for changes in [&mut one, &mut all] {
        assert_eq!(next::<A>(changes).await, Some(KvNotice::Lagged), "it is in place");
    }
    let context = KvContext::default();
    for name in ["key 2", "other", "key 1"] {
        owner
            .put(name, &name.to_owned(), &context)
            .await
            .expect("a quorum has it");
    }
    let changed = |name: &str| Some(KvNotice::Changed(name.to_owned()));
    assert_eq!(next::<A>(&mut one).await, changed("key 1"));
    // Each owner tells of it: the first word may come before the others have it.
    let mut heard = BTreeSet::new();
    while heard.len() < 2 {
        let Some(KvNotice::Changed(name)) = next::<A>(&mut all).await else {
            panic!("no owner was lost")
        };
        heard.insert(name);
    }
    assert!(heard.iter().eq(["key 1", "key 2"]), "{heard:?}");
    let found = caller.get("key 1").await.expect("it is answered");
    assert_eq!(found.values, ["key 1"]);

    let mut refused = caller.changes("");
    assert_eq!(refused.next().await, Some(Err(KvChangesError::BadKey)));
    assert_eq!(refused.next().await, None);
    drop(all);
    nodes.remove(3).stop().await;
    while let Some(notice) = next::<A>(&mut one).await {
        assert_eq!(Some(notice), changed("key 1"), "what it had heard before");
    }
}
