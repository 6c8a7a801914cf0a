//! Why the cluster has not converged: who keeps the leader from acting, who observes whom unreachable, what
//! each member on its way in or out waits for, in words an operator can act on. Reads one node's picture;
//! changes nothing, decides nothing. Spec: membership 2.4, 2.8, 2.9; the questions are those of 7.1 (U-03,
//! U-04).

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::config::MembershipConfig;
use crate::event::DowningReport;
use crate::ident::{Role, UniqueAddress};
use crate::membership::state::convergence::{self, Blocker};
use crate::membership::state::leader;
use crate::membership::state::member::{Member, Status};
use crate::membership::state::reachability::ReachabilityStatus;
use crate::ordered::OrderedSet;
use crate::view::{MembershipPhase, View};

/// Why the cluster has not converged, as one node sees it. Shown as one line per finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Whose picture it is.
    pub node: UniqueAddress,
    /// The findings, the most general first; never empty.
    pub findings: Vec<Finding>,
}

/// One thing that an operator may want to know.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Finding {
    /// This node is in no cluster.
    NotAMember {
        /// Where it is on its way.
        phase: MembershipPhase,
    },
    /// Who leads, and whether that is this node.
    Leader {
        /// The leader; nobody if no member qualifies.
        leader: Option<UniqueAddress>,
        /// Whether it is this node.
        is_me: bool,
    },
    /// Everybody who counts has seen this state: the leader can act.
    Converged {
        /// How many members there are.
        members: usize,
    },
    /// The leader cannot act, because this member is not known to have seen the state.
    NotSeen {
        /// The member.
        node: UniqueAddress,
        /// Its status.
        status: Status,
    },
    /// A member is observed as unreachable.
    Unreachable {
        /// The member.
        node: UniqueAddress,
        /// Its status.
        status: Status,
        /// Who says so.
        by: Vec<UniqueAddress>,
        /// Whether that keeps the leader from acting.
        blocks: bool,
    },
    /// Fewer members are present than must be before any becomes Up.
    TooFewMembers {
        /// The role that is counted; all members if `None`.
        role: Option<Role>,
        /// How many there are.
        present: usize,
        /// How many there must be.
        wanted: usize,
    },
    /// The whole cluster prepares to shut down: nobody joins or becomes Up.
    ShuttingDown,
    /// A member on its way in or out, and what it waits for.
    Waits {
        /// The member.
        node: UniqueAddress,
        /// Its status.
        status: Status,
        /// What it waits for.
        waits_for: WaitsFor,
    },
    /// What the split-brain resolver would decide now, and what it waits for.
    Downing(DowningReport),
    /// Members are unreachable and nobody will down them: there is no strategy.
    NoDowningStrategy,
    /// The downing strategy lets both sides of a partition go on: each would run these kinds' entities, and
    /// an instance of these singletons.
    MayRunTwice {
        /// The strategy.
        strategy: &'static str,
        /// Names of the kinds, of which this node knows.
        kinds: Vec<Arc<str>>,
        /// Names of the singletons, of which this node knows.
        singletons: Vec<Arc<str>>,
    },
    /// A slot of a path moves to or from this node, or ends here: what it waits for.
    PathSlot(String),
}

/// What a member on its way in or out waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// The next tick of the leader.
    LeaderTick,
    /// Convergence: see what keeps the leader from acting.
    Convergence,
    /// More members.
    MoreMembers,
    /// Nothing: the cluster shuts down, and it stays as it is.
    Shutdown,
    /// Its own work to be handed over, and its good-bye.
    HandOver,
    /// Somebody to observe it unreachable, as the proof that it has stopped.
    ProofOfStop,
}

