//! How a message is declared: each of its fields once, in order and with its form. The encoder, the decoder, the bounds of its lists and
//! its row in `docs/WIRE.md` follow from that; a test compares the rows. Decides nothing else. Spec: `docs/WIRE.md` 1, 4.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::boxed::Box;
#[cfg(test)]
use alloc::format;
#[cfg(test)]
use alloc::string::String;
use alloc::vec::Vec;
use core::marker::PhantomData;

use crate::bytes::{Reader, WireError, put_address, put_node};
use crate::config::Limits;
use crate::ident::{Address, UniqueAddress};

/// How values of `T` are written. A type that is written in one way only is its own form.
pub(super) trait Form<T> {
    /// The fewest bytes of a value: what is counted has to be there before anything is allocated for it.
    const BYTES_MIN: usize;

    /// Writes a value; `what` names it in errors.
    fn put(value: &T, what: &'static str, limits: &Limits, out: &mut Vec<u8>) -> Result<(), WireError>;

    /// Reads a value.
    fn read(reader: &mut Reader<'_>, what: &'static str) -> Result<T, WireError>;

    /// A field of this form, as the tables of `docs/WIRE.md` have it; without a name, as one of many.
    #[cfg(test)]
    fn text(field: &str) -> String;
}

/// A field under the name of its type.
#[cfg(test)]
pub(super) fn named(of: &str, field: &str) -> String {
    if field.is_empty() || field == of {
        format!("`{of}`")
    } else {
        format!("`{of} {}`", field.replace('_', " "))
    }
}

/// A form that is written by hand: its name and what is said behind a field of it, its fewest bytes, how it is put and read.
macro_rules! by_hand {
    ($($form:ty: $of:ty, $name:literal $(+ $more:literal)?, $min:expr, $put:expr, $read:expr;)*) => {$(
        impl $crate::wire::declare::Form<$of> for $form {
            const BYTES_MIN: usize = $min;

            fn put(
                value: &$of,
                what: &'static str,
                limits: &$crate::config::Limits,
                out: &mut alloc::vec::Vec<u8>,
            ) -> Result<(), $crate::bytes::WireError> {
                let put: fn(
                    &$of,
                    &'static str,
                    &$crate::config::Limits,
                    &mut alloc::vec::Vec<u8>,
                ) -> Result<(), $crate::bytes::WireError> = $put;
                put(value, what, limits, out)
            }

            fn read(
                reader: &mut $crate::bytes::Reader<'_>,
                what: &'static str,
            ) -> Result<$of, $crate::bytes::WireError> {
                let read: fn(
                    &mut $crate::bytes::Reader<'_>,
                    &'static str,
                ) -> Result<$of, $crate::bytes::WireError> = $read;
                read(reader, what)
            }

            #[cfg(test)]
            fn text(field: &str) -> alloc::string::String {
                $crate::wire::declare::named($name, field) $(+ $more)?
            }
        }
    )*};
}

/// A number under a name of its own.
macro_rules! number_as {
    ($($of:ty: $number:ident, $name:literal, $raw:expr, $from:expr;)*) => {
        $crate::wire::declare::by_hand! {$(
            $of: $of, $name, size_of::<$number>(), |value, _, _, out| {
                out.extend_from_slice(&$raw(*value).to_le_bytes());
                Ok(())
            }, |reader, _| reader.array().map(|bytes| $from($number::from_le_bytes(bytes)));
        )*}
    };
}

/// Numbers of fixed width, little endian.
macro_rules! numbers {
    ($($number:ident $name:literal)*) => {
        by_hand! {$(
            $number: $number, $name, size_of::<$number>(), |value, _, _, out| {
                out.extend_from_slice(&value.to_le_bytes());
                Ok(())
            }, |reader, _| reader.array().map(<$number>::from_le_bytes);
        )*}
    };
}

numbers!(u8 "u8" u16 "u16" u32 "u32" u64 "u64" u128 "u128");

by_hand! {
    bool: bool, "bool", 1, |value, _, _, out| {
        out.push(u8::from(*value));
        Ok(())
    }, |reader, what| reader.bool(what);
    Address: Address, "address", 4, |value, _, _, out| put_address(out, value), |reader, _| reader.address();
    UniqueAddress: UniqueAddress, "node", 12, |value, _, _, out| put_node(out, value), |reader, _| reader.node();
}

/// A value, or none: a `bool`, and with true the value.
pub(super) struct Maybe<F>(PhantomData<F>);

impl<T, F: Form<T>> Form<Option<T>> for Maybe<F> {
    const BYTES_MIN: usize = 1;

    fn put(
        value: &Option<T>,
        what: &'static str,
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        out.push(u8::from(value.is_some()));
        value
            .as_ref()
            .map_or(Ok(()), |value| F::put(value, what, limits, out))
    }

