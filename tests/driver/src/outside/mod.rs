//! What an operator does to other members, over real links: downed, removed, made to leave, prepared for a
//! shutdown; and auto-down, which does it for one. What each side hears of it, how the node ends, and what
//! becomes of open asks. Spec: membership 2.9, 2.10, 2.12, 2.16.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::config::{Config, DowningStrategy};
use quorate_core::effect::{CommandError, HaltReason, MembershipCommandError};
use quorate_core::event::{DowningEvent, Event, JoinFailure, MembershipEvent};
use quorate_core::ident::UniqueAddress;
use quorate_core::membership::events::MembershipChange;
use quorate_core::membership::member::Status;
use quorate_core::reject::JoinRefusal;
use quorate_core::sharding::errors::AskFailure;
use quorate_driver::spi::Adapter;
use quorate_driver::{AskError, Cluster, ClusterError, ClusterEvent, Events, Security, Termination};

mod office;

use self::office::{Begun, Clerk, ORDERS, Office, Order, asks_at, down_the_busy, rests};
use quorate_conformance::billing::{BillingOrder as Bill, InstanceHappened, InstanceJournal, billing, count};
use quorate_conformance::support::{
    all_up, cluster, cluster_with, eventually, node, start_at, until, within,
};

/// The removal margin where a test waits it out.
const MARGIN: Duration = Duration::from_millis(200);

/// What became of a member, as another node or the member itself was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Is(Status),
    /// It is gone; it was this before.
    Removed(Status),
}

/// What a change says of this member's status, if anything.
fn fate_of(change: &MembershipChange, who: &UniqueAddress) -> Option<Fate> {
    match change {
        MembershipChange::Removed { member, previous } => {
            (member.node == *who).then_some(Fate::Removed(*previous))
        }
        MembershipChange::Joined(member)
        | MembershipChange::WeaklyUp(member)
        | MembershipChange::Up(member)
        | MembershipChange::Left(member)
        | MembershipChange::Exited(member)
        | MembershipChange::Downed(member)
        | MembershipChange::PreparingForShutdown(member)
        | MembershipChange::ReadyForShutdown(member) => {
            (member.node == *who).then_some(Fate::Is(member.status))
        }
        MembershipChange::TombstonesChanged
        | MembershipChange::Unreachable(_)
        | MembershipChange::Reachable(_)
        | MembershipChange::LeaderChanged(_)
        | MembershipChange::RoleLeaderChanged { .. }
        | MembershipChange::SeenChanged { .. }
        | MembershipChange::ReachabilityChanged => None,
        // What a later version of the core says.
        _ => None,
    }
}

/// What another node hears of a member until this is its fate.
async fn hears<A: Adapter>(events: &mut Events, who: &UniqueAddress, last: Fate) -> Vec<Fate> {
    within::<A, _>("the member's fate", async {
        let mut fates = Vec::new();
        while fates.last() != Some(&last) {
            let Some(event) = events.next().await else {
                panic!("the node ended after {fates:?}");
            };
            if let ClusterEvent::Event(Event::Membership(MembershipEvent::Changed { change, .. })) = event {
                fates.extend(fate_of(&change, who));
            }
        }
        fates
    })
    .await
}

/// What a node hears of itself until it ends: its statuses up to that it is no member any more, which it is
/// told once, and then how it ended, which is the last.
async fn hears_of_itself<A: Adapter>(mut events: Events, me: &UniqueAddress) -> (Vec<Fate>, Termination) {
    within::<A, _>("the end of a node", async {
        let (mut fates, mut said) = (Vec::new(), 0);
        loop {
            match events.next().await {
                Some(ClusterEvent::Event(Event::Membership(MembershipEvent::Changed { change, .. }))) => {
                    fates.extend(fate_of(&change, me));
                }
                Some(ClusterEvent::Event(Event::Membership(MembershipEvent::SelfRemoved))) => said += 1,
                Some(ClusterEvent::Terminated(termination)) => {
                    assert_eq!(said, 1, "it is no member any more");
                    assert_eq!(events.next().await, None, "nothing follows");
                    return (fates, termination);
                }
                Some(_) => {}
                None => panic!("it did not say how it ended"),
            }
        }
    })
    .await
}

const fn refused<T>(error: MembershipCommandError) -> Result<T, ClusterError> {
    Err(ClusterError::Refused(CommandError::Membership(error)))
}

