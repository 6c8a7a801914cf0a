//! The multi-node cases of membership, as scenarios in virtual time. Spec: membership 6, sections F, I and O.

use core::time::Duration;

use quorate_core::admission::PeerProof;
use quorate_core::config::DowningStrategy;
use quorate_core::downing::view::IndirectRule;
use quorate_core::effect::HaltReason;
use quorate_core::membership::member::Status;
use quorate_core::message::MembershipMsg;
use quorate_tests::sim::{Sim, all_up, secs, starts};

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Nobody is downed but by an operator.
fn without_downing(seed: u64) -> Sim {
    Sim::new(seed).config(|config| config.downing.strategy = DowningStrategy::Off)
}

/// The status of the node at `of` as the node at `at` sees it; Removed if it does not.
fn status(sim: &Sim, at: usize, of: usize) -> Status {
    let found = sim
        .incarnation(of)
        .and_then(|node| sim.view(at).member(&node).map(|m| m.status));
    found.unwrap_or(Status::Removed)
}

fn finds_reachable(sim: &Sim, at: usize, of: usize) -> bool {
    sim.incarnation(of)
        .is_some_and(|node| sim.view(at).is_reachable(&node))
}

#[test]
fn m_111_each_time_the_leader_is_killed_and_downed_the_next_in_order_leads() {
    let mut sim = without_downing(111).nodes(4);
    sim.run_until(all_up);
    for leader in 0..2 {
        assert_eq!(sim.leader_of(3), Some(leader));
        sim.crash(leader);
        sim.run_for(secs(3));
        assert_eq!(
            sim.leader_of(3),
            Some(leader + 1),
            "an unreachable member does not lead"
        );
        sim.down(3, leader);
        sim.run_until(all_up);
    }
    sim.expect_members([2, 3], [2, 3]);
}

#[test]
fn m_171_a_restarted_first_seed_rejoins_although_another_seed_never_exists() {
    let mut sim = Sim::new(171).nodes(0);
    for index in 0..3 {
        sim.start_with_seeds(index, &[0, 1, 2, 3]);
    }
    sim.run_until(all_up);
    sim.crash(0);
    sim.run_for(millis(300));
    sim.start_with_seeds(0, &[0, 1, 2, 3]);
    sim.run_for(secs(20));
    sim.expect_members(0..3, 0..3);
}

#[test]
fn m_172_without_the_first_seed_joining_is_aborted_in_time() {
    let mut sim = Sim::new(172)
        .config(|config| {
            config.membership.seed_node_timeout = secs(2);
            config.membership.retry_unsuccessful_join_after = secs(2);
            config.membership.shutdown_after_unsuccessful_join = Some(secs(5));
        })
        .nodes(0);
    for index in [1, 2] {
        sim.start_with_seeds(index, &[0, 1]);
    }
    sim.run_for(secs(15));
    sim.expect_halted([1, 2], HaltReason::JoinAborted);
}

#[test]
fn m_177_a_joined_node_is_watched_and_answers_although_gossip_is_rare() {
    let mut sim = without_downing(177)
        .config(|config| config.membership.gossip_interval = secs(300))
        .nodes(1);
    sim.run_for(secs(1));
    sim.start(1);
    sim.run_for(secs(5));
    assert!(finds_reachable(&sim, 0, 1));
    assert_ne!(status(&sim, 0, 1), Status::Removed);
}

#[test]
fn m_178_a_node_that_is_cut_off_right_after_it_joined_is_found_unreachable() {
    let mut sim = without_downing(178)
        .config(|config| config.failure_detector.threshold = 4.0)
        .nodes(2);
    sim.run_until(all_up);
    sim.start(2);
    sim.run_until(|sim| status(sim, 0, 2) != Status::Removed);
    sim.partition([0, 1], [2]);
    sim.run_for(secs(15));
    assert!(!finds_reachable(&sim, 0, 2));
}

#[test]
fn m_213_a_member_leaves_while_it_is_still_joining() {
    let mut sim = Sim::new(213)
        .config(|config| config.membership.min_nr_of_members = 3)
        .nodes(2);
    sim.run_for(secs(3));
    assert_eq!(status(&sim, 0, 1), Status::Joining);
    sim.leave(1);
    sim.run_for(secs(10));
    sim.expect_halted([1], HaltReason::Left);
    assert_eq!(sim.view(0).members().len(), 1);
}

