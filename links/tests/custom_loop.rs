//! Runs the custom loop of `examples/custom_loop.rs`: three nodes, real sockets. Every stage of it has a
//! deadline.
#![allow(clippy::disallowed_types, reason = "real sockets have deadlines in real time")]

#[allow(
    dead_code,
    unreachable_pub,
    reason = "its `main` and its visibility are an example's"
)]
#[path = "../examples/custom_loop.rs"]
mod custom_loop;

use std::collections::BTreeSet;
use std::time::Duration;

use custom_loop::keeping::ProcessKeeper;
use custom_loop::working::{COUNTER, daemons_of};
use custom_loop::{Host, until};
use quorate_core::effect::{Answer, HaltReason};
use quorate_core::input::{
    Command, Input, KindSettings, MembershipCommand, MessageCommand, Recipient, ShardingCommand,
};
use quorate_core::membership::member::Status;
use quorate_core::sharding::allocation::AllocationSettings;
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::ids::{EntityId, KindId};

const KIND: &str = "greeter";

fn command(host: &mut Host, token: u64, command: Command) {
    host.inputs.push_back(Input::Command { token, command });
}

fn are_up(hosts: &[Host], count: usize) -> bool {
    let alive = hosts.iter().filter(|host| host.halted.is_none());
    alive
        .map(|host| host.linked.node.view().members())
        .all(|members| members.len() == count && members.iter().all(|member| member.status == Status::Up))
}

/// The first asks thirty entities, wherever they are; the nodes that answered:
/// `greeter-3 on second greets everybody`.
fn ask_all(hosts: &mut [Host]) -> BTreeSet<String> {
    hosts[0].answers.clear();
    for token in 100..130 {
        let ask = MessageCommand::Ask {
            to: Recipient::Entity(
                KindId::of(KIND),
                EntityId::from(format!("greeter-{token}").as_str()),
            ),
            payload: b"everybody".as_slice().into(),
            timeout: Duration::from_secs(10),
            chain: AskChain::default(),
        };
        command(&mut hosts[0], token, Command::Message(ask));
    }
    let are_there = |hosts: &[Host]| hosts[0].answers.range(100..130).count() == 30;
    until(hosts, "thirty answers", are_there).expect("the example works");
    let node = |answer: &Answer| {
        let Answer::Asked(Ok(text)) = answer else {
            panic!("{answer:?}")
        };
        let text = String::from_utf8(text.to_vec()).expect("the example works");
        text.split(' ').nth(2).expect("the example works").to_owned()
    };
    let answers = hosts[0].answers.range(100..130);
    answers.map(|(_, answer)| node(answer)).collect()
}

#[test]
fn three_hand_written_hosts_form_a_cluster_ask_across_nodes_and_leave() {
    let keeper = ProcessKeeper::default();
    let bind = |name| Host::bind(name, &keeper).expect("the example works");
    let mut hosts = ["first", "second", "third"].map(bind);
    let seed = hosts[0].linked.node.view().me().address().clone();
    for host in &mut hosts {
        let kind = KindSettings::new(KIND, 12, true);
        command(
            host,
            1,
            Command::Sharding(ShardingCommand::RegisterKind(Box::new(kind))),
        );
        command(
            host,
            2,
            Command::Membership(MembershipCommand::Join(seed.clone())),
        );
    }
    until(&mut hosts, "three members to be Up", |hosts| are_up(hosts, 3)).expect("the example works");
    // The first to ask may be the only one whose entities can start yet; then shards move to the others.
    let started = std::time::Instant::now();
    while ask_all(&mut hosts).len() == 1 {
        assert!(started.elapsed() < Duration::from_secs(20), "nobody else answers");
        hosts
            .iter_mut()
            .for_each(|host| host.turn(Duration::from_millis(10)));
    }
    let leave = || Command::Membership(MembershipCommand::Leave);
    command(&mut hosts[2], 3, leave());
    until(&mut hosts, "the third to leave", |hosts| {
        hosts[2].halted.is_some() && are_up(hosts, 2)
    })
    .expect("the example works");
    let two = BTreeSet::from(["first".to_owned(), "second".to_owned()]);
    assert!(ask_all(&mut hosts).is_subset(&two));
    for host in &mut hosts[..2] {
        command(host, 3, leave());
    }
    let is_over = |hosts: &[Host]| hosts.iter().all(|host| host.halted.is_some());
    until(&mut hosts, "the end", is_over).expect("the example works");
    assert!(hosts.iter().all(|host| host.halted == Some(HaltReason::Left)));
    let stats = hosts[0].linked.links.stats();
    assert_eq!(
        (stats.frames_skipped, stats.links_closed_for_violation),
        (0, 0),
        "{stats:?}"
    );
}

#[test]
fn homes_are_stored_and_who_has_the_lease_stays_when_a_host_dies() {
    let keeper = ProcessKeeper::default();
    let bind = |name| Host::bind(name, &keeper).expect("the example works");
    let mut hosts = ["first", "second", "third"].map(bind);
    let seed = hosts[0].linked.node.view().me().address().clone();
    for host in &mut hosts {
        let kind = KindSettings::new(KIND, 12, true);
        command(
            host,
            1,
            Command::Sharding(ShardingCommand::RegisterKind(Box::new(kind))),
        );
        let join = MembershipCommand::Join(seed.clone());
        command(host, 2, Command::Membership(join));
    }
    until(&mut hosts, "three members to be Up", |hosts| are_up(hosts, 3)).expect("the example works");
    ask_all(&mut hosts);
    // A majority of the stores has the homes.
    let have = hosts
        .iter()
        .filter(|host| host.keeping.store.entries().count() > 1);
    assert!(have.count() >= 2, "nothing was stored");
    assert!(
        keeper.leases.lock().expect("nobody panicked").is_empty(),
        "nobody needs a lease yet"
    );
    // The third is turned no more: what is left asks for the lease, and stays.
    let two = &mut hosts[..2];
    until(two, "the third to be removed", |hosts| are_up(hosts, 2)).expect("the example works");
    assert!(two.iter().all(|host| host.halted.is_none()));
    assert_eq!(
        keeper.leases.lock().expect("nobody panicked").len(),
        1,
        "somebody had the lease"
    );
    assert!(!ask_all(two).contains("third"));
}

