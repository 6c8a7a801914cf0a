//! What the demo can run on: a host with a transport, and how the links are protected there. Decides nothing.

use std::process::ExitCode;
use std::time::Instant;

use super::failure::Failure;
use super::options::{NodeOptions, Options};
use super::report::Report;
use super::worker;
use crate::hosts::Host;

/// What a program can run the demo on, and what it could if it were built otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Transports {
    /// The first is the default.
    pub built: &'static [Stage],
    /// What belongs to features that this program was built without.
    pub left_out: &'static [LeftOut],
}

/// A transport that a program was built without.
#[derive(Clone, Copy, Debug)]
pub struct LeftOut {
    /// What `--transport` calls it.
    pub name: &'static str,
    /// The features of the package that it needs.
    pub features: &'static str,
}

impl Transports {
    /// The transport of this name.
    pub(super) fn named(&self, name: &str) -> Option<&'static Stage> {
        self.built.iter().find(|stage| stage.name == name)
    }

    /// The command that builds what is left out.
    pub(super) fn command_for(&self, name: &str) -> Option<String> {
        let LeftOut { name, features } = self.left_out.iter().find(|left_out| left_out.name == name)?;
        Some(format!(
            "cargo run --release --features {features} -- --transport {name}"
        ))
    }
}

/// One transport of the demo: its name and how to run there.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// What `--transport` calls it.
    pub(super) name: &'static str,
    /// What people call it.
    pub(super) what: &'static str,
    /// Its links need certificates, which the demo makes for itself.
    pub(super) has_certificates: bool,
    pub(super) demo: fn(&Options, &Self, Instant) -> Result<Report, Failure>,
    pub(super) node: fn(NodeOptions) -> ExitCode,
}

impl Stage {
    /// A transport whose links are plain.
    #[must_use]
    pub const fn plain<H: Host>(name: &'static str, what: &'static str) -> Self {
        Self {
            name,
            what,
            has_certificates: false,
            demo: super::demo::<H>,
            node: worker::run::<H>,
        }
    }

    /// A transport whose links are mutual TLS, with certificates of a throw-away authority.
    #[must_use]
    pub const fn with_certificates<H: Host>(name: &'static str, what: &'static str) -> Self {
        Self {
            has_certificates: true,
            ..Self::plain::<H>(name, what)
        }
    }
}
