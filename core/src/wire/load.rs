//! What nodes say about load, as bytes. Unstable: these layouts may change with any version until they are
//! declared stable. Spec: sharding 5.5, `docs/WIRE.md` 4.15.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::declare::{List, by_hand, messages, number_as, record};
use crate::bytes::WireError;
use crate::ident::UniqueAddress;
use crate::load::protocol::{ChordProbe, ChordReply, Msg, NEIGHBORS_MAX, SAMPLES_MAX, SampleTold};
use crate::load::state::sample::{LoadPartId, LoadSample, PARTS_MAX, PartLoad};
use crate::load::state::share::LoadShare;

/// A share, or that there is none.
struct AnyShare;

/// For how many neighbours on either side.
struct Radius;

/// The number of a share that there is not.
const NO_SHARE: u16 = u16::MAX;

by_hand! {
    LoadShare: LoadShare, "share", 2, |share, _, out| {
        out.extend_from_slice(&share.thousandths().to_le_bytes());
        Ok(())
    }, |reader, what| LoadShare::from_thousandths(reader.u16()?).ok_or(WireError::Malformed { what });
    AnyShare: Option<LoadShare>, "share" + " or none", 2, |share, _, out| {
        let thousandths = share.map_or(NO_SHARE, LoadShare::thousandths);
        out.extend_from_slice(&thousandths.to_le_bytes());
        Ok(())
    }, |reader, what| match reader.u16()? {
        NO_SHARE => Ok(None),
        thousandths => match LoadShare::from_thousandths(thousandths) {
            None => Err(WireError::Malformed { what }),
            share => Ok(share),
        },
    };
    Radius: u8, "u8", 1, |radius, what, out| {
        if usize::from(*radius) > NEIGHBORS_MAX {
            return Err(WireError::Unencodable { what });
        }
        out.push(*radius);
        Ok(())
    }, |reader, what| match reader.u8()? {
        radius if usize::from(radius) > NEIGHBORS_MAX => Err(WireError::LimitExceeded { what }),
        radius => Ok(radius),
    };
}

number_as! {
    LoadPartId: u64, "u64", |part: LoadPartId| part.0, LoadPartId;
}

record! {
    LoadSample as "sample" {
        cpu: AnyShare,
        machine: AnyShare,
        memory: AnyShare,
        stall: AnyShare,
        mailboxes: AnyShare,
    }
}

record! {
    PartLoad as "part" { part: LoadPartId, mailboxes: LoadShare, messages_per_second: u32, units: u32 }
}

record! { SampleTold as "told" { sample: LoadSample, parts: List<u8, PartLoad, PARTS_MAX> } }

record! { ChordProbe as "probe" { id: u32, radius: Radius } }

record! {
    ChordReply as "reply" {
        id: u32,
        samples: List<u8, (UniqueAddress, LoadSample), SAMPLES_MAX>,
        parts: List<u8, PartLoad, PARTS_MAX>,
    }
}

messages! {
    Msg {
        SAMPLE "LoadSample" Sample(told: SampleTold),
        PROBE "ChordProbe" Probe(probe: ChordProbe),
        REPLY "ChordReply" Reply(reply: ChordReply),
    }
}
