//! Names: addresses, incarnations, roles, cluster names. Every name is checked once, when it is made, so that
//! no other room has to. Ordering is the field's: host by bytes, then port, then uid as signed. Spec:
//! membership 1.1.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::str::FromStr;

/// Longest host name in bytes. Long enough for any DNS label chain in practice; Serf uses the same number.
pub const HOST_BYTES_MAX: usize = 128;
/// Longest role name in bytes.
pub const ROLE_BYTES_MAX: usize = 64;
/// Most roles one member may carry, the data-center role included.
pub const ROLES_MAX: usize = 32;
/// Longest cluster name in bytes.
pub const CLUSTER_NAME_BYTES_MAX: usize = 64;
/// Role prefix that encodes the data center.
pub const DATA_CENTER_ROLE_PREFIX: &str = "dc-";
/// Role prefix that names the zone a member stands in.
pub const ZONE_ROLE_PREFIX: &str = "zone-";
/// The data center of a member that named none.
pub const DEFAULT_DATA_CENTER: &str = "default";

/// Why a name was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name is empty.
    #[error("name is empty")]
    Empty,
    /// The name is longer than its limit.
    #[error("name is {len} bytes long, at most {max} are allowed")]
    TooLong {
        /// Bytes found.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// A byte outside `[A-Za-z0-9._:-]`, named by its position.
    #[error("byte {at} of the name is not one of A-Z a-z 0-9 . _ : -")]
    BadCharacter {
        /// Position of the byte.
        at: usize,
    },
    /// Port zero, or text that is no port.
    #[error("port must be a number from 1 to 65535")]
    BadPort,
    /// An address that is not `host:port`: without a port, or with the `#uid` of an incarnation.
    #[error("address must have the form host:port")]
    NoPort,
    /// A user role in the namespace reserved for data centers.
    #[error("roles may not start with `dc-`")]
    ReservedRole,
    /// More roles than a member may carry.
    #[error("{count} roles, at most {ROLES_MAX} are allowed")]
    TooManyRoles {
        /// Roles found.
        count: usize,
    },
}

fn check_name(name: &str, max: usize) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > max {
        return Err(NameError::TooLong { len: name.len(), max });
    }
    match name.bytes().position(|b| !is_name_byte(b)) {
        Some(at) => Err(NameError::BadCharacter { at }),
        None => Ok(()),
    }
}

/// Whether a text has only the bytes of names, and any.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_name_byte)
}

/// Whether a name may have this byte. Without branches, because decoders ask it about every byte of thousands
/// of names.
pub(crate) const fn is_name_byte(byte: u8) -> bool {
    let letter = (byte | 0x20).wrapping_sub(b'a') < 26;
    let digit_or_colon = byte.wrapping_sub(b'0') < 11;
    let dash_or_dot = byte.wrapping_sub(b'-') < 2;
    letter | digit_or_colon | dash_or_dot | (byte == b'_')
}

/// Whether this is a legal role name, the data center's included.
pub(crate) fn check_role(name: &str) -> Result<(), NameError> {
    check_name(name, ROLE_BYTES_MAX)
}

/// Where a node listens: host and port. IPv6 literals are stored without brackets.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address {
    // Equality looks at the fields in this order: the cheap one first.
    port: u16,
    host: HostName,
}

/// A host's text. States that come of each other share it, which is seen without reading it: rounds compare
/// the members of one state with those of the next.
#[derive(Clone)]
struct HostName(Arc<str>);

impl PartialEq for HostName {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for HostName {}

impl Hash for HostName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Ord for HostName {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ordering::Equal;
        }
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for HostName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Address {
    fn cmp(&self, other: &Self) -> Ordering {
        self.host
            .cmp(&other.host)
            .then_with(|| self.port.cmp(&other.port))
    }
}

impl PartialOrd for Address {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Address {
    /// Checks and makes an address.
    ///
    /// # Errors
    /// [`NameError`] if the host is empty, longer than [`HOST_BYTES_MAX`] or has a byte outside
    /// `[A-Za-z0-9._:-]`, or if the port is 0.
    pub fn new(host: &str, port: u16) -> Result<Self, NameError> {
        check_name(host, HOST_BYTES_MAX)?;
        if port == 0 {
            return Err(NameError::BadPort);
        }
        Ok(Self {
            host: HostName(Arc::from(host)),
            port,
        })
    }

    /// The same host at another port; shares the host's text.
    ///
    /// # Errors
    /// [`NameError::BadPort`] if the port is 0.
    pub fn with_port(&self, port: u16) -> Result<Self, NameError> {
        if port == 0 {
            return Err(NameError::BadPort);
        }
        Ok(Self {
            host: self.host.clone(),
            port,
        })
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host.0
    }

    /// The port, never 0.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for Address {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let (host, port) = text
            .rsplit_once(':')
            .filter(|_| !text.contains('#'))
            .ok_or(NameError::NoPort)?;
        let host = host
            .strip_prefix('[')
            .and_then(|h| h.strip_suffix(']'))
            .unwrap_or(host);
        let port = port.parse::<u16>().map_err(|_| NameError::BadPort)?;
        Self::new(host, port)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host().contains(':') {
            write!(f, "[{}]:{}", self.host(), self.port)
        } else {
            write!(f, "{}:{}", self.host(), self.port)
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One incarnation of a node: its address and a random 64-bit uid drawn at process start (or at re-join).
/// Everything that refers to a node refers to its incarnation. Ordered by address, then by uid as a signed
/// number.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct UniqueAddress {
    // Equality looks at the fields in this order: the telling one first.
    uid: u64,
    address: Address,
}

impl UniqueAddress {
    /// Joins an address and a uid.
    #[must_use]
    pub const fn new(address: Address, uid: u64) -> Self {
        Self { address, uid }
    }

