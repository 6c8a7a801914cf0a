//! Users' messages to bytes and back: postcard, with nothing left over. An answer has one byte in front that
//! says whether the question could be read, so that a decoding error at the entity's node is not taken for an
//! answer.

use std::cell::RefCell;
use std::fmt;

use quorate_core::sharding::ids::Payload;
use serde::de::{DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{AskError, DurableFailure};

/// The answer follows.
const ANSWERED: u8 = 0;
/// The entity's node could not decode the question.
const UNDECODABLE: u8 = 1;
/// The question was handled, but its answer could not be encoded.
const UNENCODABLE: u8 = 2;
/// The entity could not make durable what the question asks for; one byte follows that says why.
const NOT_DURABLE: u8 = 3;

/// A scratch buffer that grew beyond this is not kept between messages.
const SCRATCH_BYTES_KEPT_MAX: usize = 64 << 10;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Writes at the end of a borrowed buffer.
struct Tail<'a>(&'a mut Vec<u8>);

impl postcard::ser_flavors::Flavor for Tail<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// `prefix` and the value, in exactly one allocation. A value that encodes other values of this crate while
/// it is being encoded gets a buffer of its own.
pub(crate) fn encode_after<T: Serialize + ?Sized>(prefix: &[u8], value: &T) -> Option<Payload> {
    let encode_into = |buffer: &mut Vec<u8>| {
        buffer.clear();
        buffer.extend_from_slice(prefix);
        postcard::serialize_with_flavor(value, Tail(buffer)).ok()?;
        Some(Payload::from(&buffer[..]))
    };
    SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
        Ok(mut buffer) => {
            let payload = encode_into(&mut buffer);
            if buffer.capacity() > SCRATCH_BYTES_KEPT_MAX {
                *buffer = Vec::new();
            }
            payload
        }
        Err(_) => encode_into(&mut Vec::new()),
    })
}

/// A message's bytes, or nothing if its `Serialize` fails.
pub(crate) fn encode<T: Serialize + ?Sized>(message: &T) -> Option<Payload> {
    encode_after(&[], message)
}

/// A message; nothing if the bytes are not exactly one.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Some(value),
        Ok(_) | Err(_) => None,
    }
}

/// An answer's bytes.
pub(crate) fn encode_answer<T: Serialize>(answer: &T) -> Payload {
    encode_after(&[ANSWERED], answer).unwrap_or_else(|| Payload::from([UNENCODABLE]))
}

/// The bytes that say that the question could not be read.
pub(crate) fn undecodable() -> Payload {
    Payload::from([UNDECODABLE])
}

/// The bytes that say why nothing was made durable.
pub(crate) fn not_durable(failure: DurableFailure) -> Payload {
    Payload::from([NOT_DURABLE, failure.code()])
}

/// The bytes of an answer, for who reads it later; nothing if it is none.
pub(crate) fn answer_bytes(bytes: &[u8]) -> Option<&[u8]> {
    bytes.strip_prefix(&[ANSWERED])
}

/// An answer, or which side could not read.
pub(crate) fn decode_answer<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, AskError> {
    match bytes.split_first() {
        Some((&ANSWERED, rest)) => decode(rest).ok_or(AskError::Decode),
        Some((&UNDECODABLE, [])) => Err(AskError::Undecodable),
        Some((&NOT_DURABLE, &[code])) => {
            Err(DurableFailure::of(code).map_or(AskError::Decode, AskError::NotDurable))
        }
        Some(_) | None => Err(AskError::Decode),
    }
}

/// Bytes that are copied in one piece.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) Payload);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Whole;

        impl Visitor<'_> for Whole {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.into()))
            }
        }

        deserializer.deserialize_bytes(Whole)
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip_and_trailing_bytes_are_refused() {
        let payload = encode(&(7_u32, "seven")).unwrap();
        assert_eq!(decode::<(u32, String)>(&payload), Some((7, "seven".to_owned())));
        let mut longer = payload.to_vec();
        longer.push(0);
        assert_eq!(decode::<(u32, String)>(&longer), None);
    }

    #[test]
    fn an_answer_says_who_could_not_read() {
        assert_eq!(decode_answer::<u64>(&encode_answer(&9_u64)), Ok(9));
        assert_eq!(decode_answer::<u64>(&undecodable()), Err(AskError::Undecodable));
        assert_eq!(decode_answer::<u64>(&[0]), Err(AskError::Decode));
        assert_eq!(decode_answer::<u64>(&[UNENCODABLE]), Err(AskError::Decode));
        assert_eq!(decode_answer::<u64>(&[]), Err(AskError::Decode));
        let full = decode_answer::<u64>(&not_durable(DurableFailure::Full));
        assert_eq!(full, Err(AskError::NotDurable(DurableFailure::Full)));
        for code in 0..=u8::MAX {
            // What a later version says is an answer that cannot be read.
            let expected = DurableFailure::of(code).map_or(AskError::Decode, AskError::NotDurable);
            assert_eq!(decode_answer::<u64>(&[NOT_DURABLE, code]), Err(expected));
            assert!(DurableFailure::of(code).is_none_or(|failure| failure.code() == code));
        }
        assert_eq!(decode_answer::<u64>(&[NOT_DURABLE, 1, 1]), Err(AskError::Decode));
    }

    #[test]
    fn a_large_message_does_not_leave_a_large_scratch_buffer() {
        let large = vec![1_u8; SCRATCH_BYTES_KEPT_MAX + 1];
        assert!(encode(&large).is_some());
        SCRATCH.with(|scratch| assert_eq!(scratch.borrow().capacity(), 0));
    }
}