/// Works out the explanation.
pub(crate) fn explain(
    view: &View,
    exiting_confirmed: &OrderedSet<UniqueAddress>,
    config: &MembershipConfig,
    has_strategy: bool,
    downing: Option<DowningReport>,
) -> Explanation {
    let me = view.me();
    let mut findings = Vec::new();
    if view.phase() != MembershipPhase::Member {
        findings.push(Finding::NotAMember { phase: view.phase() });
        return Explanation {
            node: me.clone(),
            findings,
        };
    }
    let gossip = view.gossip();
    let leader = leader::leader(gossip, me);
    let is_me = leader.as_ref() == Some(me);
    findings.push(Finding::Leader { leader, is_me });
    let blockers = convergence::blockers(gossip, me, exiting_confirmed);
    if blockers.is_empty() {
        let members = view.members().len();
        findings.push(Finding::Converged { members });
    }
    for (node, blocker) in &blockers {
        if let (Blocker::NotSeen, Some(member)) = (blocker, view.member(node)) {
            findings.push(Finding::NotSeen {
                node: node.clone(),
                status: member.status,
            });
        }
    }
    unreachable(view, &blockers, &mut findings);
    let too_few = too_few(view, config);
    let may_rise = too_few.is_empty();
    findings.extend(too_few);
    let shutting_down = view.members().iter().any(|m| m.status.is_preparing());
    if shutting_down {
        findings.push(Finding::ShuttingDown);
    }
    let state = LeaderOutlook {
        converged: blockers.is_empty(),
        may_rise,
        shutting_down,
    };
    findings.extend(
        view.members()
            .iter()
            .filter_map(|m| waits(view, exiting_confirmed, m, &state)),
    );
    match downing {
        Some(event) => findings.push(Finding::Downing(event)),
        None if !has_strategy && !view.unreachable().is_empty() => findings.push(Finding::NoDowningStrategy),
        None => {}
    }
    Explanation {
        node: me.clone(),
        findings,
    }
}

/// What both sides of a partition would run, if there is anything.
pub(crate) fn may_run_twice<'k>(
    kinds: impl Iterator<Item = (&'static str, &'k Arc<str>)>,
    singletons: impl Iterator<Item = (&'static str, &'k Arc<str>)>,
) -> Option<Finding> {
    let (mut kinds, mut singletons) = (kinds.peekable(), singletons.peekable());
    let (strategy, _) = *kinds.peek().or_else(|| singletons.peek())?;
    Some(Finding::MayRunTwice {
        strategy,
        kinds: kinds.map(|(_, name)| Arc::clone(name)).collect(),
        singletons: singletons.map(|(_, name)| Arc::clone(name)).collect(),
    })
}

struct LeaderOutlook {
    converged: bool,
    may_rise: bool,
    shutting_down: bool,
}

fn unreachable(view: &View, blockers: &[(UniqueAddress, Blocker)], findings: &mut Vec<Finding>) {
    for node in view.unreachable() {
        let Some(member) = view.member(node) else { continue };
        let rows = view.gossip().reachability().records().iter();
        let by = rows
            .filter(|row| row.subject == *node && row.status != ReachabilityStatus::Reachable)
            .map(|row| row.observer.clone())
            .collect();
        findings.push(Finding::Unreachable {
            node: node.clone(),
            status: member.status,
            by,
            blocks: blockers.contains(&(node.clone(), Blocker::Unreachable)),
        });
    }
}

fn too_few(view: &View, config: &MembershipConfig) -> Vec<Finding> {
    let rising = |m: &Member| matches!(m.status, Status::Joining | Status::WeaklyUp);
    if !view.members().iter().any(rising) {
        return Vec::new();
    }
    let present = view.members().len();
    let wanted = config.min_nr_of_members;
    let mut found = Vec::new();
    if present < wanted {
        let role = None;
        found.push(Finding::TooFewMembers {
            role,
            present,
            wanted,
        });
    }
    for (role, wanted) in &config.min_nr_of_members_per_role {
        let present = view.members().iter().filter(|m| m.roles.contains(role)).count();
        if present < *wanted {
            found.push(Finding::TooFewMembers {
                role: Some(role.clone()),
                present,
                wanted: *wanted,
            });
        }
    }
    found
}

