//! Which fields a kind, a singleton or a bucket stands with when nodes claim different ones. Pure: no time,
//! no sending, no picture of the cluster. Spec: sharding 10.11.

use alloc::vec::Vec;

use crate::ident::UniqueAddress;
use crate::membership::state::member::UpNumber;
use crate::ordered::OrderedMap;
use crate::sharding::protocol::registry::{
    Announcement, RegistrationFields, RegistrationId, RegistrationVerdict,
};
use crate::sharding::state::fields::FieldDifferences;

/// Registrations, different versions of one included, that the oldest member keeps: each at most half a
/// kilobyte.
pub(super) const CLAIMS_MAX: usize = 4_096;

/// The highest number of a registration that is believed. At its end all further kinds have the same, and of
/// two that differ the older member's stands.
const NUMBER_MAX: u64 = u64::MAX >> 16;

/// One node's claim.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RegistrationClaim {
    running: bool,
    /// Whether it says what those who host agree on.
    hosts: bool,
    accepted: Option<u64>,
    age: UpNumber,
}

impl RegistrationClaim {
    /// Of those of which none stands yet the smallest wins: who runs it already, then the older registration,
    /// then the older member.
    fn rank<'n>(&self, node: &'n UniqueAddress) -> (bool, u64, UpNumber, &'n UniqueAddress) {
        let number = self.accepted.unwrap_or(u64::MAX);
        (!self.running, number, self.age, node)
    }
}

/// What becomes of one node's claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JudgedClaim {
    pub(super) node: UniqueAddress,
    pub(super) id: RegistrationId,
    pub(super) verdict: RegistrationVerdict,
    /// What of it differs from what stands, if it was refused for that.
    pub(super) differs: Option<FieldDifferences>,
}

/// Nodes that agree about one.
#[derive(Clone, Debug)]
struct ClaimVariant {
    fields: RegistrationFields,
    by: OrderedMap<UniqueAddress, RegistrationClaim>,
    /// It was decided that these fields stand, and they do as long as anybody claims them: who comes later
    /// and says that he was accepted before, and runs it, was not heard when all members were.
    stands: bool,
}

impl ClaimVariant {
    fn rank(&self) -> (bool, Option<(bool, u64, UpNumber, &UniqueAddress)>) {
        let first = self.by.iter().map(|(node, claim)| claim.rank(node)).min();
        (!self.stands, first)
    }
}

/// All claims.
#[derive(Clone, Debug, Default)]
pub(super) struct RegistrationClaims {
    registered: OrderedMap<RegistrationId, Vec<ClaimVariant>>,
    last_number: u64,
}

impl RegistrationClaims {
    /// Notes a node's claim; `false` if there are too many different ones to keep it.
    pub(super) fn put(&mut self, node: &UniqueAddress, age: UpNumber, said: Announcement) -> bool {
        let id = said.fields.id();
        let earlier = self.accepted(node, &said.fields);
        self.withdraw(node, &id);
        let accepted = said.accepted.filter(|number| *number <= NUMBER_MAX);
        self.last_number = self.last_number.max(accepted.unwrap_or(0));
        let claim = RegistrationClaim {
            running: said.running,
            hosts: said.fields.hosts(),
            // The answer to an earlier announcement may have been lost.
            accepted: accepted.or(earlier),
            age,
        };
        let full = self.len() >= CLAIMS_MAX;
        let variants = self.registered.entry(id.clone()).or_default();
        let agreeing = |variant: &&mut ClaimVariant| variant.fields.differences(&said.fields).is_empty();
        if let Some(variant) = variants.iter_mut().find(agreeing) {
            // A proxy does not know what those who host agree on; the first of them says it.
            variant.fields.complete(&said.fields);
            variant.by.insert(node.clone(), claim);
        } else if !full {
            variants.push(ClaimVariant {
                fields: said.fields,
                by: OrderedMap::from([(node.clone(), claim)]),
                stands: false,
            });
        }
        self.drop_empty(&id);
        let variants = self.registered.get(&id);
        variants.is_some_and(|variants| variants.iter().any(|variant| variant.by.contains_key(node)))
    }

    /// Forgets one claim of a node.
    pub(super) fn withdraw(&mut self, node: &UniqueAddress, id: &RegistrationId) {
        if let Some(variants) = self.registered.get_mut(id) {
            for variant in variants {
                let was = variant.by.remove(node);
                let hosted = was.is_some_and(|claim| claim.hosts);
                if hosted && !variant.by.values().any(|claim| claim.hosts) {
                    // Proxies alone do not keep what those who host agreed on: the next ones may say
                    // something else.
                    variant.fields.forget_hosting();
                }
            }
        }
        self.drop_empty(id);
    }

    /// Forgets a node, and says what it claimed.
    pub(super) fn forget(&mut self, node: &UniqueAddress) -> Vec<RegistrationId> {
        let all = self.claimed_by(node);
        for id in &all {
            self.withdraw(node, id);
        }
        all
    }

    /// What a node claims.
    pub(super) fn claimed_by(&self, node: &UniqueAddress) -> Vec<RegistrationId> {
        let has = |variants: &Vec<ClaimVariant>| variants.iter().any(|variant| variant.by.contains_key(node));
        let claimed = self.registered.iter().filter(|(_, variants)| has(variants));
        claimed.map(|(id, _)| id.clone()).collect()
    }

    /// All that somebody claims.
    pub(super) fn all(&self) -> Vec<RegistrationId> {
        self.registered.keys().cloned().collect()
    }

    /// Decides about one: one variant stands, everybody who agrees with it is accepted, all others are
    /// refused and forgotten; they claim again. Linear in its claims.
    pub(super) fn judge(&mut self, id: &RegistrationId) -> Vec<JudgedClaim> {
        let Some(variants) = self.registered.get_mut(id) else {
            return Vec::new();
        };
        let ranked = variants.iter().enumerate();
        let Some((best, _)) = ranked.min_by_key(|(_, variant)| variant.rank()) else {
            return Vec::new();
        };
        let mut best = variants.swap_remove(best);
        best.stands = true;
        let mut judged = Vec::new();
        for (node, claim) in &mut best.by {
            let number = claim.accepted.unwrap_or((self.last_number + 1).min(NUMBER_MAX));
            self.last_number = self.last_number.max(number);
            claim.accepted = Some(number);
            // From now on it may host, whether it says so or not.
            claim.running = true;
            judged.push(JudgedClaim {
                node: node.clone(),
                id: id.clone(),
                verdict: RegistrationVerdict::Accepted { number },
                differs: None,
            });
        }
        for variant in variants.drain(..) {
            let differs = FieldDifferences::of(variant.fields.differences(&best.fields));
            judged.extend(variant.by.into_keys().map(|node| JudgedClaim {
                node,
                id: id.clone(),
                verdict: RegistrationVerdict::Refused {
                    standing: best.fields.clone(),
                },
                differs: differs.clone(),
            }));
        }
        variants.push(best);
        judged
    }

    fn accepted(&self, node: &UniqueAddress, fields: &RegistrationFields) -> Option<u64> {
        let variants = self.registered.get(&fields.id())?;
        let variant = variants
            .iter()
            .find(|variant| variant.fields.differences(fields).is_empty())?;
        variant.by.get(node)?.accepted
    }

    fn len(&self) -> usize {
        self.registered.values().map(Vec::len).sum()
    }

    fn drop_empty(&mut self, id: &RegistrationId) {
        if let Some(variants) = self.registered.get_mut(id) {
            variants.retain(|variant| !variant.by.is_empty());
            if variants.is_empty() {
                self.registered.remove(id);
            }
        }
    }
}
