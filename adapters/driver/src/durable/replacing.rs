//! A [`DurableState`] as an event-sourced entity whose only event is the new state, so that both have one way
//! to the store. Decides nothing.

use serde::{Deserialize, Serialize};

use super::decision::Answer;
use super::{
    AtLeastOnceSettings, ChangeTo, Confirmed, Decision, DurableState, EventSourced, Overdue, Persist,
    Recovery, Retention, SchemaError, Versioned,
};
use crate::entity::EntityContext;

/// See the module.
pub(super) struct Replacing<D: DurableState> {
    pub(super) inner: D,
    /// What it sees while nothing is kept.
    pub(super) nothing: D::State,
}

impl<D: DurableState> Replacing<D> {
    fn current<'a>(nothing: &'a D::State, state: &'a Revision<D::State>) -> &'a D::State {
        state.0.as_ref().unwrap_or(nothing)
    }
}

/// The newest state; `None` if it was deleted, or there never was one.
#[derive(Serialize, Deserialize)]
pub(super) struct Revision<S>(pub(super) Option<S>);

impl<S> Default for Revision<S> {
    fn default() -> Self {
        Self(None)
    }
}

impl<D: DurableState> From<ChangeTo<D>> for Persist<Replacing<D>> {
    fn from(change: ChangeTo<D>) -> Self {
        Self {
            events: change.state.map(Revision).into_iter().collect(),
            deliveries: change.deliveries,
            wishes: change.wishes,
        }
    }
}

/// What postcard writes in front of an `Option`.
const NOTHING: u8 = 0;
const SOMETHING: u8 = 1;

impl<S: Versioned> Versioned for Revision<S> {
    const VERSION: u32 = S::VERSION;

    fn upcast(version: u32, bytes: &[u8]) -> Result<Self, SchemaError> {
        match bytes.split_first() {
            Some((&NOTHING, [])) => Ok(Self(None)),
            Some((&SOMETHING, state)) => S::upcast(version, state).map(|state| Self(Some(state))),
            Some(_) | None => Err(SchemaError::Malformed),
        }
    }
}

impl<D: DurableState> EventSourced for Replacing<D> {
    type Command = D::Command;
    type Reply = D::Reply;
    type Event = Revision<D::State>;
    type State = Revision<D::State>;

    async fn handle(
        &mut self,
        context: &EntityContext,
        state: &Self::State,
        command: D::Command,
    ) -> Decision<Self> {
        let current = Self::current(&self.nothing, state);
        let change = self.inner.handle(context, current, command).await;
        Decision {
            persist: change.to.into(),
            answer: Answer::Now(change.reply),
            then: change.then,
        }
    }

    fn apply(state: &mut Self::State, event: Self::Event) {
        *state = event;
    }

    fn retention(&self) -> Retention {
        Retention::newest_state()
    }

    fn redelivery(&self) -> AtLeastOnceSettings {
        self.inner.redelivery()
    }

    async fn on_confirmed(
        &mut self,
        context: &EntityContext,
        state: &Self::State,
        confirmed: Confirmed,
    ) -> Persist<Self> {
        let current = Self::current(&self.nothing, state);
        self.inner.on_confirmed(context, current, confirmed).await.into()
    }

    fn on_overdue(&mut self, context: &EntityContext, state: &Self::State, messages: &[Overdue]) {
        let current = Self::current(&self.nothing, state);
        self.inner.on_overdue(context, current, messages);
    }

    async fn on_recovered(&mut self, context: &EntityContext, state: &Self::State, recovery: &Recovery) {
        let current = Self::current(&self.nothing, state);
        self.inner.on_recovered(context, current, recovery).await;
    }

    async fn on_stop(&mut self, context: &EntityContext, state: &Self::State) {
        let current = Self::current(&self.nothing, state);
        self.inner.on_stop(context, current).await;
    }
}
