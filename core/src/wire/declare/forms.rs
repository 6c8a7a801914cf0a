//! The forms of which others are made: numbers, options, lists. Decides nothing. Spec: `docs/WIRE.md` 1.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
#[cfg(test)]
use alloc::format;
#[cfg(test)]
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::marker::PhantomData;

use super::macros::by_hand;
#[cfg(test)]
use super::named;
use super::{FieldSink, FieldSource, Form, Shape};
use crate::bytes::{WireError, put_address, put_node, put_text};
use crate::ident::{Address, UniqueAddress};
use crate::ordered::OrderedSet;

/// Numbers of fixed width, little endian.
macro_rules! numbers {
    ($($number:ident $name:literal)*) => {
        by_hand! {$(
            $number: $number, $name, size_of::<$number>(), |value, _, out| {
                out.extend_from_slice(&value.to_le_bytes());
                Ok(())
            }, |reader, _| reader.array().map(<$number>::from_le_bytes);
        )*}
    };
}

numbers!(u8 "u8" u16 "u16" u32 "u32" u64 "u64" u128 "u128");

/// Nothing, in a body that cannot be empty.
pub(in crate::wire) struct Bare;

by_hand! {
    bool: bool, "bool", 1, |value, _, out| {
        out.push(u8::from(*value));
        Ok(())
    }, |reader, what| reader.bool(what);
    Bare: (), "u8" + " 0", 1, |(), _, out| {
        out.push(0);
        Ok(())
    }, |reader, what| match reader.u8()? {
        0 => Ok(()),
        _ => Err(WireError::Malformed { what }),
    };
    Address: Address, "address", 4, |value, _, out| put_address(out, value), |reader, _| reader.address();
    UniqueAddress: UniqueAddress, "node", 12, |value, _, out| put_node(out, value), |reader, _| reader.node();
    [u8; 16]: [u8; 16], "u8[16]", 16, |value, _, out| {
        out.extend_from_slice(value);
        Ok(())
    }, |reader, _| reader.array();
}

/// A text of at least `MIN` and at most `MAX` bytes, with their number in front.
pub(in crate::wire) struct Text<const MAX: usize, const MIN: usize = 0>;

impl<const MAX: usize, const MIN: usize> Shape for Text<MAX, MIN> {
    const BYTES_MIN: usize = 1 + MIN;

    #[cfg(test)]
    fn text(field: &str) -> String {
        format!("{} ({MIN} to {MAX} bytes)", named("text", field))
    }
}

impl<T: AsRef<str> + for<'t> From<&'t str>, const MAX: usize, const MIN: usize> Form<T> for Text<MAX, MIN> {
    fn put(value: &T, what: &'static str, out: &mut FieldSink<'_>) -> Result<(), WireError> {
        match value.as_ref() {
            text if (MIN..=MAX).contains(&text.len()) => put_text(out, text, what),
            _ => Err(WireError::Unencodable { what }),
        }
    }

    fn read(reader: &mut FieldSource<'_>, what: &'static str) -> Result<T, WireError> {
        match reader.text(what)? {
            text if text.len() < MIN => Err(WireError::Malformed { what }),
            text if text.len() > MAX => Err(WireError::LimitExceeded { what }),
            text => Ok(T::from(text)),
        }
    }
}

/// A value, or none: a `bool`, and with true the value.
pub(in crate::wire) struct Maybe<F>(PhantomData<F>);

impl<F: Shape> Shape for Maybe<F> {
    const BYTES_MIN: usize = 1;

    #[cfg(test)]
    fn text(field: &str) -> String {
        format!("`bool`, with true {}", F::text(field))
    }
}

impl<T, F: Form<T>> Form<Option<T>> for Maybe<F> {
    fn put(value: &Option<T>, what: &'static str, out: &mut FieldSink<'_>) -> Result<(), WireError> {
        out.push(u8::from(value.is_some()));
        value.as_ref().map_or(Ok(()), |value| F::put(value, what, out))
    }

