//! How links are protected. The user has to choose; there is no default. Spec: reliability 3a.

/// How this node's links are authenticated and encrypted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Security {
    method: Method,
}

/// The methods there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Method {
    /// Neither authentication nor encryption.
    InsecurePlaintext,
}

impl Security {
    /// Neither authentication nor encryption: whoever reaches the port can join the cluster, read all its traffic and shut
    /// it down. For loopback, tests and networks whose every host is trusted. Said once in the log when a node starts.
    #[must_use]
    pub const fn insecure_plaintext() -> Self {
        Self {
            method: Method::InsecurePlaintext,
        }
    }

    /// The method.
    #[must_use]
    pub const fn method(&self) -> Method {
        self.method
    }

    /// The number that stands for the method in the handshake.
    pub(crate) const fn wire_number(&self) -> u8 {
        match self.method {
            Method::InsecurePlaintext => 0,
        }
    }
}
