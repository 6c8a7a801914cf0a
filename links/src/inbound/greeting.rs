//! The accepting side of a handshake: reads the hello, answers, opens. Decides with the core's `Acceptor` and
//! with what the transport has seen proved; nobody who has proved too little replaces a link or says anything
//! to the core. Spec: `docs/WIRE.md` 3, reliability 3a, 3c.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::wire::handshake::{
    AUTH_NONE, Acceptor, FEATURE_QUESTION, HandshakeDecoded, Hello, HelloAck, HelloAnswer, HelloReject,
    RejectReason, decode_hello, encode_answer,
};
use quorate_core::wire::{VERSION_MAX, VERSION_MIN};

use super::{Inbound, OpenedLink, resume};
use crate::authentication::PeerIdentity;
use crate::base::LinksBase;
use crate::first_bytes::{PLAINTEXT_TO_TLS, is_noise, is_tls};
use crate::order::{LinkId, LinkOrder};
use crate::outbound::LinkWord;
use crate::quarantine::Quarantine;
use crate::report::{LinkRefusal, LinkReport, ReportParty};
use crate::timers::LinkDue;

/// What the node knows of dialers.
pub(crate) struct KnownDialers<'a> {
    pub(crate) quarantine: &'a Quarantine,
    pub(crate) is_member: &'a dyn Fn(&UniqueAddress) -> bool,
    /// Whether this node is opening a link there with a hello of this nonce.
    pub(crate) is_opening: &'a dyn Fn(&Address, &[u8; 16]) -> bool,
}

impl Inbound {
    /// Goes on with a handshake.
    pub(crate) fn greet(&mut self, base: &mut LinksBase, known: &KnownDialers<'_>, link: LinkId) {
        let Some(held) = self.links.get_mut(&link) else {
            return;
        };
        let gathered = held.bytes.gathered();
        match decode_hello(gathered) {
            HandshakeDecoded::NeedMore(_) => resume(base, &mut self.budget, link, held),
            HandshakeDecoded::Bad(error) => {
                // Who speaks another protocol of nodes hears what this one speaks.
                let (refusal, from) = (
                    LinkRefusal::no_handshake(error, gathered),
                    ReportParty::Source(held.source),
                );
                if is_noise(gathered) {
                    self.reject_as(base, link, from, RejectReason::AuthMethod, refusal);
                } else if is_tls(gathered) {
                    let bytes = PLAINTEXT_TO_TLS.to_vec();
                    base.act(LinkOrder::Write { link, bytes });
                    self.refuse_in_words(base, link, from, refusal);
                } else {
                    self.refuse_silently(base, link, refusal);
                }
            }
            HandshakeDecoded::Done { consumed, .. } if held.bytes.end_handshake(consumed) => {
                self.refuse_silently(base, link, LinkRefusal::TooEager);
            }
            HandshakeDecoded::Done { value: hello, .. } => self.on_hello(base, known, link, &hello),
        }
    }

    fn on_hello(&mut self, base: &mut LinksBase, known: &KnownDialers<'_>, link: LinkId, hello: &Hello) {
        let nonce = base.nonce();
        let acceptor = Acceptor {
            me: &base.me,
            cluster: &base.config.cluster,
            features: base.features,
            auth_method: AUTH_NONE,
            quarantined: known.quarantine.contains(&hello.from),
            nonce,
        };
        match acceptor.answer(hello) {
            Err(reject) => self.reject(base, link, hello, reject.reason),
            Ok(ack) => match self.is_covered(base, link, hello) {
                Ok(()) => self.consent(base, known, link, hello, ack),
                Err(reason) => self.reject(base, link, hello, reason),
            },
        }
    }

    /// Whether what the dialer has proved is enough for the address it announces.
    fn is_covered(&self, base: &LinksBase, link: LinkId, hello: &Hello) -> Result<(), RejectReason> {
        let identity = self.links.get(&link).and_then(|held| held.identity.as_ref());
        base.authentication.covers(identity, hello.from.address())
    }

    /// Who is at the other end of a link that is open.
    pub(crate) fn peer(&self, link: LinkId) -> Option<&UniqueAddress> {
        let opened = self.links.get(&link)?.opened.as_ref()?;
        Some(&opened.peer)
    }

    /// What the transport has seen of a dialer.
    pub(crate) fn identified(&mut self, link: LinkId, identity: PeerIdentity) {
        if let Some(held) = self.links.get_mut(&link) {
            held.identity = Some(identity);
        }
    }

    /// The transport does not believe a dialer, or the dialer does not believe this node.
    pub(crate) fn unproved(&mut self, base: &mut LinksBase, link: LinkId, why: String) {
        match self.links.get(&link) {
            Some(held) if held.opened.is_none() => {
                self.refuse_silently(base, link, LinkRefusal::Unproved(why));
            }
            Some(_) | None => self.closed(base, link),
        }
    }

    /// Strangers were turned away before they had a link.
    pub(crate) fn turned_away(&mut self, base: &mut LinksBase, count: u64, reason: String) {
        let uncounted = count.saturating_sub(1);
        base.stats.handshakes_refused += uncounted;
        base.stats.refused_unauthenticated += uncounted;
        let refusal = LinkRefusal::TurnedAway(reason);
        base.refuse(refusal, ReportParty::Unknown);
    }

