//! Links that this node dials: one per address and kind, dialed when a message first needs it, and again, with a new epoch,
//! when the next message comes after it broke. What cannot be sent goes back to the node (steps 6 and 7 of
//! `docs/embedding.md`).

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mio::Token as Id;
use mio::net::TcpStream;
use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::input::{DropReason, LinkEvent, Target};
use quorate_core::message::{Lane, Message};
use quorate_core::wire::handshake::{
    AUTH_NONE, FEATURE_BULK, FEATURES, HandshakeDecoded, Hello, HelloAnswer, LinkKind, RejectReason,
    check_ack, decode_answer, encode_hello,
};
use quorate_core::wire::{VERSION_MAX, VERSION_MIN};

use super::Failure;
use super::host::Host;
use super::link::{Known, Role};

/// Messages that wait for one handshake.
const WAITING_MESSAGES_MAX: usize = 1_024;
/// No second dial of an address within this time after one that failed.
const DIAL_PAUSE: Duration = Duration::from_millis(100);

impl Host {
    /// A message goes to the link of its lane: those of entities have their own, so that they can be held back, and bulk data,
    /// so that it is not.
    pub(super) fn send(&mut self, to: Target, message: Message) {
        let way = (to.address().clone(), LinkKind::of(message.lane()));
        if way.1 == LinkKind::Bulk && !self.takes_bulk.contains(&way.0) {
            // Members always have a control link; its answer says whether a bulk link is wanted. The sender tries again.
            return self.unreachable(to, message);
        }
        if let Some(id) = self.ways.get(&way).copied()
            && self.is_outdated(id, &to)
        {
            self.close(id);
        }
        let dialed = match self.ways.get(&way) {
            Some(id) => Ok(*id),
            None => self.dial(&way, &to),
        };
        let Some((id, link)) = dialed.ok().and_then(|id| Some((id, self.links.get_mut(&id)?))) else {
            return self.unreachable(to, message);
        };
        let has_room = link.has_room(message.lane());
        match &mut link.role {
            Role::Greeting(_, waiting) if waiting.len() < WAITING_MESSAGES_MAX => {
                waiting.push_back((to, message));
            }
            // A message for one incarnation never reaches another.
            Role::Outbound(known) if matches!(&to, Target::Node(node) if *node != known.peer) => {
                let found = known.peer.clone();
                self.wrong_incarnation(&to, found);
                self.unreachable(to, message);
            }
            Role::Outbound(known) if has_room => {
                let mut bytes = Vec::new();
                let encoded = self
                    .encoder
                    .encode(&message, known.epoch, &self.limits, &mut bytes);
                match encoded {
                    Ok(()) => link.put(&bytes),
                    Err(_) => self.dropped(to, message, DropReason::TooLarge),
                }
            }
            // The next round brings newer gossip than this.
            Role::Outbound(_) | Role::Greeting(..) if message.lane() == Lane::Gossip => {}
            Role::Outbound(_) if message.lane() == Lane::Control => {
                // Who takes no heartbeats is no peer.
                self.dropped(to, message, DropReason::QueueFull);
                self.close(id);
            }
            Role::Outbound(_) | Role::Greeting(..) | Role::Stranger | Role::Inbound(_) => {
                self.dropped(to, message, DropReason::QueueFull);
            }
        }
    }

    /// Whether the members have replaced the incarnation that this link once reached, and its host died without a word.
    fn is_outdated(&self, id: Id, to: &Target) -> bool {
        let Some(known) = self.links.get(&id).and_then(|link| link.known()) else {
            return false;
        };
        let view = self.view();
        matches!(to, Target::Node(node)
            if *node != known.peer && view.member(node).is_some() && view.member(&known.peer).is_none())
    }

    fn unreachable(&mut self, to: Target, message: Message) {
        self.dropped(to, message, DropReason::Unreachable);
    }

    /// What the host cannot keep goes back to the node, which answers the ask that was in it.
    fn dropped(&mut self, to: Target, message: Message, reason: DropReason) {
        self.tell(LinkEvent::Dropped { to, message, reason });
    }

    fn wrong_incarnation(&mut self, to: &Target, found: UniqueAddress) {
        if let Target::Node(expected) = to {
            let expected = expected.clone();
            self.tell(LinkEvent::WrongIncarnation { expected, found });
        }
    }