#[test]
fn m_397_while_a_member_is_unreachable_nobody_becomes_up_without_weakly_up() {
    let mut sim = without_downing(397)
        .config(|config| config.membership.allow_weakly_up_members = None)
        .nodes(3);
    sim.run_until(all_up);
    sim.crash(2);
    sim.run_for(secs(3));
    assert_eq!(
        (sim.view(0).members().len(), sim.view(0).unreachable().len()),
        (3, 1)
    );
    sim.start(3);
    sim.run_for(secs(8));
    assert!(
        [0, 1]
            .iter()
            .all(|index| status(&sim, *index, 3) == Status::Joining)
    );
}

#[test]
fn m_398_both_sides_of_a_split_admit_weakly_and_after_it_all_are_up() {
    let mut sim = without_downing(398).nodes(3);
    sim.run_until(all_up);
    sim.partition([0, 3], [1, 2, 4]);
    sim.run_for(secs(3));
    sim.start_with_seeds(3, &[0]);
    sim.start_with_seeds(4, &[1, 2]);
    sim.run_for(secs(6));
    assert_eq!(
        (status(&sim, 0, 3), status(&sim, 0, 4)),
        (Status::WeaklyUp, Status::Removed)
    );
    assert_eq!(
        (status(&sim, 1, 4), status(&sim, 1, 3)),
        (Status::WeaklyUp, Status::Removed)
    );
    sim.heal();
    sim.run_until(all_up);
    sim.expect_members(0..5, 0..5);
}

#[test]
fn m_399_a_broken_pair_is_unreachable_for_all_and_reachable_after_it_heals() {
    let mut sim = without_downing(399).nodes(5);
    sim.run_until(all_up);
    sim.cut_pair(1, 2);
    sim.run_for(secs(5));
    assert!(!finds_reachable(&sim, 1, 2) && !finds_reachable(&sim, 2, 1));
    assert!(
        [0, 3, 4]
            .iter()
            .all(|index| sim.view(*index).unreachable().len() == 2)
    );
    sim.heal();
    sim.run_until(all_up);
}

#[test]
fn m_400_an_isolated_node_and_islands_heal_even_if_others_join_meanwhile() {
    let mut sim = without_downing(400).nodes(5);
    sim.run_until(all_up);
    sim.partition([0], [1, 2, 3, 4]);
    sim.run_for(secs(5));
    sim.heal();
    sim.run_until(all_up);
    sim.partition([0, 1, 5], [2, 3, 4, 6]);
    sim.run_for(secs(5));
    sim.start_with_seeds(5, &[0, 1]);
    sim.start_with_seeds(6, &[2, 3]);
    sim.run_for(secs(3));
    sim.heal();
    sim.run_until(all_up);
    sim.expect_members(0..7, 0..7);
}

#[test]
fn m_401_a_side_that_was_downed_by_hand_stays_out_after_the_partition() {
    let mut sim = without_downing(401).nodes(6);
    sim.run_until(all_up);
    sim.partition([0, 1, 2, 6], [3, 4, 5]);
    sim.run_for(secs(3));
    sim.start_with_seeds(6, &[0, 1]);
    for target in [3, 4, 5] {
        sim.down(0, target);
    }
    sim.run_for(secs(8));
    sim.expect_members([0, 1, 2, 6], [0, 1, 2, 6]);
    sim.heal();
    sim.run_for(secs(10));
    sim.expect_members([0, 1, 2, 6], [0, 1, 2, 6]);
    assert!(
        [3, 4, 5].iter().all(|index| !sim.running().contains(index)),
        "whoever was removed learns of it and stops"
    );
}

#[test]
fn m_407_auto_down_makes_two_clusters_of_a_split_which_is_why_it_is_off() {
    let mut sim = Sim::new(407)
        .config(|config| {
            config.downing.strategy = DowningStrategy::AutoDown;
            config.downing.stable_after = Some(secs(1));
        })
        .nodes(5);
    sim.run_until(all_up);
    sim.partition([0, 1], [2, 3, 4]);
    sim.run_for(secs(10));
    sim.expect_members([0, 1], [0, 1]);
    sim.expect_members([2, 3, 4], [2, 3, 4]);
}

#[test]
fn m_410_with_one_broken_link_of_three_nodes_keep_majority_keeps_the_one_between() {
    let mut sim = Sim::new(410)
        .config(|config| config.downing.rule = IndirectRule::Classic)
        .nodes(3);
    sim.run_until(all_up);
    sim.cut_pair(1, 2);
    sim.run_for(secs(20));
    assert_eq!(sim.running(), [0]);
    sim.expect_members([0], [0]);
}

#[test]
fn m_411_a_split_with_a_broken_link_in_the_majority_leaves_the_node_that_reaches_all_of_it() {
    let mut sim = Sim::new(411)
        .config(|config| config.downing.rule = IndirectRule::Classic)
        .nodes(5);
    sim.run_until(all_up);
    sim.partition([0, 1, 2], [3, 4]);
    sim.cut_pair(1, 2);
    sim.run_for(secs(30));
    assert_eq!(sim.running(), [0]);
}

