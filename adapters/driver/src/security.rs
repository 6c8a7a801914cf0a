//! How links are protected. The user has to choose; there is no default. Spec: reliability 3a.

use std::time::Duration;

use quorate_core::ident::Address;
use quorate_core::wire::handshake::RejectReason;
use quorate_links::LinkLimits;

pub use crate::proved::{PeerCertificate, PeerKey, Proved};
#[cfg(feature = "psk")]
pub use crate::psk::{PSK_BYTES_MAX, PSK_BYTES_MIN, PSK_KEYS_MAX, Psk, PskError};
#[cfg(feature = "dev-certs")]
pub use crate::tls::DevCa;
#[cfg(feature = "tls")]
pub use crate::tls::{Credentials, Mtls, TlsError};

/// How this node's links are authenticated and encrypted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Security {
    protection: Protection,
    max_link_age: Option<Duration>,
    handshakes: Option<HandshakeLimits>,
}

/// The methods with what each needs.
#[derive(Clone, Debug)]
pub(crate) enum Protection {
    InsecurePlaintext,
    #[cfg(feature = "psk")]
    Psk(Psk),
    #[cfg(feature = "tls")]
    Mtls(Mtls),
}

/// The methods there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Method {
    /// Neither authentication nor encryption.
    InsecurePlaintext,
    /// Sessions of Noise among those who have a key.
    Psk,
    /// TLS 1.3 with certificates on both sides.
    Mtls,
}

impl Security {
    /// Neither authentication nor encryption: whoever reaches the port can join the cluster, read all its
    /// traffic and shut it down. For loopback, tests and networks whose every host is trusted. Said once in
    /// the log when a node starts.
    #[must_use]
    pub const fn insecure_plaintext() -> Self {
        Self {
            protection: Protection::InsecurePlaintext,
            max_link_age: None,
            handshakes: None,
        }
    }

    /// A key that all nodes share: who does not have it gets no link, reads nothing and changes nothing. **It
    /// does not tell nodes apart**: whoever has it can be any of them, so that one node's secret is
    /// everybody's. With the feature `psk`.
    #[cfg(feature = "psk")]
    #[must_use]
    pub const fn psk(psk: Psk) -> Self {
        Self {
            protection: Protection::Psk(psk),
            max_link_age: None,
            handshakes: None,
        }
    }

    /// Mutual TLS: TLS 1.3, certificates on both sides, and only peers whose certificate carries the
    /// cluster's name. Whoever holds such a certificate is trusted like every other member, at the hosts that
    /// the certificate names.
    #[cfg(feature = "tls")]
    #[must_use]
    pub const fn mtls(mtls: Mtls) -> Self {
        Self {
            protection: Protection::Mtls(mtls),
            max_link_age: None,
            handshakes: None,
        }
    }

    /// How old links may become: `links.max_link_age` of the node that is being started, for a transport that
    /// shares connections between links. `None` for plaintext, and before
    /// [`Adapter::transport`](crate::spi::Adapter::transport) is asked.
    #[must_use]
    pub const fn max_link_age(&self) -> Option<Duration> {
        self.max_link_age
    }

    /// How many may shake hands at once, and for how long: settings of the node that is being started, for a
    /// transport that shakes hands before there is a link. The defaults before
    /// [`Adapter::transport`](crate::spi::Adapter::transport) is asked.
    #[must_use]
    pub fn handshake_limits(&self) -> HandshakeLimits {
        self.handshakes.unwrap_or_default()
    }

    /// For a node with these settings.
    pub(crate) fn limited_by(mut self, limits: &LinkLimits) -> Self {
        self.handshakes = Some(HandshakeLimits::of(limits));
        self.max_link_age = match self.method() {
            Method::InsecurePlaintext => None,
            Method::Psk | Method::Mtls => Some(limits.max_link_age),
        };
        self
    }

    /// The method.
    #[must_use]
    pub const fn method(&self) -> Method {
        match self.protection {
            Protection::InsecurePlaintext => Method::InsecurePlaintext,
            #[cfg(feature = "psk")]
            Protection::Psk(_) => Method::Psk,
            #[cfg(feature = "tls")]
            Protection::Mtls(_) => Method::Mtls,
        }
    }

    /// The certificates, for a transport with a TLS of its own; `None` for another method.
    #[cfg(feature = "tls")]
    #[must_use]
    pub const fn certificates(&self) -> Option<&Mtls> {
        match &self.protection {
            Protection::InsecurePlaintext => None,
            #[cfg(feature = "psk")]
            Protection::Psk(_) => None,
            Protection::Mtls(mtls) => Some(mtls),
        }
    }

    pub(crate) const fn protection(&self) -> &Protection {
        &self.protection
    }

    /// What peers have to have proved before the handshake: TLS and Noise are below it, and a link whose ends
    /// disagree about them does not get as far.
    pub(crate) fn authentication(&self) -> Authentication {
        match &self.protection {
            #[cfg(feature = "psk")]
            Protection::Psk(psk) => Authentication::Psk(psk.clone()),
            Protection::InsecurePlaintext => Authentication::None,
            #[cfg(feature = "tls")]
            Protection::Mtls(mtls) => Authentication::Certificates(mtls.clone()),
        }
    }
}

/// What a transport needs to know that shakes hands before there is a link: some of [`LinkLimits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandshakeLimits {
    /// `links.handshake_timeout`.
    pub timeout: Duration,
    /// `links.pending_handshakes_max`.
    pub pending_max: usize,
    /// `links.pending_handshakes_per_source_max`.
    pub pending_per_source_max: usize,
    /// `links.links_max`.
    pub links_max: usize,
    /// `links.stranger_links_max`.
    pub stranger_links_max: usize,
}

impl HandshakeLimits {
    /// Those of a node with these settings.
    #[must_use]
    pub const fn of(limits: &LinkLimits) -> Self {
        Self {
            timeout: limits.handshake_timeout,
            pending_max: limits.pending_handshakes_max,
            pending_per_source_max: limits.pending_handshakes_per_source_max,
            links_max: limits.links_max,
            stranger_links_max: limits.stranger_links_max,
        }
    }
}

impl Default for HandshakeLimits {
    fn default() -> Self {
        Self::of(&LinkLimits::default())
    }
}

/// What the ends of a link have to prove to the transport.
#[derive(Clone, Debug)]
pub(crate) enum Authentication {
    /// Nothing.
    None,
    /// That they have a key.
    #[cfg(feature = "psk")]
    Psk(Psk),
    /// That each has a certificate.
    #[cfg(feature = "tls")]
    Certificates(Mtls),
}

impl Authentication {
    /// Whether what a peer has proved is enough for the address it announces, or was dialed at.
    pub(crate) fn covers_address(&self, proved: &Proved, address: &Address) -> Result<(), RejectReason> {
        let _ = (proved, address);
        match self {
            Self::None => Ok(()),
            #[cfg(feature = "psk")]
            Self::Psk(psk) => match proved {
                Proved::Key(key) if psk.lists(key) => Ok(()),
                Proved::Key(_) | Proved::Certificate(_) | Proved::Nothing => {
                    Err(RejectReason::Unauthenticated)
                }
            },
            #[cfg(feature = "tls")]
            Self::Certificates(mtls) => match proved.certificate() {
                Some(certificate) if !mtls.binds_addresses() || certificate.names_host(address.host()) => {
                    Ok(())
                }
                Some(_) | None => Err(RejectReason::WrongIdentity),
            },
        }
    }
}