    /// The address.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// The incarnation's uid.
    #[must_use]
    pub const fn uid(&self) -> u64 {
        self.uid
    }

    /// Position on the heartbeat ring: both halves of the uid folded into a signed 32-bit number.
    #[must_use]
    pub const fn ring_hash(&self) -> i32 {
        let folded = self.uid ^ (self.uid >> 32);
        (folded & 0xFFFF_FFFF) as u32 as i32
    }
}

impl Ord for UniqueAddress {
    fn cmp(&self, other: &Self) -> Ordering {
        self.address
            .cmp(&other.address)
            .then_with(|| self.uid.cast_signed().cmp(&other.uid.cast_signed()))
    }
}

impl PartialOrd for UniqueAddress {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for UniqueAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{:016x}", self.address, self.uid)
    }
}

impl fmt::Debug for UniqueAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The name every node of one cluster shares; a link between different names is refused at the handshake.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(Arc<str>);

impl ClusterName {
    /// Checks and makes a cluster name of 1 to [`CLUSTER_NAME_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// [`NameError`] says what is wrong with it.
    pub fn new(name: &str) -> Result<Self, NameError> {
        check_name(name, CLUSTER_NAME_BYTES_MAX)?;
        Ok(Self(Arc::from(name)))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A role name of 1 to [`ROLE_BYTES_MAX`] bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Role(Arc<str>);

impl Role {
    /// Checks and makes a role that a user chose.
    ///
    /// # Errors
    /// [`NameError`] if it is no legal name or starts with `dc-`.
    pub fn new(name: &str) -> Result<Self, NameError> {
        if name.starts_with(DATA_CENTER_ROLE_PREFIX) {
            return Err(NameError::ReservedRole);
        }
        check_name(name, ROLE_BYTES_MAX)?;
        Ok(Self(Arc::from(name)))
    }

    /// A role as it stands on the wire, where the data-center role is legal too.
    ///
    /// # Errors
    /// [`NameError`] if it is no legal name.
    pub fn from_wire(name: &str) -> Result<Self, NameError> {
        check_name(name, ROLE_BYTES_MAX)?;
        Ok(Self(Arc::from(name)))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The roles of one incarnation: sorted, without duplicates, with exactly one data-center role. Cheap to
/// clone.
#[derive(Clone, Debug, Eq, PartialOrd, Ord)]
pub struct Roles(Arc<[Role]>);

/// Members of a state share what is alike, which is seen without reading it.
impl PartialEq for Roles {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.0 == other.0
    }
}

impl Hash for Roles {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Roles {
    /// Roles of a member in `data_center`.
    ///
    /// # Errors
    /// [`NameError::TooManyRoles`], or the data center's name is not legal.
    pub fn new(user_roles: impl IntoIterator<Item = Role>, data_center: &str) -> Result<Self, NameError> {
        if data_center.is_empty() {
            return Err(NameError::Empty);
        }
        let mut encoded = String::from(DATA_CENTER_ROLE_PREFIX);
        encoded.push_str(data_center);
        let mut all: Vec<Role> = user_roles.into_iter().collect();
        all.push(Role::from_wire(&encoded)?);
        Self::from_wire(all)
    }

    /// Roles as they stand on the wire: sorted and deduplicated; a missing data-center role becomes the
    /// default one.
    ///
    /// # Errors
    /// [`NameError::TooManyRoles`].
    pub fn from_wire(mut all: Vec<Role>) -> Result<Self, NameError> {
        if !all
            .iter()
            .any(|r| r.as_str().starts_with(DATA_CENTER_ROLE_PREFIX))
        {
            all.push(Role(Arc::from(concat_default().as_str())));
        }
        all.sort();
        all.dedup();
        if all.len() > ROLES_MAX {
            return Err(NameError::TooManyRoles { count: all.len() });
        }
        Ok(Self(Arc::from(all)))
    }

    /// Whether both share their memory; `false` says nothing.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether `role` is among them.
    #[must_use]
    pub fn contains(&self, role: &Role) -> bool {
        self.0.binary_search(role).is_ok()
    }

    /// All roles in order, the data-center role included.
    #[must_use]
    pub fn as_slice(&self) -> &[Role] {
        &self.0
    }

    /// The roles a user chose, in order.
    pub fn user_roles(&self) -> impl Iterator<Item = &Role> {
        self.0
            .iter()
            .filter(|r| !r.as_str().starts_with(DATA_CENTER_ROLE_PREFIX))
    }

    /// The zone that the first role `zone-NAME` says.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        self.user_roles()
            .find_map(|role| role.as_str().strip_prefix(ZONE_ROLE_PREFIX))
    }

    /// The data center's name without its prefix.
    #[must_use]
    pub fn data_center(&self) -> &str {
        let encoded = self
            .0
            .iter()
            .find_map(|r| r.as_str().strip_prefix(DATA_CENTER_ROLE_PREFIX));
        encoded.unwrap_or(DEFAULT_DATA_CENTER)
    }
}

impl Default for Roles {
    fn default() -> Self {
        Self(Arc::from([Role(Arc::from(concat_default().as_str()))]))
    }
}

fn concat_default() -> String {
    let mut name = DATA_CENTER_ROLE_PREFIX.to_string();
    name.push_str(DEFAULT_DATA_CENTER);
    name
}

#[cfg(test)]
mod tests;
