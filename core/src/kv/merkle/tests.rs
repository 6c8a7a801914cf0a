//! Trees, and how many questions find where two of them differ.

use alloc::format;
use alloc::vec::Vec;

use super::*;

fn key(number: u64) -> Key {
    Key::new(&format!("key-{number}")).unwrap()
}

fn tree(keys: impl Iterator<Item = (u64, u64)>) -> MerkleTree {
    let mut tree = MerkleTree::new();
    keys.for_each(|(number, digest)| tree.update(&key(number), 0, digest));
    tree
}

/// Leaves that differ, and how many nodes were asked for to find them.
fn compare(own: &MerkleTree, theirs: &MerkleTree) -> (Vec<MerkleNode>, usize) {
    let mut comparison = MerkleComparison::default();
    let mut asked = 0;
    while !comparison.question().is_empty() {
        let nodes = comparison.question().to_vec();
        let sums: Vec<u64> = nodes
            .iter()
            .flat_map(|node| theirs.children(*node).unwrap())
            .collect();
        assert!(nodes.len() <= NODES_ASKED_MAX);
        assert!(!comparison.on_children(own, &sums[1..]), "not what was asked for");
        assert!(comparison.on_children(own, &sums));
        asked += nodes.len();
    }
    (comparison.leaves().to_vec(), asked)
}

#[test]
fn the_same_keys_make_the_same_tree_in_any_order_and_after_any_changes() {
    let one = tree((0..5_000).map(|number| (number, number * 7 + 1)));
    let mut other = tree((0..5_000).rev().map(|number| (number, 3)));
    (0..5_000).for_each(|number| other.update(&key(number), 3, number * 7 + 1));
    assert_eq!(one, other);
    assert_eq!(compare(&one, &other), (Vec::new(), 1));
    (0..5_000).for_each(|number| other.update(&key(number), number * 7 + 1, 0));
    assert!(other.sums.iter().all(|sum| *sum == 0));
    assert_eq!(MerkleTree::new().sum(MerkleNode::ROOT), 0);
}

#[test]
fn i_74_differences_are_found_by_a_path_for_each_of_them() {
    let one = tree((0..5_000).map(|number| (number, 9)));
    for differences in [1, 2, 5, 20] {
        let mut other = one.clone();
        (0..differences).for_each(|number| other.update(&key(number * 31), 9, 8));
        let (mut found, asked) = compare(&one, &other);
        found.sort_unstable();
        let mut expected: Vec<_> = (0..differences)
            .map(|number| MerkleNode::leaf_of(&key(number * 31)))
            .collect();
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(found, expected);
        let paths = usize::from(DEPTH) * usize::try_from(differences).unwrap();
        assert!(asked <= paths, "{asked} questions for {differences}");
        assert_eq!(compare(&other, &one).0.len(), found.len());
    }
    let (found, _) = compare(&MerkleTree::new(), &one);
    assert!(found.len() > 2_000, "one side has nothing");
}

#[test]
fn nodes_outside_the_tree_are_none() {
    assert_eq!(MerkleNode::of(0, 0), Some(MerkleNode::ROOT));
    assert_eq!(MerkleNode::of(0, 1), None);
    let last = MerkleNode::of(DEPTH, 4_095).unwrap();
    assert!(last.is_leaf() && last.numbers() == (DEPTH, 4_095));
    assert_eq!(MerkleNode::of(DEPTH, 4_096), None);
    assert_eq!(MerkleNode::of(DEPTH + 1, 0), None);
    assert_eq!(MerkleTree::new().children(last), None);
    assert!(MerkleTree::new().differing(last, &[1; FAN_OUT]).is_empty());
}
