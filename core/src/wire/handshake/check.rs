//! The two decisions of a handshake: the acceptor's about a hello, the dialer's about the consent. Pure; what
//! is proved is proved below. Spec: `docs/WIRE.md` 3.3, reliability 3a.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::{Hello, HelloAck, HelloReject, RejectReason};
use crate::ident::{ClusterName, UniqueAddress};
use crate::wire::{VERSION_MAX, VERSION_MIN};

/// What the accepting side brings to the decision.
#[derive(Clone, Debug)]
pub struct Acceptor<'a> {
    /// This node.
    pub me: &'a UniqueAddress,
    /// This node's cluster.
    pub cluster: &'a ClusterName,
    /// What this node understands, normally [`super::FEATURES`].
    pub features: u64,
    /// The only method this node accepts.
    pub auth_method: u8,
    /// Whether the dialer's incarnation is quarantined here.
    pub quarantined: bool,
    /// Fresh random bytes for the answer.
    pub nonce: [u8; 16],
}

impl Acceptor<'_> {
    /// Decides about a [`Hello`].
    ///
    /// # Errors
    /// The refusal to send back.
    pub fn answer(&self, hello: &Hello) -> Result<HelloAck, HelloReject> {
        let refuse = |reason| {
            Err(HelloReject {
                reason,
                versions: (VERSION_MIN, VERSION_MAX),
            })
        };
        let version = VERSION_MAX.min(hello.versions.1);
        if version < VERSION_MIN.max(hello.versions.0) {
            return refuse(RejectReason::Version);
        }
        if hello.cluster != *self.cluster {
            return refuse(RejectReason::WrongCluster);
        }
        if hello.to != *self.me.address() {
            return refuse(RejectReason::WrongAddress);
        }
        if hello.from == *self.me {
            return refuse(RejectReason::DuplicateUid);
        }
        if hello.expected_uid.is_some_and(|uid| uid != self.me.uid()) {
            return refuse(RejectReason::WrongIncarnation { found: self.me.uid() });
        }
        if self.quarantined {
            return refuse(RejectReason::Quarantined);
        }
        if hello.auth_method != self.auth_method {
            return refuse(RejectReason::AuthMethod);
        }
        Ok(HelloAck {
            version,
            from: self.me.clone(),
            features: self.features & hello.features,
            auth_method: self.auth_method,
            nonce: self.nonce,
        })
    }
}

/// Checks, at the dialer, that a consent answers `hello`.
///
/// # Errors
/// What does not fit, in the terms of a refusal.
pub fn check_ack(hello: &Hello, ack: &HelloAck) -> Result<(), RejectReason> {
    if !(hello.versions.0..=hello.versions.1).contains(&ack.version) {
        return Err(RejectReason::Version);
    }
    if *ack.from.address() != hello.to {
        return Err(RejectReason::WrongAddress);
    }
    if ack.from == hello.from {
        return Err(RejectReason::DuplicateUid);
    }
    if hello.expected_uid.is_some_and(|uid| uid != ack.from.uid()) {
        return Err(RejectReason::WrongIncarnation {
            found: ack.from.uid(),
        });
    }
    if ack.auth_method != hello.auth_method {
        return Err(RejectReason::AuthMethod);
    }
    if ack.features & !hello.features != 0 {
        return Err(RejectReason::Features);
    }
    Ok(())
}
