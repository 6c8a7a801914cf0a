//! What this node's links ask of who proves what: the name, roots and validity of a certificate, or a key
//! that is still listed. The rest of the decision is the links'. Spec: reliability 3a (rotation), ADR 9.

use quorate_core::admission::PeerProof;
use quorate_core::ident::Address;
use quorate_core::wire::handshake::RejectReason;
use quorate_links::{LinkEnd, PeerIdentity};

use crate::proved::Proved;
use crate::security::Authentication;

/// What a transport has seen of a peer, as links carry it.
fn proved_by(identity: Option<&PeerIdentity>) -> &Proved {
    const NOTHING: &Proved = &Proved::Nothing;
    identity.and_then(PeerIdentity::get).unwrap_or(NOTHING)
}

impl quorate_links::LinkAuthentication for Authentication {
    fn covers(&self, identity: Option<&PeerIdentity>, address: &Address) -> Result<(), RejectReason> {
        self.covers_address(proved_by(identity), address)
    }

    fn binds_addresses(&self) -> bool {
        match self {
            #[cfg(feature = "tls")]
            Self::Certificates(mtls) => mtls.binds_addresses(),
            #[cfg(feature = "psk")]
            Self::Psk(_) => false,
            Self::None => false,
        }
    }

    fn proof<'a>(&self, identity: Option<&'a PeerIdentity>) -> PeerProof<'a> {
        proved_by(identity).as_proof()
    }

    fn believes(
        &self,
        identity: Option<&PeerIdentity>,
        peer: LinkEnd,
        address: &Address,
        unix_ms: u64,
    ) -> Result<(), String> {
        let proved = proved_by(identity);
        match (self, proved) {
            #[cfg(feature = "psk")]
            (Self::Psk(psk), Proved::Key(key)) => match psk.lists(key) {
                true => Ok(()),
                false => Err("its key is not listed any more".to_owned()),
            },
            #[cfg(feature = "tls")]
            (Self::Certificates(mtls), Proved::Certificate(certificate)) => {
                if self.covers_address(proved, address).is_err() {
                    return Err("its certificate does not name its host".to_owned());
                }
                mtls.believes(certificate, peer, unix_ms)
            }
            (_, _) => {
                let _ = (peer, address, unix_ms);
                Err("it has proved nothing that could be checked again".to_owned())
            }
        }
    }
}
