//! Which kinds this node has registered, and with which types: so that a region can be had by name, and never of wrong types.
//! Decides nothing about sharding.

use std::any::{TypeId, type_name};
use std::collections::BTreeMap;
use std::sync::Mutex;

use quorate_core::sharding::ids::KindId;

use crate::error::RegionError;
use crate::sync::lock;

/// A kind's message and answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Types {
    id: TypeId,
    name: &'static str,
}

impl Types {
    pub(crate) fn of<M: 'static, R: 'static>() -> Self {
        Self {
            id: TypeId::of::<(M, R)>(),
            name: type_name::<(M, R)>(),
        }
    }
}

/// The table. As long as the kinds that were registered: programs have few.
#[derive(Debug, Default)]
pub(crate) struct Kinds(Mutex<BTreeMap<KindId, Types>>);

impl Kinds {
    /// Notes a kind; says whether it is new.
    pub(crate) fn add(&self, kind: &str, types: Types) -> Result<bool, RegionError> {
        let mut kinds = lock(&self.0);
        match kinds.get(&KindId::of(kind)) {
            Some(known) => check(kind, *known, types).map(|()| false),
            None => {
                kinds.insert(KindId::of(kind), types);
                Ok(true)
            }
        }
    }

    pub(crate) fn remove(&self, kind: &str) {
        lock(&self.0).remove(&KindId::of(kind));
    }

    /// Whether a kind is there, with these types.
    pub(crate) fn check(&self, kind: &str, types: Types) -> Result<KindId, RegionError> {
        let id = KindId::of(kind);
        let kinds = lock(&self.0);
        let missing = || RegionError::NotRegistered {
            kind: kind.to_owned(),
        };
        check(kind, *kinds.get(&id).ok_or_else(missing)?, types)?;
        Ok(id)
    }
}

fn check(kind: &str, known: Types, wanted: Types) -> Result<(), RegionError> {
    if known.id == wanted.id {
        return Ok(());
    }
    Err(RegionError::OtherTypes {
        kind: kind.to_owned(),
        registered: known.name,
        wanted: wanted.name,
    })
}