#[test]
fn m_419_twenty_nodes_join_leave_crash_and_split_and_settle_every_time() {
    let mut sim = Sim::new(419).nodes(10);
    sim.run_until(all_up);
    for index in 10..14 {
        sim.start(index);
        sim.run_until(all_up);
    }
    for index in 14..20 {
        sim.start(index);
    }
    sim.run_until(all_up);
    for index in [3, 12] {
        sim.leave(index);
    }
    sim.run_until(all_up);
    for index in [5, 6] {
        sim.crash(index);
    }
    sim.run_until(all_up);
    let (minority, majority): (Vec<usize>, Vec<usize>) =
        sim.running().into_iter().partition(|index| *index < 3);
    sim.partition(minority.clone(), majority.clone());
    sim.run_for(secs(15));
    sim.expect_halted(minority, HaltReason::Downed);
    sim.expect_members(majority.clone(), majority);
    sim.check_invariants();
}

#[test]
fn m_420_a_black_hole_between_two_is_found_by_both_and_by_nobody_else_and_heals() {
    let mut sim = without_downing(420)
        .config(|config| config.failure_detector.threshold = 4.0)
        .nodes(3);
    sim.run_until(all_up);
    sim.cut_pair(0, 1);
    sim.run_for(secs(15));
    let suspects =
        |sim: &Sim, at: usize, of: usize| sim.view(at).suspects(&sim.incarnation(of).expect("it runs"));
    assert!(suspects(&sim, 0, 1) && suspects(&sim, 1, 0));
    assert!(!suspects(&sim, 2, 0) && !suspects(&sim, 2, 1) && !suspects(&sim, 0, 2));
    sim.heal();
    sim.run_until(all_up);
}

#[test]
fn m_142_bytes_that_are_no_gossip_change_nothing_and_the_node_goes_on() {
    use quorate_core::config::Config;
    use quorate_core::ident::{Address, ClusterName, UniqueAddress};
    use quorate_core::input::{Command, Input, MembershipCommand};
    use quorate_core::message::Lane;
    use quorate_core::node::Node;
    use quorate_core::time::{Instant, Now};
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng;

    let node = |port, uid| UniqueAddress::new(Address::new("sim", port).expect("a legal address"), uid);
    let now = Now {
        mono: Instant::from_millis(1),
        unix_ms: 1,
    };
    let config = Config::fast(ClusterName::new("sim").expect("a legal name"));
    let config = config.validate().expect("the preset is legal");
    let mut alone = Node::new(config, node(1, 1), ChaCha8Rng::seed_from_u64(142), now);
    let join = Command::Membership(MembershipCommand::Join(node(1, 1).address().clone()));
    alone.handle(
        now,
        Input::Command {
            token: 1,
            command: join,
        },
    );
    let before = std::sync::Arc::clone(alone.view());
    // A stranger is turned away unread; what a member says is decoded, and this node is the only member.
    let bodies = [&b""[..], b"x", &[0; 100], &[255; 100]];
    for (from, body) in [node(2, 2), node(1, 1)]
        .iter()
        .flat_map(|from| bodies.map(|body| (from, body)))
    {
        alone.handle(
            now,
            Input::Frame {
                proof: PeerProof::Nothing,
                from,
                lane: Lane::Gossip,
                kind: MembershipMsg::GOSSIP.kind,
                body,
            },
        );
    }
    assert_eq!(alone.stats().membership.rejected_strangers, 4);
    assert_eq!(alone.stats().node.rejected_wire, 4);
    assert!(std::sync::Arc::ptr_eq(&before, alone.view()));
    assert_eq!(alone.view().self_status(), Status::Up);
}

#[test]
fn m_164_five_nodes_that_start_at_once_with_each_other_as_seeds_are_up_everywhere_within_four_seconds() {
    for seed in 0..200 {
        let start = starts::at_once(seed, 5, false);
        assert_eq!(start.violation, None, "seed {seed}");
        assert!(
            start.up.is_some_and(|up| up <= secs(4)),
            "seed {seed}: {:?}",
            start.up
        );
    }
}

#[test]
fn m_169_nodes_that_start_at_once_form_one_cluster_whatever_is_lost() {
    for seed in 0..300 {
        let nodes = 2 + usize::try_from(seed % 6).expect("a small number");
        let start = starts::at_once(seed, nodes, true);
        assert_eq!(start.violation, None, "seed {seed}");
        assert!(start.up.is_some(), "seed {seed}: {nodes} nodes, no one cluster");
    }
}
