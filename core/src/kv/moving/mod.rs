//! How a newcomer gets what the owners of a range hold: it asks each of them to refuse what was before the
//! move, then for its content in parts, and counts an owner as merged when its last part is. A value: its
//! host sends what it asks, merges parts into the store, and says when they are durable. Never decides when
//! the move is over; that is the coordinator's. Spec: sharding 10.19 b.
//!
//! Every part is read after its owner had refused the configuration before: what that one acknowledged until
//! then is in it, and nothing comes after. What is acknowledged later was acknowledged in Joint, and is at
//! enough of the owners after by itself.
//!
//! A newcomer that begins anew within one configuration, because its process did, merges everything again and
//! keeps what it had. What it had before that configuration it drops first ([`begins_empty`]): it may be what
//! was deleted since, and the tombstone reaped.

#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use super::state::configuration::Configuration;
pub use super::state::part::{PartError, PartLimits, RangeItem, RangePart};
use super::state::table::RangeLevels;
use crate::journal::state::StoreId;
use crate::store::Bytes;
use crate::time::Instant;

/// Whether a store that adopts a configuration drops what it holds of the range, before anything else and in
/// the same commit: it comes as a newcomer, and was none of this configuration before. Whoever drops takes
/// another dot actor.
#[must_use]
pub fn begins_empty(me: StoreId, held: Option<&Configuration>, adopted: &Configuration) -> bool {
    adopted.owners.newcomer() == Some(me) && held.is_none_or(|held| held.epoch < adopted.epoch)
}

/// What a newcomer asks of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArrivalEffect {
    /// Ask an owner to adopt the configuration, and to say so.
    AskRefusal {
        /// Whom.
        owner: StoreId,
    },
    /// Ask an owner for what it holds behind a key. It adopts the configuration first, if it has not.
    AskPart {
        /// Whom.
        owner: StoreId,
        /// The last key that is known; `None`: from the first one on.
        after: Option<Bytes>,
    },
    /// Merge a part into what this store holds; [`Arrival::on_kept`] says that it is durable.
    Merge {
        /// Whose it is.
        owner: StoreId,
        /// What is in it.
        items: Vec<RangeItem>,
    },
    /// The coordinator is to hear whose content is merged.
    Report,
}

/// How far the content of an owner is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SourceStage {
    /// It has not said that it refuses.
    Serving,
    /// It is asked for nothing.
    Refusing,
    /// It is to send what is behind the last key.
    Sending,
    /// A part of it is being merged.
    Merging { is_last: bool },
    /// All that it held is merged.
    Merged,
}

#[derive(Clone, Debug)]
struct ArrivalSource {
    owner: StoreId,
    stage: SourceStage,
    /// The last key of it that is merged.
    after: Option<Bytes>,
    /// When it was asked last.
    asked_at: Instant,
    /// It has not answered in time, and another one is asked as well.
    is_late: bool,
}

/// What a newcomer has got of a range. See the module.
#[derive(Clone, Debug)]
pub struct Arrival {
    epoch: u64,
    /// Owners whose content suffices.
    needed: usize,
    limits: PartLimits,
    /// After which time an owner is asked again.
    ask_again: Duration,
    sources: Vec<ArrivalSource>,
    effects: Vec<ArrivalEffect>,
}

impl Arrival {
    /// A store is the newcomer of this Joint, and has durably adopted it. `None` if there is no newcomer.
    #[must_use]
    pub fn new(
        configuration: &Configuration,
        levels: RangeLevels,
        limits: PartLimits,
        (now, ask_again): (Instant, Duration),
    ) -> Option<Self> {
        configuration.owners.newcomer()?;
        let (from, _) = configuration.owners.sets();
        let source = |owner: &StoreId| ArrivalSource {
            owner: *owner,
            stage: SourceStage::Serving,
            after: None,
            asked_at: now,
            is_late: false,
        };
        let ask = |owner: &StoreId| ArrivalEffect::AskRefusal { owner: *owner };
        Some(Self {
            epoch: configuration.epoch,
            needed: levels.merges(),
            limits,
            ask_again,
            sources: from.iter().map(source).collect(),
            effects: from.iter().map(ask).collect(),
        })
    }

    /// The epoch of the configuration.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Owners whose content is merged: what the coordinator is told.
    pub fn merged(&self) -> impl Iterator<Item = StoreId> {
        let merged = self
            .sources
            .iter()
            .filter(|source| source.stage == SourceStage::Merged);
        merged.map(|source| source.owner)
    }

