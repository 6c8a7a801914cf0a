//! Which fields a kind stands with when nodes claim different ones. Pure: no time, no sending, no picture of the cluster.
//! Spec: sharding 10.11.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::ident::UniqueAddress;
use crate::membership::state::member::UpNumber;
use crate::sharding::protocol::registry::{Announced, Verdict};
use crate::sharding::state::fields::{KindDifference, KindFields};
use crate::sharding::state::ids::KindId;

/// Kinds, different versions of one included, that the oldest member keeps: each at most half a kilobyte.
pub(super) const CLAIMS_MAX: usize = 4_096;

/// One node's claim.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    running: bool,
    accepted: Option<u64>,
    age: UpNumber,
}

impl Claim {
    /// The smallest wins: who runs it already, then the older registration, then the older member.
    fn rank<'n>(&self, node: &'n UniqueAddress) -> (bool, u64, UpNumber, &'n UniqueAddress) {
        let number = self.accepted.unwrap_or(u64::MAX);
        (!self.running, number, self.age, node)
    }
}

/// What becomes of one node's claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) node: UniqueAddress,
    pub(super) kind: KindId,
    pub(super) verdict: Verdict,
    /// What of it differs from what stands, if it was refused for that.
    pub(super) differs: Option<KindDifference>,
}

/// Nodes that agree about a kind.
#[derive(Clone, Debug)]
struct Variant {
    fields: KindFields,
    by: BTreeMap<UniqueAddress, Claim>,
}

impl Variant {
    fn rank(&self) -> Option<(bool, u64, UpNumber, &UniqueAddress)> {
        self.by.iter().map(|(node, claim)| claim.rank(node)).min()
    }
}

/// All claims to kinds.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    kinds: BTreeMap<KindId, Vec<Variant>>,
    last_number: u64,
}

impl Claims {
    /// Notes a node's claim; `false` if there are too many different ones to keep it.
    pub(super) fn put(&mut self, node: &UniqueAddress, age: UpNumber, said: Announced) -> bool {
        let kind = said.fields.id();
        let earlier = self.accepted(node, &said.fields);
        self.withdraw(node, kind);
        self.last_number = self.last_number.max(said.accepted.unwrap_or(0));
        let claim = Claim {
            running: said.running,
            // The answer to an earlier announcement may have been lost.
            accepted: said.accepted.or(earlier),
            age,
        };
        let full = self.len() >= CLAIMS_MAX;
        let variants = self.kinds.entry(kind).or_default();
        let agreeing = |variant: &&mut Variant| variant.fields.agrees_with(&said.fields);
        if let Some(variant) = variants.iter_mut().find(agreeing) {
            // A proxy does not know what those who host agree on; the first of them says it.
            variant.fields.keeping = variant.fields.keeping.or(said.fields.keeping);
            variant.by.insert(node.clone(), claim);
        } else if !full {
            variants.push(Variant {
                fields: said.fields,
                by: BTreeMap::from([(node.clone(), claim)]),
            });
        }
        self.drop_empty(kind);
        let variants = self.kinds.get(&kind);
        variants.is_some_and(|variants| variants.iter().any(|variant| variant.by.contains_key(node)))
    }

    /// Forgets one claim of a node.
    pub(super) fn withdraw(&mut self, node: &UniqueAddress, kind: KindId) {
        if let Some(variants) = self.kinds.get_mut(&kind) {
            for variant in variants {
                variant.by.remove(node);
            }
        }
        self.drop_empty(kind);
    }

    /// Forgets a node, and says what it claimed.
    pub(super) fn forget(&mut self, node: &UniqueAddress) -> Vec<KindId> {
        let kinds = self.kinds_of(node);
        for kind in &kinds {
            self.withdraw(node, *kind);
        }
        kinds
    }

    /// What a node claims.
    pub(super) fn kinds_of(&self, node: &UniqueAddress) -> Vec<KindId> {
        let has = |variants: &Vec<Variant>| variants.iter().any(|variant| variant.by.contains_key(node));
        let kinds = self.kinds.iter().filter(|(_, variants)| has(variants));
        kinds.map(|(kind, _)| *kind).collect()
    }

    /// All kinds that somebody claims.
    pub(super) fn kinds(&self) -> Vec<KindId> {
        self.kinds.keys().copied().collect()
    }

    /// Decides about a kind: one variant stands, everybody who agrees with it is accepted, all others are refused and
    /// forgotten; they claim again. Linear in the kind's claims.
    pub(super) fn judge(&mut self, kind: KindId) -> Vec<Judged> {
        let Some(variants) = self.kinds.get_mut(&kind) else {
            return Vec::new();
        };
        let ranked = variants.iter().enumerate();
        let Some((best, _)) = ranked.min_by_key(|(_, variant)| variant.rank()) else {
            return Vec::new();
        };
        let mut stands = variants.swap_remove(best);
        let mut judged = Vec::new();
        for (node, claim) in &mut stands.by {
            let number = claim.accepted.unwrap_or(self.last_number + 1);
            self.last_number = self.last_number.max(number);
            claim.accepted = Some(number);
            // From now on it may host, whether it says so or not.
            claim.running = true;
            judged.push(Judged {
                node: node.clone(),
                kind,
                verdict: Verdict::Accepted { number },
                differs: None,
            });
        }
        for variant in variants.drain(..) {
            let differs = KindDifference::between(&variant.fields, &stands.fields);
            judged.extend(variant.by.into_keys().map(|node| Judged {
                node,
                kind,
                verdict: Verdict::Refused {
                    standing: stands.fields.clone(),
                },
                differs: differs.clone(),
            }));
        }
        variants.push(stands);
        judged
    }

    fn accepted(&self, node: &UniqueAddress, fields: &KindFields) -> Option<u64> {
        let variants = self.kinds.get(&fields.id())?;
        let variant = variants
            .iter()
            .find(|variant| variant.fields.agrees_with(fields))?;
        variant.by.get(node)?.accepted
    }

    fn len(&self) -> usize {
        self.kinds.values().map(Vec::len).sum()
    }

    fn drop_empty(&mut self, kind: KindId) {
        if let Some(variants) = self.kinds.get_mut(&kind) {
            variants.retain(|variant| !variant.by.is_empty());
            if variants.is_empty() {
                self.kinds.remove(&kind);
            }
        }
    }
}
