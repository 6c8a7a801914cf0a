//! The cases of membership §6 A to G and N that concern the pure state, written in the shorthand of that
//! section.

mod app_version;
mod convergence;
mod events;
mod gossip;
mod laws;
mod leader;
mod machine;
mod member;
mod reachability;
mod targets;
mod vector_clock;

use alloc::string::String;
use alloc::vec::Vec;

use crate::ident::{Address, Role, Roles, UniqueAddress};
use crate::membership::state::app_version::AppVersion;
use crate::membership::state::gossip::{Gossip, GossipParts};
use crate::membership::state::member::{Member, Status, UpNumber};
use crate::membership::state::member_set::MemberSet;
use crate::membership::state::reachability::{Reachability, ReachabilityStatus};
use crate::membership::state::vector_clock::VectorClock;
use crate::ordered::OrderedSet;

/// The incarnation `name` stands for: `a` is host a, port 7355, uid 1; `d#3` has uid 3.
pub(super) fn n(name: &str) -> UniqueAddress {
    let (host, uid) = name.split_once('#').unwrap_or((name, "1"));
    UniqueAddress::new(Address::new(host, 7355).unwrap(), uid.parse().unwrap())
}

/// `aJ` is a Joining and so on, as §6 says; data center `default`.
pub(super) fn m(code: &str) -> Member {
    in_dc(code, "default")
}

/// As [`m`], in another data center; up number 1 for whoever has been Up.
pub(super) fn in_dc(code: &str, dc: &str) -> Member {
    let letter = code.trim_end_matches(|c: char| c.is_ascii_uppercase());
    let status = match &code[letter.len()..] {
        "" => Status::Up,
        "J" => Status::Joining,
        "W" => Status::WeaklyUp,
        "L" => Status::Leaving,
        "X" => Status::Exiting,
        "D" => Status::Down,
        "P" => Status::PreparingForShutdown,
        "R" => Status::ReadyForShutdown,
        "Z" => Status::Removed,
        other => unreachable!("no status {other}"),
    };
    let up_number = if status >= Status::Up {
        UpNumber::FIRST
    } else {
        UpNumber::NONE
    };
    let roles = Roles::new([], dc).unwrap();
    Member {
        node: n(letter),
        status,
        up_number,
        roles,
        app_version: AppVersion::default(),
    }
}

/// A member with roles, separated by commas.
pub(super) fn with_roles(code: &str, roles: &str) -> Member {
    let roles = roles
        .split(',')
        .filter(|r| !r.is_empty())
        .map(|r| Role::new(r).unwrap());
    Member {
        roles: Roles::new(roles, "default").unwrap(),
        ..m(code)
    }
}

/// A member with an up number.
pub(super) fn aged(code: &str, number: u32) -> Member {
    Member {
        up_number: UpNumber::new(number),
        ..m(code)
    }
}

/// A state of these members that nobody has seen or changed.
pub(super) fn of(members: impl IntoIterator<Item = Member>) -> Gossip {
    let mut gossip = Gossip::new();
    for member in members {
        assert!(gossip.upsert_member(member));
    }
    gossip
}

/// A state of members written as in §6, separated by blanks.
pub(super) fn g(codes: &str) -> Gossip {
    of(codes.split_whitespace().map(m))
}

/// The state, seen by these.
pub(super) fn seen(mut gossip: Gossip, names: &str) -> Gossip {
    gossip.clear_seen();
    for name in names.split_whitespace() {
        assert!(gossip.add_seen(&n(name)), "{name} is no member");
    }
    gossip
}

/// The state with observations such as `b>a:U`.
pub(super) fn reach(mut gossip: Gossip, observations: &str) -> Gossip {
    observe(gossip.reachability_mut(), observations);
    gossip
}

/// Adds observations such as `b>a:U` to a table.
pub(super) fn observe(table: &mut Reachability, observations: &str) {
    for text in observations.split_whitespace() {
        let (pair, status) = text.split_once(':').unwrap();
        let (observer, subject) = pair.split_once('>').unwrap();
        let status = match status {
            "R" => ReachabilityStatus::Reachable,
            "U" => ReachabilityStatus::Unreachable,
            "T" => ReachabilityStatus::Terminated,
            other => unreachable!("no reachability {other}"),
        };
        table.change(&n(observer), &n(subject), status);
    }
}

/// A table of observations such as `b>a:U`, made in this order.
pub(super) fn table(observations: &str) -> Reachability {
    let mut table = Reachability::new();
    observe(&mut table, observations);
    table
}

/// A clock that counted these nodes up, in this order.
pub(super) fn clock(names: &str) -> VectorClock {
    let mut clock = VectorClock::new();
    for name in names.split_whitespace() {
        clock.increment(&n(name));
    }
    clock
}

/// The hosts of these nodes, separated by blanks; a uid other than 1 is shown.
pub(super) fn names<'a>(nodes: impl IntoIterator<Item = &'a UniqueAddress>) -> String {
    let show = |node: &UniqueAddress| match node.uid() {
        1 => String::from(node.address().host()),
        uid => alloc::format!("{}#{uid}", node.address().host()),
    };
    nodes.into_iter().map(show).collect::<Vec<_>>().join(" ")
}

/// Who said goodbye.
pub(super) fn confirmed(nodes: &str) -> OrderedSet<UniqueAddress> {
    nodes.split_whitespace().map(n).collect()
}

/// A state with everything given, as a decoder would make it.
pub(super) fn decoded(
    members: &str,
    seen: &[usize],
    observations: &str,
    ticks: &str,
    tombstones: &str,
) -> Result<Gossip, crate::membership::state::gossip::GossipError> {
    Gossip::from_parts(GossipParts {
        members: members.split_whitespace().map(m).collect(),
        reachability: table(observations),
        version: clock(ticks),
        seen: seen.iter().copied().collect::<MemberSet>(),
        tombstones: confirmed(tombstones),
        paths: alloc::sync::Arc::default(),
    })
}
