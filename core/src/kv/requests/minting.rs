//! A put's first half: one owner makes the version. It is asked again until it answers, and nobody else is
//! asked unless it has refused: else there might be two versions of one put. Spec: sharding 5.6, 10.19 c;
//! reliability I-73.

use super::reading::entry_of;
use super::{ATTEMPTS_MAX, Call, CallError, CallGoal, CallOutput, CallStage, Out};
use crate::journal::state::StoreId;
use crate::kv::state::call::RequestId;
use crate::kv::state::clock::Actor;
use crate::kv::state::entry::KvEntry;
use crate::kv::state::exchange::{KvAnswer, KvAsk, KvRefusal, Mint};

#[derive(Clone, Debug)]
pub(super) struct MintingStep {
    at: StoreId,
    actor: Actor,
    /// How often this attempt was sent.
    copies: u32,
    /// Which attempt of the call.
    attempt: u32,
}

impl Call {
    /// The owner that makes the version, if there is one that has not refused for good.
    pub(super) fn minter(&self) -> Option<StoreId> {
        let owners = &self.place.configuration.owners;
        let minters = self.place.minters.iter().map(|(store, _)| *store);
        minters.into_iter().find(|store| owners.contains(*store))
    }

    /// Asks for the version, as a new attempt.
    pub(super) fn mint(&mut self, out: &mut Out) {
        let Some(at) = self.minter().filter(|_| self.attempt < ATTEMPTS_MAX) else {
            return self.fail(CallError::NoOwner, out);
        };
        self.next_step();
        let attempt = self.attempt;
        self.attempt += 1;
        let known = self.place.minters.iter().find(|(store, _)| *store == at);
        // Who is not known is asked as nobody, and says who it is.
        let actor = known.and_then(|(_, actor)| *actor).unwrap_or(Actor {
            store: at,
            boot: 0,
            since: 0,
        });
        self.stage = CallStage::Minting(MintingStep {
            at,
            actor,
            copies: 0,
            attempt,
        });
        self.repeat_minting(out);
    }

    pub(super) fn repeat_minting(&mut self, out: &mut Out) {
        let (CallStage::Minting(minting), CallGoal::Write { change, context, .. }) =
            (&mut self.stage, &self.goal)
        else {
            return;
        };
        minting.copies += 1;
        out.push(CallOutput::Ask {
            to: minting.at,
            step: self.step,
            ask: KvAsk::Mint(Mint {
                request: RequestId {
                    call: self.place.id,
                    attempt: minting.attempt,
                },
                open_from: self.place.open_from,
                actor: minting.actor,
                context: context.clone(),
                is_proven: self.is_proven,
                change: change.clone(),
            }),
        });
    }

    pub(super) fn on_minted(&mut self, (from, epoch): (StoreId, u64), answer: KvAnswer, out: &mut Out) {
        let CallStage::Minting(minting) = &mut self.stage else {
            return;
        };
        if from != minting.at {
            return;
        }
        match answer {
            KvAnswer::Minted { entry, .. } => {
                if entry.admits_versions().is_err() {
                    // A turn began meanwhile: what was made counts only if it decides for ordinary versions.
                    let last = entry.promise();
                    self.written = Some(KvEntry::of(entry.siblings));
                    return self.take_turn(last, out);
                }
                let accepted = entry.accepted().cloned();
                let entry = entry_of(entry, accepted);
                self.written = Some(entry.clone());
                self.spread_from((from, epoch), entry, out);
            }
            KvAnswer::Refused(KvRefusal::OtherActor(actor)) => {
                // Its memory is gone with the one that was asked. Of several copies the first may have been
                // obeyed; of one it is known that it was not.
                let was_asked = minting.actor.boot > 0 && minting.copies > 1;
                if was_asked {
                    return self.fail(CallError::Timeout { acknowledged: 0 }, out);
                }
                let known = self.place.minters.iter_mut().find(|(store, _)| *store == from);
                if let Some((_, known)) = known {
                    *known = Some(actor);
                }
                self.mint(out);
            }
            KvAnswer::Refused(KvRefusal::Blocked(held)) => self.take_turn(held, out),
            KvAnswer::Refused(KvRefusal::TooFarAhead) if self.is_proven => {
                self.fail(CallError::Context, out);
            }
            KvAnswer::Refused(KvRefusal::TooFarAhead) => self.read(out),
            KvAnswer::Refused(KvRefusal::Behind | KvRefusal::NoOwner) => {
                self.place.minters.retain(|(store, _)| *store != from);
                self.mint(out);
            }
            KvAnswer::Refused(KvRefusal::Conditional) => self.fail(CallError::Conditional, out),
            KvAnswer::Refused(KvRefusal::Put(error)) => self.fail(error.into(), out),
            KvAnswer::Refused(KvRefusal::Ttl) => self.fail(CallError::Ttl, out),
            KvAnswer::Refused(KvRefusal::Over) => self.fail(CallError::Timeout { acknowledged: 0 }, out),
            // What this attempt was refused it stays refused.
            KvAnswer::Refused(KvRefusal::OtherConfiguration(_)) => self.mint(out),
            KvAnswer::Refused(KvRefusal::Busy | KvRefusal::NotAlike | KvRefusal::NoHint)
            | KvAnswer::Held(_)
            | KvAnswer::Done => {}
        }
    }
}
