//! What a peer may ask of the cluster beside what the protocol lets it: to be taken in, to have a member leave or downed. Asks
//! the user's policy and writes the audit lines; enforces nothing about gossip, whose authors are members and believed.
//! Spec: reliability 3a (join policy, admin).

use std::fmt;
use std::sync::Arc;

use quorate_core::config::Limits;
use quorate_core::ident::{Roles, UniqueAddress};
use quorate_core::input::{Command, DownTarget, MembershipCommand};
use quorate_core::membership::app_version::AppVersion;
use quorate_core::message::{JoinRefused, MembershipMsg, Message};
use quorate_core::reject::JoinRefusal;
use quorate_core::time::Instant;
use quorate_core::wire::decode_message;
use quorate_links::Received;

use super::log::LogLimit;
use crate::authentication::proved_by;
use crate::transport::PeerCertificate;

/// A node that asks to be taken in.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Joiner<'a> {
    /// The incarnation. How much is proved of it is the security's: see `SECURITY.md`.
    pub node: &'a UniqueAddress,
    /// The roles it says it has.
    pub roles: &'a Roles,
    /// The version of the application that it says it runs.
    pub app_version: &'a AppVersion,
    /// What it has proved itself with, if links have certificates.
    pub certificate: Option<&'a PeerCertificate>,
}

/// A peer that asks for the end of somebody's membership.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Manager<'a> {
    /// The peer; the core refuses it unless it is a member.
    pub by: &'a UniqueAddress,
    /// Who has to go.
    pub whom: &'a UniqueAddress,
    /// At once, as if it had crashed; otherwise it leaves in good order.
    pub down: bool,
    /// What the peer has proved itself with, if links have certificates.
    pub certificate: Option<&'a PeerCertificate>,
}

