//! The catalogue of bad inputs against a live node: for each row the reaction, exactly one counter, no change
//! of the cluster's state, no other link disturbed. Which row applies to which kind of adapter, and where the
//! others are answered: [`APPLICABILITY`]. Spec: reliability 3c.
//!
//! Who sends them has completed a handshake and is no member, unless a row says otherwise; what is decoded
//! for members only is said by somebody who has just been taken in. A row with reaction Q
//! (`ClosedAndCounted`) is sent three times by one incarnation, which must be quarantined after that; the
//! others must not.

mod applicability;
mod bodies;
mod craft;
mod rows;
mod siege;
mod slow;
mod state;

use std::collections::BTreeSet;
use std::future::ready;

use quorate_core::event::{Event, MembershipEvent};
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::membership::events::MembershipChange;
use quorate_core::membership::member::Status;
use quorate_core::wire::handshake::{
    HandshakeDecoded, Hello, HelloAnswer, LinkKind as HelloLink, RejectReason, decode_answer, encode_hello,
};
use quorate_driver::spi::{Adapter, LinkReader, LinkWriter, Transport};
use quorate_driver::{Cluster, ClusterEvent, Security, stats::NodeStats};

use super::strangers::{LinkStranger, rest};
use super::support::{all_up, eventually, first, living_on, node, notebooks, read, until, within};
use crate::support::{FirstReady, race};

pub use applicability::{APPLICABILITY, AnsweredBy, COLUMNS};
pub use siege::{
    half_a_frame_of_a_stranger_draws_nothing_from_the_members_bytes,
    half_done_handshakes_up_to_the_budget_keep_no_honest_node_out,
    strangers_who_ask_for_nothing_are_closed_within_the_handshakes_limit,
    violations_of_strangers_count_for_their_source,
};
pub use slow::{
    a_flood_of_connections_of_one_source_is_cut_off, a_flood_of_gossip_is_dropped_and_then_cut_off,
    a_joiner_with_other_settings_is_told_and_stops, a_member_may_tell_a_node_that_it_is_down,
    a_removed_incarnation_is_refused, half_a_frame_and_bytes_that_dribble_are_cut_off,
    plain_bytes_on_a_protected_port_are_refused,
};

/// What a node without TLS says to a TLS client (`docs/WIRE.md` 3).
const TLS_ALERT: [u8; 7] = [0x15, 0x03, 0x01, 0x00, 0x02, 0x02, 0x0a];

/// What a row's bytes are said on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowSpeaker {
    /// A link without a handshake.
    Nobody,
    /// The same, and the link ends behind the bytes.
    Ending,
    /// A control link of a node that is no member.
    Stranger,
    /// The same with the receiver's address and another uid.
    Namesake,
    /// A control link of a node that was taken in a moment ago: most bodies are decoded for members only.
    Newcomer,
    /// A user link of such a node.
    UserLink,
    /// A control link of the one member that plays all of its rows.
    Member,
}

/// What the node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedReaction {
    /// D: the link stays.
    Dropped,
    /// C.
    Closed,
    /// C, and the handshake's answer says why.
    Refused(RejectReason),
    /// Q.
    ClosedAndCounted,
}

/// The counter that rises by one.
#[derive(Clone, Copy, Debug)]
struct RisingCounter {
    name: &'static str,
    read: fn(&NodeStats) -> u64,
}

/// One row.
#[derive(Clone, Copy, Debug)]
struct BadInput {
    id: &'static str,
    what: &'static str,
    speaker: RowSpeaker,
    reaction: ExpectedReaction,
    counter: RisingCounter,
    say: fn(&RowScene) -> Vec<u8>,
}

/// What a row's bytes are made of.
#[derive(Clone, Debug)]
struct RowScene {
    to: UniqueAddress,
    me: UniqueAddress,
    epoch: u32,
    cluster: String,
}