    /// Never blocks: a host on one thread resolves names elsewhere, here an address is a number.
    fn dial(&mut self, way: &(Address, LinkKind), first: &Target) -> Result<Id, Failure> {
        let (to, kind) = way;
        let is_full = self.links.len() >= self.limits.links_max;
        if is_full || self.not_before.contains_key(to) {
            return Err("not now".into());
        }
        let there = SocketAddr::new(to.host().parse::<IpAddr>()?, to.port());
        // Grows with every dial: a later link has the larger epoch.
        self.last_epoch += 1;
        let hello = Hello {
            versions: (VERSION_MIN, VERSION_MAX),
            cluster: self.node.config().cluster.clone(),
            from: self.me.clone(),
            to: to.clone(),
            expected_uid: match first {
                Target::Node(node) => Some(node.uid()),
                Target::Address(_) => None,
            },
            link: *kind,
            epoch: self.last_epoch,
            features: FEATURES,
            auth_method: AUTH_NONE,
            nonce: [0; 16], // only a method with a proof needs one
        };
        let mut bytes = Vec::new();
        encode_hello(&hello, &mut bytes)?;
        let id = self.adopt(TcpStream::connect(there)?, Role::Greeting(hello, VecDeque::new()))?;
        if let Some(link) = self.links.get_mut(&id) {
            link.put(&bytes);
        }
        self.ways.insert(way.clone(), id);
        Ok(id)
    }

    /// A dial has failed: what waited for it goes back, and each incarnation it was for counts as gone.
    pub(super) fn gave_up(&mut self, hello: &Hello, waiting: VecDeque<(Target, Message)>) {
        let not_before = self.now().mono + DIAL_PAUSE;
        self.not_before.insert(hello.to.clone(), not_before);
        let mut told: Vec<UniqueAddress> = Vec::new();
        for (to, message) in waiting {
            if let Target::Node(peer) = &to
                && hello.link != LinkKind::Bulk
                && !told.contains(peer)
            {
                told.push(peer.clone());
                self.tell(LinkEvent::Down { peer: peer.clone() });
            }
            self.unreachable(to, message);
        }
    }

    /// The answer to a hello; `false` if the link has to go. The core decides what fits, the host does it.
    pub(super) fn on_answer(&mut self, id: Id) -> bool {
        let Some(link) = self.links.get_mut(&id) else {
            return true;
        };
        let Role::Greeting(hello, waiting) = &mut link.role else {
            return false;
        };
        let (answer, consumed) = match decode_answer(&link.received) {
            HandshakeDecoded::NeedMore(_) => return true,
            HandshakeDecoded::Bad(_) => return false,
            HandshakeDecoded::Done { value, consumed } => (value, consumed),
        };
        let (to, expected_uid) = (hello.to.clone(), hello.expected_uid);
        let ack = match answer {
            HelloAnswer::Ack(ack) if check_ack(hello, &ack).is_ok() => ack,
            HelloAnswer::Reject(reject) => {
                match (reject.reason, expected_uid) {
                    (RejectReason::WrongIncarnation { found }, Some(uid)) => {
                        self.wrong_incarnation(
                            &Target::Node(UniqueAddress::new(to.clone(), uid)),
                            UniqueAddress::new(to, found),
                        );
                    }
                    // The very incarnation that was meant has removed this one.
                    (RejectReason::Quarantined, Some(uid)) => {
                        let peer = UniqueAddress::new(to, uid);
                        self.tell(LinkEvent::QuarantinedBy { peer });
                    }
                    (_, _) => {}
                }
                return false;
            }
            HelloAnswer::Ack(_) => return false,
        };
        if self.quarantined.contains(&ack.from) || link.received.len() > consumed {
            return false;
        }
        link.received.clear();
        let (epoch, kind, waiting) = (hello.epoch, hello.link, std::mem::take(waiting));
        let (peer, features) = (ack.from, ack.features);
        link.role = Role::Outbound(Known {
            peer: peer.clone(),
            kind,
            epoch,
        });
        if kind == LinkKind::Control {
            if features & FEATURE_BULK != 0 {
                self.takes_bulk.insert(to);
            } else {
                self.takes_bulk.remove(&to);
            }
            self.tell(LinkEvent::Up { peer, epoch });
        }
        for (to, message) in waiting {
            self.send(to, message);
        }
        true
    }
}