type Admits = dyn Fn(&Joiner<'_>) -> Result<(), String> + Send + Sync;
type Allows = dyn Fn(&Manager<'_>) -> Result<(), String> + Send + Sync;

/// What the user wants to be asked about.
#[derive(Clone, Default)]
pub(crate) struct Policy {
    pub(crate) admits: Option<Arc<Admits>>,
    pub(crate) allows: Option<Arc<Allows>>,
}

/// What becomes of a frame.
#[derive(Debug)]
pub(crate) enum Judged {
    /// The node's to decide.
    Pass,
    /// Dropped; the answer, if there is one.
    Refused(Option<Message>),
}

impl Policy {
    /// Looks at the few frames that need a permission.
    pub(crate) fn judge(
        &self,
        frame: &Received<'_>,
        limits: &Limits,
        log: (&mut LogLimit, Instant),
    ) -> Judged {
        let asks = [MembershipMsg::JOIN, MembershipMsg::LEAVE, MembershipMsg::DOWN];
        if asks.iter().all(|tag| tag.kind != frame.kind) {
            return Judged::Pass;
        }
        // What cannot be read is refused by the node, which counts it.
        let Ok(message) = decode_message(frame.kind, frame.lane, frame.body, limits) else {
            return Judged::Pass;
        };
        let (by, certificate) = (frame.from, proved_by(frame.identity).certificate());
        let ask = |whom, down| Manager {
            by,
            whom,
            down,
            certificate,
        };
        let (what, whom, answer) = match &message {
            Message::Membership(MembershipMsg::Join(join)) => {
                let joiner = Joiner {
                    node: by,
                    roles: &join.roles,
                    app_version: &join.app_version,
                    certificate,
                };
                let answer = self.admit(&joiner);
                ("join", by, answer)
            }
            Message::Membership(MembershipMsg::Leave(node)) => {
                ("leave", node, self.allowed(&ask(node, false)))
            }
            Message::Membership(MembershipMsg::Down(node)) => ("down", node, self.allowed(&ask(node, true))),
            _ => return Judged::Pass,
        };
        let (log, now) = log;
        if let Some(left_out) = log.take_line(now) {
            audit(what, &format_args!("peer {by}"), whom, &answer, left_out);
        }
        match (answer, message) {
            (Ok(()), _) => Judged::Pass,
            (Err(_), Message::Membership(MembershipMsg::Join(_))) => Judged::Refused(Some(
                Message::Membership(MembershipMsg::JoinRefused(JoinRefused {
                    to: by.clone(),
                    reason: JoinRefusal::NotAdmitted,
                })),
            )),
            (Err(_), _) => Judged::Refused(None),
        }
    }

    /// Whether a node may join, or stay.
    pub(crate) fn admit(&self, joiner: &Joiner<'_>) -> Result<(), String> {
        self.admits.as_ref().map_or(Ok(()), |admits| admits(joiner))
    }

    fn allowed(&self, manager: &Manager<'_>) -> Result<(), String> {
        self.allows.as_ref().map_or(Ok(()), |allows| allows(manager))
    }
}

/// Writes down what this node's own program asked for.
pub(crate) fn own_command(me: &UniqueAddress, command: &Command) {
    let (what, whom): (_, &dyn fmt::Display) = match command {
        Command::Membership(MembershipCommand::Leave) => ("leave", me),
        Command::Membership(MembershipCommand::LeaveMember(address)) => ("leave", address),
        Command::Membership(MembershipCommand::Down(target)) => ("down", named(target)),
        Command::Membership(MembershipCommand::Remove(target)) => ("remove", named(target)),
        Command::Membership(MembershipCommand::PrepareForShutdown) => ("prepare_for_shutdown", me),
        _ => return,
    };
    audit(what, &"this program", whom, &Ok(()), 0);
}

fn named(target: &DownTarget) -> &dyn fmt::Display {
    match target {
        DownTarget::Address(address) => address,
        DownTarget::Node(node) => node,
    }
}

/// The one line that stands for a request to change who is a member. `event = "audit"` does not change.
fn audit(
    what: &str,
    by: &dyn fmt::Display,
    whom: &dyn fmt::Display,
    answer: &Result<(), String>,
    left_out: u64,
) {
    match answer {
        Ok(()) => tracing::info!(
            target: "cluster::audit", event = "audit", what, %by, %whom, allowed = true, left_out
        ),
        Err(reason) => tracing::warn!(
            target: "cluster::audit", event = "audit", what, %by, %whom, allowed = false, reason = %reason.escape_debug(),
            left_out
        ),
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("admits", &self.admits.is_some())
            .field("allows", &self.allows.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pump::tests::{Bench, accepted_control, frame, me, peer};
    use quorate_core::message::Join;

    fn bench(policy: Policy) -> Bench {
        let mut bench = Bench::of(me(), crate::security::Authentication::None);
        bench.pump.policy = policy;
        bench
    }

    fn join() -> Message {
        Message::Membership(MembershipMsg::Join(Join {
            to: me(),
            roles: Roles::default(),
            app_version: AppVersion::default(),
        }))
    }

    #[test]
    fn a_joiner_that_is_not_admitted_never_reaches_the_node_and_is_told() {
        let refuse = |joiner: &Joiner<'_>| {
            assert_eq!(joiner.node, &peer());
            Err("not\ntoday".to_owned())
        };
        let mut bench = bench(Policy {
            admits: Some(Arc::new(refuse)),
            ..Policy::default()
        });
        let link = accepted_control(&mut bench);
        bench.receive(link, &frame(&join(), 1));
        assert!(bench.heard().is_empty());
        assert_eq!(bench.pump.stats().links.requests_refused_by_policy, 1);
        bench.dial();
    }

    #[test]
    fn b_57_who_may_not_end_a_membership_is_dropped_and_others_pass() {
        let only_leave = |manager: &Manager<'_>| match manager.down {
            true => Err("nobody downs".to_owned()),
            false => Ok(()),
        };
        let mut bench = bench(Policy {
            allows: Some(Arc::new(only_leave)),
            ..Policy::default()
        });
        let link = accepted_control(&mut bench);
        bench.receive(link, &frame(&Message::Membership(MembershipMsg::Down(me())), 1));
        assert!(bench.heard().is_empty());
        bench.receive(link, &frame(&Message::Membership(MembershipMsg::Leave(me())), 1));
        bench.receive(link, &frame(&join(), 1));
        assert_eq!(bench.heard().len(), 2);
        assert_eq!(bench.pump.stats().links.requests_refused_by_policy, 1);
    }
}
