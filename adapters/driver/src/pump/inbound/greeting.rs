//! The accepting side of a handshake: reads the hello, challenges whoever has something to prove, answers, opens. Decides with
//! the core's `Acceptor` and the node's authentication; nobody who has proved nothing replaces a link or says anything to
//! the core. Spec: `docs/WIRE.md` 3, reliability 3a, 3c.

use quorate_core::ident::UniqueAddress;
use quorate_core::wire::handshake::{
    Acceptor, FEATURES, HandshakeDecoded, Hello, HelloAck, HelloAnswer, HelloReject, Proof, RejectReason,
    decode_hello, decode_proof, encode_answer,
};
use quorate_core::wire::{VERSION_MAX, VERSION_MIN, WireError};

use super::{Inbound, Opened, resume};
use crate::proved::Proved;
use crate::psk::{self, Transcript};
use crate::pump::action::{Action, LinkId};
use crate::pump::base::Base;
use crate::pump::quarantine::Quarantine;
use crate::pump::refusal::{Refusal, refuse};
use crate::pump::timers::Due;
use crate::security::Authentication;
use crate::transport::{PeerCertificate, Unproved};
use crate::wrong_port::{PLAINTEXT_HERE, is_tls_client};

/// What an acceptor remembers of a dialer that it has challenged.
#[derive(Debug)]
pub(super) struct Challenged {
    hello: Hello,
    /// The consent, but for the proof.
    ack: HelloAck,
    transcript: Transcript,
}

/// What the node knows of dialers.
pub(crate) struct Known<'a> {
    pub(crate) quarantine: &'a Quarantine,
    pub(crate) is_member: &'a dyn Fn(&UniqueAddress) -> bool,
}

/// What a dialer has said so far.
enum Said {
    NotAll,
    Nonsense(WireError),
    Hello(Box<Hello>, Vec<u8>),
    Proof(Proof),
    /// More than it may say before it is answered.
    TooMuch,
}

impl Inbound {
    /// Goes on with a handshake.
    pub(crate) fn greet(&mut self, base: &mut Base, known: &Known<'_>, link: LinkId) {
        let Some(held) = self.links.get_mut(&link) else {
            return;
        };
        let gathered = held.bytes.gathered();
        let (said, consumed) = if held.challenged.is_none() {
            match decode_hello(gathered) {
                HandshakeDecoded::NeedMore(_) => (Said::NotAll, 0),
                HandshakeDecoded::Bad(error) => (Said::Nonsense(error), 0),
                HandshakeDecoded::Done { value, consumed } => {
                    let bytes = gathered.get(..consumed).unwrap_or(gathered).to_vec();
                    (Said::Hello(Box::new(value), bytes), consumed)
                }
            }
        } else {
            match decode_proof(gathered) {
                HandshakeDecoded::NeedMore(_) => (Said::NotAll, 0),
                HandshakeDecoded::Bad(error) => (Said::Nonsense(error), 0),
                HandshakeDecoded::Done { value, consumed } => (Said::Proof(value), consumed),
            }
        };
        let said = match said {
            Said::Nonsense(error) => {
                let refusal = Refusal::no_handshake(error, gathered);
                if !is_tls_client(gathered) {
                    return self.refuse_silently(base, link, &refusal);
                }
                let (from, bytes) = (held.source, PLAINTEXT_HERE.to_vec());
                base.act(Action::Write { link, bytes });
                return self.refuse_in_words(base, link, &from, &refusal);
            }
            Said::Hello(..) | Said::Proof(_) if held.bytes.end_handshake(consumed) => Said::TooMuch,
            said => said,
        };
        match said {
            Said::NotAll => resume(base, &mut self.budget, link, held),
            Said::TooMuch | Said::Nonsense(_) => self.refuse_silently(base, link, &Refusal::TooEager),
            Said::Hello(hello, bytes) => self.on_hello(base, known, link, *hello, &bytes),
            Said::Proof(proof) => self.on_proof(base, known, link, &proof),
        }
    }

    fn on_hello(&mut self, base: &mut Base, known: &Known<'_>, link: LinkId, hello: Hello, bytes: &[u8]) {
        let nonce = base.nonce();
        let acceptor = Acceptor {
            me: &base.me,
            cluster: &base.config.cluster,
            features: FEATURES,
            auth_method: base.authentication.number(),
            quarantined: known.quarantine.contains(&hello.from),
            nonce,
        };
        match acceptor.answer(&hello) {
            Err(reject) => self.reject(base, link, &hello, reject.reason),
            Ok(_) if !self.is_covered(base, link, &hello) => {
                self.reject(base, link, &hello, RejectReason::WrongIdentity);
            }
            Ok(ack) if base.authentication.challenges() => self.challenge(base, link, hello, bytes, ack),
            Ok(ack) => {
                let seen = self.links.get(&link).and_then(|held| held.certificate.clone());
                self.consent(base, known, link, &hello, ack, seen.into());
            }
        }
    }

    /// Whether the dialer's certificate, if it needs one, is for the address it announces.
    fn is_covered(&self, base: &Base, link: LinkId, hello: &Hello) -> bool {
        let certificate = self.links.get(&link).and_then(|held| held.certificate.as_ref());
        base.authentication.covers(certificate, hello.from.address())
    }

    /// What the transport has seen of a dialer.
    pub(crate) fn identified(&mut self, link: LinkId, certificate: PeerCertificate) {
        if let Some(held) = self.links.get_mut(&link) {
            held.certificate = Some(certificate);
        }
    }