    fn read(reader: &mut Reader<'_>, what: &'static str) -> Result<Option<T>, WireError> {
        match reader.bool(what)? {
            true => F::read(reader, what).map(Some),
            false => Ok(None),
        }
    }

    #[cfg(test)]
    fn text(field: &str) -> String {
        format!("`bool`, with true {}", F::text(field))
    }
}

/// A value in a box.
pub(super) struct Boxed<F>(PhantomData<F>);

impl<T, F: Form<T>> Form<Box<T>> for Boxed<F> {
    const BYTES_MIN: usize = F::BYTES_MIN;

    fn put(value: &Box<T>, what: &'static str, limits: &Limits, out: &mut Vec<u8>) -> Result<(), WireError> {
        F::put(value, what, limits, out)
    }

    fn read(reader: &mut Reader<'_>, what: &'static str) -> Result<Box<T>, WireError> {
        F::read(reader, what).map(Box::new)
    }

    #[cfg(test)]
    fn text(field: &str) -> String {
        F::text(field)
    }
}

impl<T, U, F: Form<T>, G: Form<U>> Form<(T, U)> for (F, G) {
    const BYTES_MIN: usize = F::BYTES_MIN + G::BYTES_MIN;

    fn put(value: &(T, U), what: &'static str, limits: &Limits, out: &mut Vec<u8>) -> Result<(), WireError> {
        F::put(&value.0, what, limits, out)?;
        G::put(&value.1, what, limits, out)
    }

    fn read(reader: &mut Reader<'_>, what: &'static str) -> Result<(T, U), WireError> {
        Ok((F::read(reader, what)?, G::read(reader, what)?))
    }

