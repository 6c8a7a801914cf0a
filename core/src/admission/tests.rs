//! Which senders are accepted, kind by kind; whom the policy is asked about; and what a node does with its
//! answer.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::*;
use crate::config::Config;
use crate::effect::{Effect, Output};
use crate::event::{Event, MembershipEvent};
use crate::fixture::node as peer;
use crate::ident::{ClusterName, Roles, UniqueAddress};
use crate::input::{Command, Input, MembershipCommand, SendTarget};
use crate::membership::state::app_version::AppVersion;
use crate::message::{Join, Message};
use crate::node::Node;
use crate::reject::JoinRefusal;
use crate::time::{Instant, Now};
use crate::wire::encode_message;

const UNASKED: SenderStanding = SenderStanding::Stranger { was_asked: false };
const ASKED: SenderStanding = SenderStanding::Stranger { was_asked: true };

fn heard(of: SenderStanding) -> Vec<u16> {
    let all = Message::TAGS.into_iter().flatten();
    all.map(|tag| tag.kind)
        .filter(|kind| is_heard(*kind, of))
        .collect()
}

fn kinds(tags: &[MessageTag]) -> Vec<u16> {
    tags.iter().map(|tag| tag.kind).collect()
}

#[test]
fn a_member_is_heard_whatever_it_says() {
    let all: Vec<MessageTag> = Message::TAGS.into_iter().flatten().copied().collect();
    assert_eq!(heard(SenderStanding::Member), kinds(&all));
}

#[test]
fn of_a_stranger_what_a_join_needs_is_heard_and_heartbeats_and_what_waits_for_it_to_become_a_member() {
    let mut wanted = kinds(&[
        MembershipMsg::INIT_JOIN,
        MembershipMsg::INIT_JOIN_ACK,
        MembershipMsg::INIT_JOIN_NACK,
        MembershipMsg::JOIN,
        MembershipMsg::JOIN_REFUSED,
    ]);
    wanted.extend(kinds(DetectorMsg::TAGS));
    wanted.push(ShardingMsg::ENTITY.kind);
    wanted.push(SingletonMsg::SINGLETON_MESSAGE.kind);
    wanted.push(PathMsg::PATH_MESSAGE.kind);
    assert_eq!(heard(UNASKED), wanted);
    for kind in kinds(DdataMsg::TAGS) {
        assert!(
            !is_heard(kind, UNASKED) && !is_heard(kind, SenderStanding::Former),
            "replicas are members"
        );
    }
}

#[test]
fn a_welcome_is_heard_of_the_one_that_was_asked_and_nothing_else_is_added_for_it() {
    let more: Vec<u16> = heard(ASKED)
        .into_iter()
        .filter(|kind| !is_heard(*kind, UNASKED))
        .collect();
    assert_eq!(more, [WELCOME.kind]);
    assert!(is_welcome(WELCOME.kind) && !is_welcome(MembershipMsg::GOSSIP.kind));
}

#[test]
fn of_a_former_member_the_last_words_about_entities_are_heard() {
    let more: Vec<u16> = heard(SenderStanding::Former)
        .into_iter()
        .filter(|kind| !is_heard(*kind, UNASKED))
        .collect();
    let mut wanted = kinds(ShardingMsg::TAGS);
    wanted.extend(kinds(SingletonMsg::TAGS));
    wanted.extend(kinds(PathMsg::TAGS));
    let at_once = [
        ShardingMsg::ENTITY.kind,
        SingletonMsg::SINGLETON_MESSAGE.kind,
        PathMsg::PATH_MESSAGE.kind,
    ];
    wanted.retain(|kind| !at_once.contains(kind));
    assert_eq!(more, wanted);
}

#[test]
fn a_kind_that_nobody_knows_is_left_to_be_counted_as_that() {
    for of in [SenderStanding::Member, SenderStanding::Former, UNASKED, ASKED] {
        assert!(is_heard(0x00FE, of));
    }
}

#[test]
fn only_questions_to_join_keep_the_link_of_a_silent_stranger_open() {
    let all = Message::TAGS.into_iter().flatten().map(|tag| tag.kind);
    let asking: Vec<u16> = all.filter(|kind| asks_to_join(*kind)).collect();
    assert_eq!(asking, kinds(&[MembershipMsg::INIT_JOIN, MembershipMsg::JOIN]));
}

#[test]
fn a_proof_never_reaches_a_log() {
    let shown = format!(
        "{:?}",
        [
            PeerProof::Nothing,
            PeerProof::Key { name: b"weak" },
            PeerProof::Certificate {
                der: b"der",
                intermediates: &[]
            },
        ]
    );
    assert_eq!(shown, "[Nothing, Key, Certificate]");
}

