//! I-15: a new incarnation of an address becomes Up only when the old one is Down or gone: removed, or
//! Exiting and known to have stopped. Two sides of a split may each have one, so it is asserted within the
//! safe shapes only.

use quorate_core::membership::gossip::Gossip;
use quorate_core::membership::member::{Member, Status};

pub(super) fn check(after: &Gossip) -> Result<(), String> {
    // Members are in order, so the incarnations of one address are neighbours.
    for pair in after.members().windows(2) {
        let same = pair[0].node.address() == pair[1].node.address();
        let is_in = |m: &Member| (Status::Up..Status::Down).contains(&m.status) && !after.is_gone(&m.node);
        if same && pair.iter().all(is_in) {
            return Err(format!("{} and {} are both in", pair[0].node, pair[1].node));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use quorate_core::ident::{Address, Roles, UniqueAddress};
    use quorate_core::membership::app_version::AppVersion;

    use super::*;

    fn incarnation(uid: u64) -> UniqueAddress {
        UniqueAddress::new(Address::new("a", 7355).expect("an address"), uid)
    }

    /// An old incarnation with this status, said to have stopped or not, beside a new one with that status.
    fn beside(old: Status, gone: bool, new: Status) -> Result<(), String> {
        let mut gossip = Gossip::new();
        for (uid, status) in [(1, old), (2, new)] {
            let roles = Roles::new([], "default").expect("roles");
            let mut member = Member::joining(incarnation(uid), roles, AppVersion::default());
            member.status = status;
            assert!(gossip.upsert_member(member));
        }
        assert!(!gone || gossip.mark_gone(&incarnation(1)));
        check(&gossip)
    }

    #[test]
    fn only_one_that_is_down_or_known_to_have_stopped_stands_beside_its_successor() {
        for new in [Status::Up, Status::Leaving, Status::Exiting] {
            for old in [Status::Up, Status::Leaving, Status::Exiting] {
                assert!(beside(old, false, new).is_err(), "{old:?} {new:?}");
            }
            assert_eq!(beside(Status::Down, false, new), Ok(()), "{new:?}");
            assert_eq!(beside(Status::Exiting, true, new), Ok(()), "{new:?}");
        }
        assert_eq!(beside(Status::Up, false, Status::WeaklyUp), Ok(()));
    }
}