    /// What it has asked for since the last call, in its order.
    pub fn take_effects(&mut self) -> Vec<ArrivalEffect> {
        mem::take(&mut self.effects)
    }

    /// An owner has adopted the configuration, and refuses the one before.
    pub fn on_refusal(&mut self, owner: StoreId, epoch: u64, now: Instant) {
        let is_present = epoch == self.epoch;
        if let Some(source) = self.source(owner).filter(|_| is_present)
            && source.stage == SourceStage::Serving
        {
            (source.stage, source.is_late) = (SourceStage::Refusing, false);
            self.ask_some(now);
        }
    }

    /// An owner has sent what it holds behind a key, after it had adopted the configuration. What was not
    /// asked for last is passed over.
    ///
    /// # Errors
    /// [`PartError`] for what no honest owner sends: nothing of it is merged.
    pub fn on_part(
        &mut self,
        owner: StoreId,
        (epoch, after): (u64, Option<&[u8]>),
        part: RangePart,
    ) -> Result<(), PartError> {
        let (present, limits) = (self.epoch, self.limits);
        let Some(source) = self.source(owner).filter(|_| epoch == present) else {
            return Ok(());
        };
        if source.stage != SourceStage::Sending || source.after.as_deref() != after {
            return Ok(());
        }
        part.check(after, limits)?;
        if let Some(last) = part.items.last() {
            source.after = Some(last.key.clone());
        }
        source.stage = SourceStage::Merging {
            is_last: part.is_last,
        };
        source.is_late = false;
        let items = part.items;
        self.effects.push(ArrivalEffect::Merge { owner, items });
        Ok(())
    }

    /// The part of an owner that was to be merged is durable here.
    pub fn on_kept(&mut self, owner: StoreId, now: Instant) {
        let Some(source) = self.source(owner) else { return };
        match source.stage {
            SourceStage::Merging { is_last: true } => {
                source.stage = SourceStage::Merged;
                source.after = None;
                self.effects.push(ArrivalEffect::Report);
                self.ask_some(now);
            }
            SourceStage::Merging { is_last: false } => {
                source.stage = SourceStage::Refusing;
                self.ask_for_part(owner, now);
            }
            SourceStage::Serving | SourceStage::Refusing | SourceStage::Sending | SourceStage::Merged => {}
        }
    }

    /// Asks those again that have not answered in time, and another one beside each of them.
    pub fn on_tick(&mut self, now: Instant) {
        let again = self.ask_again;
        for source in &mut self.sources {
            if now.since(source.asked_at) < again {
                continue;
            }
            let owner = source.owner;
            let effect = match source.stage {
                SourceStage::Serving => ArrivalEffect::AskRefusal { owner },
                SourceStage::Sending => {
                    let after = source.after.clone();
                    ArrivalEffect::AskPart { owner, after }
                }
                SourceStage::Refusing | SourceStage::Merging { .. } | SourceStage::Merged => continue,
            };
            (source.asked_at, source.is_late) = (now, true);
            self.effects.push(effect);
        }
        self.ask_some(now);
    }

    /// Has as many owners send as suffice; one that is late does not count.
    fn ask_some(&mut self, now: Instant) {
        loop {
            let counts = |source: &&ArrivalSource| match source.stage {
                SourceStage::Serving | SourceStage::Refusing => false,
                SourceStage::Sending => !source.is_late,
                SourceStage::Merging { .. } | SourceStage::Merged => true,
            };
            if self.sources.iter().filter(counts).count() >= self.needed {
                return;
            }
            let mut sources = self.sources.iter();
            let Some(next) = sources.find(|source| source.stage == SourceStage::Refusing) else {
                return;
            };
            self.ask_for_part(next.owner, now);
        }
    }

    fn ask_for_part(&mut self, owner: StoreId, now: Instant) {
        if let Some(source) = self.source(owner) {
            (source.stage, source.asked_at) = (SourceStage::Sending, now);
            let after = source.after.clone();
            self.effects.push(ArrivalEffect::AskPart { owner, after });
        }
    }

    fn source(&mut self, owner: StoreId) -> Option<&mut ArrivalSource> {
        self.sources.iter_mut().find(|source| source.owner == owner)
    }
}