/// Lets nobody who has no key do what this says.
#[derive(Debug)]
struct WithKey(&'static str);

impl AdmissionPolicy for WithKey {
    fn allows(&self, request: &PeerRequest<'_>) -> Result<(), Denied> {
        match request.proof {
            PeerProof::Key { name: b"listed" } => Ok(()),
            PeerProof::Nothing | PeerProof::Key { .. } | PeerProof::Certificate { .. }
                if request.ask.what() == self.0 =>
            {
                Err(Denied("no key".into()))
            }
            PeerProof::Nothing | PeerProof::Key { .. } | PeerProof::Certificate { .. } => Ok(()),
        }
    }
}

const NOW: Now = Now {
    mono: Instant::from_millis(1_000),
    unix_ms: 0,
};

/// A cluster of one, whose policy refuses that.
fn alone(what: &'static str) -> Node<ChaCha8Rng> {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.membership.admission = Admission(Arc::new(WithKey(what)));
    let me = peer("me", 1);
    let mut node = Node::new(
        config.validate().unwrap(),
        me.clone(),
        ChaCha8Rng::seed_from_u64(1),
        NOW,
    );
    let command = Command::Membership(MembershipCommand::Join(me.address().clone()));
    node.handle(NOW, Input::Command { token: 1, command });
    polled(&mut node);
    node
}

fn polled(node: &mut Node<ChaCha8Rng>) -> Vec<Effect> {
    core::iter::from_fn(|| match node.poll() {
        Output::Effect(effect) => Some(effect),
        Output::Sleep(_) => None,
    })
    .collect()
}

/// What the node says and sends when this comes from a peer over a link that has proved that.
fn comes(
    node: &mut Node<ChaCha8Rng>,
    from: &UniqueAddress,
    proof: PeerProof<'_>,
    msg: MembershipMsg,
) -> Vec<String> {
    let (message, limits) = (Message::Membership(msg), crate::config::Limits::default());
    let mut bytes = Vec::new();
    encode_message(&message, 0, &limits, &mut bytes).unwrap();
    let MessageTag { lane, kind } = message.tag();
    let body = &bytes[20..];
    node.handle(
        NOW,
        Input::Frame {
            from,
            proof,
            lane,
            kind,
            body,
        },
    );
    let effects = polled(node);
    let said = effects.iter().filter_map(|effect| match effect {
        Effect::Notify(Event::Membership(MembershipEvent::Asked(audit))) => Some(match &audit.refused {
            None => format!("{} allowed", audit.what),
            Some(why) => format!("{} refused: {why}", audit.what),
        }),
        Effect::Send {
            to: SendTarget::Node(to),
            message: Message::Membership(MembershipMsg::JoinRefused(refused)),
        } if to == from => Some(format!("told {:?}", refused.reason)),
        Effect::Send {
            message: Message::Membership(MembershipMsg::Welcome(_)),
            ..
        } => Some("welcome".to_string()),
        _ => None,
    });
    said.collect()
}

fn join() -> MembershipMsg {
    MembershipMsg::Join(Join {
        to: peer("me", 1),
        roles: Roles::default(),
        app_version: AppVersion::default(),
    })
}

const LISTED: PeerProof<'static> = PeerProof::Key { name: b"listed" };

#[test]
fn a_joiner_that_the_policy_refuses_is_told_and_changes_nothing() {
    let (mut node, joiner) = (alone("join"), peer("joiner", 2));
    let told = format!("told {:?}", JoinRefusal::NotAdmitted);
    assert_eq!(
        comes(&mut node, &joiner, PeerProof::Nothing, join()),
        ["join refused: no key".to_string(), told]
    );
    assert_eq!(node.view().members().len(), 1);
    assert_eq!(node.stats().membership.requests_refused_by_policy, 1);
    assert_eq!(
        comes(&mut node, &joiner, LISTED, join()),
        ["join allowed", "welcome"]
    );
    assert_eq!(node.view().members().len(), 2);
    assert_eq!(node.stats().membership.requests_refused_by_policy, 1);
}

#[test]
fn b_57_what_the_policy_refuses_a_member_is_dropped_and_another_request_passes() {
    let (mut node, member) = (alone("down"), peer("member", 2));
    comes(&mut node, &member, LISTED, join());
    let whom = || member.clone();
    assert_eq!(
        comes(
            &mut node,
            &member,
            PeerProof::Nothing,
            MembershipMsg::Down(whom())
        ),
        ["down refused: no key"]
    );
    assert_eq!(node.view().members().len(), 2);
    let status = |node: &Node<ChaCha8Rng>| node.view().member(&member).unwrap().status;
    let before = status(&node);
    assert_eq!(
        comes(
            &mut node,
            &member,
            PeerProof::Nothing,
            MembershipMsg::Leave(whom())
        ),
        ["leave allowed"]
    );
    assert_ne!(status(&node), before);
    assert_eq!(
        comes(&mut node, &member, LISTED, MembershipMsg::Down(whom())),
        ["down allowed"]
    );
}

#[test]
fn a_stranger_is_not_heard_when_it_manages_and_the_policy_is_not_asked() {
    let (mut node, stranger) = (alone("join"), peer("stranger", 2));
    let me = peer("me", 1);
    assert_eq!(
        comes(&mut node, &stranger, LISTED, MembershipMsg::Down(me.clone())),
        [""; 0]
    );
    assert_eq!(
        comes(&mut node, &stranger, LISTED, MembershipMsg::Leave(me)),
        [""; 0]
    );
    assert_eq!(node.stats().membership.rejected_strangers, 2);
}

#[test]
fn replicated_data_of_a_stranger_is_not_decoded() {
    let (mut node, stranger) = (alone("join"), peer("stranger", 2));
    let MessageTag { lane, kind } = DdataMsg::TAGS[0];
    let (from, proof, body) = (&stranger, LISTED, b"no message".as_slice());
    node.handle(
        NOW,
        Input::Frame {
            from,
            proof,
            lane,
            kind,
            body,
        },
    );
    assert_eq!(
        (
            node.stats().membership.rejected_strangers,
            node.stats().node.rejected_wire
        ),
        (1, 0)
    );
}

#[test]
fn what_this_nodes_own_program_asks_is_not_asked_about() {
    let mut node = alone("leave");
    let command = Command::Membership(MembershipCommand::Leave);
    node.handle(NOW, Input::Command { token: 2, command });
    let asked = |effect: &Effect| {
        matches!(
            effect,
            Effect::Notify(Event::Membership(MembershipEvent::Asked(_)))
        )
    };
    assert!(!polled(&mut node).iter().any(asked));
    assert_eq!(node.stats().membership.requests_refused_by_policy, 0);
}