fn waits(
    view: &View,
    exiting_confirmed: &OrderedSet<UniqueAddress>,
    member: &Member,
    state: &LeaderOutlook,
) -> Option<Finding> {
    let leader_acts = if state.converged {
        WaitsFor::LeaderTick
    } else {
        WaitsFor::Convergence
    };
    let gone = !view.is_reachable(&member.node) || exiting_confirmed.contains(&member.node);
    let waits_for = match member.status {
        Status::Joining | Status::WeaklyUp if state.shutting_down => WaitsFor::Shutdown,
        Status::Joining | Status::WeaklyUp if !state.may_rise => WaitsFor::MoreMembers,
        Status::Joining | Status::WeaklyUp | Status::Leaving | Status::PreparingForShutdown => leader_acts,
        Status::Exiting if !gone => WaitsFor::HandOver,
        Status::Down if !gone => WaitsFor::ProofOfStop,
        Status::Exiting | Status::Down => leader_acts,
        Status::Up | Status::ReadyForShutdown | Status::Removed => return None,
    };
    Some(Finding::Waits {
        node: member.node.clone(),
        status: member.status,
        waits_for,
    })
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} says:", self.node)?;
        for finding in &self.findings {
            write!(f, "\n- {finding}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAMember { phase } => f.write_str(match phase {
                MembershipPhase::Idle => "This node has not been asked to join a cluster.",
                MembershipPhase::Joining => "This node is joining: no seed has answered, or no Welcome has come. Are the seeds up and reachable, in a cluster of this name and with the same security?",
                MembershipPhase::Halted => "This node has ended and is in no cluster; start a new one to join again.",
                MembershipPhase::Member => "This node is a member.",
            }),
            Self::Leader { leader: None, .. } => f.write_str("There is no leader: no member is both reachable and not Down."),
            Self::Leader { is_me: true, .. } => f.write_str("This node is the leader."),
            Self::Leader {
                leader: Some(leader), ..
            } => write!(f, "The leader is {leader}."),
            Self::Converged { members } => {
                write!(f, "All {members} members that count have seen this state: the leader can act.")
            }
            Self::NotSeen { node, status } => {
                write!(f, "The leader cannot act: {node} ({status}) is not known to have seen this state.")
            }
            Self::Unreachable {
                node,
                status,
                by,
                blocks,
            } => {
                let by: Vec<_> = by.iter().map(alloc::string::ToString::to_string).collect();
                write!(f, "{node} ({status}) is unreachable for {}.", by.join(", "))?;
                if *blocks {
                    f.write_str(" The leader cannot act until it answers again or is down.")?;
                }
                Ok(())
            }
            Self::TooFewMembers { role, present, wanted } => {
                let of = role.as_ref().map_or("members", |role| role.as_str());
                write!(f, "No member becomes Up: {present} of {wanted} {of} are present.")
            }
            Self::ShuttingDown => f.write_str("The cluster is preparing to shut down: no member joins or becomes Up."),
            Self::Waits {
                node,
                status,
                waits_for,
            } => write!(f, "{node} is {status} and waits for {waits_for}."),
            Self::Downing(event) => write!(f, "{event}"),
            Self::PathSlot(waits) => write!(f, "{waits}."),
            Self::NoDowningStrategy => {
                f.write_str("No downing strategy is set; an operator has to down what does not come back.")
            }
            Self::MayRunTwice {
                strategy,
                kinds,
                singletons,
            } => {
                write!(f, "Under {strategy} both sides of a partition go on: each would run ")?;
                if !kinds.is_empty() {
                    write!(f, "the entities of {}", kinds.join(", "))?;
                }
                if !kinds.is_empty() && !singletons.is_empty() {
                    f.write_str(", and ")?;
                }
                if !singletons.is_empty() {
                    write!(f, "an instance of {}", singletons.join(", "))?;
                }
                f.write_str(".")
            }
        }
    }
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LeaderTick => "the leader's next tick",
            Self::Convergence => "the leader to be able to act",
            Self::MoreMembers => "more members",
            Self::Shutdown => "nothing: the cluster shuts down",
            Self::HandOver => "its work to be handed over, or for it to become unreachable",
            Self::ProofOfStop => "proof that it stopped: another member has to observe it as unreachable",
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::config::Config;
    use crate::fixture::{member, node, picture};
    use crate::ident::ClusterName;

    fn said(view: &View, change: impl FnOnce(&mut MembershipConfig)) -> String {
        let mut config = Config::lan(ClusterName::new("test").unwrap()).membership;
        change(&mut config);
        explain(view, &OrderedSet::new(), &config, false, None).to_string()
    }

    fn view(statuses: &[(&str, Status)], rows: &[(&str, &str)]) -> View {
        let numbered = || statuses.iter().zip(1_u64..);
        let find = |host: &str| {
            numbered()
                .find(|(entry, _)| entry.0 == host)
                .map(|(_, uid)| node(host, uid))
                .unwrap()
        };
        let members = numbered().map(|((host, status), uid)| member(&node(host, uid), *status));
        let rows: Vec<_> = rows.iter().map(|(by, of)| (find(by), find(of))).collect();
        let rows: Vec<_> = rows.iter().map(|(by, of)| (by, of)).collect();
        picture(&node("a", 1), members, &rows)
    }

    #[test]
    fn a_node_outside_of_a_cluster_says_where_it_is() {
        let idle = View::idle(node("a", 1));
        assert!(said(&idle, |_| ()).ends_with("This node has not been asked to join a cluster."));
    }

    #[test]
    fn u_03_who_has_not_seen_the_state_is_named() {
        let members = [("a", Status::Up), ("b", Status::Up), ("c", Status::Joining)];
        let text = said(&view(&members, &[]), |_| ());
        assert!(text.contains("- This node is the leader.\n- The leader cannot act: b:7355#0000000000000002 (Up) is not known to have seen"), "{text}");
        assert!(
            text.contains("- c:7355#0000000000000003 is Joining and waits for the leader to be able to act."),
            "{text}"
        );
    }

    #[test]
    fn a_converged_state_says_so_and_members_wait_for_the_next_tick() {
        let text = said(&view(&[("a", Status::Up), ("b", Status::Joining)], &[]), |_| ());
        assert!(
            text.contains("All 2 members that count have seen this state"),
            "{text}"
        );
        assert!(
            text.contains("b:7355#0000000000000002 is Joining and waits for the leader's next tick."),
            "{text}"
        );
    }

    #[test]
    fn u_02_who_observes_whom_is_named_and_whether_it_blocks() {
        let members = [
            ("a", Status::Up),
            ("b", Status::Up),
            ("c", Status::Exiting),
            ("d", Status::Down),
        ];
        let text = said(&view(&members, &[("a", "b"), ("a", "c")]), |_| ());
        assert!(text.contains("b:7355#0000000000000002 (Up) is unreachable for a:7355#0000000000000001. The leader cannot act until it answers again or is down."), "{text}");
        assert!(
            text.contains("c:7355#0000000000000003 (Exiting) is unreachable for a:7355#0000000000000001.\n"),
            "{text}"
        );
        assert!(
            text.contains("d:7355#0000000000000004 is Down and waits for proof that it stopped"),
            "{text}"
        );
        assert!(
            text.ends_with("No downing strategy is set; an operator has to down what does not come back."),
            "{text}"
        );
    }

    #[test]
    fn u_04_too_few_members_are_counted_in_all_and_by_role() {
        let members = [("a", Status::Joining), ("b", Status::Joining)];
        let text = said(&view(&members, &[]), |config| {
            config.min_nr_of_members = 3;
            config
                .min_nr_of_members_per_role
                .insert(Role::new("backend").unwrap(), 1);
        });
        assert!(
            text.contains("No member becomes Up: 2 of 3 members are present."),
            "{text}"
        );
        assert!(
            text.contains("No member becomes Up: 0 of 1 backend are present."),
            "{text}"
        );
        assert!(
            text.contains("b:7355#0000000000000002 is Joining and waits for more members."),
            "{text}"
        );
    }

    #[test]
    fn a_cluster_that_shuts_down_says_so() {
        let members = [
            ("a", Status::ReadyForShutdown),
            ("b", Status::Joining),
            ("c", Status::Exiting),
        ];
        let text = said(&view(&members, &[]), |_| ());
        assert!(text.contains("The cluster is preparing to shut down"), "{text}");
        assert!(
            text.contains(
                "b:7355#0000000000000002 is Joining and waits for nothing: the cluster shuts down."
            ),
            "{text}"
        );
        assert!(
            text.contains("c:7355#0000000000000003 is Exiting and waits for its work to be handed over"),
            "{text}"
        );
    }
}
