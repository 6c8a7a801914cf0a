//! The target `stored` reaches what it is there for: a node that reads its store, and starts what it finds.

#[test]
fn everybody_who_is_remembered_is_started_when_the_store_tells_the_truth() {
    let told = quorate_fuzz::restarted();
    assert_eq!(told.entities, 12, "six of each kind: {told:?}");
    // Logs have a head, records and a snapshot; replicated data is read at once.
    assert!(told.read >= 10, "{told:?}");
}
