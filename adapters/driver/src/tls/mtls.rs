//! One node's side of mutual TLS: credentials that can be replaced while the node runs, turned into rustls'
//! configurations. Spec: reliability 3a.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::credentials::{Credentials, TlsError};
use super::verifier::NamedPeers;
use crate::proved::PeerCertificate;
use crate::sync::lock;
use quorate_links::LinkEnd;

/// What both sides have to name: a node that reaches another protocol's port by mistake is told so.
const ALPN: &[u8] = b"quorate";

/// Mutual TLS: this node's credentials and the name that every peer's certificate has to carry. Clones share
/// them, so that [`Mtls::replace`] on one reaches the running node.
#[derive(Clone)]
pub struct Mtls {
    peer_name: ServerName<'static>,
    binds_addresses: bool,
    configs: Arc<Mutex<TlsConfigs>>,
}

#[derive(Clone)]
struct TlsConfigs {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    /// Whether a dialer is believed.
    dialers: Arc<NamedPeers>,
    /// Whether an acceptor is.
    acceptors: Arc<WebPkiServerVerifier>,
}

impl Mtls {
    /// Mutual TLS among the nodes whose certificates are signed by one of the credentials' roots **and**
    /// carry `peer_name` as a subject alternative name: one DNS name that stands for the cluster,
    /// `orders.cluster.internal` for instance. So an authority that also signs other services' certificates
    /// does not let those services in.
    ///
    /// A certificate also has to carry, as another subject alternative name, the host of the address that its
    /// holder announces (a DNS name or an IP address): so a stolen certificate does not make its thief any
    /// other member. Clusters that cannot have that say [`Mtls::any_address`].
    ///
    /// # Errors
    /// [`TlsError`] if `peer_name` is no DNS name, the key does not belong to the certificate, or the roots
    /// are unusable.
    pub fn new(peer_name: impl Into<String>, credentials: Credentials) -> Result<Self, TlsError> {
        let text = peer_name.into();
        let peer_name = ServerName::try_from(text.clone()).map_err(|_| TlsError::PeerName(text))?;
        let configs = Arc::new(Mutex::new(configs(&peer_name, credentials)?));
        Ok(Self {
            peer_name,
            binds_addresses: true,
            configs,
        })
    }

    /// Does not ask that a peer's certificate carries the host that the peer announces: for clusters whose
    /// certificates cannot name hosts, those of pods without stable names for instance. Whoever holds a
    /// certificate with the cluster's name can then announce any address, that of another member too.
    #[must_use]
    pub const fn any_address(mut self) -> Self {
        self.binds_addresses = false;
        self
    }

    /// Whether certificates have to carry the announced host.
    #[must_use]
    pub const fn binds_addresses(&self) -> bool {
        self.binds_addresses
    }

    /// Uses these credentials for every link that is opened from now on. Links that are open stay open until
    /// they are renewed, before they are `links.max_link_age` old.
    ///
    /// # Errors
    /// Those of [`Self::new`]; the credentials in use then stay in use.
    pub fn replace(&self, credentials: Credentials) -> Result<(), TlsError> {
        let fresh = configs(&self.peer_name, credentials)?;
        *lock(&self.configs) = fresh;
        Ok(())
    }

    /// The name that peers have to carry: what a transport with a TLS of its own (QUIC) dials by.
    #[must_use]
    pub const fn peer_name(&self) -> &ServerName<'static> {
        &self.peer_name
    }

    /// The dialing side, for a transport with a TLS of its own. Costs a lock and a reference count.
    #[must_use]
    pub fn client_config(&self) -> Arc<ClientConfig> {
        Arc::clone(&lock(&self.configs).client)
    }

    /// The accepting side, for a transport with a TLS of its own. Costs a lock and a reference count.
    #[must_use]
    pub fn server_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&lock(&self.configs).server)
    }

    /// Whether a certificate that was believed when its link opened would be believed at this time, with the
    /// roots of now. `peer` is the end of the link that its holder is. Costs as much as it did then, a
    /// signature or two.
    pub(crate) fn believes(
        &self,
        certificate: &PeerCertificate,
        peer: LinkEnd,
        unix_ms: u64,
    ) -> Result<(), String> {
        let (dialers, acceptors) = {
            let configs = lock(&self.configs);
            (Arc::clone(&configs.dialers), Arc::clone(&configs.acceptors))
        };
        let now = UnixTime::since_unix_epoch(Duration::from_millis(unix_ms));
        let der = CertificateDer::from(certificate.der());
        let others = certificate.intermediates().iter();
        let others: Vec<CertificateDer<'_>> = others
            .map(|other| CertificateDer::from(other.as_slice()))
            .collect();
        let verified = match peer {
            LinkEnd::Dialer => dialers.verify_client_cert(&der, &others, now).map(drop),
            LinkEnd::Acceptor => {
                let name = &self.peer_name;
                acceptors
                    .verify_server_cert(&der, &others, name, &[], now)
                    .map(drop)
            }
        };
        verified.map_err(|error| error.to_string())
    }

    /// Dials as somebody who has no certificate.
    #[cfg(any(test, feature = "testing"))]
    #[doc(hidden)]
    #[cfg(feature = "dev-certs")]
    pub fn dial_without_certificate(&self, root: rustls::pki_types::CertificateDer<'static>) {
        let mut store = RootCertStore::empty();
        store.add(root).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .expect("TLS 1.3")
            .with_root_certificates(store)
            .with_no_client_auth();
        client.alpn_protocols = vec![ALPN.to_vec()];
        lock(&self.configs).client = Arc::new(client);
    }
}

impl fmt::Debug for Mtls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mtls")
            .field("peer_name", &self.peer_name)
            .finish_non_exhaustive()
    }
}

fn configs(peer_name: &ServerName<'static>, credentials: Credentials) -> Result<TlsConfigs, TlsError> {
    let rejected = |error: rustls::Error| TlsError::Rejected(error.to_string());
    let Credentials { chain, key, roots } = credentials;
    // Handed in rather than installed for the process: the program may use another one for its own
    // connections.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root).map_err(rejected)?;
    }
    let store = Arc::new(store);
    let acceptors = WebPkiServerVerifier::builder_with_provider(Arc::clone(&store), Arc::clone(&provider))
        .build()
        .map_err(|error| TlsError::Rejected(error.to_string()))?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&store), Arc::clone(&provider))
        .build()
        .map_err(|error| TlsError::Rejected(error.to_string()))?;
    let dialers = Arc::new(NamedPeers::new(verifier, peer_name.clone()));
    let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13])
        .map_err(rejected)?
        .with_client_cert_verifier(Arc::clone(&dialers) as _)
        .with_single_cert(chain.clone(), key.clone_key())
        .map_err(rejected)?;
    // A resumed session would skip the check of certificates that were replaced meanwhile.
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    server.alpn_protocols = vec![ALPN.to_vec()];
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(rejected)?
        .with_root_certificates(store)
        .with_client_auth_cert(chain, key)
        .map_err(rejected)?;
    client.resumption = Resumption::disabled();
    client.alpn_protocols = vec![ALPN.to_vec()];
    Ok(TlsConfigs {
        client: Arc::new(client),
        server: Arc::new(server),
        dialers,
        acceptors,
    })
}
