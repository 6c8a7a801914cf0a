//! Compression of gossip states: raw deflate above a threshold, inflated into one buffer whose size is
//! checked before it exists. Decides only whether compressing pays; equal states always give equal bytes.
//! Spec: reliability 3b (bombs).
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use miniz_oxide::DataFormat;
use miniz_oxide::deflate::core::{CompressorOxide, TDEFLFlush, TDEFLStatus, compress};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use crate::bytes::WireError;
use crate::config::Limits;

/// Fastest level: on structured states 4 to 7 % larger than level 6 at a tenth of its time (performance B2).
const LEVEL: u8 = 1;
/// A compressed state may grow at most so many times; honest ones grow four times.
pub(super) const INFLATE_RATIO_MAX: usize = 200;

/// Scratch space of an encoder: the state's bytes, their compressed form and the compressor. Empty until
/// needed.
#[derive(Default)]
pub(super) struct Packer {
    pub(super) state: Vec<u8>,
    packed: Vec<u8>,
    compressor: Option<Box<CompressorOxide>>,
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packer")
            .field("scratch_bytes", &self.state.capacity())
            .finish_non_exhaustive()
    }
}

impl Packer {
    /// The compressed form of `state`, if it is worth it and a reader would accept it.
    pub(super) fn pack(&mut self, limits: &Limits) -> Option<&[u8]> {
        if !(limits.compress_from_bytes..=limits.decompressed_bytes_max).contains(&self.state.len()) {
            return None;
        }
        let compressor = self.compressor.get_or_insert_with(|| {
            let mut fresh = Box::<CompressorOxide>::default();
            fresh.set_format_and_level(DataFormat::Raw, LEVEL);
            fresh
        });
        compressor.reset();
        // Whatever does not fit into this is not worth it.
        self.packed.resize(self.state.len(), 0);
        let (status, _, written) = compress(compressor, &self.state, &mut self.packed, TDEFLFlush::Finish);
        let accepted =
            status == TDEFLStatus::Done && self.state.len() <= written.saturating_mul(INFLATE_RATIO_MAX);
        self.packed.get(..written).filter(|_| accepted)
    }
}

/// Inflates `packed`, all of it, into exactly `claimed` bytes.
pub(super) fn inflate(packed: &[u8], claimed: usize, limits: &Limits) -> Result<Vec<u8>, WireError> {
    let max = limits
        .decompressed_bytes_max
        .min(packed.len().saturating_mul(INFLATE_RATIO_MAX));
    if claimed > max {
        return Err(WireError::LimitExceeded {
            what: "inflated bytes",
        });
    }
    let mut out = vec![0; claimed];
    let mut inflater = Box::<DecompressorOxide>::default();
    let (status, consumed, written) = decompress(
        &mut inflater,
        packed,
        &mut out,
        0,
        TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
    );
    match status {
        TINFLStatus::Done if written != claimed => Err(WireError::Malformed {
            what: "inflated length",
        }),
        TINFLStatus::Done if consumed != packed.len() => Err(WireError::TrailingBytes),
        TINFLStatus::Done => Ok(out),
        TINFLStatus::HasMoreOutput => Err(WireError::LimitExceeded {
            what: "inflated bytes",
        }),
        TINFLStatus::FailedCannotMakeProgress
        | TINFLStatus::BadParam
        | TINFLStatus::Adler32Mismatch
        | TINFLStatus::Failed
        | TINFLStatus::NeedsMoreInput => Err(WireError::Compression),
        // A foreign enum that may grow: a stream that cannot be finished.
        _ => Err(WireError::Compression),
    }
}
