//! How links are protected. The user has to choose; there is no default. Spec: reliability 3a.

#[cfg(feature = "tls")]
use crate::tls::Mtls;

/// How this node's links are authenticated and encrypted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Security {
    protection: Protection,
}

/// The methods with what each needs.
#[derive(Clone, Debug)]
pub(crate) enum Protection {
    InsecurePlaintext,
    #[cfg(feature = "tls")]
    Mtls(Mtls),
}

/// The methods there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Method {
    /// Neither authentication nor encryption.
    InsecurePlaintext,
    /// TLS 1.3 with certificates on both sides.
    Mtls,
}

impl Security {
    /// Neither authentication nor encryption: whoever reaches the port can join the cluster, read all its traffic and shut
    /// it down. For loopback, tests and networks whose every host is trusted. Said once in the log when a node starts.
    #[must_use]
    pub const fn insecure_plaintext() -> Self {
        Self {
            protection: Protection::InsecurePlaintext,
        }
    }

    /// Mutual TLS: TLS 1.3, certificates on both sides, and only peers whose certificate carries the cluster's name. Whoever
    /// holds such a certificate is trusted like every other member; that a certificate belongs to the address its holder
    /// announces is not checked.
    #[cfg(feature = "tls")]
    #[must_use]
    pub const fn mtls(mtls: Mtls) -> Self {
        Self {
            protection: Protection::Mtls(mtls),
        }
    }

    /// The method.
    #[must_use]
    pub const fn method(&self) -> Method {
        match self.protection {
            Protection::InsecurePlaintext => Method::InsecurePlaintext,
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
            Protection::Mtls(mtls) => Some(mtls),
        }
    }

    pub(crate) const fn protection(&self) -> &Protection {
        &self.protection
    }

    /// The number that stands for the method in the handshake. TLS is below the handshake and has no number of its own: a
    /// link whose ends disagree about it does not get as far.
    pub(crate) const fn wire_number(&self) -> u8 {
        match self.protection {
            Protection::InsecurePlaintext => 0,
            #[cfg(feature = "tls")]
            Protection::Mtls(_) => 0,
        }
    }
}
