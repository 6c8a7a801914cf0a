//! Producers as users hold them: a name, messages to entities, and what became of each. Decides nothing.

use std::borrow::Borrow;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_channel::TrySendError;
use quorate_core::delivery::{BadSetting, ToEntitiesSettings};
use quorate_core::sharding::ids::{EntityId, KindId};
use serde::Serialize;

use super::consumer::Delivery;
use super::message::Origin;
use super::orders::{Offer, ProducerOrder};
use super::queue::DurableQueue;
use super::sending::{self, ORDERS_MAX, Task};
use crate::codec;
use crate::error::{DurabilityError, TellError};
use crate::region::Region;
use crate::shared::Shared;
use crate::sync;

/// Longest name of a producer: as a kind's.
const NAME_BYTES_MAX: usize = 255;

/// Why a producer did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProducerError {
    /// A setting is out of its range.
    #[error(transparent)]
    Setting(#[from] BadSetting),
    /// The name is empty or longer than 255 bytes.
    #[error("a producer's name must have 1 to 255 bytes")]
    Name,
    /// A part of a message, with what is written around it, does not fit into a frame.
    #[error("a part of {bytes} bytes does not fit into a frame")]
    PartTooLarge {
        /// The part.
        bytes: usize,
    },
    /// A durable producer on a node whose store cannot keep its messages.
    #[error(transparent)]
    Durability(#[from] DurabilityError),
    /// The store could not say what it keeps of the producer.
    #[error("the producer's queue cannot be read: {0}")]
    Store(#[from] quorate_core::store::StoreError),
    /// What the store keeps cannot be read: it was written by a later version, or is damaged.
    #[error("the producer's queue has an entry that cannot be read")]
    Unreadable,
    /// The node has stopped.
    #[error("this node has stopped")]
    Stopped,
}

/// Why a message was refused, or is not known to be confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The message could not be encoded: not taken.
    #[error("the message cannot be encoded")]
    Encode,
    /// The message is longer than a frame, and the producer sends no parts; or longer than its consumers or
    /// its store take: not taken.
    #[error("the message is too large")]
    TooLarge,
    /// The entity's id is empty or longer than `limits.entity_id_bytes_max`: not taken.
    #[error("the entity id is empty or too long")]
    BadEntityId,
    /// Only from [`Producer::send_if_room`]: there is no room, for this entity or for all: not taken.
    #[error("the producer has no room for another message to this entity; wait or try again later")]
    Full,
    /// A durable producer's store did not keep a message in time, or somebody else has taken the queue over:
    /// the producer has ended.
    #[error("the producer's store failed to keep a message; the producer has ended")]
    Store,
    /// The producer has ended, with its node or because its store failed: a message that was taken may have
    /// been handled.
    #[error("the producer has ended")]
    Stopped,
}

impl SendError {
    /// Whether the message may have been taken, and may be handled. `false`: it was not taken.
    #[must_use]
    pub const fn may_have_been_handled(self) -> bool {
        match self {
            Self::Store | Self::Stopped => true,
            Self::Encode | Self::TooLarge | Self::BadEntityId | Self::Full => false,
        }
    }
}

/// Builds a producer. See [`Region::producer`](crate::Region::producer).
#[must_use = "nothing happens before it is started"]
pub struct ProducerBuilder<M> {
    shared: Arc<Shared>,
    kind: KindId,
    name: String,
    settings: ToEntitiesSettings,
    types: PhantomData<fn(M)>,
}

impl<M> Region<Delivery<M>, ()> {
    /// Reliable delivery to the entities of this kind: a producer by name, 1 to 255 bytes. The name is what
    /// consumers see, and that of a durable one's queue: of two durable ones with one name the later has it.
    ///
    /// ```no_run
    /// # use quorate_driver::Region;
    /// # use quorate_driver::delivery::Delivery;
    /// # async fn example(baskets: Region<Delivery<u64>, ()>) -> Result<(), Box<dyn std::error::Error>> {
    /// let shop = baskets.producer("shop").start().await?;
    /// let sent = shop.send("customer-7", 42).await?; // waits while there is no room
    /// sent.await?; // the entity has confirmed it
    /// # Ok(())
    /// # }
    /// ```
    pub fn producer(&self, name: impl Into<String>) -> ProducerBuilder<M> {
        ProducerBuilder {
            shared: Arc::clone(self.shared()),
            kind: self.kind(),
            name: name.into(),
            settings: ToEntitiesSettings::default(),
            types: PhantomData,
        }
    }
}

impl<M: Serialize + 'static> ProducerBuilder<M> {
    /// Sets other settings than [`ToEntitiesSettings::default`].
    pub fn settings(mut self, settings: ToEntitiesSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Sends what is longer than this in parts of so many bytes (default: nothing; 64 to what fits into a
    /// frame). A message of several parts may be as long as the consumers' `message_bytes_max`. Mirrors
    /// `chunk-large-messages`.
    pub const fn parts_of(mut self, bytes: usize) -> Self {
        self.settings.producer.part_bytes = Some(bytes);
        self
    }

    /// Keeps each message in the node's store until it is confirmed (default: in memory only): a producer
    /// that is started again under its name sends what nobody has confirmed, before anything else. In a store
    /// that all nodes read ([`StoreScope::Shared`](crate::store::StoreScope::Shared)), or where the nodes'
    /// stores vote about logs, it may be started again anywhere; otherwise on this node. [`Producer::send`]
    /// completes when the message is kept. Mirrors the durable producer queue.
    pub const fn durable(mut self) -> Self {
        self.settings.producer.is_durable = true;
        self
    }

    /// Starts the producer; a durable one first reads what it has stored. It runs on the node's executor
    /// until its last handle is gone and everything that it took is confirmed, or the node has ended.
    ///
    /// # Errors
    /// [`ProducerError`].
    ///
    /// # Cancel safety
    /// Dropping it starts nothing.
    pub async fn start(self) -> Result<Producer<M>, ProducerError> {
        let Self {
            shared,
            kind,
            name,
            settings,
            ..
        } = self;
        settings.check()?;
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(ProducerError::Name);
        }
        let own_bytes = name.len() + sending::OWN_BYTES;
        let part_bytes = settings.producer.part_bytes;
        if let Some(bytes) = part_bytes.filter(|bytes| *bytes > shared.payload_room(own_bytes)) {
            return Err(ProducerError::PartTooLarge { bytes });
        }
        let queue = if settings.producer.is_durable {
            Some(DurableQueue::open(&shared, &name).await?)
        } else {
            None
        };
        let limits = Limits {
            has_parts: part_bytes.is_some(),
            own_bytes,
            bytes_max: match queue {
                Some(_) => shared.queue_bounds.message_bytes_max(),
                None => sending::BYTES_MAX,
            },
        };
        let from = Origin {
            name,
            incarnation: shared.next_opener(),
            is_alone: queue.is_some(),
        };
        let (orders, taken) = async_channel::bounded(ORDERS_MAX);
        let task = Task::new(Arc::clone(&shared), kind, from, settings)?;
        shared.background.spawn(task.run(taken, queue));
        Ok(Producer {
            shared,
            orders,
            limits,
            types: PhantomData,
        })
    }
}

impl<M> fmt::Debug for ProducerBuilder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProducerBuilder")
            .field("name", &self.name)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// How long a message may be.
#[derive(Clone, Copy, Debug)]
struct Limits {
    has_parts: bool,
    own_bytes: usize,
    bytes_max: usize,
}

/// Sends messages reliably to the entities of a kind. Cheap to clone; its messages to one entity arrive in
/// the order in which [`Self::send`] completed. It does not keep the node alive.
pub struct Producer<M> {
    shared: Arc<Shared>,
    orders: async_channel::Sender<ProducerOrder>,
    limits: Limits,
    types: PhantomData<fn(M)>,
}

impl<M: Serialize> Producer<M> {
    /// Sends a message to an entity. Completes when it was taken: waits while the entity has not confirmed as
    /// many as may wait for it, and while all entities together have no room. A durable producer has stored
    /// it then. What it gives completes when the entity has confirmed the message; whoever does not care
    /// drops it.
    ///
    /// # Errors
    /// [`SendError`]: the message was not taken, but for [`SendError::Stopped`] and [`SendError::Store`] of a durable producer, which
    /// may have kept it.
    ///
    /// # Cancel safety
    /// Dropping it before it completes may or may not send the message.
    pub fn send(
        &self,
        entity: impl AsRef<[u8]>,
        message: impl Borrow<M>,
    ) -> impl Future<Output = Result<Sent, SendError>> + Send {
        let offered = self.offer(entity.as_ref(), message.borrow());
        async move {
            let (offer, ways) = offered?;
            let order = ProducerOrder::Send(offer);
            self.orders.send(order).await.map_err(|_| SendError::Stopped)?;
            ways.taken().await
        }
    }

    /// Like [`Self::send`], but fails instead of waiting for room. A durable producer's store is waited for.
    ///
    /// # Errors
    /// [`SendError::Full`] beside those of `send`.
    ///
    /// # Cancel safety
    /// As for [`Self::send`].
    pub fn send_if_room(
        &self,
        entity: impl AsRef<[u8]>,
        message: impl Borrow<M>,
    ) -> impl Future<Output = Result<Sent, SendError>> + Send {
        let offered = self.offer(entity.as_ref(), message.borrow());
        async move {
            let (offer, ways) = offered?;
            match self.orders.try_send(ProducerOrder::Try(offer)) {
                Ok(()) => ways.taken().await,
                Err(TrySendError::Full(_)) => Err(SendError::Full),
                Err(TrySendError::Closed(_)) => Err(SendError::Stopped),
            }
        }
    }

    fn offer(&self, entity: &[u8], message: &M) -> Result<(Offer, Ways), SendError> {
        let payload = codec::encode(message).ok_or(SendError::Encode)?;
        let entity = EntityId::new(entity);
        let checked = if self.limits.has_parts {
            self.shared.check_bytes(&entity, 0)
        } else {
            self.shared
                .check_bytes(&entity, payload.len().saturating_add(self.limits.own_bytes))
        };
        checked.map_err(|error| match error {
            TellError::BadEntityId => SendError::BadEntityId,
            TellError::TooLarge
            | TellError::Encode
            | TellError::NoEnvelope
            | TellError::NoMatch
            | TellError::Full
            | TellError::Stopped => SendError::TooLarge,
        })?;
        if payload.len() > self.limits.bytes_max {
            return Err(SendError::TooLarge);
        }
        let (taken, took) = sync::oneshot();
        let (confirmed, confirmation) = sync::oneshot();
        let offer = Offer {
            entity,
            payload,
            taken,
            confirmed,
        };
        Ok((offer, Ways { took, confirmation }))
    }
}

impl<M> Producer<M> {
    /// How many messages were taken and are not confirmed.
    ///
    /// # Errors
    /// [`SendError::Stopped`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn unconfirmed(&self) -> Result<usize, SendError> {
        self.asked(ProducerOrder::Unconfirmed).await
    }

    /// Completes when all messages taken before are confirmed, and a durable producer has stored that.
    ///
    /// # Errors
    /// [`SendError::Stopped`].
    ///
    /// # Cancel safety
    /// Safe: it only waits.
    pub async fn flushed(&self) -> Result<(), SendError> {
        self.asked(ProducerOrder::Flush).await
    }

    async fn asked<T>(&self, order: impl FnOnce(sync::Sender<T>) -> ProducerOrder) -> Result<T, SendError> {
        let (reply, answer) = sync::oneshot();
        let sent = self.orders.send(order(reply)).await;
        sent.map_err(|_| SendError::Stopped)?;
        answer.await.ok_or(SendError::Stopped)
    }
}

