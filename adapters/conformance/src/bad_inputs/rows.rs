//! The rows of the catalogue that are told by what is sent. Spec: reliability 3c.

use quorate_core::ident::UniqueAddress;
use quorate_core::message::MembershipMsg;
use quorate_core::message::ShardingMsg;
use quorate_core::message::{DetectorMsg, Heartbeat};
use quorate_core::wire::handshake::RejectReason;

use super::craft::{CONTROL, GOSSIP, USER, addressed, frame, hello, node, patched, text};
use super::state::StateColumns;
use super::{BadInput, ExpectedReaction, RisingCounter, RowScene, RowSpeaker};

macro_rules! counter {
    ($($path:ident).+) => {
        RisingCounter {
            name: stringify!($($path).+),
            read: |stats| stats.$($path).+,
        }
    };
}

pub(super) const WIRE: RisingCounter = counter!(core.node.rejected_wire);
const REJECTED: RisingCounter = counter!(core.node.rejected);
const MALFORMED: RisingCounter = counter!(links.refused_malformed);
const MAGIC: RisingCounter = counter!(links.refused_bad_magic);
const VIOLATION: RisingCounter = counter!(links.links_closed_for_violation);

pub(super) const fn row(
    id: &'static str,
    what: &'static str,
    (speaker, reaction, counter): (RowSpeaker, ExpectedReaction, RisingCounter),
    say: fn(&RowScene) -> Vec<u8>,
) -> BadInput {
    BadInput {
        id,
        what,
        speaker,
        reaction,
        counter,
        say,
    }
}

/// The body cannot be read, and no honest peer sends it.
pub(super) const NONSENSE: (RowSpeaker, ExpectedReaction, RisingCounter) =
    (RowSpeaker::Newcomer, ExpectedReaction::ClosedAndCounted, WIRE);
/// The same in a message that a joiner may send.
pub(super) const NONSENSE_OF_A_JOINER: (RowSpeaker, ExpectedReaction, RisingCounter) =
    (RowSpeaker::Stranger, ExpectedReaction::ClosedAndCounted, WIRE);
/// The header cannot be read, and no honest peer sends it.
const BAD_HEADER: (RowSpeaker, ExpectedReaction, RisingCounter) = (
    RowSpeaker::Stranger,
    ExpectedReaction::ClosedAndCounted,
    VIOLATION,
);
/// The message is dropped.
const DROPPED: (RowSpeaker, ExpectedReaction, RisingCounter) =
    (RowSpeaker::Stranger, ExpectedReaction::Dropped, REJECTED);
const NO_HANDSHAKE: (RowSpeaker, ExpectedReaction, RisingCounter) =
    (RowSpeaker::Nobody, ExpectedReaction::Closed, MALFORMED);
const NO_MAGIC: (RowSpeaker, ExpectedReaction, RisingCounter) =
    (RowSpeaker::Nobody, ExpectedReaction::Closed, MAGIC);

/// Bodies of links that have not even a hello, and hellos.
pub(super) const HANDSHAKES: &[BadInput] = &[
    row(
        "B-02",
        "1 to 7 bytes of a hello, then the end",
        (RowSpeaker::Ending, ExpectedReaction::Closed, MALFORMED),
        |scene| hello((1, 1), b"127.0.0.1", 9, &scene.to, &scene.cluster)[..7].to_vec(),
    ),
    row("B-03", "another magic", NO_MAGIC, |_| vec![0x5a; 300]),
    row("B-04", "an HTTP request", NO_MAGIC, |_| {
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()
    }),
    row("B-04", "a TLS ClientHello", NO_MAGIC, |_| {
        vec![0x16, 0x03, 0x01, 0x02, 0x00, 0x01]
    }),
    row(
        "B-06",
        "version 0",
        (
            RowSpeaker::Nobody,
            ExpectedReaction::Refused(RejectReason::Version),
            counter!(links.refused_version),
        ),
        |scene| hello((0, 0), b"127.0.0.1", 9, &scene.to, &scene.cluster),
    ),
    row(
        "B-06",
        "version 255",
        (
            RowSpeaker::Nobody,
            ExpectedReaction::Refused(RejectReason::Version),
            counter!(links.refused_version),
        ),
        |scene| hello((255, 255), b"127.0.0.1", 9, &scene.to, &scene.cluster),
    ),
    row(
        "B-09",
        "a hello of 65,535 bytes",
        (
            RowSpeaker::Nobody,
            ExpectedReaction::Closed,
            counter!(links.refused_too_large),
        ),
        |scene| {
            let mut bytes = hello((1, 1), b"127.0.0.1", 9, &scene.to, &scene.cluster);
            bytes[6..8].copy_from_slice(&u16::MAX.to_le_bytes());
            bytes
        },
    ),
    row(
        "B-39",
        "the peer is in another cluster",
        (
            RowSpeaker::Nobody,
            ExpectedReaction::Refused(RejectReason::WrongCluster),
            counter!(links.refused_cluster),
        ),
        |scene| hello((1, 1), b"127.0.0.1", 9, &scene.to, "others"),
    ),
    row("B-14", "a hello with a wrong checksum", NO_HANDSHAKE, |scene| {
        let mut bytes = hello((1, 1), b"127.0.0.1", 9, &scene.to, &scene.cluster);
        bytes[8] ^= 1;
        bytes
    }),
    row("B-45", "a name without a byte", NO_HANDSHAKE, |scene| {
        hello((1, 1), b"", 9, &scene.to, &scene.cluster)
    }),
    row("B-45", "a name of 129 bytes", NO_HANDSHAKE, |scene| {
        hello((1, 1), &[b'h'; 129], 9, &scene.to, &scene.cluster)
    }),
    row("B-45", "a name with control characters", NO_HANDSHAKE, |scene| {
        hello((1, 1), b"h\x07h", 9, &scene.to, &scene.cluster)
    }),
    row("B-45", "port 0", NO_HANDSHAKE, |scene| {
        hello((1, 1), b"127.0.0.1", 0, &scene.to, &scene.cluster)
    }),
    row(
        "B-64",
        "a name that would colour a terminal",
        NO_HANDSHAKE,
        |scene| hello((1, 1), b"h\x1b[31mh\nh", 9, &scene.to, &scene.cluster),
    ),
];

