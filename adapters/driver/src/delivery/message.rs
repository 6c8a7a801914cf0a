//! What producers and consumers say to each other, as messages and answers of ordinary entities. Types only.
//! Spec: sharding 2.4.

use std::fmt;
use std::marker::PhantomData;

use quorate_core::delivery::{ConsumerOutput, MessagePart};
use serde::{Deserialize, Serialize};

use crate::codec::Bytes;

/// What a producer sends to a consumer of messages `M`: the message type of a kind that is registered with
/// [`EntitiesBuilder::start_consumer`](crate::EntitiesBuilder::start_consumer). Only producers make it.
#[derive(Serialize, Deserialize)]
#[serde(bound = "", transparent)]
pub(crate) struct DeliveryMessage<M> {
    pub(super) inside: DeliveryBody,
    #[serde(skip)]
    types: PhantomData<fn(M)>,
}

impl<M> DeliveryMessage<M> {
    pub(super) const fn new(inside: DeliveryBody) -> Self {
        let types = PhantomData;
        Self { inside, types }
    }
}

impl<M> fmt::Debug for DeliveryMessage<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DeliveryMessage").field(&self.inside).finish()
    }
}

/// A producer, as consumers tell them apart: one of the same name that was started again is another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Origin {
    pub(super) name: String,
    pub(super) incarnation: u64,
    /// It is the only one of its name: an earlier one has ended.
    pub(super) is_alone: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum DeliveryBody {
    /// A numbered message, or a part of one; answered when it is confirmed, or as soon as there is something
    /// to say.
    Message {
        from: Origin,
        seq: u64,
        first: bool,
        begins: bool,
        ends: bool,
        payload: Bytes,
    },
    /// Asks what there is to say, when no message is on its way that does.
    Line { from: Origin },
    /// The producer has ended, and everything is confirmed.
    Bye { from: Origin },
    /// An entity to itself: look at what is due.
    Look,
}

impl DeliveryBody {
    /// Which part of a message it is.
    pub(super) const fn part(begins: bool, ends: bool) -> MessagePart {
        MessagePart {
            first: begins,
            last: ends,
        }
    }
}

/// What a consumer answers its producer: the answer type of such a kind. Only consumers make it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    /// Everything up to here is confirmed.
    pub(super) ack: Option<u64>,
    pub(super) request: Option<Wanted>,
    /// Send again from here on.
    pub(super) resend: Option<u64>,
}

/// A request as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Wanted {
    pub(super) confirmed: u64,
    pub(super) up_to: u64,
    pub(super) support_resend: bool,
    pub(super) via_timeout: bool,
}

impl Receipt {
    pub(super) const fn is_empty(&self) -> bool {
        self.ack.is_none() && self.request.is_none() && self.resend.is_none()
    }

    /// Adds what a consumer wants said; the newest counts. What is for its user is given back.
    pub(super) fn add(&mut self, output: ConsumerOutput<()>) -> Option<ConsumerOutput<()>> {
        match output {
            ConsumerOutput::Request {
                confirmed,
                up_to,
                support_resend,
                via_timeout,
                ..
            } => {
                let before = self.request.is_some_and(|request| request.via_timeout);
                self.request = Some(Wanted {
                    confirmed,
                    up_to,
                    support_resend,
                    via_timeout: via_timeout || before,
                });
                self.ack = self.ack.filter(|ack| *ack > confirmed);
                None
            }
            ConsumerOutput::Resend { from, .. } => {
                self.resend = Some(from);
                None
            }
            ConsumerOutput::Ack { confirmed, .. } => {
                let is_said = self.request.is_some_and(|request| request.confirmed >= confirmed);
                self.ack = (!is_said).then_some(confirmed).max(self.ack);
                None
            }
            output @ (ConsumerOutput::Deliver { .. } | ConsumerOutput::Dropped { .. }) => Some(output),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confirmed(upto: u64) -> ConsumerOutput<()> {
        ConsumerOutput::Ack {
            to: (),
            confirmed: upto,
        }
    }

    fn requested(confirmed: u64) -> ConsumerOutput<()> {
        ConsumerOutput::Request {
            to: (),
            confirmed,
            up_to: confirmed + 20,
            support_resend: true,
            via_timeout: false,
        }
    }

    /// What is said of confirmations after these: alone, and with a request.
    fn said(outputs: impl IntoIterator<Item = ConsumerOutput<()>>) -> (Option<u64>, Option<u64>) {
        let mut receipt = Receipt::default();
        for output in outputs {
            assert!(receipt.add(output).is_none());
        }
        (receipt.ack, receipt.request.map(|request| request.confirmed))
    }

    #[test]
    fn s_2_4_a_confirmation_is_said_unless_a_request_says_it_and_the_newest_counts() {
        assert_eq!(said([confirmed(3), confirmed(5)]), (Some(5), None));
        assert_eq!(said([confirmed(5), confirmed(3)]), (Some(5), None));
        assert_eq!(said([requested(5), confirmed(6)]), (Some(6), Some(5)));
        assert_eq!(said([requested(5), confirmed(5)]), (None, Some(5)));
        assert_eq!(said([requested(5), confirmed(4)]), (None, Some(5)));
        assert_eq!(said([confirmed(6), requested(5)]), (Some(6), Some(5)));
        assert_eq!(said([confirmed(5), requested(5)]), (None, Some(5)));
    }

    #[test]
    fn a_parcel_shows_what_is_inside() {
        let message = DeliveryMessage::<u64>::new(DeliveryBody::Look);
        assert_eq!(format!("{message:?}"), "DeliveryMessage(Look)");
    }
}
