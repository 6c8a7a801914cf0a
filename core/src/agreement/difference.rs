//! Where two nodes do not agree, in words for those who have to fix it. Decides nothing. Spec: M-184 to
//! M-186.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::{self, Display, Formatter};

/// A setting that two nodes do not agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingDifference {
    /// Its key.
    pub key: String,
    /// The value of the node that says so; `None` if it has none.
    pub own: Option<String>,
    /// The value of the other node; `None` if it has none.
    pub other: Option<String>,
}

impl Display for SettingDifference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let side = |f: &mut Formatter<'_>, value: &Option<String>| match value {
            Some(value) => write!(f, "{value:?}"),
            None => f.write_str("missing"),
        };
        write!(f, "{} is here ", self.key)?;
        side(f, &self.own)?;
        f.write_str(" and there ")?;
        side(f, &self.other)
    }
}

/// Every setting that two nodes do not agree on, by key; at most those of both lists. Cheap to clone. Its
/// `Display` is one line in which values are quoted and escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differences(Arc<[SettingDifference]>);

impl Default for Differences {
    fn default() -> Self {
        Self(Arc::from([]))
    }
}

impl From<Vec<SettingDifference>> for Differences {
    fn from(all: Vec<SettingDifference>) -> Self {
        Self(all.into())
    }
}

impl Differences {
    /// Each of them, by key.
    pub fn iter(&self) -> impl Iterator<Item = &SettingDifference> {
        self.0.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none, or none is known: a version that does not send its settings says only that
    /// they differ.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Display for Differences {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("the peer's version does not say which");
        }
        for (number, difference) in self.iter().enumerate() {
            let before = if number == 0 { "" } else { "; " };
            write!(f, "{before}{difference}")?;
        }
        Ok(())
    }
}
