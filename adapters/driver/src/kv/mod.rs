//! The keyed store: buckets of keys with N copies each, as users open and call them from any node. Holds no
//! value itself: the nodes that own a range do. Spec: sharding 5.6, 10.19; page: `docs/kv.md`.

mod bucket;
mod builder;
mod calls;
mod changes;
mod errors;
mod found;
mod handle;
mod keys;
mod many;
#[cfg(test)]
mod tests;
mod version;

pub use bucket::{MANY_BYTES_MAX, MANY_KEYS_MAX};
pub use builder::KvBuilder;
pub use calls::{KvGet, KvPut, KvPutIf};
pub use changes::{KvChanges, KvChangesError, KvNotice};
pub use errors::{KvGetError, KvManyError, KvPutError, KvPutIfError};
pub use found::{BadContext, KvContext, KvFound};
pub use handle::Kv;
pub use keys::{BadPlace, KvKeys, KvPage, KvPlace, PAGE_BYTES_MAX, PAGE_KEYS_MAX};
pub use many::{KvGetMany, KvPutMany};
pub use quorate_core::ddata::state::key::KEY_BYTES_MAX;
pub use quorate_core::effect::KvCommandError;
pub use quorate_core::event::KvEvent;
pub use quorate_core::journal::state::StoreId;
pub use quorate_core::kv::protocol::ranges::{RangeCommand, RangeCommandError, RangeEvent, UndoReason};
pub use quorate_core::kv::protocol::watching::WatchNews;
pub use quorate_core::kv::state::bucket::{BUCKET_NAME_BYTES_MAX, BadBucketName, BucketName};
pub use quorate_core::kv::state::configuration::{Configuration, Owners, OwnersError};
pub use quorate_core::kv::state::level::{Level, LevelError};
pub use quorate_core::kv::state::outcome::CallError;
pub use quorate_core::kv::state::part::PartError;
pub use quorate_core::kv::state::settings::{BucketSettings, BucketSettingsError};
pub use quorate_core::kv::state::siblings::{PutError, SIBLINGS_MAX, VALUES_BYTES_MAX};
pub use quorate_core::kv::state::table::{RangeId, RangeLevels, RangeLevelsError};
pub use quorate_core::planner::ChangeReason;
pub use version::KvVersion;
