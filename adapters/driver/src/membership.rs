//! Members, and how a node becomes one: names, versions, what happens to members, what is in the way of
//! joining and of convergence.

pub use quorate_core::admission::state as admission;
pub use quorate_core::drain::DrainPart;
pub use quorate_core::effect::{HaltReason, MembershipCommandError};
pub use quorate_core::event::{
    DetectorEvent, JoinFailure, MembershipEvent, SeedCause, SeedFailure, ShutdownProgress,
};
pub use quorate_core::explain::{Explanation, Finding, WaitsFor};
pub use quorate_core::ident::{ClusterName, NameError, Role, Roles};
pub use quorate_core::membership::app_version::{AppVersion, AppVersionError};
pub use quorate_core::membership::events::MembershipChange;
pub use quorate_core::membership::member::{Member, Status, UpNumber};
pub use quorate_core::membership::protocol::{Audit, JoinRefusal};
pub use quorate_core::view::{MembershipPhase, View};

pub use crate::pump::policy::{Joiner, Manager};