impl<M> Clone for Producer<M> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            orders: self.orders.clone(),
            limits: self.limits,
            types: PhantomData,
        }
    }
}

impl<M> fmt::Debug for Producer<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").finish_non_exhaustive()
    }
}

/// How a caller hears of its message.
struct Ways {
    took: sync::Receiver<Result<(), SendError>>,
    confirmation: sync::Receiver<()>,
}

impl Ways {
    async fn taken(self) -> Result<Sent, SendError> {
        self.took.await.unwrap_or(Err(SendError::Stopped))?;
        Ok(Sent {
            confirmation: self.confirmation,
        })
    }
}

/// A future that completes when the entity has confirmed the message.
///
/// # Cancel safety
/// Dropping it stops waiting. The message is delivered all the same.
#[must_use = "await it to know that the message is confirmed, or drop it"]
pub struct Sent {
    confirmation: sync::Receiver<()>,
}

impl Future for Sent {
    type Output = Result<(), SendError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        let confirmed = Pin::new(&mut self.confirmation).poll(cx);
        confirmed.map(|confirmed| confirmed.ok_or(SendError::Stopped))
    }
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sent").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::idle_node;

    /// What becomes of a message that takes so many bytes.
    fn offered(limits: Limits, bytes: usize) -> Result<usize, SendError> {
        let (orders, _) = async_channel::bounded(1);
        let producer = Producer::<Vec<u8>> {
            shared: idle_node(|_| {}).0,
            orders,
            limits,
            types: PhantomData,
        };
        // Its length takes three bytes of them.
        let message = vec![7; bytes - 3];
        producer
            .offer(b"e", &message)
            .map(|(offer, _)| offer.payload.len())
    }

    #[test]
    fn s_1_14_a_message_is_as_large_as_its_consumers_or_its_store_take_and_no_larger() {
        for has_parts in [true, false] {
            let limits = Limits {
                has_parts,
                own_bytes: 65,
                bytes_max: 100_000,
            };
            for bytes in [99_999, 100_000] {
                assert_eq!(offered(limits, bytes), Ok(bytes));
            }
            for bytes in [100_001, 200_000] {
                assert_eq!(offered(limits, bytes), Err(SendError::TooLarge));
            }
        }
    }
}