/// Another member declares a member Down: it is told, begins with nothing more, and ends; what was waiting
/// for it hears so. The next process at its address is another member.
pub async fn a_downed_member_begins_nothing_more_and_a_restart_at_its_address_is_another_one<A: Adapter>(
    security: &Security,
) {
    let mut nodes = cluster::<A>(3, security).await;
    let office = Office::of::<A>(&nodes).await;
    let victim = nodes[2].address().clone();
    let (mut seen, own) = (nodes[0].events(), nodes[2].events());
    let unknown = nodes[0].down("127.0.0.1:1").await;
    assert_eq!(unknown, refused(MembershipCommandError::UnknownMember));
    let before = office.begun(2, Order::Where);
    let mut most = 0;
    asks_at::<A>(&office, 2, async {
        let busy = office.regions[2].entity(&office.ids[2][1]);
        for _ in 0..ORDERS {
            busy.tell(&Order::Rest).await.expect("it is taken");
        }
        most = down_the_busy::<A>(&nodes[1], &nodes[2], &office.begun).await;
    })
    .await;
    let fates = hears::<A>(&mut seen, &victim, Fate::Removed(Status::Down)).await;
    assert_eq!(fates, [Fate::Is(Status::Down), Fate::Removed(Status::Down)]);
    let (fates, ended) = hears_of_itself::<A>(own, &victim).await;
    assert_eq!(fates, [Fate::Is(Status::Down)]);
    assert_eq!(ended, Termination::Halted(HaltReason::Downed));
    let late = office.ask(2, 2, Order::Where).await;
    assert_eq!(late, Err(AskError::Failed(AskFailure::NodeStoppedUnsent)));
    let place = office.ask(0, 2, Order::Where).await;
    assert!(
        place.as_ref().is_ok_and(|it| *it != victim.to_string()),
        "{place:?}"
    );
    assert_eq!(
        office.begun(2, Order::Where),
        before + 1,
        "nothing of what waited"
    );
    let again = start_at::<A>(victim.address(), nodes[0].address().address(), security).await;
    within::<A, _>("the new one is up", again.up())
        .await
        .expect("it is up");
    assert_ne!(again.address().uid(), victim.uid());
    nodes[2] = again;
    for node in &nodes {
        all_up::<A>(node, 3).await;
    }
    let repeated = nodes[0].down(&victim).await;
    assert_eq!(
        repeated,
        refused(MembershipCommandError::UnknownMember),
        "the old one"
    );
    let rests = rests(&office.begun);
    assert!(rests <= most, "{rests} instead of {most}");
}

/// Another member removes a member, without convergence: it is gone at once, is told, and ends.
pub async fn m_429_a_removed_member_is_gone_at_once_and_ends<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(3, security).await;
    let office = Office::of::<A>(&nodes).await;
    let victim = nodes[2].address().clone();
    let (mut seen, own) = (nodes[0].events(), nodes[2].events());
    let unknown = nodes[0].remove("127.0.0.1:1").await;
    assert_eq!(unknown, refused(MembershipCommandError::UnknownMember));
    let itself = nodes[0].remove(nodes[0].address()).await;
    assert_eq!(itself, refused(MembershipCommandError::NotMyself));
    asks_at::<A>(&office, 2, async {
        nodes[1].remove(victim.address()).await.expect("it is a member");
        assert_eq!(nodes[1].view().member(&victim), None, "at once");
        let ended = nodes[2].terminated().await;
        assert_eq!(ended, Termination::Halted(HaltReason::Removed));
    })
    .await;
    let fates = hears::<A>(&mut seen, &victim, Fate::Removed(Status::Up)).await;
    assert_eq!(fates, [Fate::Removed(Status::Up)]);
    let (fates, ended) = hears_of_itself::<A>(own, &victim).await;
    assert_eq!(fates, [], "nothing but that");
    assert_eq!(ended, Termination::Halted(HaltReason::Removed));
    nodes[0].remove(&victim).await.expect("it may be repeated");
    // What lived there lives elsewhere, once the margin is over.
    let place = office.ask(0, 2, Order::Where).await;
    assert!(
        place.as_ref().is_ok_and(|it| *it != victim.to_string()),
        "{place:?}"
    );
}

fn impatient(config: &mut Config) {
    config.shutdown.cluster_sharding_shutdown_region_timeout = Duration::from_secs(1);
}