    /// The dialer is who it says, as far as this node asks for it.
    fn consent(
        &mut self,
        base: &mut LinksBase,
        known: &KnownDialers<'_>,
        link: LinkId,
        hello: &Hello,
        ack: HelloAck,
    ) {
        if hello.features & FEATURE_QUESTION != 0 {
            return self.tell_own(
                base,
                link,
                (known.is_opening)(hello.from.address(), &hello.nonce),
                ack,
            );
        }
        if !base.authentication.binds_addresses() && self.has_same(&hello.from, hello.link) {
            return self.await_word(link, hello, ack);
        }
        if !self.replace_older(base, hello) {
            let from = ReportParty::Node(hello.from.clone());
            return self.reject_as(
                base,
                link,
                from,
                RejectReason::TooManyLinks,
                LinkRefusal::OldEpoch,
            );
        }
        self.admit(base, known, link, hello, ack);
    }

    /// Answers a question, for which no link is opened.
    fn tell_own(&mut self, base: &mut LinksBase, link: LinkId, is_own: bool, ack: HelloAck) {
        let reject = HelloReject {
            reason: RejectReason::NotOpening,
            versions: (VERSION_MIN, VERSION_MAX),
        };
        let word = match is_own {
            true => HelloAnswer::Ack(ack),
            false => HelloAnswer::Reject(reject),
        };
        answer(base, link, &word);
        self.forget(base, link);
        base.act(LinkOrder::Finish(link));
    }

    /// The link waits for the word of the peer in whose name it came.
    fn await_word(&mut self, link: LinkId, hello: &Hello, ack: HelloAck) {
        if let Some(held) = self.links.get_mut(&link) {
            held.unconfirmed = Some(Box::new((hello.clone(), ack)));
        }
    }

    /// What a link said that waits for a peer's word.
    pub(crate) fn unconfirmed(&self, link: LinkId) -> Option<&Hello> {
        let said = self.links.get(&link)?.unconfirmed.as_ref()?;
        Some(&said.0)
    }

    /// The peer has called a link its own, or has not.
    pub(crate) fn on_word(&mut self, base: &mut LinksBase, known: &KnownDialers<'_>, word: LinkWord) {
        let link = word.about;
        let said = self.links.get_mut(&link).and_then(|held| held.unconfirmed.take());
        let Some((hello, ack)) = said.map(|said| *said) else {
            return;
        };
        if word.is_its_own {
            base.stats.links_confirmed += 1;
            self.replace_all(base, &hello);
            return self.admit(base, known, link, &hello, ack);
        }
        let from = ReportParty::Node(hello.from);
        let refusal = LinkRefusal::Unconfirmed;
        self.reject_as(base, link, from, RejectReason::TooManyLinks, refusal);
    }

    /// Opens the link, if there is room.
    fn admit(
        &mut self,
        base: &mut LinksBase,
        known: &KnownDialers<'_>,
        link: LinkId,
        hello: &Hello,
        ack: HelloAck,
    ) {
        let is_member = (known.is_member)(&hello.from);
        if !self.enter(base, link, is_member) {
            return self.reject(base, link, hello, RejectReason::TooManyLinks);
        }
        answer(base, link, &HelloAnswer::Ack(ack));
        self.take_place(base, link, &hello.from, is_member);
        self.open(base, link, hello);
    }

    fn reject(&mut self, base: &mut LinksBase, link: LinkId, hello: &Hello, reason: RejectReason) {
        let from = ReportParty::Node(hello.from.clone());
        self.reject_as(base, link, from, reason, LinkRefusal::Rejected(reason));
    }

    fn reject_as(
        &mut self,
        base: &mut LinksBase,
        link: LinkId,
        from: ReportParty,
        reason: RejectReason,
        refusal: LinkRefusal,
    ) {
        let versions = (VERSION_MIN, VERSION_MAX);
        answer(base, link, &HelloAnswer::Reject(HelloReject { reason, versions }));
        self.refuse_in_words(base, link, from, refusal);
    }

    /// Closes a link to which was said why.
    fn refuse_in_words(
        &mut self,
        base: &mut LinksBase,
        link: LinkId,
        from: ReportParty,
        refusal: LinkRefusal,
    ) {
        self.forget(base, link);
        base.act(LinkOrder::Finish(link));
        base.refuse(refusal, from);
    }

    fn open(&mut self, base: &mut LinksBase, link: LinkId, hello: &Hello) {
        let meter = self.meter_of(hello);
        let Some(held) = self.links.get_mut(&link) else {
            return;
        };
        if let Some(deadline) = held.deadline.take() {
            base.timers.disarm(deadline, LinkDue::Inbound(link));
        }
        let expires = base.link_expiry();
        if let Some(at) = expires {
            base.timers.arm(at, LinkDue::Expiry(link));
        }
        held.opened = Some(OpenedLink {
            peer: hello.from.clone(),
            kind: hello.link,
            epoch: hello.epoch,
            spoke: false,
            expires,
            kept: false,
        });
        if let Some(meter) = meter {
            held.meter = meter;
        }
        base.stats.handshakes_completed += 1;
        base.report(LinkReport::Accepted {
            peer: hello.from.clone(),
            kind: hello.link,
            epoch: hello.epoch,
        });
        resume(base, &mut self.budget, link, held);
    }
}

fn answer(base: &mut LinksBase, link: LinkId, answer: &HelloAnswer) {
    let mut bytes = Vec::new();
    if encode_answer(answer, &mut bytes).is_ok() {
        base.act(LinkOrder::Write { link, bytes });
    }
}
