//! Step 8 of `docs/embedding.md`: entities that the node orders to run. These greet, at once, on the thread of the loop; what
//! takes longer belongs on another thread, whose reports come back as inputs.
//!
//! To the core a message is bytes. What is in them is a matter between applications: here it is what the typed API of the
//! adapters writes, so that both understand each other. A message is postcard; an answer has one byte in front, 0 if the
//! question could be read and 1 if not.

use std::collections::BTreeMap;

use quorate_core::effect::EntityOrder;
use quorate_core::input::EntityReport;
use quorate_core::sharding::ids::{EntityId, Payload, Slot};

use super::Failure;

const ANSWERED: u8 = 0;
const UNDECODABLE: u8 = 1;

/// The entities of this host, by the slot that the node has given each.
#[derive(Default)]
pub struct Greeters(BTreeMap<Slot, EntityId>);

impl Greeters {
    /// Does what the node orders; what it has to hear of that.
    pub fn order(&mut self, order: EntityOrder) -> impl Iterator<Item = EntityReport> {
        let report = match order {
            EntityOrder::Start { slot, entity, .. } => {
                self.0.insert(slot, entity);
                None
            }
            EntityOrder::Deliver {
                slot,
                payload,
                reply_to,
            } => reply_to
                .zip(self.0.get(&slot))
                .map(|(ask, id)| EntityReport::Answered {
                    ask,
                    result: Ok(greet(id, &payload)),
                }),
            EntityOrder::Stop { slot } | EntityOrder::Kill { slot } => {
                self.0.remove(&slot);
                Some(EntityReport::Stopped { slot })
            }
        };
        report.into_iter()
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
