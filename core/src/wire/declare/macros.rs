//! The macros with which messages are declared. They write implementations of [`Form`](super::Form). Spec:
//! `docs/WIRE.md` 1.

/// A form that is written by hand: its name and what is said behind a field of it, its fewest bytes, how it
/// is put and read.
macro_rules! by_hand {
    ($($form:ty: $of:ty, $name:literal $(+ $more:literal)?, $min:expr, $put:expr, $read:expr;)*) => {$(
        impl $crate::wire::declare::Shape for $form {
            const BYTES_MIN: usize = $min;

            #[cfg(test)]
            fn text(field: &str) -> alloc::string::String {
                $crate::wire::declare::named($name, field) $(+ $more)?
            }
        }

        impl $crate::wire::declare::Form<$of> for $form {
            fn put(
                value: &$of,
                what: &'static str,
                out: &mut $crate::wire::declare::FieldSink<'_>,
            ) -> Result<(), $crate::bytes::WireError> {
                let put: fn(
                    &$of,
                    &'static str,
                    &mut $crate::wire::declare::FieldSink<'_>,
                ) -> Result<(), $crate::bytes::WireError> = $put;
                put(value, what, out)
            }

            fn read(
                reader: &mut $crate::wire::declare::FieldSource<'_>,
                what: &'static str,
            ) -> Result<$of, $crate::bytes::WireError> {
                let read: fn(
                    &mut $crate::wire::declare::FieldSource<'_>,
                    &'static str,
                ) -> Result<$of, $crate::bytes::WireError> = $read;
                read(reader, what)
            }
        }
    )*};
}

/// A number under a name of its own.
macro_rules! number_as {
    ($($of:ty: $number:ident, $name:literal, $raw:expr, $from:expr;)*) => {
        $crate::wire::declare::by_hand! {$(
            $of: $of, $name, size_of::<$number>(), |value, _, out| {
                out.extend_from_slice(&$raw(*value).to_le_bytes());
                Ok(())
            }, |reader, _| reader.array().map(|bytes| $from($number::from_le_bytes(bytes)));
        )*}
    };
}

/// A text under a name of its own: what of a value is written, and which value a text is, if any.
macro_rules! text_as {
    ($($form:ty: $of:ty, $name:literal, $shown:expr, $known:expr;)*) => {
        $crate::wire::declare::by_hand! {$(
            $form: $of, $name, 1, |value, what, out| {
                let shown: fn(&$of) -> &str = $shown;
                $crate::bytes::put_text(out, shown(value), what)
            }, |reader, what| {
                let known: fn(&str) -> Option<$of> = $known;
                known(reader.text(what)?).ok_or($crate::bytes::WireError::Malformed { what })
            };
        )*}
    };
}

