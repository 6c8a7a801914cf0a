//! What this node has registered by name, kinds and singletons, and with which types: so that the way to one
//! can be had by name, and never of wrong types. Decides nothing about them.

use std::any::{TypeId, type_name};
use std::fmt;
use std::sync::Mutex;

use quorate_core::ordered::OrderedMap;

use crate::extract::Extract;
use crate::sync::lock;

/// A message and its answer.
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

    pub(crate) fn is(self, other: Self) -> bool {
        self.id == other.id
    }

    pub(crate) const fn name(self) -> &'static str {
        self.name
    }
}

/// Why there is no way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// It is not registered.
    Missing,
    /// It has other types.
    OtherTypes {
        registered: &'static str,
        wanted: &'static str,
    },
}

/// The table. As long as what was registered: programs have few.
pub(crate) struct Kinds<K>(Mutex<OrderedMap<K, Known>>);

struct Known {
    types: Types,
    /// What takes envelopes apart, where there is something.
    extract: Option<Extract>,
}

impl<K> fmt::Debug for Kinds<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kinds").field(&lock(&self.0).len()).finish()
    }
}

impl<K> Default for Kinds<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Copy + Ord> Kinds<K> {
    /// Notes one; says whether it is new. One that is not keeps what takes its envelopes apart until
    /// [`renew`](Self::renew).
    pub(crate) fn add(&self, key: K, types: Types, extract: Option<Extract>) -> Result<bool, Mismatch> {
        let mut kinds = lock(&self.0);
        match kinds.get(&key) {
            Some(known) => check(known.types, types).map(|()| false),
            None => {
                kinds.insert(key, Known { types, extract });
                Ok(true)
            }
        }
    }

    /// It was registered again: what takes its envelopes apart is the newest.
    pub(crate) fn renew(&self, key: K, extract: Option<Extract>) {
        if let (Some(known), Some(extract)) = (lock(&self.0).get_mut(&key), extract) {
            known.extract = Some(extract);
        }
    }

    pub(crate) fn remove(&self, key: K) {
        lock(&self.0).remove(&key);
    }

    /// What takes its envelopes apart, if it is there with these types.
    pub(crate) fn check(&self, key: K, types: Types) -> Result<Option<Extract>, Mismatch> {
        let kinds = lock(&self.0);
        let known = kinds.get(&key).ok_or(Mismatch::Missing)?;
        check(known.types, types)?;
        Ok(known.extract.clone())
    }
}

fn check(known: Types, wanted: Types) -> Result<(), Mismatch> {
    if known.id == wanted.id {
        return Ok(());
    }
    Err(Mismatch::OtherTypes {
        registered: known.name,
        wanted: wanted.name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_is_refused_the_second_time_keeps_what_opens_its_envelopes() {
        let kinds = Kinds::<u8>::default();
        let opens = |id: u8| Some(Extract::new(move |text: String| Some((vec![id], text))));
        let opened = |kinds: &Kinds<u8>| {
            let extract = kinds.check(7, Types::of::<String, ()>()).ok().flatten();
            extract.and_then(|extract| extract.open::<String, String>("x".to_owned()).ok())
        };
        let add = |id| kinds.add(7, Types::of::<String, ()>(), opens(id));
        assert!(matches!(add(1), Ok(true)));
        assert!(matches!(add(2), Ok(false)), "nobody has accepted it yet");
        assert_eq!(
            opened(&kinds).map(|(id, _)| id.as_bytes().to_vec()),
            Some(vec![1])
        );
        kinds.renew(7, opens(2));
        assert_eq!(
            opened(&kinds).map(|(id, _)| id.as_bytes().to_vec()),
            Some(vec![2])
        );
        kinds.renew(7, None);
        assert_eq!(
            opened(&kinds).map(|(id, _)| id.as_bytes().to_vec()),
            Some(vec![2]),
            "without one it keeps what it has"
        );
    }
}