/// All rows of the table.
fn table() -> impl Iterator<Item = &'static BadInput> {
    [
        rows::OF_A_MEMBER,
        rows::HANDSHAKES,
        rows::FRAMES,
        bodies::BODIES,
        rows::MESSAGES,
    ]
    .into_iter()
    .flatten()
}

/// Links to one node, as nodes that do not exist.
struct Attacker<T: Transport> {
    stranger: LinkStranger<T>,
    to: UniqueAddress,
    uid: u64,
    epoch: u32,
}

type Halves<T> = (<T as Transport>::Reader, <T as Transport>::Writer);

impl<T: Transport> Attacker<T> {
    async fn new<A: Adapter<Transport = T>>(to: &UniqueAddress, security: &Security) -> Self {
        Self {
            stranger: LinkStranger::new::<A>(security).await,
            to: to.clone(),
            uid: 1_000,
            epoch: 0,
        }
    }

    /// Somebody who was never there before.
    fn somebody(&mut self, speaker: RowSpeaker) -> RowScene {
        self.uid += 1;
        let address = match speaker {
            RowSpeaker::Namesake => self.to.address().clone(),
            // An address of its own for each, or one would have to go for the next. Nobody listens there.
            RowSpeaker::Newcomer | RowSpeaker::UserLink => {
                Address::new("127.0.0.1", u16::try_from(self.uid).unwrap_or(9)).expect("an address")
            }
            // The discard port.
            RowSpeaker::Nobody | RowSpeaker::Ending | RowSpeaker::Stranger | RowSpeaker::Member => {
                Address::new("127.0.0.1", 9).expect("an address")
            }
        };
        RowScene {
            to: self.to.clone(),
            me: UniqueAddress::new(address, self.uid),
            epoch: 0,
            cluster: "conformance".into(),
        }
    }

    /// A link with a handshake, and its answer. Every link has a new epoch.
    async fn greet<A: Adapter>(&mut self, scene: &mut RowScene, user: bool) -> (Halves<T>, HelloAnswer) {
        let link = if user { HelloLink::User } else { HelloLink::Control };
        self.greet_on::<A>(scene, link).await
    }

    async fn greet_on<A: Adapter>(
        &mut self,
        scene: &mut RowScene,
        link: HelloLink,
    ) -> (Halves<T>, HelloAnswer) {
        self.epoch += 1;
        scene.epoch = self.epoch;
        let hello = Hello {
            versions: (1, 1),
            cluster: ClusterName::new(&scene.cluster).expect("a name"),
            from: scene.me.clone(),
            to: scene.to.address().clone(),
            expected_uid: None,
            link,
            epoch: scene.epoch,
            features: 0,
            auth_method: 0,
            nonce: [1; 16],
        };
        let mut bytes = Vec::new();
        encode_hello(&hello, &mut bytes).expect("it is a hello");
        let (mut reader, mut writer) = self.stranger.dial(scene.to.address()).await;
        writer.write_all(&bytes).await.expect("it is sent");
        let answer = within::<A, _>("an answer to the handshake", async {
            let (mut heard, mut buffer) = (Vec::new(), [0; 256]);
            loop {
                if let HandshakeDecoded::Done { value, .. } = decode_answer(&heard) {
                    return value;
                }
                let len = reader.read(&mut buffer).await.expect("the link is open");
                assert_ne!(len, 0, "closed without an answer");
                heard.extend(buffer.iter().take(len));
            }
        });
        let answer = answer.await;
        ((reader, writer), answer)
    }

    async fn open<A: Adapter>(&mut self, scene: &mut RowScene, user: bool) -> Halves<T> {
        let (halves, answer) = self.greet::<A>(scene, user).await;
        assert!(matches!(answer, HelloAnswer::Ack(_)), "{answer:?}");
        halves
    }
}

/// Writes what may be cut off at any moment.
async fn say(writer: &mut impl LinkWriter, bytes: &[u8]) {
    let _ = writer.write_all(bytes).await;
}