    fn read(reader: &mut FieldSource<'_>, what: &'static str) -> Result<Option<T>, WireError> {
        match reader.bool(what)? {
            true => F::read(reader, what).map(Some),
            false => Ok(None),
        }
    }
}

/// A value in a box.
pub(in crate::wire) struct Boxed<F>(PhantomData<F>);

impl<F: Shape> Shape for Boxed<F> {
    const BYTES_MIN: usize = F::BYTES_MIN;

    #[cfg(test)]
    fn text(field: &str) -> String {
        F::text(field)
    }
}

impl<T, F: Form<T>> Form<Box<T>> for Boxed<F> {
    fn put(value: &Box<T>, what: &'static str, out: &mut FieldSink<'_>) -> Result<(), WireError> {
        F::put(value, what, out)
    }

    fn read(reader: &mut FieldSource<'_>, what: &'static str) -> Result<Box<T>, WireError> {
        F::read(reader, what).map(Box::new)
    }
}

impl<F: Shape, G: Shape> Shape for (F, G) {
    const BYTES_MIN: usize = F::BYTES_MIN + G::BYTES_MIN;

    #[cfg(test)]
    fn text(_: &str) -> String {
        format!("({}, {})", F::text(""), G::text(""))
    }
}

impl<T, U, F: Form<T>, G: Form<U>> Form<(T, U)> for (F, G) {
    fn put(value: &(T, U), what: &'static str, out: &mut FieldSink<'_>) -> Result<(), WireError> {
        F::put(&value.0, what, out)?;
        G::put(&value.1, what, out)
    }

    fn read(reader: &mut FieldSource<'_>, what: &'static str) -> Result<(T, U), WireError> {
        Ok((F::read(reader, what)?, G::read(reader, what)?))
    }
}

fn put_count<N: Form<N> + TryFrom<usize>>(
    count: usize,
    (min, max): (usize, usize),
    what: &'static str,
    out: &mut FieldSink<'_>,
) -> Result<(), WireError> {
    let count = Some(count).filter(|count| (min..=max).contains(count));
    let count = count.and_then(|count| N::try_from(count).ok());
    N::put(&count.ok_or(WireError::Unencodable { what })?, what, out)
}

/// The bound of a list that has none but the bytes of its frame.
pub(in crate::wire) const ANY: usize = usize::MAX;

/// So many values, with their count in front: at least `MIN` and at most `MAX`.
pub(in crate::wire) struct List<N, F, const MAX: usize, const MIN: usize = 0>(PhantomData<(N, F)>);

impl<N: Shape, F: Shape, const MAX: usize, const MIN: usize> Shape for List<N, F, MAX, MIN> {
    const BYTES_MIN: usize = N::BYTES_MIN + MIN * F::BYTES_MIN;

    #[cfg(test)]
    fn text(_: &str) -> String {
        let bounds = match (MIN, MAX) {
            (0, ANY) => String::new(),
            (0, _) => format!(" (at most {MAX})"),
            (..) => format!(" ({MIN} to {MAX})"),
        };
        format!("{}{bounds}, so many {}", N::text("count"), F::text(""))
    }
}

impl<N, T, F, const MAX: usize, const MIN: usize> Form<Vec<T>> for List<N, F, MAX, MIN>
where
    N: Form<N> + TryFrom<usize> + TryInto<usize>,
    F: Form<T>,
{
    fn put(value: &Vec<T>, what: &'static str, out: &mut FieldSink<'_>) -> Result<(), WireError> {
        put_count::<N>(value.len(), (MIN, MAX), what, out)?;
        value.iter().try_for_each(|value| F::put(value, what, out))
    }

    fn read(reader: &mut FieldSource<'_>, what: &'static str) -> Result<Vec<T>, WireError> {
        let count = N::read(reader, what)?.try_into().unwrap_or(usize::MAX);
        if count < MIN {
            return Err(WireError::Malformed { what });
        }
        if count > MAX {
            return Err(WireError::LimitExceeded { what });
        }
        if count.saturating_mul(F::BYTES_MIN) > reader.rest().len() {
            return Err(WireError::Incomplete);
        }
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            all.push(F::read(reader, what)?);
        }
        Ok(all)
    }
}

