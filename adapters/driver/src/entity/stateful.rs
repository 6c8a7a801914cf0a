//! Instances that leave their state to the next one, on another node: what users write, and how such an
//! instance begins and ends. Spec: sharding 5.4.

use std::error::Error;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use quorate_core::sharding::ids::Payload;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::failure::{Failure, note};
use super::incarnation::{End, Leaves, attempt, made, run};
use super::task::Life;
use super::{Entity, EntityContext};
use crate::codec;
use crate::mailbox::{EntityStart, Starter};
use crate::shared::Shared;
use crate::supervision::{Directive, Supervision};
use crate::sync::{Task, lock};

/// An instance of a path whose state goes with it when its slot moves
/// ([`InstancesBuilder::start_stateful`](crate::InstancesBuilder::start_stateful)).
///
/// The state travels once, when the instance has ended in good order on its old host and before the next one
/// is made on the new host. What a node held that died is lost, and so is what an instance held that failed:
/// the next one begins without a state.
pub trait Stateful: Entity {
    /// What goes to the next instance.
    type State: Serialize + DeserializeOwned + Send + 'static;

    /// The state, when the instance has handled what was in its mailbox and [`Entity::on_stop`] has run, and
    /// its slot moves to another node. With an error the move is given up and the next instance begins here
    /// without a state; so it does if the encoded state is longer than `paths.state_bytes_max`, with what
    /// was left.
    ///
    /// # Cancel safety
    /// As for [`Entity::handle`].
    fn into_state(
        self,
        context: &EntityContext,
    ) -> impl Future<Output = Result<Self::State, Box<dyn Error + Send + Sync>>> + Send;
}

/// Starts instances that a function makes of the state that they are left.
pub(crate) struct StatefulStarter<F, E> {
    make: Arc<F>,
    /// The way to other entities.
    shared: Arc<Shared>,
    made: PhantomData<fn() -> E>,
}

impl<F, E> StatefulStarter<F, E> {
    pub(crate) fn new(make: F, shared: &Arc<Shared>) -> Self {
        Self {
            make: Arc::new(make),
            shared: Arc::clone(shared),
            made: PhantomData,
        }
    }
}

impl<F, E> Starter for StatefulStarter<F, E>
where
    F: Fn(EntityContext, Option<E::State>) -> E + Send + Sync + 'static,
    E: Stateful,
{
    fn start(&self, mut start: EntityStart) -> Task {
        let make = Arc::clone(&self.make);
        let left = start.state.take();
        let life = Life::new(start, Arc::clone(&self.shared));
        Box::pin(begin(make, life, left))
    }
}

/// One instance, from what it was left on.
async fn begin<F, E>(make: Arc<F>, life: Life, left: Option<Payload>)
where
    F: Fn(EntityContext, Option<E::State>) -> E + Send + Sync + 'static,
    E: Stateful,
{
    if life.may_begin().await.is_none() {
        return;
    }
    let read = made(&life, || left.as_deref().map(codec::decode::<E::State>));
    let state = match read {
        Ok(None) => None,
        Ok(Some(Some(state))) => Some(state),
        Ok(Some(None)) | Err(_) => {
            let entity = life.context();
            tracing::error!(
                target: "cluster::path", event = "state_undecodable", ?entity,
                "the state that the instance was left cannot be decoded"
            );
            // It reports that it has ended: whoever waits for it gives the move up.
            return;
        }
    };
    drop(left);
    // One that fails is started anew by the cluster, which has no state for it: it is taken once.
    let state = Mutex::new(state);
    let make = move |context| make(context, lock(&state).take());
    let supervision = Arc::new(Supervision::always(Directive::Stop));
    run::<_, _, LeavesState>(Arc::new(make), life, supervision).await;
}

/// It leaves its state.
struct LeavesState;

impl<E: Stateful> Leaves<E> for LeavesState {
    async fn leave(life: &Life, entity: E) -> Option<Payload> {
        let context = life.context().clone();
        let left = attempt(life, pin!(entity.into_state(&context))).await;
        let encoded = match left {
            Ok(Ok(state)) => made(life, || codec::encode(&state)),
            Ok(Err(error)) => Err(End::Failed(Failure::Error(error))),
            Err(end) => Err(end),
        };
        let failure = match encoded {
            Ok(Some(state)) => return Some(state),
            Ok(None) => Failure::Error("the state cannot be encoded".into()),
            Err(End::Killed) => return None,
            Err(End::Failed(failure) | End::Decided(failure, _)) => failure,
        };
        note(&context, &failure, Directive::Stop);
        None
    }
}
