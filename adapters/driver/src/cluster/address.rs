//! Members as users write them: addresses, and addresses with a uid. Decides nothing.

use std::io;

use quorate_core::ident::{Address, NameError, UniqueAddress};
use quorate_core::input::DownTarget;

use crate::error::ClusterError;

/// An address from `host:port`.
pub(crate) fn parse_address(text: &str) -> Result<Address, NameError> {
    text.trim().parse()
}

/// An address to listen on names a port: systems call one without it no socket address, and not what to do.
pub(crate) fn check_port(address: &str) -> io::Result<()> {
    let port = address.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(_)) => Ok(()),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "write `host:port`, with port 0 for one that is free",
        )),
    }
}

/// Addresses from texts, or which of them is wrong.
pub(crate) fn parse_addresses(
    texts: impl IntoIterator<Item = impl ToString>,
) -> Result<Vec<Address>, ClusterError> {
    let parse =
        |text: String| parse_address(&text).map_err(|error| ClusterError::Name { value: text, error });
    texts.into_iter().map(|text| parse(text.to_string())).collect()
}

pub(super) fn parse_down_target(text: &str) -> Result<DownTarget, ClusterError> {
    let named = |error| ClusterError::Name {
        value: text.to_owned(),
        error,
    };
    match text.split_once('#') {
        None => Ok(DownTarget::Address(parse_address(text).map_err(named)?)),
        Some((address, uid)) => {
            let address = parse_address(address).map_err(named)?;
            let bad_uid = |_| named(NameError::BadCharacter { at: text.len() });
            let uid = u64::from_str_radix(uid, 16).map_err(bad_uid)?;
            Ok(DownTarget::Node(UniqueAddress::new(address, uid)))
        }
    }
}
