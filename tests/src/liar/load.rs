//! What members say of load. A liar may tell any load of itself and of its neighbours: it can draw what is
//! placed by load towards it or away from it, and no more. Spec: sharding 5.5, `docs/WIRE.md` 4.15.

use quorate_core::load::state::sample::{LoadPartId, LoadSample, PartLoad};
use quorate_core::load::state::share::LoadShare;
use quorate_core::message::{ChordProbe, ChordReply, LoadMsg as Msg, Message, SampleTold};

use super::Lie;
use super::numbers::{COUNT, HASH, PROBE, RADIUS, SHARE};

/// See [`super::Kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names of the messages")]
pub enum Kind {
    Sample,
    Probe,
    Reply,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Sample, Self::Probe, Self::Reply];

    pub(super) const fn of(msg: &Msg) -> Self {
        match msg {
            Msg::Sample(_) => Self::Sample,
            Msg::Probe(_) => Self::Probe,
            Msg::Reply(_) => Self::Reply,
        }
    }
}

pub(super) fn say(kind: Kind, lie: &mut Lie<'_>) -> Message {
    match kind {
        Kind::Sample => {
            let sample = sample(lie);
            let parts = lie.few(part);
            Msg::Sample(SampleTold { sample, parts })
        }
        Kind::Probe => {
            let id = lie.number_u32(PROBE);
            let radius = u8::try_from(lie.number(RADIUS)).unwrap_or(u8::MAX);
            Msg::Probe(ChordProbe { id, radius })
        }
        Kind::Reply => {
            let id = lie.number_u32(PROBE);
            let samples = lie.few(|lie| (lie.node(), sample(lie)));
            let parts = lie.few(part);
            Msg::Reply(ChordReply { id, samples, parts })
        }
    }
    .into()
}

fn share(lie: &mut Lie<'_>) -> LoadShare {
    LoadShare::from_thousandths(lie.number_u16(SHARE)).unwrap_or(LoadShare::ALL)
}

fn sample(lie: &mut Lie<'_>) -> LoadSample {
    let any = |lie: &mut Lie<'_>| lie.flag().then(|| share(lie));
    LoadSample {
        cpu: any(lie),
        machine: any(lie),
        memory: any(lie),
        stall: any(lie),
        mailboxes: any(lie),
    }
}

fn part(lie: &mut Lie<'_>) -> PartLoad {
    PartLoad {
        part: LoadPartId(lie.number(HASH)),
        mailboxes: share(lie),
        messages_per_second: lie.number_u32(COUNT),
        units: lie.number_u32(COUNT),
    }
}
