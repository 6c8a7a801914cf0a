//! How an entity has failed, counted and said. Decides nothing.

use std::error::Error;

use super::EntityContext;
use crate::supervision::{Directive, EntityFailure};

/// How it failed.
pub(crate) enum Failure {
    Panic(String),
    Error(Box<dyn Error + Send + Sync>),
}

impl Failure {
    pub(super) fn shown(&self) -> EntityFailure<'_> {
        match self {
            Self::Panic(text) => EntityFailure::Panic(text),
            Self::Error(error) => EntityFailure::Error(&**error),
        }
    }
}

/// Counts a failure and says it.
pub(crate) fn note(context: &EntityContext, failure: &Failure, directive: Directive) {
    context.reports().failures.failed();
    let (entity, failure) = (context, failure.shown());
    tracing::warn!(
        target: "cluster::sharding", event = "entity_failed", ?entity, %failure, ?directive,
        "an entity has failed"
    );
}
