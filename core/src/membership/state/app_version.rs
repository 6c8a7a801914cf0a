//! An application's version as a member announces it: `major[.minor[.patch]][-|+suffix]`, ordered for rolling
//! updates, with the commit count of a dynver suffix compared as a number. Decides nothing. Spec: membership
//! 1.2, M-456 to M-460.

use alloc::sync::Arc;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::str::FromStr;

/// Longest version text in bytes: a full semantic version with a dynver suffix takes about 40.
pub const APP_VERSION_BYTES_MAX: usize = 64;

/// Why a version text was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AppVersionError {
    /// The text is empty.
    #[error("version is empty")]
    Empty,
    /// The text is longer than [`APP_VERSION_BYTES_MAX`].
    #[error("version is {len} bytes long, at most {APP_VERSION_BYTES_MAX} are allowed")]
    TooLong {
        /// Bytes found.
        len: usize,
    },
    /// A byte that is not a visible ASCII character, named by its position.
    #[error("byte {at} of the version is not a visible ASCII character")]
    BadCharacter {
        /// Position of the byte.
        at: usize,
    },
    /// More than major, minor and patch.
    #[error("version has more than three parts")]
    TooManyParts,
    /// A part that must be a number from 0 to 2^31 - 1 is none; parts count from 0.
    #[error("part {part} of the version is not a number from 0 to 2147483647")]
    NotANumber {
        /// Which part.
        part: usize,
    },
}

/// A version; cheap to clone. Missing parts count as 0, so `1`, `1.0` and `1.0.0` are equal; equality and
/// order look at the meaning, [`AppVersion::as_str`] gives the text as it was written.
#[derive(Clone)]
pub struct AppVersion(Arc<ParsedVersion>);

struct ParsedVersion {
    text: Arc<str>,
    /// Major, minor, patch, commits since (dynver).
    numbers: [u32; 4],
    suffix_at: usize,
}

impl AppVersion {
    /// Parses a version of up to [`APP_VERSION_BYTES_MAX`] bytes. Text without a dot that is no number, such
    /// as `foo`, is a version `0.0.0` with that suffix.
    ///
    /// # Errors
    /// [`AppVersionError`] says what is wrong with it.
    pub fn new(text: &str) -> Result<Self, AppVersionError> {
        let (numbers, suffix_at) = checked(text)?;
        Ok(Self(Arc::new(ParsedVersion {
            text: Arc::from(text),
            numbers,
            suffix_at,
        })))
    }

    /// Whether [`AppVersion::new`] would take this text; allocates nothing.
    pub(crate) fn check(text: &str) -> Result<(), AppVersionError> {
        checked(text).map(drop)
    }

    /// Whether both share their memory; `false` says nothing.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The version as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    fn suffix(&self) -> &str {
        self.0.text.get(self.0.suffix_at..).unwrap_or("")
    }
}

fn checked(text: &str) -> Result<([u32; 4], usize), AppVersionError> {
    if text.is_empty() {
        return Err(AppVersionError::Empty);
    }
    if text.len() > APP_VERSION_BYTES_MAX {
        return Err(AppVersionError::TooLong { len: text.len() });
    }
    if let Some(at) = text.bytes().position(|byte| !byte.is_ascii_graphic()) {
        return Err(AppVersionError::BadCharacter { at });
    }
    parse(text)
}

/// The numbers, and where the suffix begins.
fn parse(text: &str) -> Result<([u32; 4], usize), AppVersionError> {
    let mut numbers = [0; 4];
    let cut = text.find(['-', '+']).unwrap_or(text.len());
    let parts = text[..cut].split('.');
    match parts.clone().count() {
        // One part: a plain number, or altogether a suffix (so that `1-foo` and `01-foo` differ).
        1 => return Ok(number(text).map_or((numbers, 0), |major| ([major, 0, 0, 0], text.len()))),
        2 | 3 => {}
        _ => return Err(AppVersionError::TooManyParts),
    }
    for (part, (slot, digits)) in numbers.iter_mut().zip(parts).enumerate() {
        *slot = number(digits).ok_or(AppVersionError::NotANumber { part })?;
    }
    let mut suffix_at = text.len().min(cut + 1);
    // dynver: `10-1234abcd` is ten commits after the tag.
    let commits = text[suffix_at..]
        .split_once('-')
        .map_or("", |(commits, _)| commits);
    if let Some(count) = number(commits) {
        numbers[3] = count;
        suffix_at += commits.len() + 1;
    }
    Ok((numbers, suffix_at))
}

fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .then(|| {
            text.parse::<u32>()
                .ok()
                .filter(|value| i32::try_from(*value).is_ok())
        })
        .flatten()
}

impl Default for AppVersion {
    fn default() -> Self {
        Self(Arc::new(ParsedVersion {
            text: Arc::from("0.0.0"),
            numbers: [0; 4],
            suffix_at: 5,
        }))
    }
}

impl FromStr for AppVersion {
    type Err = AppVersionError;

    fn from_str(text: &str) -> Result<Self, AppVersionError> {
        Self::new(text)
    }
}

impl Ord for AppVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ordering::Equal;
        }
        // A release is later than its pre-releases: no suffix beats any suffix.
        self.0
            .numbers
            .cmp(&other.0.numbers)
            .then_with(|| match (self.suffix(), other.suffix()) {
                ("", "") => Ordering::Equal,
                ("", _) => Ordering::Greater,
                (_, "") => Ordering::Less,
                (ours, theirs) => ours.cmp(theirs),
            })
    }
}

impl PartialOrd for AppVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for AppVersion {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for AppVersion {}

impl Hash for AppVersion {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.numbers.hash(state);
        self.suffix().hash(state);
    }
}

impl fmt::Display for AppVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for AppVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
