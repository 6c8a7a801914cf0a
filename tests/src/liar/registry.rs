//! What members and the oldest one say about kinds. Spec: sharding 10.11, `docs/WIRE.md` 4.7.

use quorate_core::message::{Message, ShardingMsg};
use quorate_core::sharding::ids::KindId;
use quorate_core::sharding::protocol::registry::{Announced, RegistryMsg, Verdict};

use super::numbers::{ACCEPTANCE, ROUND};
use super::{Lie, regions};

/// See [`super::Kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names of the messages")]
pub enum Kind {
    Announce,
    Verdicts,
    Query,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Announce, Self::Verdicts, Self::Query];

    pub(super) const fn of(msg: &RegistryMsg) -> Self {
        match msg {
            RegistryMsg::Announce { .. } => Self::Announce,
            RegistryMsg::Verdicts { .. } => Self::Verdicts,
            RegistryMsg::Query { .. } => Self::Query,
        }
    }
}

pub(super) fn say(kind: Kind, lie: &mut Lie<'_>) -> Message {
    let msg = match kind {
        Kind::Announce => RegistryMsg::Announce {
            round: lie.number_u32(ROUND),
            kinds: vec![announced(lie)],
        },
        Kind::Verdicts => {
            let verdict = verdict(lie);
            RegistryMsg::Verdicts {
                term: lie.term(),
                round: lie.number_u32(ROUND),
                verdicts: vec![verdict],
            }
        }
        Kind::Query => RegistryMsg::Query { term: lie.term() },
    };
    ShardingMsg::Registry(msg).into()
}

fn announced(lie: &mut Lie<'_>) -> Announced {
    let accepted = lie.flag().then(|| lie.number(ACCEPTANCE));
    Announced {
        fields: regions::fields(lie),
        accepted,
        running: lie.flag(),
    }
}

fn verdict(lie: &mut Lie<'_>) -> (KindId, Verdict) {
    match lie.chance.below(3) {
        0 => {
            let number = lie.number(ACCEPTANCE);
            (lie.kind(), Verdict::Accepted { number })
        }
        1 => {
            let standing = regions::fields(lie);
            (KindId::of(&standing.name), Verdict::Refused { standing })
        }
        _ => (lie.kind(), Verdict::TooMany),
    }
}