fn heartbeat(scene: &RowScene) -> Vec<u8> {
    let body = heartbeat_body(scene, 0);
    frame(CONTROL, DetectorMsg::HEARTBEAT.kind, scene.epoch, &body)
}

fn heartbeat_body(scene: &RowScene, round: u64) -> Vec<u8> {
    let Heartbeat { sequence, to } = Heartbeat::new(&scene.to, round);
    [sequence.to_le_bytes(), to.to_le_bytes()].concat()
}

pub(super) fn gossip(scene: &RowScene, form: &[u8]) -> Vec<u8> {
    frame(
        GOSSIP,
        MembershipMsg::GOSSIP.kind,
        scene.epoch,
        &addressed(&scene.to, form),
    )
}

/// A state of sender and receiver with one thing wrong.
pub(super) fn spoiled(scene: &RowScene, spoil: impl FnOnce(&mut StateColumns)) -> Vec<u8> {
    let mut state = StateColumns::of(&[&scene.to, &scene.me]);
    spoil(&mut state);
    gossip(scene, &[&[0], &state.bytes()[..]].concat())
}

pub(super) fn join(scene: &RowScene, roles: &[Vec<u8>]) -> Vec<u8> {
    let mut body = Vec::new();
    node(&mut body, &scene.to);
    text(&mut body, b"0.0.0");
    body.push(roles.len() as u8);
    for role in roles {
        text(&mut body, role);
    }
    frame(CONTROL, MembershipMsg::JOIN.kind, scene.epoch, &body)
}

/// Frames whose header is wrong, or whose body is not what its checksum says.
pub(super) const FRAMES: &[BadInput] = &[
    row("B-01", "an empty frame", BAD_HEADER, |scene| {
        frame(CONTROL, DetectorMsg::HEARTBEAT.kind, scene.epoch, &[])
    }),
    row(
        "B-03",
        "another magic after the handshake",
        (RowSpeaker::Stranger, ExpectedReaction::Closed, VIOLATION),
        |_| vec![0x5a; 64],
    ),
    row(
        "B-06",
        "frame version 0",
        (RowSpeaker::Stranger, ExpectedReaction::Closed, VIOLATION),
        |scene| patched(heartbeat(scene), 2, &[0]),
    ),
    row(
        "B-06",
        "frame version 255",
        (RowSpeaker::Stranger, ExpectedReaction::Closed, VIOLATION),
        |scene| patched(heartbeat(scene), 2, &[255]),
    ),
    row(
        "B-07",
        "an unknown kind",
        (RowSpeaker::Stranger, ExpectedReaction::Dropped, WIRE),
        |scene| frame(CONTROL, 0x7ffe, scene.epoch, &[1]),
    ),
    row("B-08", "reserved flags", BAD_HEADER, |scene| {
        patched(heartbeat(scene), 6, &0x8000_u16.to_le_bytes())
    }),
    row("B-08", "a lane that does not exist", BAD_HEADER, |scene| {
        patched(heartbeat(scene), 3, &[9])
    }),
    row(
        "B-09",
        "one byte more than a control frame may have",
        (
            RowSpeaker::Stranger,
            ExpectedReaction::Closed,
            counter!(links.frames_too_large),
        ),
        |scene| patched(heartbeat(scene), 8, &((256_u32 << 10) + 1).to_le_bytes()),
    ),
    row(
        "B-10",
        "a length of 4 GiB",
        (
            RowSpeaker::Stranger,
            ExpectedReaction::Closed,
            counter!(links.frames_too_large),
        ),
        |scene| patched(heartbeat(scene), 8, &u32::MAX.to_le_bytes()),
    ),
    row("B-13", "a byte behind the last field", NONSENSE, |scene| {
        frame(
            CONTROL,
            MembershipMsg::REMOVED.kind,
            scene.epoch,
            &addressed(&scene.to, &[0]),
        )
    }),
    row(
        "B-14",
        "a wrong checksum",
        (
            RowSpeaker::Stranger,
            ExpectedReaction::Dropped,
            counter!(links.frames_skipped),
        ),
        |scene| {
            let mut bytes = heartbeat(scene);
            bytes[16] ^= 1;
            bytes
        },
    ),
    row(
        "B-14",
        "three wrong checksums",
        (
            RowSpeaker::Stranger,
            ExpectedReaction::Closed,
            counter!(links.links_closed_for_checksums),
        ),
        |scene| {
            let mut bytes = heartbeat(scene);
            bytes[16] ^= 1;
            bytes.repeat(3)
        },
    ),
];