async fn stats(node: &Cluster) -> NodeStats {
    node.stats().await.expect("the node runs")
}

/// What must not change: the members that are honest, and whom they reach.
fn picture(node: &Cluster, honest: &[UniqueAddress]) -> Vec<(UniqueAddress, Status, bool)> {
    let view = node.view();
    let members = view.members().iter();
    members
        .filter(|member| honest.contains(&member.node))
        .map(|member| {
            (
                member.node.clone(),
                member.status,
                view.is_reachable(&member.node),
            )
        })
        .collect()
}

/// Every row of the table, one after the other, against one of two members.
pub async fn every_bad_input_has_its_reaction<A: Adapter>(security: &Security) {
    let target = first::<A>(quiet::<A>(security)).await;
    let to = target.address().clone();
    let other = quiet::<A>(security).seeds([to.address()]).start().await;
    let other = other.expect("the other node starts");
    all_up::<A>(&target, 2).await;
    all_up::<A>(&other, 2).await;
    let honest = [to.clone(), other.address().clone()];
    let (here, there) = (notebooks(&target).await, notebooks(&other).await);
    let id = living_on::<A>(&there, &to).await;
    let mut events = other.events();

    let mut attacker = Attacker::new::<A>(&to, security).await;
    let before = picture(&target, &honest);
    let handshakes = stats(&target).await.links.handshakes_completed;
    let mut acks = 0;
    let mut member = attacker.somebody(RowSpeaker::Member);
    let link = join_as::<A>(&mut attacker, &target, &mut member).await;
    acks += 1;
    drop(link);
    for row in table() {
        acks += play::<A>(row, &mut attacker, &target, &member).await;
        assert_eq!(picture(&target, &honest), before, "{} {}", row.id, row.what);
    }
    // The other member's links were never opened anew, and still carry what is told.
    assert_eq!(stats(&target).await.links.handshakes_completed, handshakes + acks);
    there.entity(&id).tell(&vec![7]).await.expect("it is taken");
    eventually::<A>("what was told is read", async || {
        read::<A>(&here, &id).await == (to.to_string(), vec![7])
    })
    .await;
    // Only what has happened already.
    while let FirstReady::Left(Some(event)) = race(events.next(), ready(())).await {
        if let ClusterEvent::Event(Event::Membership(MembershipEvent::Changed {
            change: MembershipChange::Unreachable(member),
            ..
        })) = event
        {
            assert!(!honest.contains(&member.node), "{member:?}");
        }
    }
}

/// A node whose cluster decides nothing about members that are not there.
fn quiet<A: Adapter>(security: &Security) -> quorate_driver::ClusterBuilder<Security> {
    node::<A>(security).config(|config| {
        config.downing.stable_after = Some(std::time::Duration::from_secs(3_600));
        config.failure_detector.acceptable_heartbeat_pause = std::time::Duration::from_secs(30);
    })
}

/// Becomes a member that never says anything else.
async fn join_as<A: Adapter>(
    attacker: &mut Attacker<A::Transport>,
    target: &Cluster,
    scene: &mut RowScene,
) -> Halves<A::Transport> {
    let mut halves = attacker.open::<A>(scene, false).await;
    say(&mut halves.1, &rows::first_join(scene)).await;
    until::<A>(target, "the attacker is a member", |view| {
        view.member(&scene.me).is_some()
    })
    .await;
    halves
}