/// Whether a value may stand before another one where values rise.
pub(in crate::wire) trait Rises {
    fn is_below(&self, next: &Self) -> bool;
}

impl Rises for UniqueAddress {
    fn is_below(&self, next: &Self) -> bool {
        self < next
    }
}

impl<T: Rises, U> Rises for (T, U) {
    fn is_below(&self, next: &Self) -> bool {
        self.0.is_below(&next.0)
    }
}

/// A list whose values rise strictly: of nothing in it there are two.
pub(in crate::wire) struct Rising<L>(PhantomData<L>);

impl<L: Shape> Shape for Rising<L> {
    const BYTES_MIN: usize = L::BYTES_MIN;

    #[cfg(test)]
    fn text(field: &str) -> String {
        format!("{}, rising", L::text(field))
    }
}

impl<T: Rises, L: Form<Vec<T>>> Form<Vec<T>> for Rising<L> {
    fn put(value: &Vec<T>, what: &'static str, out: &mut FieldSink<'_>) -> Result<(), WireError> {
        match value.is_sorted_by(Rises::is_below) {
            true => L::put(value, what, out),
            false => Err(WireError::Unencodable { what }),
        }
    }

    fn read(reader: &mut FieldSource<'_>, what: &'static str) -> Result<Vec<T>, WireError> {
        let all = L::read(reader, what)?;
        match all.is_sorted_by(Rises::is_below) {
            true => Ok(all),
            false => Err(WireError::NonCanonical { what }),
        }
    }
}

impl<N, T, F, const MAX: usize, const MIN: usize> Form<Arc<[T]>> for Rising<List<N, F, MAX, MIN>>
where
    N: Form<N> + TryFrom<usize> + TryInto<usize>,
    T: Rises,
    F: Form<T>,
{
    fn put(value: &Arc<[T]>, what: &'static str, out: &mut FieldSink<'_>) -> Result<(), WireError> {
        put_count::<N>(value.len(), (MIN, MAX), what, out)?;
        value.iter().try_for_each(|value| F::put(value, what, out))
    }

    fn read(reader: &mut FieldSource<'_>, what: &'static str) -> Result<Arc<[T]>, WireError> {
        <Self as Form<Vec<T>>>::read(reader, what).map(Arc::from)
    }
}

impl<N, T, F, const MAX: usize> Form<OrderedSet<T>> for Rising<List<N, F, MAX>>
where
    N: Form<N> + TryFrom<usize> + TryInto<usize>,
    T: Rises + Ord,
    F: Form<T>,
{
    fn put(value: &OrderedSet<T>, what: &'static str, out: &mut FieldSink<'_>) -> Result<(), WireError> {
        put_count::<N>(value.len(), (0, MAX), what, out)?;
        value.iter().try_for_each(|value| F::put(value, what, out))
    }

    fn read(reader: &mut FieldSource<'_>, what: &'static str) -> Result<OrderedSet<T>, WireError> {
        <Self as Form<Vec<T>>>::read(reader, what).map(OrderedSet::from_iter)
    }
}

impl<N, T, U, F, G, const MAX: usize> Form<BTreeMap<T, U>> for Rising<List<N, (F, G), MAX>>
where
    N: Form<N> + TryFrom<usize> + TryInto<usize>,
    T: Rises + Ord,
    F: Form<T>,
    G: Form<U>,
{
    fn put(value: &BTreeMap<T, U>, what: &'static str, out: &mut FieldSink<'_>) -> Result<(), WireError> {
        put_count::<N>(value.len(), (0, MAX), what, out)?;
        value.iter().try_for_each(|(key, value)| {
            F::put(key, what, out)?;
            G::put(value, what, out)
        })
    }

    fn read(reader: &mut FieldSource<'_>, what: &'static str) -> Result<BTreeMap<T, U>, WireError> {
        <Self as Form<Vec<(T, U)>>>::read(reader, what).map(BTreeMap::from_iter)
    }
}