#[test]
fn the_host_says_where_the_shards_of_a_kind_with_a_strategy_of_its_own_go() {
    let keeper = ProcessKeeper::default();
    let bind = |name| Host::bind(name, &keeper).expect("the example works");
    let mut hosts = ["first", "second", "third"].map(bind);
    let seed = hosts[0].linked.node.view().me().address().clone();
    for host in &mut hosts {
        let kind = KindSettings {
            allocation: Some(AllocationSettings::Asked("in turn".into())),
            ..KindSettings::new(KIND, 12, true)
        };
        command(
            host,
            1,
            Command::Sharding(ShardingCommand::RegisterKind(Box::new(kind))),
        );
        let join = MembershipCommand::Join(seed.clone());
        command(host, 2, Command::Membership(join));
    }
    until(&mut hosts, "three members to be Up", |hosts| are_up(hosts, 3)).expect("the example works");
    ask_all(&mut hosts);
    let mut nodes: Vec<_> = hosts
        .iter()
        .map(|host| host.linked.node.view().me().clone())
        .collect();
    nodes.sort();
    // Whoever coordinates knows all of them; a shard that began while fewer regions were there went to one of
    // those.
    let coordinator = hosts
        .iter()
        .find_map(|host| host.linked.node.sharding().coordinator(KindId::of(KIND)));
    let homes = coordinator.expect("there is a coordinator").homes;
    assert!(homes.len() >= 10, "thirty entities in twelve shards: {homes:?}");
    let in_turn = |regions: usize| {
        homes
            .iter()
            .all(|(shard, home)| *home == nodes[shard.0 as usize % regions])
    };
    assert!(in_turn(3), "{homes:?}");
}

/// Three hosts that work.
fn working() -> [Host; 3] {
    let keeper = ProcessKeeper::default();
    let bind = |name| Host::bind(name, &keeper).expect("the example works");
    let mut hosts = ["first", "second", "third"].map(bind);
    let seed = hosts[0].linked.node.view().me().address().clone();
    for host in &mut hosts {
        host.begin_work();
        let join = MembershipCommand::Join(seed.clone());
        command(host, 2, Command::Membership(join));
    }
    until(&mut hosts, "three members to be Up", |hosts| are_up(hosts, 3)).expect("the example works");
    hosts
}

/// Asks eight counters from the first host; their answers.
fn count(hosts: &mut [Host], number: &str) -> Vec<String> {
    hosts[0].answers.clear();
    for token in 100..108 {
        let ask = MessageCommand::Ask {
            to: Recipient::Entity(KindId::of(COUNTER), EntityId::from(format!("{token}").as_str())),
            payload: number.as_bytes().into(),
            timeout: Duration::from_secs(10),
            chain: AskChain::default(),
        };
        command(&mut hosts[0], token, Command::Message(ask));
    }
    let are_there = |hosts: &[Host]| hosts[0].answers.range(100..108).count() == 8;
    until(hosts, "eight answers", are_there).expect("the example works");
    let sum = |answer: &Answer| {
        let Answer::Asked(Ok(sum)) = answer else {
            panic!("{answer:?}")
        };
        String::from_utf8_lossy(sum).into_owned()
    };
    hosts[0]
        .answers
        .range(100..108)
        .map(|(_, answer)| sum(answer))
        .collect()
}

#[test]
fn durable_entities_go_on_where_they_were_when_their_host_has_left() {
    let mut hosts = working();
    for _ in 0..120 {
        count(&mut hosts, "2");
    }
    assert_eq!(count(&mut hosts, "1"), vec!["241"; 8]);
    command(&mut hosts[2], 3, Command::Membership(MembershipCommand::Leave));
    until(&mut hosts, "the third to leave", |hosts| {
        hosts[2].halted.is_some() && are_up(hosts, 2)
    })
    .expect("the example works");
    assert_eq!(count(&mut hosts, "?"), vec!["241"; 8]);
    assert_eq!(count(&mut hosts, "9"), vec!["250"; 8]);
}

#[test]
fn two_daemons_run_once_each_and_a_producers_jobs_are_handled_once_in_their_order() {
    let mut hosts = working();
    let jobs: Vec<String> = (0..100).map(|job| format!("job {job}")).collect();
    hosts[1].working.jobs.extend(jobs.clone());
    until(&mut hosts, "two daemons, and a hundred jobs", |hosts| {
        let handled: usize = hosts.iter().map(|host| host.working.handled.len()).sum();
        daemons_of(hosts).len() == 2 && handled >= 100
    })
    .expect("the example works");
    let mut daemons = daemons_of(&hosts);
    daemons.sort_unstable();
    assert_eq!(daemons, [0, 1]);
    let handled: Vec<String> = hosts
        .iter()
        .flat_map(|host| host.working.handled.clone())
        .collect();
    assert_eq!(handled, jobs);
}

#[test]
fn the_loop_can_be_read_at_one_sitting() {
    let lines = include_str!("../examples/custom_loop.rs").lines().count();
    assert!(lines < 250, "{lines} lines");
}
