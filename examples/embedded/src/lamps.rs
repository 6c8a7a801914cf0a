//! Step 8 of `docs/embedding.md`: the entities of a board are lamps. A message is empty, or 0 or 1 to switch;
//! the answer says what the lamp is then. After a pause of the board nothing is begun until the node knows
//! that it is still a member.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use quorate_core::effect::HostOrder;
use quorate_core::input::HostReport;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::Slot;

/// Orders that wait after a pause; past it messages are refused.
const HELD_MAX: usize = 32;

/// The lamps by the slots that the node has given them.
#[derive(Debug, Default)]
pub(crate) struct Lamps {
    lamps: BTreeMap<Slot, bool>,
    /// What was ordered since the pause, in its order; `None` while there is no doubt.
    held: Option<VecDeque<HostOrder>>,
}

impl Lamps {
    /// The board stood still: others may have taken over what it runs.
    pub(crate) fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    pub(crate) const fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    /// The board is still a member.
    pub(crate) fn release(&mut self) -> Vec<HostReport> {
        let held = self.held.take().unwrap_or_default();
        held.into_iter().filter_map(|order| self.run(order)).collect()
    }

    /// What the node orders; what it has to hear of that.
    pub(crate) fn order(&mut self, order: HostOrder) -> Option<HostReport> {
        let Some(held) = &mut self.held else {
            return self.run(order);
        };
        match order {
            HostOrder::Deliver { slot, reply_to, .. } if held.len() >= HELD_MAX => {
                Some(HostReport::Refused {
                    slot,
                    ask: reply_to,
                    reason: AskFailure::MailboxFull,
                })
            }
            order @ (HostOrder::Start { .. }
            | HostOrder::Deliver { .. }
            | HostOrder::Stop { .. }
            | HostOrder::StopWithState { .. }
            | HostOrder::Kill { .. }) => {
                held.push_back(order);
                None
            }
        }
    }

    fn run(&mut self, order: HostOrder) -> Option<HostReport> {
        match order {
            HostOrder::Start { slot, .. } => {
                self.lamps.insert(slot, false);
                None
            }
            HostOrder::Deliver {
                slot,
                payload,
                reply_to,
                ..
            } => {
                let lamp = self.lamps.get_mut(&slot)?;
                if let [wanted] = *payload {
                    *lamp = wanted == 1;
                }
                let result = Ok([u8::from(*lamp)].into());
                reply_to.map(|ask| HostReport::Answered { ask, result })
            }
            HostOrder::Stop { slot } | HostOrder::StopWithState { slot } | HostOrder::Kill { slot } => {
                self.lamps.remove(&slot);
                Some(HostReport::Stopped { slot })
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lamps.len()
    }
}