fn other_incarnation(of: &UniqueAddress) -> UniqueAddress {
    UniqueAddress::new(of.address().clone(), of.uid() ^ 1)
}

fn welcome(scene: &RowScene, to: &UniqueAddress) -> Vec<u8> {
    let state = StateColumns::of(&[to, &scene.me]).bytes();
    let body = addressed(to, &[&[0], &state[..]].concat());
    frame(GOSSIP, MembershipMsg::WELCOME.kind, scene.epoch, &body)
}

fn entity(scene: &RowScene, kind: u64, id: &[u8]) -> Vec<u8> {
    let mut body = kind.to_le_bytes().to_vec();
    body.extend([0, 0, 0, 0]);
    body.extend((id.len() as u16).to_le_bytes());
    body.extend(id);
    body.push(1);
    frame(USER, ShardingMsg::ENTITY.kind, scene.epoch, &body)
}

/// Messages that can be read and are not for this node, not from a member, not asked for.
pub(super) const MESSAGES: &[BadInput] = &[
    row("B-40", "gossip for an older incarnation", DROPPED, |scene| {
        let to = other_incarnation(&scene.to);
        let state = StateColumns::of(&[&to, &scene.me]).bytes();
        let body = addressed(&to, &[&[0], &state[..]].concat());
        frame(GOSSIP, MembershipMsg::GOSSIP.kind, scene.epoch, &body)
    }),
    row("B-41", "gossip from nobody", DROPPED, |scene| {
        spoiled(scene, |_| {})
    }),
    row(
        "B-43",
        "a join with the receiver's address",
        (
            RowSpeaker::Namesake,
            ExpectedReaction::Dropped,
            counter!(core.membership.joins_refused),
        ),
        |scene| join(scene, &[]),
    ),
    row("B-48", "a Welcome that nobody asked for", DROPPED, |scene| {
        welcome(scene, &scene.to)
    }),
    row("B-49", "a Welcome for another incarnation", DROPPED, |scene| {
        welcome(scene, &other_incarnation(&scene.to))
    }),
    row(
        "B-50",
        "an answer to a heartbeat that was never sent",
        DROPPED,
        |scene| {
            let body = heartbeat_body(scene, u64::MAX);
            frame(CONTROL, DetectorMsg::HEARTBEAT_RSP.kind, scene.epoch, &body)
        },
    ),
    row(
        "B-58",
        "a message for an unknown kind of entity",
        (
            RowSpeaker::UserLink,
            ExpectedReaction::Dropped,
            counter!(core.sharding.dead_letters),
        ),
        |scene| entity(scene, 42, b"id"),
    ),
    row(
        "B-58",
        "an entity id without a byte",
        (RowSpeaker::UserLink, ExpectedReaction::Dropped, WIRE),
        |scene| entity(scene, 42, b""),
    ),
    row(
        "B-58",
        "an entity id of 1,025 bytes",
        (RowSpeaker::UserLink, ExpectedReaction::Dropped, WIRE),
        |scene| entity(scene, 42, &[b'i'; 1_025]),
    ),
];

/// What only a member can get wrong.
pub(super) const OF_A_MEMBER: &[BadInput] = &[
    row(
        "B-37",
        "more changes of mine than I made",
        (
            RowSpeaker::Member,
            ExpectedReaction::Dropped,
            counter!(core.membership.rejected_forged_clock),
        ),
        |scene| {
            spoiled(scene, |state| {
                let mine = state.members.iter().position(|row| row.uid == scene.to.uid());
                state.clock.push((mine.map_or(0, |at| at as u16), 1 << 40));
            })
        },
    ),
    row(
        "B-42",
        "a state without the receiver",
        (RowSpeaker::Member, ExpectedReaction::Dropped, REJECTED),
        |scene| {
            let state = StateColumns::of(&[&scene.me]).bytes();
            gossip(scene, &[&[0], &state[..]].concat())
        },
    ),
];

/// One frame that is dropped and counted: shows that a link is still read.
pub(super) fn probe(scene: &RowScene, user: bool) -> Vec<u8> {
    frame(if user { USER } else { CONTROL }, 0x7fff, scene.epoch, &[1])
}

/// A member's first word.
pub(super) fn first_join(scene: &RowScene) -> Vec<u8> {
    join(scene, &[])
}
