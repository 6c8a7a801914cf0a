//! What the node tells the accepted links about who is a member. Spec: reliability 3a, 3b.

use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::view::MembershipPhase;

use super::Links;
use crate::inbound::KnownDialers;
use crate::order::LinkId;
use crate::outbound::LinkWord;
use crate::recipient::LinkRecipient;

impl Links {
    /// Goes on with a handshake.
    pub(crate) fn greet(&mut self, node: &dyn LinkRecipient, link: LinkId) {
        let known = KnownDialers {
            quarantine: &self.quarantine,
            is_member: &|peer: &UniqueAddress| node.is_member(peer),
            is_opening: &|to: &Address, nonce: &[u8; 16]| self.outbound.is_opening(to, nonce),
        };
        self.inbound.greet(&mut self.base, &known, link);
        let unconfirmed = self.inbound.unconfirmed(link);
        match unconfirmed.and_then(|hello| self.outbound.ask_about(&mut self.base, link, hello)) {
            Some(word) => self.on_word(node, word),
            None => self.greeted(link),
        }
    }

    /// A peer was asked whether a link in its name is its own.
    pub(crate) fn on_word(&mut self, node: &dyn LinkRecipient, word: LinkWord) {
        let known = KnownDialers {
            quarantine: &self.quarantine,
            is_member: &|peer: &UniqueAddress| node.is_member(peer),
            is_opening: &|to: &Address, nonce: &[u8; 16]| self.outbound.is_opening(to, nonce),
        };
        self.inbound.on_word(&mut self.base, &known, word);
        self.greeted(word.about);
    }

    fn greeted(&mut self, link: LinkId) {
        if let Some(peer) = self.inbound.peer(link) {
            self.outbound.look_again(&mut self.base, peer);
        }
    }

    /// Gives the links of those who have become members what members have.
    pub(crate) fn recognize(&mut self, node: &dyn LinkRecipient) {
        let revision = Some(node.revision());
        if self.recognized != revision {
            self.recognized = revision;
            let known = |peer: &UniqueAddress| node.is_member(peer);
            let to_read = self.inbound.recognize(&mut self.base, &known);
            self.turn.urgent.extend(to_read);
        }
    }

    /// A stranger's time to ask is over. While this node itself is no member, those whom it turned to are not
    /// meant.
    pub(crate) fn stranger_due(&mut self, node: &dyn LinkRecipient, link: LinkId) {
        let (joins, outbound) = (node.view().phase() != MembershipPhase::Member, &self.outbound);
        let meant = |peer: &UniqueAddress| joins && outbound.reaches(peer);
        self.inbound.on_stranger_due(&mut self.base, link, &meant);
    }

    /// Looks for links that nobody needs.
    pub(crate) fn sweep_inbound(&mut self, node: &dyn LinkRecipient) {
        let known = |peer: &UniqueAddress| node.is_member(peer);
        self.inbound.sweep(&mut self.base, node.view(), &known);
    }
}
