//! What the application adds to that on which all members have to agree: settings of its own, and when two
//! values of them go together. Keys and values are checked when a checker is added. Spec: membership 2.2,
//! M-184 to M-190.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Debug;

use super::{OWN_SETTINGS_MAX, Setting, SettingError, check_count};

/// Settings of the application that all members have to agree on, and when two values do. Both nodes ask
/// their own; a node is taken in if both are content. Like a strategy it is called on the node's loop and
/// must answer at once.
///
/// ```
/// use quorate_core::agreement::{JoinChecker, Setting};
///
/// /// Schemas of the same major version understand each other.
/// #[derive(Debug)]
/// struct Schema(&'static str);
///
/// impl JoinChecker for Schema {
///     fn settings(&self) -> Vec<Setting> {
///         vec![Setting::new("orders.schema", self.0)]
///     }
///
///     fn agrees(&self, _key: &str, own: &str, other: &str) -> bool {
///         own.split('.').next() == other.split('.').next()
///     }
/// }
/// ```
pub trait JoinChecker: Debug + Send + Sync {
    /// Its settings. Read once, when the configuration is checked.
    fn settings(&self) -> Vec<Setting>;

    /// Whether a node with `own` for this key may work together with one that has `other` (default: if they
    /// are equal). Not asked about a value that is missing: that is [`Setting::if_known`]'s to say.
    fn agrees(&self, key: &str, own: &str, other: &str) -> bool {
        let _ = key;
        own == other
    }
}

/// A setting is a checker that wants equal values.
impl JoinChecker for Setting {
    fn settings(&self) -> Vec<Setting> {
        alloc::vec![self.clone()]
    }
}

/// The application's checkers. Every setting in it is legal, and its key is there once.
#[derive(Clone, Debug, Default)]
pub struct JoinCheckers {
    /// Each key with its setting and who compares it.
    by_key: Vec<(Setting, Arc<dyn JoinChecker>)>,
}

impl JoinCheckers {
    /// Adds a checker, with all its settings or none.
    ///
    /// # Errors
    /// [`SettingError`] says which of its settings is not legal.
    pub fn add(&mut self, checker: Arc<dyn JoinChecker>) -> Result<(), SettingError> {
        let mut all = self.by_key.clone();
        for setting in checker.settings() {
            setting.check()?;
            setting.check_section()?;
            if all.iter().any(|(known, _)| known.key == setting.key) {
                return Err(SettingError::Duplicate { key: setting.key });
            }
            all.push((setting, Arc::clone(&checker)));
            check_count(all.len(), OWN_SETTINGS_MAX)?;
        }
        self.by_key = all;
        Ok(())
    }

    /// Adds a setting whose values have to be equal.
    ///
    /// # Errors
    /// As [`JoinCheckers::add`].
    pub fn add_equal(&mut self, setting: Setting) -> Result<(), SettingError> {
        self.add(Arc::new(setting))
    }

    /// Their settings.
    pub fn settings(&self) -> impl Iterator<Item = &Setting> + Clone {
        self.by_key.iter().map(|(setting, _)| setting)
    }

    /// Whether two values of a key go together. Equal ones always do: no checker can divide nodes that say
    /// the same.
    pub(super) fn agree(&self, key: &str, own: &str, other: &str) -> bool {
        let checker = self.by_key.iter().find(|(setting, _)| setting.key() == key);
        own == other || checker.is_some_and(|(_, checker)| checker.agrees(key, own, other))
    }
}
