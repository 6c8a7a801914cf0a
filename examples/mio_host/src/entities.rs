//! Step 8 of `docs/embedding.md`: entities that the node orders to run. These greet, at once, on the thread
//! of the loop; what takes longer belongs on another thread, whose reports come back as inputs.
//!
//! To the core a message is bytes. What is in them is a matter between applications: here it is what the
//! typed API of the adapters writes, so that both understand each other. A message is postcard; an answer has
//! one byte in front, 0 if the question could be read and 1 if not.

use std::collections::{BTreeMap, VecDeque};

use quorate_core::effect::HostOrder;
use quorate_core::effect::HostedInstance;
use quorate_core::input::HostReport;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{EntityId, Payload, Slot};

use super::Failure;

const ANSWERED: u8 = 0;
const UNDECODABLE: u8 = 1;

/// Orders that wait after a pause; past it messages are refused.
const HELD_MAX: usize = 1_024;

/// The entities of this host, by the slot that the node has given each.
#[derive(Default)]
pub struct Greeters {
    entities: BTreeMap<Slot, EntityId>,
    /// What was ordered since a pause of the process, in its order; `None` while there is no doubt.
    held: Option<VecDeque<HostOrder>>,
}

impl Greeters {
    /// The process stood still: others may have taken over what it runs, so nothing is begun.
    pub fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Whether orders wait.
    pub const fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    /// This node is still a member.
    pub fn release(&mut self) -> Vec<HostReport> {
        let held = self.held.take().unwrap_or_default();
        held.into_iter().filter_map(|order| self.run(order)).collect()
    }

    /// Does what the node orders; what it has to hear of that.
    pub fn order(&mut self, order: HostOrder) -> Option<HostReport> {
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
            HostOrder::Start { slot, instance } => match instance {
                HostedInstance::Entity { entity, .. } => {
                    self.entities.insert(slot, entity);
                    None
                }
                // Nobody registers one here.
                HostedInstance::Singleton { .. } | HostedInstance::Path { .. } => {
                    Some(HostReport::Stopped { slot })
                }
            },
            HostOrder::Deliver {
                slot,
                payload,
                reply_to,
                ..
            } => {
                let answered = reply_to.zip(self.entities.get(&slot));
                answered.map(|(ask, id)| HostReport::Answered {
                    ask,
                    result: Ok(greet(id, &payload)),
                })
            }
            HostOrder::Stop { slot } | HostOrder::StopWithState { slot } | HostOrder::Kill { slot } => {
                self.entities.remove(&slot);
                Some(HostReport::Stopped { slot })
            }
        }
    }
}

fn greet(id: &EntityId, question: &[u8]) -> Payload {
    let mut answer = vec![ANSWERED];
    match postcard::take_from_bytes::<String>(question) {
        Ok((who, [])) => {
            let text = format!("{id} on mio greets {who}");
            answer.extend(postcard::to_allocvec(&text).unwrap_or_default());
        }
        Ok(_) | Err(_) => answer = vec![UNDECODABLE],
    }
    answer.into()
}

/// The text in an answer.
///
/// # Errors
/// It is none.
pub fn read_answer(answer: &[u8]) -> Result<String, Failure> {
    match answer.split_first() {
        Some((&ANSWERED, text)) => Ok(postcard::from_bytes(text)?),
        Some(_) | None => Err("the question was not understood".into()),
    }
}
