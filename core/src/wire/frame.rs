//! The frame: twenty bytes of header, then a body. Decides where a frame ends and whether its bytes arrived
//! as they were sent; never looks into the body and keeps no state (the caller owns the buffer). A length is
//! refused before its body is awaited. Spec: reliability 3b, 3c; `docs/WIRE.md` 2.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use crc32fast::Hasher;

use super::extension;
use crate::bytes::BodyReader;
use crate::bytes::WireError;
use crate::config::Limits;
use crate::message::{Lane, MessageTag};

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 20;
/// How every frame begins.
pub const MAGIC: [u8; 2] = *b"Qr";
/// The newest frame version this build speaks.
pub const VERSION_MAX: u8 = 1;
/// The oldest frame version this build speaks.
pub const VERSION_MIN: u8 = 1;
/// Header flag: an extension block stands before the message. Version 1 never sends one and skips every one.
pub const FLAG_EXTENDED: u16 = 0x0001;

/// Bytes of the header that the checksum covers; the checksum itself follows them.
const CHECKED_HEADER_BYTES: usize = 16;

const _: () = assert!(CHECKED_HEADER_BYTES + 4 == HEADER_BYTES);

/// A frame whose length and checksum are verified. The body borrows the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The lane it travels on.
    pub lane: Lane,
    /// The message kind; not yet checked.
    pub kind: u16,
    /// The epoch of the link it was written for.
    pub epoch: u32,
    /// The message, without the extension block.
    pub body: &'a [u8],
}

impl Frame<'_> {
    /// What the frame says about its message.
    #[must_use]
    pub const fn tag(&self) -> MessageTag {
        MessageTag {
            kind: self.kind,
            lane: self.lane,
        }
    }
}

/// What the start of a buffer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodedFrame<'a> {
    /// The frame is not complete; come back with at least so many bytes in total.
    NeedMore(usize),
    /// A frame.
    Frame {
        /// The frame.
        frame: Frame<'a>,
        /// Bytes of the buffer it took.
        consumed: usize,
    },
    /// No frame.
    Bad {
        /// Why.
        error: WireError,
        /// How many bytes to skip and go on (the checksum of one frame failed); `None`: nothing behind this
        /// can be trusted, close the link.
        consumed: Option<usize>,
    },
}

impl Lane {
    /// The lane's number in a header.
    #[must_use]
    pub const fn to_wire(self) -> u8 {
        match self {
            Self::Control => 0,
            Self::Gossip => 1,
            Self::Reply => 2,
            Self::User => 3,
            Self::Bulk => 4,
        }
    }

    /// The lane of a number in a header.
    #[must_use]
    pub const fn from_wire(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Control),
            1 => Some(Self::Gossip),
            2 => Some(Self::Reply),
            3 => Some(Self::User),
            4 => Some(Self::Bulk),
            _ => None,
        }
    }
}

/// The longest body a lane carries.
#[must_use]
pub const fn body_bytes_max(lane: Lane, limits: &Limits) -> usize {
    match lane {
        Lane::Control => limits.control_frame_bytes_max,
        Lane::Gossip => limits.gossip_frame_bytes_max,
        Lane::Reply | Lane::User => limits.user_frame_bytes_max,
        Lane::Bulk => limits.bulk_frame_bytes_max,
    }
}

/// Looks for one frame at the start of `buffer`. Costs one pass over the frame for its checksum; allocates
/// nothing.
#[must_use]
pub fn decode_frame<'a>(buffer: &'a [u8], limits: &Limits) -> DecodedFrame<'a> {
    match read_frame(buffer, limits) {
        Ok(decoded) => decoded,
        Err(error) => DecodedFrame::Bad {
            error,
            consumed: None,
        },
    }
}

/// The kind that a frame's header names, which is all there once [`HEADER_BYTES`] are. Nothing of it is
/// checked yet.
#[must_use]
pub fn frame_kind(header: &[u8]) -> Option<u16> {
    header.get(4..6)?.first_chunk().copied().map(u16::from_le_bytes)
}

struct FrameHeader {
    lane: Lane,
    kind: u16,
    flags: u16,
    len: usize,
    epoch: u32,
    checksum: u32,
}

