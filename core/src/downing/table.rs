//! The members and splits of Akka's scenarios, for tests of strategies. Compiled for tests only.
//! Spec: membership 6 M.

use alloc::string::String;
use alloc::vec::Vec;

use crate::downing::state::strategy::{Strategy, judge};
use crate::downing::state::view::{DowningView, Observation};
use crate::ident::{Address, Role, Roles, UniqueAddress};
use crate::membership::state::app_version::AppVersion;
use crate::membership::state::member::{Member, Status, UpNumber};

pub(crate) fn node(name: char) -> UniqueAddress {
    UniqueAddress::new(
        Address::new(&std::format!("{name}"), 7355).unwrap(),
        u64::from(name as u32),
    )
}

/// The member `A` to `G` of the table; a suffix is a status: `Aj` Joining, `Aw` WeaklyUp, `Al` Leaving, `Ax`
/// Exiting, `Ad` Down.
pub(crate) fn member(text: &str) -> Member {
    let name = text.chars().next().unwrap();
    let roles: &[&str] = match name {
        'A' => &["role3"],
        'B' => &["role1", "role3"],
        'C' => &["role2"],
        'D' => &["role1", "role2", "role3"],
        _ => &[],
    };
    let up_number = match name {
        'A' | 'F' => 5,
        'B' => 4,
        'C' => 3,
        'D' => 2,
        'E' => 1,
        _ => 6,
    };
    let status = match &text[1..] {
        "" => Status::Up,
        "j" => Status::Joining,
        "w" => Status::WeaklyUp,
        "l" => Status::Leaving,
        "x" => Status::Exiting,
        "d" => Status::Down,
        other => panic!("no status {other}"),
    };
    let roles = Roles::new(roles.iter().map(|role| Role::new(role).unwrap()), "default").unwrap();
    let mut member = Member::joining(node(name), roles, AppVersion::default());
    member.status = status;
    if !matches!(status, Status::Joining | Status::WeaklyUp) {
        member.up_number = UpNumber::new(up_number);
    }
    member
}

pub(crate) fn members(text: &str) -> Vec<Member> {
    text.split_whitespace().map(member).collect()
}

/// A clean split seen from `here`: its lowest node observed everybody else.
pub(crate) fn split(here: &str, there: &str) -> DowningView {
    let (near, far) = (members(here), members(there));
    let observer = near.iter().map(|member| member.node.clone()).min().unwrap();
    let rows: Vec<Observation> = far
        .iter()
        .map(|member| Observation {
            observer: observer.clone(),
            subject: member.node.clone(),
        })
        .collect();
    let unreachable: Vec<UniqueAddress> = far.iter().map(|member| member.node.clone()).collect();
    let seen: Vec<UniqueAddress> = near.iter().map(|member| member.node.clone()).collect();
    DowningView::new(near.into_iter().chain(far), unreachable, rows, seen)
}

/// One side of members all connected but for the complaints `rows`, each `observer subject`; `seen` are
/// alive.
pub(crate) fn connected(all: &str, rows: &[&str], seen: &str) -> DowningView {
    let rows: Vec<Observation> = rows
        .iter()
        .map(|row| {
            let mut ends = row.chars().map(node);
            Observation {
                observer: ends.next().unwrap(),
                subject: ends.next().unwrap(),
            }
        })
        .collect();
    let unreachable: Vec<UniqueAddress> = rows.iter().map(|row| row.subject.clone()).collect();
    DowningView::new(members(all), unreachable, rows, seen.chars().map(node))
}

/// The names of those whom `strategy` downs where `view` was taken.
pub(crate) fn downed_in(strategy: &dyn Strategy, view: &DowningView) -> String {
    let verdict = judge(strategy, view, None);
    verdict.down.iter().map(|node| node.address().host()).collect()
}

/// The names of those whom the part `here` of a clean split downs.
pub(crate) fn downed_by(strategy: &dyn Strategy, here: &str, there: &str) -> String {
    downed_in(strategy, &split(here, there))
}

/// A role, none for an empty name.
pub(crate) fn role(name: &str) -> Option<Role> {
    (!name.is_empty()).then(|| Role::new(name).unwrap())
}
