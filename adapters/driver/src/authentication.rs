//! What this node's links ask of who proves what: the name, roots and validity of a certificate, or a key
//! that is still listed. The rest of the decision is the links'. Spec: reliability 3a (rotation), ADR 9.

use quorate_core::admission::Proof;
use quorate_core::ident::Address;
use quorate_core::wire::handshake::RejectReason;
use quorate_links::{End, Identity};

use crate::proved::Proved;
use crate::security::Authentication;

/// What a transport has seen of a peer, as links carry it.
fn proved_by(identity: Option<&Identity>) -> &Proved {
    const NOTHING: &Proved = &Proved::Nothing;
    identity.and_then(Identity::get).unwrap_or(NOTHING)
}

impl quorate_links::Authentication for Authentication {
    fn covers(&self, identity: Option<&Identity>, address: &Address) -> Result<(), RejectReason> {
        self.covers_address(proved_by(identity), address)
    }

    fn proof<'a>(&self, identity: Option<&'a Identity>) -> Proof<'a> {
        proved_by(identity).as_proof()
    }

    fn believes(
        &self,
        identity: Option<&Identity>,
        peer: End,
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
