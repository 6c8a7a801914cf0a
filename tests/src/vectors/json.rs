//! Reading vectors: values with the path that leads to them, so that an ill-formed file is refused with the
//! place, and the comparison of what a case expects with what the core found.

use std::fmt;

use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::ordered::{OrderedMap, OrderedSet};
use serde_json::Value;

/// The port of every node that is named by its host only.
const PORT: u16 = 7355;
/// The uid of every node that is named by its host only: the same for all, so that addresses decide the
/// order.
const UID: u64 = 1;
/// Relative tolerance of floats.
const RELATIVE: f64 = 1e-6;
/// Absolute tolerance of phi: the files round it to nine decimals.
pub(super) const NINE_DECIMALS: f64 = 1e-9;
/// Absolute tolerance of statistics: the files round them to six decimals.
pub(super) const SIX_DECIMALS: f64 = 1e-6;

/// What differed in one case, one line each.
pub(super) type Differences = Vec<String>;

/// Why a file was refused, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IllFormed {
    at: String,
    why: String,
    /// Only what a case expects is missing: that fails the case and not the file.
    lacks_expectation: bool,
}

impl IllFormed {
    pub(super) fn new(at: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            at: at.into(),
            why: why.into(),
            lacks_expectation: false,
        }
    }

    /// The same place, for another reason.
    pub(super) fn because(&self, why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            ..self.clone()
        }
    }

    pub(super) const fn lacks_expectation(&self) -> bool {
        self.lacks_expectation
    }

    pub(super) fn why(&self) -> &str {
        &self.why
    }
}

impl fmt::Display for IllFormed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.at.is_empty() { "" } else { ": " };
        write!(f, "{}{separator}{}", self.at, self.why)
    }
}

impl std::error::Error for IllFormed {}

