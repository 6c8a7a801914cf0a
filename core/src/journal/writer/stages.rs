//! From a token to a log that is served: promises, pages, the way back. Each step begins when a majority has
//! done the one before. Spec: sharding 10.7 (a) to (d).

use alloc::vec::Vec;

use super::opening::{LogOpening, PageStep};
use super::words::WriterOutput;
use super::{LogWriter, WriterStage};
use crate::journal::protocol::{ReplicaAsk, ReplicaPage};
use crate::journal::state::{StoreId, WriterEnd};

impl LogWriter {
    pub(super) fn begin(&mut self, out: &mut Vec<WriterOutput>) {
        let id = self.next_id();
        self.stage = WriterStage::Opening(LogOpening::new(id));
        self.behind.clear();
        self.is_outreached = false;
        self.repeat_opening(out);
    }

    pub(super) fn repeat_opening(&self, out: &mut Vec<WriterOutput>) {
        let WriterStage::Opening(opening) = &self.stage else {
            return;
        };
        for store in self.settings.stores.iter() {
            if let Some((id, ask)) = opening.question(*store) {
                out.push(self.ask(*store, id, ask));
            }
        }
    }

    pub(super) fn on_page(
        &mut self,
        store: StoreId,
        id: u64,
        page: ReplicaPage,
        out: &mut Vec<WriterOutput>,
    ) {
        let (quorum, next_id) = (self.quorum(), self.last_id + 1);
        let bytes_max = self.settings.bounds.log_bytes_max.saturating_mul(4);
        let WriterStage::Opening(opening) = &mut self.stage else {
            return;
        };
        match opening.on_page(store, id, page, next_id, bytes_max) {
            PageStep::Nothing => {}
            PageStep::Nonsense => out.push(WriterOutput::Nonsense(store)),
            PageStep::ReadOn(ask) => {
                self.last_id = next_id;
                out.push(self.ask(store, next_id, ask));
            }
            PageStep::Done => {
                if opening.done() >= quorum {
                    let id = self.next_id();
                    self.write_back(id, out);
                }
            }
        }
    }

    /// A majority has said what it holds: that is the log.
    fn write_back(&mut self, id: u64, out: &mut Vec<WriterOutput>) {
        let WriterStage::Opening(opening) = core::mem::replace(&mut self.stage, WriterStage::Resting) else {
            return;
        };
        let page_bytes = self.settings.bounds.page_bytes;
        match opening.end(self.token, id, page_bytes) {
            Some(back) => {
                self.stage = WriterStage::WritingBack(back);
                self.repeat_write_back(out);
            }
            None => self.end(WriterEnd::Damaged, out),
        }
    }

    pub(super) fn repeat_write_back(&self, out: &mut Vec<WriterOutput>) {
        if let WriterStage::WritingBack(back) = &self.stage {
            let entries = back.entries();
            self.ask_missing(back.flight(), &ReplicaAsk::Accept { entries }, out);
        }
    }

    pub(super) fn on_written_back(&mut self, store: StoreId, id: u64, out: &mut Vec<WriterOutput>) {
        let (quorum, next_id) = (self.quorum(), self.last_id + 1);
        let WriterStage::WritingBack(back) = &mut self.stage else {
            return;
        };
        if !back.on_accepted(store, id, quorum) {
            return;
        }
        self.last_id = next_id;
        if back.go_on(next_id) {
            return self.repeat_write_back(out);
        }
        let WriterStage::WritingBack(back) = core::mem::replace(&mut self.stage, WriterStage::Serving) else {
            return;
        };
        let (opened, extent) = back.opened(self.token);
        self.extent = extent;
        out.push(WriterOutput::Opened(opened));
        self.look_at_room(out);
    }
}