    /// The transport does not believe a dialer, or the dialer does not believe this node.
    pub(crate) fn unproved(&mut self, base: &mut Base, link: LinkId, why: Unproved) {
        match self.links.get(&link) {
            Some(held) if held.opened.is_none() => {
                self.refuse_silently(base, link, &Refusal::Unproved(why));
            }
            Some(_) | None => self.closed(base, link),
        }
    }

    /// Strangers were turned away before they had a link.
    pub(crate) fn turned_away(&mut self, base: &mut Base, count: u64, reason: String) {
        let uncounted = count.saturating_sub(1);
        base.stats.handshakes_refused += uncounted;
        base.stats.refused_unauthenticated += uncounted;
        let refusal = Refusal::TurnedAway(reason);
        refuse(
            &refusal,
            &"the port",
            &mut base.stats,
            &mut base.log,
            base.now.mono,
        );
    }

    fn challenge(&mut self, base: &mut Base, link: LinkId, hello: Hello, bytes: &[u8], ack: HelloAck) {
        let mut challenge = Vec::new();
        let encoded = encode_answer(&HelloAnswer::Challenge(ack.clone()), &mut challenge);
        let Some(held) = self.links.get_mut(&link).filter(|_| encoded.is_ok()) else {
            return;
        };
        held.challenged = Some(Box::new(Challenged {
            transcript: psk::transcript(bytes, &challenge),
            hello,
            ack,
        }));
        base.act(Action::Write {
            link,
            bytes: challenge,
        });
        resume(base, &mut self.budget, link, held);
    }

    fn on_proof(&mut self, base: &mut Base, known: &Known<'_>, link: LinkId, proof: &Proof) {
        let challenged = self.links.get_mut(&link).and_then(|held| held.challenged.take());
        let (Some(challenged), Authentication::Psk(psk)) = (challenged, &base.authentication) else {
            return;
        };
        let Challenged {
            hello,
            ack,
            transcript,
        } = *challenged;
        match psk.answer(&transcript, proof) {
            Some(answer) => {
                let proof = proof.clone();
                let proved = Proved::Key { transcript, proof };
                self.consent(
                    base,
                    known,
                    link,
                    &hello,
                    HelloAck { proof: answer, ..ack },
                    proved,
                );
            }
            None => self.reject(base, link, &hello, RejectReason::Unauthenticated),
        }
    }

    /// The dialer is who it says, as far as this node asks for it.
    fn consent(
        &mut self,
        base: &mut Base,
        known: &Known<'_>,
        link: LinkId,
        hello: &Hello,
        ack: HelloAck,
        proved: Proved,
    ) {
        if !self.replace_older(base, hello) {
            return self.reject_as(base, link, hello, RejectReason::TooManyLinks, &Refusal::OldEpoch);
        }
        let is_member = (known.is_member)(&hello.from);
        if !self.enter(base, link, is_member) {
            return self.reject(base, link, hello, RejectReason::TooManyLinks);
        }
        answer(base, link, &HelloAnswer::Ack(ack));
        self.take_place(base, link, &hello.from, is_member);
        self.open(base, link, hello, proved);
    }

    fn reject(&mut self, base: &mut Base, link: LinkId, hello: &Hello, reason: RejectReason) {
        self.reject_as(base, link, hello, reason, &Refusal::Rejected(reason));
    }

    fn reject_as(
        &mut self,
        base: &mut Base,
        link: LinkId,
        hello: &Hello,
        reason: RejectReason,
        refusal: &Refusal,
    ) {
        let versions = (VERSION_MIN, VERSION_MAX);
        answer(base, link, &HelloAnswer::Reject(HelloReject { reason, versions }));
        self.refuse_in_words(base, link, &hello.from, refusal);
    }

    /// Closes a link to which was said why.
    fn refuse_in_words(
        &mut self,
        base: &mut Base,
        link: LinkId,
        from: &dyn std::fmt::Display,
        refusal: &Refusal,
    ) {
        self.forget(base, link);
        base.act(Action::Finish(link));
        refuse(refusal, from, &mut base.stats, &mut base.log, base.now.mono);
    }

    fn open(&mut self, base: &mut Base, link: LinkId, hello: &Hello, proved: Proved) {
        let meter = self.meter_of(hello);
        let Some(held) = self.links.get_mut(&link) else {
            return;
        };
        if let Some(deadline) = held.deadline.take() {
            base.timers.disarm(deadline, Due::Inbound(link));
        }
        let expires = base.link_expiry();
        if let Some(at) = expires {
            base.timers.arm(at, Due::Expiry(link));
        }
        held.opened = Some(Opened {
            peer: hello.from.clone(),
            kind: hello.link,
            epoch: hello.epoch,
            spoke: false,
            expires,
            proved,
            kept: false,
        });
        if let Some(meter) = meter {
            held.meter = meter;
        }
        base.stats.handshakes_completed += 1;
        tracing::debug!(
            target: "cluster::transport", event = "link_accepted", peer = %hello.from, kind = ?hello.link,
            epoch = hello.epoch
        );
        resume(base, &mut self.budget, link, held);
    }
}

fn answer(base: &mut Base, link: LinkId, answer: &HelloAnswer) {
    let mut bytes = Vec::new();
    if encode_answer(answer, &mut bytes).is_ok() {
        base.act(Action::Write { link, bytes });
    }
}
