//! What stands on the outside of a message: an envelope from which a kind takes the id of the entity and the
//! message for it. Decides nothing. Spec: sharding 1.0 (message extractors).

use std::any::Any;
use std::sync::Arc;

use quorate_core::sharding::ids::EntityId;

/// Takes envelopes of one type apart.
type Opens<E, M> = Box<dyn Fn(E) -> Option<(EntityId, M)> + Send + Sync>;

/// The same without its types, as a region keeps it.
#[derive(Clone)]
pub(crate) struct Extract(Arc<dyn Any + Send + Sync>);

/// Why an envelope leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unopened {
    /// The kind takes no envelopes of this type.
    OtherType,
    /// The kind's function finds no entity in it.
    NoMatch,
}

impl Extract {
    pub(crate) fn new<E, M, I>(opens: impl Fn(E) -> Option<(I, M)> + Send + Sync + 'static) -> Self
    where
        E: 'static,
        M: 'static,
        I: AsRef<[u8]>,
    {
        let opens: Opens<E, M> = Box::new(move |envelope| {
            let (id, message) = opens(envelope)?;
            Some((EntityId::new(id.as_ref()), message))
        });
        Self(Arc::new(opens))
    }

    pub(crate) fn open<E: 'static, M: 'static>(&self, envelope: E) -> Result<(EntityId, M), Unopened> {
        let opens = self.0.downcast_ref::<Opens<E, M>>().ok_or(Unopened::OtherType)?;
        opens(envelope).ok_or(Unopened::NoMatch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_of_another_type_is_not_taken_apart() {
        let extract = Extract::new(|(id, text): (u8, String)| (id > 0).then_some((vec![id], text)));
        let found = extract.open::<(u8, String), String>((7, "x".to_owned()));
        assert_eq!(found, Ok((EntityId::new(&[7]), "x".to_owned())));
        let found = extract.open::<(u8, String), String>((0, "x".to_owned()));
        assert_eq!(found, Err(Unopened::NoMatch));
        assert_eq!(extract.open::<u8, String>(7), Err(Unopened::OtherType));
    }
}