fn read_frame<'a>(buffer: &'a [u8], limits: &Limits) -> Result<DecodedFrame<'a>, WireError> {
    // The first bytes alone tell a stranger (an HTTP client, a TLS hello) from a slow peer.
    if !buffer.iter().zip(MAGIC).all(|(found, magic)| *found == magic) {
        return Err(WireError::BadMagic);
    }
    let Some((head, rest)) = buffer.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(DecodedFrame::NeedMore(HEADER_BYTES));
    };
    let header = read_header(head, limits)?;
    let total = HEADER_BYTES.saturating_add(header.len);
    let Some(body) = rest.get(..header.len) else {
        return Ok(DecodedFrame::NeedMore(total));
    };
    if checksum(&mut Hasher::new(), head, body) != header.checksum {
        return Ok(DecodedFrame::Bad {
            error: WireError::Checksum,
            consumed: Some(total),
        });
    }
    let body = if header.flags & FLAG_EXTENDED == 0 {
        body
    } else {
        extension::skip(body)?
    };
    let frame = Frame {
        lane: header.lane,
        kind: header.kind,
        epoch: header.epoch,
        body,
    };
    Ok(DecodedFrame::Frame {
        frame,
        consumed: total,
    })
}

fn read_header(head: &[u8; HEADER_BYTES], limits: &Limits) -> Result<FrameHeader, WireError> {
    let mut reader = BodyReader::new(head);
    let _magic: [u8; 2] = reader.array()?;
    let found = reader.u8()?;
    if !(VERSION_MIN..=VERSION_MAX).contains(&found) {
        return Err(WireError::UnsupportedVersion { found });
    }
    let lane = Lane::from_wire(reader.u8()?).ok_or(WireError::Malformed { what: "lane" })?;
    let kind = reader.u16()?;
    let flags = reader.u16()?;
    if flags & !FLAG_EXTENDED != 0 {
        return Err(WireError::Malformed { what: "flags" });
    }
    let claimed = reader.u32()?;
    let max = body_bytes_max(lane, limits);
    let len = usize::try_from(claimed).unwrap_or(usize::MAX);
    if len > max {
        return Err(WireError::TooLarge {
            bytes: u64::from(claimed),
            max: max as u64,
        });
    }
    if len == 0 {
        return Err(WireError::Malformed { what: "empty frame" });
    }
    Ok(FrameHeader {
        lane,
        kind,
        flags,
        len,
        epoch: reader.u32()?,
        checksum: reader.u32()?,
    })
}

fn checksum(hasher: &mut Hasher, head: &[u8], body: &[u8]) -> u32 {
    hasher.reset();
    hasher.update(head.get(..CHECKED_HEADER_BYTES).unwrap_or(head));
    hasher.update(body);
    hasher.clone().finalize()
}

/// Appends an empty header; the body follows, then [`finish_frame`].
pub(super) fn begin_frame(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; HEADER_BYTES]);
}

/// Fills in the header of a frame, now that its body is complete. The hasher is any: which instructions the
/// processor has is found out when one is made, once for many frames.
pub(super) fn finish_frame(
    frame: &mut [u8],
    tag: MessageTag,
    epoch: u32,
    limits: &Limits,
    hasher: &mut Hasher,
) -> Result<(), WireError> {
    let incomplete = WireError::Unencodable { what: "frame" };
    let (head, body) = frame.split_first_chunk_mut::<HEADER_BYTES>().ok_or(incomplete)?;
    let max = body_bytes_max(tag.lane, limits);
    let too_large = WireError::TooLarge {
        bytes: body.len() as u64,
        max: max as u64,
    };
    let len = u32::try_from(body.len()).map_err(|_| too_large.clone())?;
    if body.len() > max {
        return Err(too_large);
    }
    write_header(head, tag, len, epoch);
    let sum = checksum(hasher, head, body);
    if let Some(place) = head.last_chunk_mut::<4>() {
        *place = sum.to_le_bytes();
    }
    Ok(())
}

/// No flag is defined yet.
const FLAGS: u16 = 0;

fn write_header(head: &mut [u8; HEADER_BYTES], tag: MessageTag, len: u32, epoch: u32) {
    let [m0, m1] = MAGIC;
    let ([k0, k1], [f0, f1]) = (tag.kind.to_le_bytes(), FLAGS.to_le_bytes());
    let ([l0, l1, l2, l3], [e0, e1, e2, e3]) = (len.to_le_bytes(), epoch.to_le_bytes());
    *head = [
        m0,
        m1,
        VERSION_MAX,
        tag.lane.to_wire(),
        k0,
        k1,
        f0,
        f1,
        l0,
        l1,
        l2,
        l3,
        e0,
        e1,
        e2,
        e3,
        0,
        0,
        0,
        0,
    ];
}
