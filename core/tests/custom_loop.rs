//! Runs the custom loop of `examples/custom_loop.rs`: three threads, three sockets. Every stage of it has a deadline.

#[allow(
    dead_code,
    unreachable_pub,
    reason = "its `main` and its visibility are an example's"
)]
#[path = "../examples/custom_loop.rs"]
mod custom_loop;

use std::collections::BTreeSet;

use quorate_core::effect::HaltReason;

/// The nodes that answered: `greeter-3 on second greets everybody`.
fn nodes(texts: &[String]) -> BTreeSet<&str> {
    texts.iter().filter_map(|text| text.split(' ').nth(2)).collect()
}

#[test]
fn three_hand_written_hosts_form_a_cluster_ask_across_nodes_and_leave() {
    let outcome = custom_loop::run().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((outcome.of_three.len(), outcome.of_two.len()), (30, 30));
    assert!(
        nodes(&outcome.of_three).len() > 1,
        "asked across nodes: {:?}",
        outcome.of_three
    );
    let left = nodes(&outcome.of_two);
    assert!(
        left.is_subset(&BTreeSet::from(["first", "second"])),
        "the third had left: {left:?}"
    );
    assert_eq!(outcome.ends, [HaltReason::Left; 3]);
}
