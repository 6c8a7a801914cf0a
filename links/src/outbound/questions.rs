//! Whether a peer itself opened a second link in its name, where links prove no more than that somebody has
//! the key, or nothing: it is asked at its own address, by a handshake that opens no link. Decides nothing
//! about the link in question. Spec: reliability 3a, `docs/WIRE.md` 3.1.

use alloc::vec::Vec;

use quorate_core::ident::Address;
use quorate_core::time::Instant;
use quorate_core::wire::handshake::{
    FEATURE_QUESTION, HandshakeDecoded, Hello, HelloAnswer, LinkKind, check_ack, decode_answer, encode_hello,
};

use super::Outbound;
use crate::authentication::PeerIdentity;
use crate::base::LinksBase;
use crate::limits::QUESTIONS_MAX;
use crate::order::{LinkId, LinkInput, LinkOrder};
use crate::peer_link::{ConnectionState, Renewal};
use crate::timers::LinkDue;

/// A link that this node opened to ask about another one.
#[derive(Debug)]
pub(super) struct Question {
    about: LinkId,
    hello: Hello,
    deadline: Instant,
    heard: Vec<u8>,
    identity: Option<PeerIdentity>,
}

/// What the peer says of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkWord {
    pub(crate) about: LinkId,
    pub(crate) is_its_own: bool,
}

impl Outbound {
    /// Asks the incarnation at the other end's address whether this hello is its own. `Some`: it is not
    /// asked, because it is asked too much already, also about links that are gone meanwhile.
    pub(crate) fn ask_about(
        &mut self,
        base: &mut LinksBase,
        about: LinkId,
        asked: &Hello,
    ) -> Option<LinkWord> {
        let to = asked.from.address();
        let open = self
            .questions
            .values()
            .filter(|question| question.hello.to == *to);
        if open.count() >= QUESTIONS_MAX {
            return Some(LinkWord {
                about,
                is_its_own: false,
            });
        }
        let link = base.next_link();
        let hello = Hello {
            expected_uid: Some(asked.from.uid()),
            epoch: asked.epoch,
            features: FEATURE_QUESTION,
            nonce: asked.nonce,
            ..self.hello(base, to, LinkKind::User, None)
        };
        let deadline = base.now.mono + base.limits.handshake_timeout;
        base.timers.arm(deadline, LinkDue::Question(link));
        base.stats.dials += 1;
        base.act(LinkOrder::Dial {
            link,
            to: to.clone(),
            kind: LinkKind::User,
        });
        let question = Question {
            about,
            hello,
            deadline,
            heard: Vec::new(),
            identity: None,
        };
        self.questions.insert(link, question);
        None
    }

    /// Whether this node is opening a link there whose hello has this nonce.
    pub(crate) fn is_opening(&self, to: &Address, nonce: &[u8; 16]) -> bool {
        let Some(peer) = self.peers.get(to) else {
            return false;
        };
        let links = [&peer.control, &peer.user, &peer.bulk];
        let hellos = links.into_iter().flat_map(|peer_link| {
            let successor = match &peer_link.renewal {
                Renewal::Opening(state) => Some(state),
                Renewal::None | Renewal::Due { .. } | Renewal::Draining { .. } => None,
            };
            [Some(&peer_link.state), successor].into_iter().flatten()
        });
        hellos.into_iter().any(|state| match state {
            ConnectionState::Dialing { hello, .. } | ConnectionState::Greeting { hello, .. } => {
                hello.nonce == *nonce
            }
            ConnectionState::Idle | ConnectionState::Backoff { .. } | ConnectionState::Open { .. } => false,
        })
    }

    /// Whether this link carries a question.
    pub(crate) fn is_question(&self, link: LinkId) -> bool {
        self.questions.contains_key(&link)
    }

    /// Something happened to a link that carries a question. `Some`: it is answered.
    pub(crate) fn on_question(&mut self, base: &mut LinksBase, input: LinkInput) -> Option<LinkWord> {
        let link = input.link();
        let question = self.questions.get_mut(&link)?;
        match input {
            LinkInput::Dialed(_) => {
                let mut bytes = Vec::new();
                if encode_hello(&question.hello, &mut bytes).is_err() {
                    return self.question_over(base, link, false);
                }
                base.act(LinkOrder::Write { link, bytes });
                None
            }
            LinkInput::Received(_, chunk) => {
                base.stats.bytes_received += chunk.len as u64;
                question.heard.extend_from_slice(chunk.filled());
                base.act(LinkOrder::Resume { link, chunk });
                let is_its_own = match decode_answer(&question.heard) {
                    HandshakeDecoded::NeedMore(_) => return None,
                    HandshakeDecoded::Done {
                        value: HelloAnswer::Ack(ack),
                        ..
                    } => {
                        let covered = base
                            .authentication
                            .covers(question.identity.as_ref(), &question.hello.to);
                        check_ack(&question.hello, &ack).and(covered).is_ok()
                    }
                    HandshakeDecoded::Done {
                        value: HelloAnswer::Reject(_),
                        ..
                    }
                    | HandshakeDecoded::Bad(_) => false,
                };
                self.question_over(base, link, is_its_own)
            }
            LinkInput::Identified(_, identity) => {
                question.identity = Some(identity);
                None
            }
            LinkInput::Datagram(_, chunk) => {
                base.act(LinkOrder::Resume { link, chunk });
                None
            }
            LinkInput::Datagrams(..) | LinkInput::Written(..) => None,
            LinkInput::DialFailed(..)
            | LinkInput::Unproved(..)
            | LinkInput::Broken(_)
            | LinkInput::Closed(_) => self.question_over(base, link, false),
        }
    }

    /// The time for an answer is over, or one has come.
    pub(crate) fn question_over(
        &mut self,
        base: &mut LinksBase,
        link: LinkId,
        is_its_own: bool,
    ) -> Option<LinkWord> {
        let Question { about, deadline, .. } = self.questions.remove(&link)?;
        base.timers.disarm(deadline, LinkDue::Question(link));
        base.act(LinkOrder::Abort(link));
        Some(LinkWord { about, is_its_own })
    }
}