/// A value and where it stands in the file.
#[derive(Clone, Debug)]
pub(super) struct Node<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> Node<'a> {
    pub(super) fn root(key: &str, value: &'a Value) -> Self {
        Self {
            path: key.to_owned(),
            value,
        }
    }

    pub(super) fn refuse(&self, why: impl Into<String>) -> IllFormed {
        IllFormed::new(self.path.clone(), why)
    }

    /// A member that a case is made of: a file with a case that lacks it is refused.
    pub(super) fn get(&self, name: &str) -> Result<Self, IllFormed> {
        let object = self
            .value
            .as_object()
            .ok_or_else(|| self.refuse("expected an object"))?;
        let value = object
            .get(name)
            .ok_or_else(|| self.refuse(format!("`{name}` is missing")))?;
        Ok(Self {
            path: format!("{}.{name}", self.path),
            value,
        })
    }

    /// What a case expects, which is never null. A case that lacks it would check less than it says: it
    /// fails.
    pub(super) fn expected(&self, name: &str) -> Result<Self, IllFormed> {
        self.expected_or_null(name)?
            .non_null()
            .cloned()
            .ok_or_else(|| self.lacks(name))
    }

    /// What a case expects, where null is something that can be expected.
    pub(super) fn expected_or_null(&self, name: &str) -> Result<Self, IllFormed> {
        self.get(name).map_err(|_| self.lacks(name))
    }

    fn lacks(&self, name: &str) -> IllFormed {
        IllFormed {
            lacks_expectation: true,
            ..self.refuse(format!("no expectation: `{name}` is missing"))
        }
    }

    /// A member that may be missing or null.
    pub(super) fn find(&self, name: &str) -> Option<Self> {
        self.get(name).ok().filter(|member| !member.value.is_null())
    }

    /// Where the value stands.
    pub(super) fn place(&self) -> &str {
        &self.path
    }

    pub(super) const fn value(&self) -> &'a Value {
        self.value
    }

    pub(super) fn items(&self) -> Result<Vec<Self>, IllFormed> {
        let list = self
            .value
            .as_array()
            .ok_or_else(|| self.refuse("expected a list"))?;
        let item = |(at, value)| Self {
            path: format!("{}[{at}]", self.path),
            value,
        };
        Ok(list.iter().enumerate().map(item).collect())
    }

    /// A list of exactly `N` values.
    pub(super) fn tuple<const N: usize>(&self) -> Result<[Self; N], IllFormed> {
        <[Self; N]>::try_from(self.items()?).map_err(|_| self.refuse(format!("expected a list of {N}")))
    }

    pub(super) fn entries(&self) -> Result<Vec<(&'a str, Self)>, IllFormed> {
        let object = self
            .value
            .as_object()
            .ok_or_else(|| self.refuse("expected an object"))?;
        let entry = |(name, value): (&'a String, &'a Value)| {
            (
                name.as_str(),
                Self {
                    path: format!("{}.{name}", self.path),
                    value,
                },
            )
        };
        Ok(object.iter().map(entry).collect())
    }

    pub(super) fn text(&self) -> Result<&'a str, IllFormed> {
        self.value.as_str().ok_or_else(|| self.refuse("expected a text"))
    }

    pub(super) fn flag(&self) -> Result<bool, IllFormed> {
        self.value
            .as_bool()
            .ok_or_else(|| self.refuse("expected true or false"))
    }

    pub(super) fn natural(&self) -> Result<u64, IllFormed> {
        self.value
            .as_u64()
            .ok_or_else(|| self.refuse("expected a whole number from 0 on"))
    }

    pub(super) fn integer(&self) -> Result<i64, IllFormed> {
        self.value
            .as_i64()
            .ok_or_else(|| self.refuse("expected a whole number"))
    }

    pub(super) fn float(&self) -> Result<f64, IllFormed> {
        self.value
            .as_f64()
            .ok_or_else(|| self.refuse("expected a number"))
    }

    /// `None` for null.
    pub(super) fn non_null(&self) -> Option<&Self> {
        (!self.value.is_null()).then_some(self)
    }

    /// A signed or unsigned 64-bit number, as a number or as a text (JSON numbers lose digits in some
    /// writers).
    pub(super) fn uid(&self) -> Result<u64, IllFormed> {
        let number = match self.value.as_str() {
            Some(text) => text
                .parse::<i64>()
                .map(i64::cast_unsigned)
                .or_else(|_| text.parse())
                .ok(),
            None => self
                .value
                .as_i64()
                .map(i64::cast_unsigned)
                .or_else(|| self.value.as_u64()),
        };
        number.ok_or_else(|| self.refuse("expected a 64-bit uid"))
    }

    /// The node this text names by its host.
    pub(super) fn node(&self) -> Result<UniqueAddress, IllFormed> {
        self.node_named(self.text()?)
    }

    pub(super) fn node_named(&self, host: &str) -> Result<UniqueAddress, IllFormed> {
        let address = Address::new(host, PORT).map_err(|error| self.refuse(format!("`{host}`: {error}")))?;
        Ok(UniqueAddress::new(address, UID))
    }

    pub(super) fn nodes(&self) -> Result<OrderedSet<UniqueAddress>, IllFormed> {
        self.items()?.iter().map(Self::node).collect()
    }

    pub(super) fn counters(&self) -> Result<OrderedMap<UniqueAddress, u64>, IllFormed> {
        self.entries()?
            .into_iter()
            .map(|(host, count)| Ok((self.node_named(host)?, count.natural()?)))
            .collect()
    }
}

/// Notes a difference unless both are equal.
pub(super) fn compare<T: PartialEq + fmt::Debug>(out: &mut Differences, what: &str, expected: &T, found: &T) {
    if expected != found {
        out.push(format!("{what}: expected {expected:?}, found {found:?}"));
    }
}

/// Notes a difference unless both are close, relatively or by `absolute`; an expected `None` stands for
/// infinity.
pub(super) fn compare_floats(
    out: &mut Differences,
    what: &str,
    expected: Option<f64>,
    found: f64,
    absolute: f64,
) {
    let close = match expected {
        None => found == f64::INFINITY,
        Some(expected) => (found - expected).abs() <= absolute.max(RELATIVE * expected.abs()),
    };
    if !close {
        out.push(format!(
            "{what}: expected {}, found {found}",
            expected.unwrap_or(f64::INFINITY)
        ));
    }
}
