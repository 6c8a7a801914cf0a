//! How a member's roles are written: in rising order, without the default data center. Spec: `docs/WIRE.md`
//! 4.1, 5.2.

use crate::ident::{DATA_CENTER_ROLE_PREFIX, DEFAULT_DATA_CENTER, Role, Roles};

/// The roles as they are written: without the default data center, which a reader adds where none is named
/// (M-448).
pub(crate) fn wire_roles(roles: &Roles) -> impl Iterator<Item = &Role> + Clone {
    roles
        .as_slice()
        .iter()
        .filter(|role| data_center(role) != Some(DEFAULT_DATA_CENTER))
}

/// The role that has no written form.
pub(crate) const DEFAULT_DATA_CENTER_ROLE: &str = "dc-default";

pub(crate) fn is_data_center(name: &str) -> bool {
    name.starts_with(DATA_CENTER_ROLE_PREFIX)
}

pub(crate) fn data_center(role: &Role) -> Option<&str> {
    role.as_str().strip_prefix(DATA_CENTER_ROLE_PREFIX)
}
