//! Members as users write them: addresses, and addresses with a uid. Decides nothing.

use quorate_core::ident::{Address, NameError, UniqueAddress};
use quorate_core::input::DownTarget;

use crate::error::ClusterError;

/// An address from `host:port`.
pub(crate) fn parse_address(text: &str) -> Result<Address, NameError> {
    text.trim().parse()
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