/// Plays one row; says how many handshakes were completed for it.
async fn play<A: Adapter>(
    row: &BadInput,
    attacker: &mut Attacker<A::Transport>,
    target: &Cluster,
    member: &RowScene,
) -> u64 {
    let BadInput {
        id, what, counter, ..
    } = row;
    let before = (counter.read)(&stats(target).await);
    let wanted = |times: u64| {
        let name = counter.name;
        eventually::<A>(
            format!("{id} {what}: {name} is {before} and {times} more").leak(),
            async move || (counter.read)(&stats(target).await) == before + times,
        )
    };
    let mut scene = if row.speaker == RowSpeaker::Member {
        member.clone()
    } else {
        attacker.somebody(row.speaker)
    };
    let user = row.speaker == RowSpeaker::UserLink;
    let mut acks = 0;
    if matches!(row.speaker, RowSpeaker::Newcomer | RowSpeaker::UserLink) {
        join_as::<A>(attacker, target, &mut scene).await;
        acks += 1;
    }
    if matches!(row.speaker, RowSpeaker::Nobody | RowSpeaker::Ending) {
        let (mut reader, mut writer) = attacker.stranger.dial(scene.to.address()).await;
        say(&mut writer, &(row.say)(&scene)).await;
        if row.speaker == RowSpeaker::Ending {
            let _ = writer.close().await;
        }
        let heard = within::<A, _>("the node hangs up", rest(&mut reader)).await;
        match row.reaction {
            ExpectedReaction::Refused(reason) => assert_eq!(refusal(&heard), reason, "{id} {what}"),
            ExpectedReaction::Closed => {
                let is_tls = (row.say)(&scene).starts_with(&[0x16, 0x03]);
                let expected = if is_tls { TLS_ALERT.as_slice() } else { b"" };
                assert_eq!(heard, expected, "{id} {what}");
            }
            ExpectedReaction::Dropped | ExpectedReaction::ClosedAndCounted => {
                panic!("not before a handshake: {id}")
            }
        }
        wanted(1).await;
        return 0;
    }
    if row.reaction == ExpectedReaction::Dropped {
        let (_reader, mut writer) = attacker.open::<A>(&mut scene, user).await;
        let wire = stats(target).await.core.node.rejected_wire;
        let counts_the_probe =
            u64::from(["core.node.rejected", "core.node.rejected_wire"].contains(&counter.name));
        let said_as_wire = u64::from(counter.name == "core.node.rejected_wire");
        say(&mut writer, &(row.say)(&scene)).await;
        say(&mut writer, &rows::probe(&scene, user)).await;
        eventually::<A>(
            format!("{id} {what}: the link is still read").leak(),
            async || stats(target).await.core.node.rejected_wire == wire + said_as_wire + 1,
        )
        .await;
        wanted(1 + counts_the_probe).await;
        return acks + 1;
    }
    for time in 1..=3 {
        let (mut reader, mut writer) = attacker.open::<A>(&mut scene, user).await;
        say(&mut writer, &(row.say)(&scene)).await;
        within::<A, _>("the node hangs up", rest(&mut reader)).await;
        wanted(time).await;
    }
    let (_halves, answer) = attacker.greet::<A>(&mut scene, user).await;
    match (row.reaction, answer) {
        (ExpectedReaction::ClosedAndCounted, HelloAnswer::Reject(reject)) => {
            assert_eq!(reject.reason, RejectReason::Quarantined, "{id} {what}");
            acks + 3
        }
        (ExpectedReaction::Closed, HelloAnswer::Ack(_)) => acks + 4,
        (_, answer) => panic!("{id} {what}: {answer:?}"),
    }
}

/// The reason in an answer to a hello.
fn refusal(heard: &[u8]) -> RejectReason {
    match decode_answer(heard) {
        HandshakeDecoded::Done { value, .. } => refusal_of(&value).expect("it is refused"),
        other @ (HandshakeDecoded::NeedMore(_) | HandshakeDecoded::Bad(_)) => panic!("{other:?}"),
    }
}

const fn refusal_of(answer: &HelloAnswer) -> Option<RejectReason> {
    match answer {
        HelloAnswer::Reject(reject) => Some(reject.reason),
        HelloAnswer::Ack(_) => None,
    }
}

/// The rows of the table by their numbers.
#[must_use]
pub fn rows_of_the_table() -> BTreeSet<&'static str> {
    table().map(|row| row.id).collect()
}
