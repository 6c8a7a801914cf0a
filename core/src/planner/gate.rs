//! Whether anything may be moved now. Pure; the owner of what is moved asks before it plans. Spec: sharding
//! 1.7, 5.3.

use crate::membership::state::app_version::AppVersion;
use crate::membership::state::member::{Member, Status};
use crate::view::View;

/// How far the planner may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanningGate {
    /// Nothing is planned.
    Closed,
    /// Only what is necessary: leaving hosts, hosts that are gone, numbers of instances.
    Needed,
    /// Everything.
    Open,
}

/// A member of the data center as the gate sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its status.
    pub status: Status,
    /// Whether nobody misses it.
    pub is_reachable: bool,
}

/// Whether all hosts run one version of the application, and nobody of this data center is unreachable or
/// about to become a member.
#[must_use]
pub fn is_settled<'a>(
    versions: impl IntoIterator<Item = &'a AppVersion>,
    here: impl IntoIterator<Item = Neighbour>,
) -> bool {
    let mut versions = versions.into_iter();
    let first = versions.next();
    versions.all(|version| Some(version) == first)
        && here
            .into_iter()
            .all(|member| member.is_reachable && has_settled(member.status))
}

/// How far the planner may go in a picture: nowhere while somebody is unreachable, because what is moved then
/// may be moved twice, and on the way to the shutdown of the cluster.
pub(crate) fn gate_of(view: &View) -> PlanningGate {
    if !view.unreachable().is_empty() || view.is_shutting_down() {
        return PlanningGate::Closed;
    }
    let versions = view.members_in(Status::Up).map(|member| &member.app_version);
    if is_settled(versions, neighbours(view)) {
        PlanningGate::Open
    } else {
        PlanningGate::Needed
    }
}

/// The members of this node's data center, for [`is_settled`].
pub(crate) fn neighbours(view: &View) -> impl Iterator<Item = Neighbour> {
    let own = view.self_member().map(Member::data_center);
    let here = move |member: &&Member| own.is_none_or(|own| member.data_center() == own);
    view.members().iter().filter(here).map(|member| Neighbour {
        status: member.status,
        is_reachable: view.is_reachable(&member.node),
    })
}

/// Whether a member with this status is no newcomer.
const fn has_settled(status: Status) -> bool {
    match status {
        Status::Joining | Status::WeaklyUp => false,
        Status::Up
        | Status::PreparingForShutdown
        | Status::ReadyForShutdown
        | Status::Leaving
        | Status::Exiting
        | Status::Down
        | Status::Removed => true,
    }
}
