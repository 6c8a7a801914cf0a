//! A replica has promised another token: a higher one, or a far lower one only. What one replica says leads
//! the owner on by a step at a time, and the owner leads it on likewise. Spec: sharding 10.7; reliability
//! I-100.

use alloc::vec::Vec;

use super::words::WriterOutput;
use super::{LogWriter, WriterStage};
use crate::journal::protocol::{NUMBER_MAX, ReplicaAsk, ReplicaRequest, TERM_STEP};
use crate::journal::state::{StoreId, WriterEnd};
use crate::token::Token;

impl LogWriter {
    pub(super) fn on_refused(&mut self, store: StoreId, id: u64, held: Token, out: &mut Vec<WriterOutput>) {
        if held.term > NUMBER_MAX || held.count > NUMBER_MAX {
            return out.push(WriterOutput::Nonsense(store));
        }
        if held.term > self.token.term.saturating_add(TERM_STEP) {
            // One that holds nonsense, or lies, is outvoted; a majority that is so far ahead is caught up
            // with in steps.
            self.is_outreached = true;
            return;
        }
        self.highest = self.highest.max(held);
        if held < self.token && self.is_open_question(store, id) {
            // The token is further above what it has promised than a token may be now.
            self.behind.insert(store, held);
        }
        // An earlier token of this writer is refused because of its own later one: that says nothing.
        let is_mine = held < self.token || (held == self.token && !self.is_open_question(store, id));
        if is_mine {
            return;
        }
        let may_take_again =
            self.settings.claim.above(held).is_some() && self.attempt < self.settings.bounds.attempts_max;
        match self.stage {
            WriterStage::Opening(_) | WriterStage::WritingBack(_) if may_take_again => {
                self.attempt += 1;
                self.stage = WriterStage::Resting;
                out.push(WriterOutput::TakeAgain {
                    attempt: self.attempt,
                });
            }
            WriterStage::Opening(_) | WriterStage::WritingBack(_) | WriterStage::Serving => {
                self.end(WriterEnd::Fenced { held }, out);
            }
            WriterStage::Resting | WriterStage::Ended => {}
        }
    }

    /// Asks replicas that are far behind for a step on the way to the token.
    pub(super) fn lead_on(&self, out: &mut Vec<WriterOutput>) {
        if !self.is_waiting() {
            return;
        }
        for (store, held) in &self.behind {
            let term = held.term.saturating_add(TERM_STEP);
            if term < self.token.term {
                // Its answer is none to an open question: the next one shows how far it is.
                let request = self.request(*store, 0, ReplicaAsk::Promise);
                let token = Token::new(term, 1);
                out.push(WriterOutput::Ask(ReplicaRequest { token, ..request }));
            }
        }
    }

    /// No majority has promised the token, and somebody is out of its reach: takes the next step there.
    pub(super) fn catch_up(&mut self, out: &mut Vec<WriterOutput>) {
        match self.stage {
            WriterStage::Opening(_) if self.is_outreached => {}
            WriterStage::Opening(_)
            | WriterStage::WritingBack(_)
            | WriterStage::Serving
            | WriterStage::Resting
            | WriterStage::Ended => {
                return;
            }
        }
        let reach = Token::new(self.token.term.saturating_add(TERM_STEP), 1);
        match self.settings.claim.above(reach) {
            Some(token) => {
                self.token = token;
                self.begin(out);
            }
            // Who gives placements away has to go there first.
            None => self.end(WriterEnd::Fenced { held: reach }, out),
        }
    }
}
