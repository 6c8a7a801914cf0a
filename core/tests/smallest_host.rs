//! Runs the example `smallest_host`: no real time passes in it.

#[allow(dead_code, reason = "its `main` is an example's")]
#[path = "../examples/smallest_host.rs"]
mod smallest_host;

use quorate_core::effect::HaltReason;

#[test]
fn a_node_alone_forms_a_cluster_answers_itself_and_leaves() {
    let (said, end) = smallest_host::run().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((said.as_slice(), end), (b"hello".as_slice(), HaltReason::Left));
}