/// Declares a struct: its fields in the order in which they are written, each with its form; what it has to
/// be beside that.
macro_rules! record {
    ($of:ident as $name:literal { $($field:ident: $form:ty),* $(,)? } $(if $legal:expr)?) => {
        impl $crate::wire::declare::Shape for $of {
            const BYTES_MIN: usize = 0 $(+ <$form as $crate::wire::declare::Shape>::BYTES_MIN)*;

            #[cfg(test)]
            fn text(field: &str) -> alloc::string::String {
                $crate::wire::declare::named($name, field)
            }
        }

        impl $crate::wire::declare::Form<Self> for $of {
            fn put(
                value: &Self,
                _: &'static str,
                out: &mut $crate::wire::declare::FieldSink<'_>,
            ) -> Result<(), $crate::bytes::WireError> {
                $(
                    let legal: fn(&Self) -> bool = $legal;
                    if !legal(value) {
                        return Err($crate::bytes::WireError::Unencodable { what: $name });
                    }
                )?
                $(<$form as $crate::wire::declare::Form<_>>::put(&value.$field, stringify!($field), out)?;)*
                Ok(())
            }

            fn read(
                reader: &mut $crate::wire::declare::FieldSource<'_>,
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
        }

        #[cfg(test)]
        impl $crate::wire::declare::Rows for $of {
            fn rows() -> alloc::vec::Vec<alloc::string::String> {
                let fields = [$(<$form as $crate::wire::declare::Shape>::text(stringify!($field))),*];
                alloc::vec![fields.join(", ")]
            }
        }
    };
}

/// Declares an enum: the number of each variant and its fields, in the order in which they are written, each
/// with its form.
macro_rules! choice {
    ($of:ident as $name:literal {
        $($tag:literal $variant:ident $({ $($field:ident: $form:ty),* $(,)? })? $(($inner:ident: $inner_form:ty))?,)*
    } $(else $other:ident)?) => {
        impl $crate::wire::declare::Shape for $of {
            const BYTES_MIN: usize = 1;

            #[cfg(test)]
            fn text(field: &str) -> alloc::string::String {
                $crate::wire::declare::named($name, field)
            }
        }

        impl $crate::wire::declare::Form<Self> for $of {
            fn put(
                value: &Self,
                _: &'static str,
                out: &mut $crate::wire::declare::FieldSink<'_>,
            ) -> Result<(), $crate::bytes::WireError> {
                const KNOWN: &[u8] = &[$($tag),*];
                let _ = KNOWN;
                match value {
                    $(Self::$variant $({ $($field),* })? $(($inner))? => {
                        out.push($tag);
                        $($(<$form as $crate::wire::declare::Form<_>>::put($field, stringify!($field), out)?;)*)?
                        $(<$inner_form as $crate::wire::declare::Form<_>>::put($inner, stringify!($inner), out)?;)?
                    })*
                    $(
                        Self::$other { code } if KNOWN.contains(code) => {
                            return Err($crate::bytes::WireError::Unencodable { what: $name });
                        }
                        Self::$other { code } => out.push(*code),
                    )?
                }
                Ok(())
            }

            fn read(
                reader: &mut $crate::wire::declare::FieldSource<'_>,
                _: &'static str,
            ) -> Result<Self, $crate::bytes::WireError> {
                #[allow(unreachable_patterns, reason = "where every other number is kept")]
                Ok(match reader.u8()? {
                    $($tag => Self::$variant $({
                        $($field: <$form as $crate::wire::declare::Form<_>>::read(reader, stringify!($field))?,)*
                    })? $((<$inner_form as $crate::wire::declare::Form<_>>::read(reader, stringify!($inner))?))?,)*
                    $(code => Self::$other { code },)?
                    _ => return Err($crate::bytes::WireError::Malformed { what: $name }),
                })
            }
        }

        #[cfg(test)]
        impl $crate::wire::declare::Rows for $of {
            fn rows() -> alloc::vec::Vec<alloc::string::String> {
                alloc::vec![$({
                    let fields: &[alloc::string::String] = &[
                        $($(<$form as $crate::wire::declare::Shape>::text(stringify!($field)),)*)?
                        $(<$inner_form as $crate::wire::declare::Shape>::text(stringify!($inner)),)?
                    ];
                    $crate::wire::declare::row($tag, stringify!($variant), fields)
                }),*]
            }

            fn tokens() -> alloc::vec::Vec<alloc::vec::Vec<u8>> {
                alloc::vec![$({
                    let fields: &[usize] = &[
                        $($(<$form as $crate::wire::declare::Shape>::BYTES_MIN,)*)?
                        $(<$inner_form as $crate::wire::declare::Shape>::BYTES_MIN,)?
                    ];
                    let mut token = alloc::vec![$tag];
                    token.resize(1 + fields.iter().sum::<usize>(), 0);
                    token
                }),*]
            }
        }
    };
}

/// Declares an enum without fields, one byte each.
macro_rules! codes {
    ($of:ident as $name:literal { $($code:literal $variant:ident),* $(,)? } $(else $other:ident)?) => {
        impl $crate::wire::declare::Shape for $of {
            const BYTES_MIN: usize = 1;

            #[cfg(test)]
            fn text(field: &str) -> alloc::string::String {
                $crate::wire::declare::code_list(field, &[$(($code, stringify!($variant))),*])
            }
        }

        impl $crate::wire::declare::Form<Self> for $of {
            fn put(
                value: &Self,
                what: &'static str,
                out: &mut $crate::wire::declare::FieldSink<'_>,
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
                reader: &mut $crate::wire::declare::FieldSource<'_>,
                _: &'static str,
            ) -> Result<Self, $crate::bytes::WireError> {
                #[allow(unreachable_patterns, reason = "where every other number is kept")]
                Ok(match reader.u8()? {
                    $($code => Self::$variant,)*
                    $(code => Self::$other { code },)?
                    _ => return Err($crate::bytes::WireError::Malformed { what: $name }),
                })
            }
        }
    };
}

/// Declares the messages of a machine: the tag of each, how the document calls it, and its body. Writes how
/// any of them is put and read, and the beginnings of their rows.
macro_rules! messages {
    ($of:ty {
        $($tag:ident $name:literal $variant:ident
            $({ $field:ident: $form:ty })? $(($inner:ident: $inner_form:ty))? $(= $bare:ty)?,)*
    }) => {
        pub(super) fn put(
            message: &$of,
            out: &mut $crate::wire::declare::FieldSink<'_>,
        ) -> Result<(), $crate::bytes::WireError> {
            type Of = $of;
            match message {
                $(Of::$variant $({ $field })? $(($inner))? => {
                    $(<$form as $crate::wire::declare::Form<_>>::put($field, stringify!($field), out))?
                    $(<$inner_form as $crate::wire::declare::Form<_>>::put($inner, stringify!($inner), out))?
                    $(<$bare as $crate::wire::declare::Form<_>>::put(&(), $name, out))?
                })*
            }
        }

        pub(super) fn read(
            tag: $crate::message::MessageTag,
            reader: &mut $crate::wire::declare::FieldSource<'_>,
        ) -> Result<$of, $crate::bytes::WireError> {
            type Of = $of;
            Ok(match tag {
                $(Of::$tag => {
                    $(<$bare as $crate::wire::declare::Form<()>>::read(reader, $name)?;)?
                    Of::$variant $({
                        $field: <$form as $crate::wire::declare::Form<_>>::read(reader, stringify!($field))?,
                    })? $((<$inner_form as $crate::wire::declare::Form<_>>::read(reader, stringify!($inner))?))?
                })*
                $crate::message::MessageTag { kind, .. } => return Err($crate::bytes::WireError::UnknownKind { kind }),
            })
        }

        #[cfg(test)]
        pub(super) fn rows() -> alloc::vec::Vec<alloc::string::String> {
            type Of = $of;
            alloc::vec![$($crate::wire::declare::message_row(Of::$tag, $name)),*]
        }
    };
}

pub(in crate::wire) use {by_hand, choice, codes, messages, number_as, record, text_as};
