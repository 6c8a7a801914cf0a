//! What the liar says: so many messages of each kind, drawn as `quorate_tests::liar` draws them, in any
//! order, to the other members, at a steady pace. What it says of members, statuses, reachability and
//! tombstones is what its node says.

use std::time::Duration;

use quorate_core::config::Limits;
use quorate_core::ident::UniqueAddress;
use quorate_core::message::{Lane, Message, ShardingMsg, SingletonMsg};
use quorate_core::sharding::ids::{EntityId, Payload};
use quorate_core::sharding::{coordinator_log, remembered_logs};
use quorate_core::wire::Encoder;
use quorate_driver::Cluster;
use quorate_driver::spi::{LinkKind, Runtime};
use quorate_tests::liar::{Kind, Known, PAYLOAD_BYTES_MAX, lie};
use quorate_tests::sim::{Chance, Purpose};

use super::node::{self, SINGLETON};
use super::tongue::{self, Frame};
use crate::program::say;

/// Between two looks at what is due.
const TURN: Duration = Duration::from_millis(10);
/// Between two lines of how far it is.
const SAY_EVERY: Duration = Duration::from_secs(2);
/// Keys of data of which it speaks.
const KEYS_MAX: usize = 64;
/// Bytes that a list of bytes has beside them, at most, as entities read it.
const LENGTH_BYTES: usize = 2;

/// Tells so many lies of each kind within this time, or as soon as the links take them. What a link that
/// broke has not taken is told again.
pub(super) async fn tell(cluster: &Cluster, messages: u64, time: Duration, clock: &impl Runtime) {
    let mut liar = Liar {
        chance: Chance::new(cluster.address().uid(), Purpose::Lies),
        encoder: Encoder::new(),
        limits: Limits::default(),
    };
    let kinds = Kind::all();
    let total = messages * kinds.len() as u64;
    let begun = clock.mono();
    let mut said_at = begun;
    let (mut due, mut handed) = (Vec::new(), 0);
    loop {
        if due.is_empty() && tongue::known().has_said_all() {
            due = missing(&kinds, messages);
            if due.is_empty() {
                break;
            }
            liar.chance.shuffle(&mut due);
        }
        let known = known_to(cluster).await;
        let others: Vec<UniqueAddress> = others_of(&known);
        let share = clock.mono().since(begun).as_secs_f64() / time.as_secs_f64();
        let wanted = (total as f64 * share) as u64;
        let turn = due.len();
        for _ in 0..turn {
            if handed >= wanted {
                break;
            }
            let Some(kind) = due.pop() else { break };
            let to = others.get(liar.chance.index(others.len()));
            if to.is_some_and(|to| liar.tell(kind, to, &known)) {
                handed += 1;
            } else {
                due.insert(0, kind);
            }
        }
        if clock.mono().since(said_at) >= SAY_EVERY {
            said_at = clock.mono();
            let (sent, least) = counted(&kinds);
            say(format_args!("told {sent} {least}"));
        }
        clock.sleep_until(clock.mono() + TURN).await;
    }
    let (sent, least) = counted(&kinds);
    say(format_args!("told {sent} {least}"));
    say(format_args!("silent"));
}

/// What no link has taken yet.
fn missing(kinds: &[Kind], messages: u64) -> Vec<Kind> {
    let known = tongue::known();
    let said = |kind: &Kind| known.said.get(kind).copied().unwrap_or(0);
    let each = kinds.iter().flat_map(|kind| {
        let count = messages.saturating_sub(said(kind));
        (0..count).map(|_| *kind)
    });
    each.collect()
}

/// How many were said, and how many of the kind of which the fewest were.
fn counted(kinds: &[Kind]) -> (u64, u64) {
    let known = tongue::known();
    let said = &known.said;
    let least = kinds.iter().map(|kind| said.get(kind).copied().unwrap_or(0));
    (said.values().sum(), least.min().unwrap_or(0))
}

fn others_of(known: &Known) -> Vec<UniqueAddress> {
    let members = known.gossip.members().iter().map(|member| member.node.clone());
    members.filter(|node| *node != known.me).collect()
}

/// What the node knows and can speak of.
async fn known_to(cluster: &Cluster) -> Known {
    let view = cluster.view();
    let keys = cluster.data().keys().await.unwrap_or_default();
    let kinds = node::fields();
    let stores = tongue::known().stores.iter().copied().collect();
    Known {
        me: cluster.address().clone(),
        roles: Vec::new(),
        gossip: view.gossip().clone(),
        logs: kinds
            .iter()
            .flat_map(|kind| {
                let of_shards = remembered_logs(&kind.name).take(node::SHARDS as usize);
                core::iter::once(coordinator_log(&kind.name)).chain(of_shards)
            })
            .collect(),
        kinds,
        entities: (0..node::ENTITIES)
            .map(|number| EntityId::from(node::entity(number).as_str()))
            .collect(),
        singletons: vec![SINGLETON.into()],
        keys: keys.into_iter().take(KEYS_MAX).collect(),
        stores,
    }
}

struct Liar {
    chance: Chance,
    encoder: Encoder,
    limits: Limits,
}

impl Liar {
    /// Puts a lie of a kind on the way; whether there is one that has room.
    fn tell(&mut self, kind: Kind, to: &UniqueAddress, known: &Known) -> bool {
        let mut message = {
            let heard = tongue::known().heard.clone();
            lie(kind, to, known, &heard, &mut self.chance)
        };
        make_readable(&mut message);
        let link = match message.tag().lane {
            Lane::Control | Lane::Gossip | Lane::Reply => LinkKind::Control,
            Lane::User => LinkKind::User,
            Lane::Bulk => LinkKind::Bulk,
        };
        let Some(way) = tongue::known().way(to.address(), link).cloned() else {
            return false;
        };
        let mut frame = Vec::new();
        let written = self.encoder.encode(&message, way.epoch, &self.limits, &mut frame);
        let frame: Frame = (kind, frame);
        written.is_ok() && way.frames.try_send(frame).is_ok()
    }
}

/// Payloads as entities and singletons of these programs read them, of the length that was drawn.
fn make_readable(message: &mut Message) {
    let payload: &mut Payload = match message {
        Message::Sharding(ShardingMsg::Entity(envelope) | ShardingMsg::HandBack(envelope)) => {
            &mut envelope.payload
        }
        Message::Singleton(SingletonMsg::Delivery(delivery)) => &mut delivery.payload,
        Message::Membership(_)
        | Message::Detector(_)
        | Message::Sharding(_)
        | Message::Singleton(_)
        | Message::Path(_)
        | Message::Ddata(_)
        | Message::Journal(_)
        | Message::Load(_)
        | Message::Kv(_) => return,
    };
    let bytes = vec![0xA5_u8; payload.len().min(PAYLOAD_BYTES_MAX - LENGTH_BYTES)];
    if let Ok(readable) = postcard::to_allocvec(&bytes) {
        *payload = readable.into();
    }
}
