//! Bytes: the only room that knows a serialised form. Limits first, then version, then decode, then validate.
//! Spec: membership 5, reliability 3b, 3c; `docs/WIRE.md` is normative.

mod error;

pub use error::WireError;
