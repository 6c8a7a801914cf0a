//! The user's functions about what a peer may ask of the cluster as the core's policy, and the audit lines.
//! The node asks the policy and does what it says: nothing here sees a message, and gossip is nobody's
//! request. Spec: reliability 3a (join policy, admin).

use std::fmt;
use std::sync::Arc;

use quorate_core::admission::{AdmissionPolicy, Denied, PeerAsk, PeerProof, PeerRequest};
use quorate_core::event::Audit;
use quorate_core::ident::{Roles, UniqueAddress};
use quorate_core::input::{Command, DownTarget, KvCommand, MembershipCommand, PathCommand};
use quorate_core::membership::app_version::AppVersion;
use quorate_core::time::Instant;

use crate::log_limit::LogLimit;
use crate::proved::PeerCertificate;

/// A node that asks to join.
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

/// A peer that asks to make a member leave or to down it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Manager<'a> {
    /// The peer; the core refuses it unless it is a member.
    pub by: &'a UniqueAddress,
    /// The member it is about.
    pub whom: &'a UniqueAddress,
    /// At once, as if it had crashed; otherwise it leaves in good order.
    pub down: bool,
    /// What the peer has proved itself with, if links have certificates.
    pub certificate: Option<&'a PeerCertificate>,
}

type Admits = dyn Fn(&Joiner<'_>) -> Result<(), String> + Send + Sync;
type Allows = dyn Fn(&Manager<'_>) -> Result<(), String> + Send + Sync;

/// What the user wants to be asked about. The node asks it; nothing here sees a message.
#[derive(Clone, Default)]
pub(crate) struct Policy {
    pub(crate) admits: Option<Arc<Admits>>,
    pub(crate) allows: Option<Arc<Allows>>,
}

impl Policy {
    pub(crate) const fn asks_anything(&self) -> bool {
        self.admits.is_some() || self.allows.is_some()
    }
}

impl AdmissionPolicy for Policy {
    fn allows(&self, request: &PeerRequest<'_>) -> Result<(), Denied> {
        let by = request.by;
        let proved = match request.proof {
            PeerProof::Certificate { der, intermediates } => {
                let others = intermediates.iter().map(Vec::as_slice);
                Some(PeerCertificate::with_intermediates(der, others))
            }
            PeerProof::Nothing | PeerProof::Key { .. } => None,
        };
        let certificate = proved.as_ref();
        let manages = |whom, down| {
            let manager = Manager {
                by,
                whom,
                down,
                certificate,
            };
            self.allows.as_ref().map_or(Ok(()), |allows| allows(&manager))
        };
        let answer = match request.ask {
            PeerAsk::Join { roles, app_version } => self.admits.as_ref().map_or(Ok(()), |admits| {
                admits(&Joiner {
                    node: by,
                    roles,
                    app_version,
                    certificate,
                })
            }),
            PeerAsk::Leave(whom) => manages(whom, false),
            PeerAsk::Down(whom) => manages(whom, true),
            // What a later version lets peers ask is nothing that these functions were written for.
            _ => Err("the policy does not know what is asked".to_owned()),
        };
        answer.map_err(Denied)
    }
}

/// Writes down what a peer asked for, and what became of it.
pub(crate) fn audited(asked: &Audit, log: &mut LogLimit, now: Instant) {
    if let Some(left_out) = log.take_line(now) {
        let answer = asked.refused.clone().map_or(Ok(()), Err);
        audit(
            asked.what,
            &format_args!("peer {}", asked.by),
            &asked.whom,
            &answer,
            left_out,
        );
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
        Command::Membership(
            MembershipCommand::Join(_)
            | MembershipCommand::JoinSeeds(_)
            | MembershipCommand::PaceExit
            | MembershipCommand::HandOver(_),
        )
        | Command::Message(_)
        | Command::Sharding(_)
        | Command::Singleton(_)
        | Command::Ddata(_)
        | Command::Journal(_)
        | Command::Kv(
            KvCommand::Open { .. }
            | KvCommand::Call { .. }
            | KvCommand::List { .. }
            | KvCommand::Watch { .. }
            | KvCommand::Unwatch { .. },
        ) => return,
        Command::Path(command) => return own_path_command(command),
        Command::Kv(KvCommand::Ranges { bucket, .. }) => ("change_ranges", bucket),
    };
    audit(what, &"this program", whom, &Ok(()), 0);
}

/// The same of a path: what changes it for the whole cluster.
fn own_path_command(command: &PathCommand) {
    let (what, whom): (_, &dyn fmt::Display) = match command {
        PathCommand::Register { .. } => return,
        PathCommand::Change(settings) => ("change_path", &settings.name),
        PathCommand::Remove(path) => ("remove_path", path),
        PathCommand::Move { path, .. } => ("move_path_slot", path),
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
    use crate::pump::action::LoopAction;
    use crate::pump::tests::{Bench, accepted_control, frame, heartbeat, me, peer};
    use quorate_core::effect::Effect;
    use quorate_core::event::{Event, MembershipEvent};

    fn refused(policy: &Policy, proof: PeerProof<'_>, ask: PeerAsk<'_>) -> Option<String> {
        let answer = policy.allows(&PeerRequest::new(&peer(), proof, ask));
        answer.err().map(|denied| denied.0)
    }

    fn joins(policy: &Policy, proof: PeerProof<'_>) -> Option<String> {
        let (roles, app_version) = (&Roles::default(), &AppVersion::default());
        refused(policy, proof, PeerAsk::Join { roles, app_version })
    }

    #[test]
    fn a_join_policy_is_asked_with_what_the_link_has_proved() {
        let by_certificate = |joiner: &Joiner<'_>| {
            assert_eq!(joiner.node, &peer());
            let certificate = joiner.certificate.ok_or("no certificate")?;
            match certificate.der() {
                b"good" => Ok(()),
                _ => Err("not this one".to_owned()),
            }
        };
        let policy = Policy {
            admits: Some(Arc::new(by_certificate)),
            ..Policy::default()
        };
        let of = |der| PeerProof::Certificate {
            der,
            intermediates: &[],
        };
        assert_eq!(joins(&policy, of(b"good")), None);
        assert_eq!(joins(&policy, of(b"bad")).as_deref(), Some("not this one"));
        assert_eq!(
            joins(&policy, PeerProof::Nothing).as_deref(),
            Some("no certificate")
        );
        let key = PeerProof::Key { name: &[1; 32] };
        assert_eq!(joins(&policy, key).as_deref(), Some("no certificate"));
        assert_eq!(refused(&policy, PeerProof::Nothing, PeerAsk::Down(&me())), None);
    }

    #[test]
    fn b_57_a_management_policy_tells_leaving_from_downing_and_hears_of_nothing_else() {
        let only_leave = |manager: &Manager<'_>| {
            assert_eq!((manager.by, manager.whom), (&peer(), &me()));
            match manager.down {
                true => Err("nobody downs".to_owned()),
                false => Ok(()),
            }
        };
        let policy = Policy {
            allows: Some(Arc::new(only_leave)),
            ..Policy::default()
        };
        let nothing = PeerProof::Nothing;
        assert_eq!(
            refused(&policy, nothing, PeerAsk::Down(&me())).as_deref(),
            Some("nobody downs")
        );
        assert_eq!(refused(&policy, nothing, PeerAsk::Leave(&me())), None);
        assert_eq!(joins(&policy, nothing), None);
    }

    #[test]
    fn a_request_reaches_the_node_as_it_came_and_what_became_of_it_is_not_an_event() {
        let mut bench = Bench::of(me(), crate::security::Authentication::None);
        let link = accepted_control(&mut bench);
        bench.heard();
        bench.receive(link, &frame(&heartbeat(me()), 1));
        assert_eq!(bench.heard().len(), 1);
        let audit = Audit {
            what: "down",
            by: peer(),
            whom: me(),
            refused: Some("nobody downs".to_owned()),
        };
        let asked = Event::Membership(MembershipEvent::Asked(audit));
        bench.pump.linked.node.says.push_back(Effect::Notify(asked));
        bench.pump.tick();
        bench.pump.drive_node();
        let published = |action: &LoopAction| matches!(action, LoopAction::Publish(_));
        assert!(!bench.pump.base.actions.iter().any(published));
    }
}