    #[cfg(test)]
    fn text(_: &str) -> String {
        format!("({}, {})", F::text(""), G::text(""))
    }
}

/// So many values, with their count in front: at least `MIN` and at most `MAX`.
pub(super) struct List<N, F, const MAX: usize, const MIN: usize = 0>(PhantomData<(N, F)>);

impl<N, T, F, const MAX: usize, const MIN: usize> Form<Vec<T>> for List<N, F, MAX, MIN>
where
    N: Form<N> + TryFrom<usize> + TryInto<usize>,
    F: Form<T>,
{
    const BYTES_MIN: usize = N::BYTES_MIN + MIN * F::BYTES_MIN;

    fn put(value: &Vec<T>, what: &'static str, limits: &Limits, out: &mut Vec<u8>) -> Result<(), WireError> {
        let count = Some(value.len()).filter(|count| (MIN..=MAX).contains(count));
        let count = count.and_then(|count| N::try_from(count).ok());
        N::put(&count.ok_or(WireError::Unencodable { what })?, what, limits, out)?;
        value
            .iter()
            .try_for_each(|value| F::put(value, what, limits, out))
    }

    fn read(reader: &mut Reader<'_>, what: &'static str) -> Result<Vec<T>, WireError> {
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

    #[cfg(test)]
    fn text(_: &str) -> String {
        let bounds = match MIN {
            0 => format!("at most {MAX}"),
            _ => format!("{MIN} to {MAX}"),
        };
        format!("{} ({bounds}), so many {}", N::text("count"), F::text(""))
    }
}

/// Declares a struct: its fields in the order in which they are written, each with its form; what it has to be beside that.
macro_rules! record {
    ($of:ident as $name:literal { $($field:ident: $form:ty),* $(,)? } $(if $legal:expr)?) => {
        impl $crate::wire::declare::Form<Self> for $of {
            const BYTES_MIN: usize = 0 $(+ <$form as $crate::wire::declare::Form<_>>::BYTES_MIN)*;

            fn put(
                value: &Self,
                _: &'static str,
                limits: &$crate::config::Limits,
                out: &mut alloc::vec::Vec<u8>,
            ) -> Result<(), $crate::bytes::WireError> {
                $(
                    let legal: fn(&Self) -> bool = $legal;
                    if !legal(value) {
                        return Err($crate::bytes::WireError::Unencodable { what: $name });
                    }
                )?
                $(<$form as $crate::wire::declare::Form<_>>::put(&value.$field, stringify!($field), limits, out)?;)*
                Ok(())
            }

            fn read(
                reader: &mut $crate::bytes::Reader<'_>,
                _: &'static str,
            ) -> Result<Self, $crate::bytes::WireError> {
                let value = Self {
                    $($field: <$form as $crate::wire::declare::Form<_>>::read(reader, stringify!($field))?,)*
                };
                $(
                    let legal: fn(&Self) -> bool = $legal;
                    if !legal(&value) {
                        return Err($crate::bytes::WireError::Malformed { what: $name });
                    }
                )?
                Ok(value)
            }

            #[cfg(test)]
            fn text(field: &str) -> alloc::string::String {
                $crate::wire::declare::named($name, field)
            }
        }

        #[cfg(test)]
        impl $crate::wire::declare::Rows for $of {
            fn rows() -> alloc::vec::Vec<alloc::string::String> {
                let fields = [$(<$form as $crate::wire::declare::Form<_>>::text(stringify!($field))),*];
                alloc::vec![fields.join(", ")]
            }
        }
    };
}

/// Declares an enum: the number of each variant and its fields, in the order in which they are written, each with its form.
macro_rules! choice {
    ($of:ident as $name:literal {
        $($tag:literal $variant:ident $({ $($field:ident: $form:ty),* $(,)? })? $(($inner:ident: $inner_form:ty))?,)*
    }) => {
        impl $crate::wire::declare::Form<Self> for $of {
            const BYTES_MIN: usize = 1;

            fn put(
                value: &Self,
                _: &'static str,
                limits: &$crate::config::Limits,
                out: &mut alloc::vec::Vec<u8>,
            ) -> Result<(), $crate::bytes::WireError> {
                let _ = limits;
                match value {
                    $(Self::$variant $({ $($field),* })? $(($inner))? => {
                        out.push($tag);
                        $($(<$form as $crate::wire::declare::Form<_>>::put($field, stringify!($field), limits, out)?;)*)?
                        $(<$inner_form as $crate::wire::declare::Form<_>>::put($inner, stringify!($inner), limits, out)?;)?
                    })*
                }
                Ok(())
            }

            fn read(
                reader: &mut $crate::bytes::Reader<'_>,
                _: &'static str,
            ) -> Result<Self, $crate::bytes::WireError> {
                Ok(match reader.u8()? {
                    $($tag => Self::$variant $({
                        $($field: <$form as $crate::wire::declare::Form<_>>::read(reader, stringify!($field))?,)*
                    })? $((<$inner_form as $crate::wire::declare::Form<_>>::read(reader, stringify!($inner))?))?,)*
                    _ => return Err($crate::bytes::WireError::Malformed { what: $name }),
                })
            }

            #[cfg(test)]
            fn text(field: &str) -> alloc::string::String {
                $crate::wire::declare::named($name, field)
            }
        }

        #[cfg(test)]
        impl $crate::wire::declare::Rows for $of {
            fn rows() -> alloc::vec::Vec<alloc::string::String> {
                alloc::vec![$({
                    let fields: &[alloc::string::String] = &[
                        $($(<$form as $crate::wire::declare::Form<_>>::text(stringify!($field)),)*)?
                        $(<$inner_form as $crate::wire::declare::Form<_>>::text(stringify!($inner)),)?
                    ];
                    $crate::wire::declare::row($tag, stringify!($variant), fields)
                }),*]
            }
        }
    };
}

/// Declares an enum without fields, one byte each.
macro_rules! codes {
    ($of:ident as $name:literal { $($code:literal $variant:ident),* $(,)? } $(else $other:ident)?) => {
        impl $crate::wire::declare::Form<Self> for $of {
            const BYTES_MIN: usize = 1;

            fn put(
                value: &Self,
                what: &'static str,
                _: &$crate::config::Limits,
                out: &mut alloc::vec::Vec<u8>,
            ) -> Result<(), $crate::bytes::WireError> {
                const KNOWN: &[u8] = &[$($code),*];
                out.push(match value {
                    $(Self::$variant => $code,)*
                    $(
                        Self::$other { code } if KNOWN.contains(code) => {
                            return Err($crate::bytes::WireError::Unencodable { what });
                        }
                        Self::$other { code } => *code,
                    )?
                });
                let _ = (what, KNOWN);
                Ok(())
            }

            fn read(
                reader: &mut $crate::bytes::Reader<'_>,
                _: &'static str,
            ) -> Result<Self, $crate::bytes::WireError> {
                #[allow(unreachable_patterns, reason = "where every other number is kept")]
                Ok(match reader.u8()? {
                    $($code => Self::$variant,)*
                    $(code => Self::$other { code },)?
                    _ => return Err($crate::bytes::WireError::Malformed { what: $name }),
                })
            }

            #[cfg(test)]
            fn text(field: &str) -> alloc::string::String {
                $crate::wire::declare::code_list(field, &[$(($code, stringify!($variant))),*])
            }
        }
    };
}

/// A field of one byte, and what its values mean.
#[cfg(test)]
pub(super) fn code_list(field: &str, codes: &[(u8, &str)]) -> String {
    let codes: Vec<String> = codes
        .iter()
        .map(|(code, name)| format!("{code} {name}"))
        .collect();
    format!("{}: {}", named("u8", field), codes.join(", "))
}

/// Rows of a table of `docs/WIRE.md`.
#[cfg(test)]
pub(super) trait Rows {
    fn rows() -> Vec<String>;
}

/// One row: number, name, fields.
#[cfg(test)]
pub(super) fn row(tag: u8, name: &str, fields: &[String]) -> String {
    let fields = fields.join(", ");
    let between = if fields.is_empty() { "" } else { " " };
    format!("| {tag} | {name} | {fields}{between}|")
}

pub(super) use {by_hand, choice, codes, number_as, record};