/// Another member has a member leave: it hands over its work, though one of its entities does not end, and
/// ends as if it had wanted to.
pub async fn a_member_leaves_that_another_one_tells_to<A: Adapter>(security: &Security) {
    let nodes = cluster_with::<A>(3, security, impatient).await;
    let office = Office::of::<A>(&nodes).await;
    let victim = nodes[2].address().clone();
    let (mut seen, own) = (nodes[0].events(), nodes[2].events());
    let unknown = nodes[0].leave_member("127.0.0.1:1").await;
    assert_eq!(unknown, refused(MembershipCommandError::UnknownMember));
    asks_at::<A>(&office, 2, async {
        let asked = nodes[1].leave_member(victim.address()).await;
        asked.expect("it is a member");
        let ended = nodes[2].terminated().await;
        assert_eq!(ended, Termination::Halted(HaltReason::Left));
    })
    .await;
    let way = [
        Fate::Is(Status::Leaving),
        Fate::Is(Status::Exiting),
        Fate::Removed(Status::Exiting),
    ];
    assert_eq!(hears::<A>(&mut seen, &victim, way[2]).await, way);
    let (fates, ended) = hears_of_itself::<A>(own, &victim).await;
    assert_eq!(fates, way[..2]);
    assert_eq!(ended, Termination::Halted(HaltReason::Left));
    let place = office.ask(0, 2, Order::Where).await;
    assert!(
        place.as_ref().is_ok_and(|it| *it != victim.to_string()),
        "{place:?}"
    );
}

fn short_margin(config: &mut Config) {
    config.downing.down_removal_margin = Some(MARGIN);
}

/// All members prepare for a shutdown, as everybody hears, and answer meanwhile; nobody comes in any more.
/// When the oldest goes, nobody else starts what it ran. Each leaves in good order.
pub async fn m_220_all_members_get_ready_for_a_shutdown_and_nothing_starts_any_more<A: Adapter>(
    security: &Security,
) {
    let nodes = cluster_with::<A>(3, security, short_margin).await;
    let office = Office::of::<A>(&nodes).await;
    let journal = InstanceJournal::default();
    let mut handles = Vec::new();
    for node in &nodes {
        handles.push(billing(node, &journal).await);
    }
    count::<A>(&handles[2]).await;
    let outside = node::<A>(security).start().await.expect("it starts");
    let refusal = outside.prepare_for_shutdown().await;
    assert_eq!(refusal, refused(MembershipCommandError::NotAMember));

    let mut watching: Vec<Events> = nodes.iter().map(Cluster::events).collect();
    nodes[2].prepare_for_shutdown().await.expect("it is a member");
    for events in &mut watching {
        let way = [
            Fate::Is(Status::PreparingForShutdown),
            Fate::Is(Status::ReadyForShutdown),
        ];
        let member = nodes[1].address();
        assert_eq!(hears::<A>(events, member, way[1]).await, way);
    }
    for node in &nodes {
        until::<A>(node, "all are ready", |view| {
            let mut members = view.members().iter();
            members.all(|member| member.status == Status::ReadyForShutdown)
        })
        .await;
        assert!(!node.is_ready(), "it takes no new work");
    }
    nodes[0].prepare_for_shutdown().await.expect("it may be repeated");
    for (on, node) in nodes.iter().enumerate() {
        let place = office.ask(1, on, Order::Where).await;
        assert_eq!(place, Ok(node.address().to_string()), "nothing moves");
    }
    let mut events = outside.events();
    outside
        .join([nodes[1].address().address()])
        .await
        .expect("it may try");
    within::<A, _>("it is not let in", async {
        let refusal = JoinFailure::Refused {
            reason: JoinRefusal::ShuttingDown,
        };
        let refusal = ClusterEvent::Event(Event::Membership(MembershipEvent::JoinFailed { reason: refusal }));
        while events.next().await.expect("it goes on") != refusal {}
    })
    .await;

    let oldest = nodes[0].address();
    nodes[1].remove(oldest).await.expect("it is a member");
    let ended = within::<A, _>("it is told", nodes[0].terminated()).await;
    assert_eq!(ended, Termination::Halted(HaltReason::Removed));
    until::<A>(&nodes[2], "the oldest is gone", |view| {
        view.member(oldest).is_none()
    })
    .await;
    // Nothing announces that nothing begins.
    let asked = handles[2].ask(&Bill::Count).timeout(5 * MARGIN).await;
    assert_eq!(asked, Err(AskError::Failed(AskFailure::TimeoutBuffered)));
    assert_eq!(journal.instances().len(), 1, "nobody took over");
    for node in &nodes[1..] {
        let left = within::<A, _>("the node has left", node.leave()).await;
        assert_eq!(left, Ok(Termination::Halted(HaltReason::Left)));
    }
}

fn automatic(config: &mut Config) {
    config.downing.strategy = DowningStrategy::AutoDown;
    config.downing.stable_after = Some(Duration::from_millis(500));
}

/// Under auto-down whoever falls silent is downed by the leader and removed, and asks that wait for it hear
/// so.
pub async fn m_428_auto_down_removes_whoever_is_silent<A: Adapter>(security: &Security) {
    let nodes = cluster_with::<A>(3, security, automatic).await;
    let office = Office::of::<A>(&nodes).await;
    let victim = nodes[2].address().clone();
    let mut watching: Vec<Events> = nodes.iter().take(2).map(Cluster::events).collect();
    asks_at::<A>(&office, 2, async {
        assert_eq!(nodes[2].stop().await, Termination::Stopped);
    })
    .await;
    let mut decided = Vec::new();
    for events in &mut watching {
        let mut fates = Vec::new();
        within::<A, _>("the silent one is removed", async {
            while fates.last() != Some(&Fate::Removed(Status::Down)) {
                let event = events.next().await.expect("the node runs");
                if let ClusterEvent::Event(Event::Membership(MembershipEvent::Changed { change, .. })) = event
                {
                    fates.extend(fate_of(&change, &victim));
                } else if let ClusterEvent::Event(Event::Downing(DowningEvent::Decision(report))) = event {
                    decided.push((report.strategy, report.down, report.waits_for));
                }
            }
        })
        .await;
        assert_eq!(fates, [Fate::Is(Status::Down), Fate::Removed(Status::Down)]);
    }
    assert_eq!(
        decided,
        [("auto-down", vec![victim.clone()], None)],
        "by the leader alone"
    );
    let place = office.ask(0, 2, Order::Where).await;
    assert!(
        place.as_ref().is_ok_and(|it| *it != victim.to_string()),
        "{place:?}"
    );
}

/// The oldest is declared Down: its instances begin with nothing more and are ended without being let finish,
/// their tokens are void, and the next ones begin elsewhere with higher ones. Back at its address the node is
/// the youngest, and hosts nothing.
pub async fn s_154_the_instance_of_a_downed_node_ends_and_stays_elsewhere_after_a_restart<A: Adapter>(
    security: &Security,
) {
    let mut nodes = cluster_with::<A>(3, security, short_margin).await;
    let journal = InstanceJournal::default();
    let mut handles = Vec::new();
    for node in &nodes {
        handles.push(billing(node, &journal).await);
    }
    let victim = nodes[0].address().clone();
    assert_eq!(count::<A>(&handles[1]).await.0, victim.to_string());
    let begun = Begun::default();
    let make = {
        let begun = Arc::clone(&begun);
        move |_| Clerk::<A>::new(&begun)
    };
    let busy = nodes[0]
        .singleton("clerk")
        .start(make)
        .await
        .expect("it is started");
    for _ in 0..ORDERS {
        busy.tell(&Order::Rest).await.expect("it is taken");
    }
    let most = down_the_busy::<A>(&nodes[2], &nodes[0], &begun).await;
    let first = journal.instances()[0].1;
    let ended = InstanceHappened::Ended(first);
    eventually::<A>("its instance ends", async || journal.entries().contains(&ended)).await;
    assert!(
        !journal.entries().contains(&InstanceHappened::Stopped(first)),
        "not let finish"
    );
    assert_eq!(handles[0].token().await, Err(ClusterError::Stopped));
    let (place, _, counted) = count::<A>(&handles[2]).await;
    assert_eq!(
        (place, counted),
        (nodes[1].address().to_string(), 1),
        "nothing of before"
    );
    let again = start_at::<A>(victim.address(), nodes[1].address().address(), security).await;
    within::<A, _>("the new one is up", again.up())
        .await
        .expect("it is up");
    nodes[0] = again;
    let back = billing(&nodes[0], &journal).await;
    assert_eq!(count::<A>(&back).await.0, nodes[1].address().to_string());
    assert_eq!(back.is_running_here().await, Ok(false));
    let instances = journal.instances();
    assert_eq!(instances.len(), 2, "{instances:?}");
    assert!(rests(&begun) <= most, "{} instead of {most}", rests(&begun));
}
