//! The handle of a bucket: makes calls of keys and values. Holds a name and what the bucket's users have
//! said; decides nothing. Spec: sharding 5.6, 10.7.

use std::fmt;
use std::sync::Arc;

use quorate_core::ddata::state::key::{Key, Pattern};
use quorate_core::input::{Command, KvCommand};
use quorate_core::kv::protocol::ranges::RangeCommand;
use quorate_core::kv::state::bucket::BucketName;
use quorate_core::kv::state::settings::BucketSettings;
use serde::Serialize;

use super::bucket::{Bucket, Merge};
use super::calls::{KeyWrite, KvGet, KvPut, KvPutIf};
use super::changes::KvChanges;
use super::found::KvContext;
use super::keys::KvKeys;
use super::many::{KvGetMany, KvPutMany};
use super::version::KvVersion;
use crate::codec;
use crate::error::ClusterError;
use crate::shared::Shared;

/// A bucket that is open on this node: see [`Cluster::kv`](crate::Cluster::kv). Cheap to clone; does not keep
/// the node alive. A key is text of 1 to [`KEY_BYTES_MAX`](super::KEY_BYTES_MAX) bytes.
///
/// Every call gives a builder that is awaited: [`KvGet`], [`KvPut`], [`KvPutIf`], [`KvGetMany`],
/// [`KvPutMany`] or [`KvKeys`].
pub struct Kv<V> {
    bucket: Arc<Bucket<V>>,
}

impl<V> Clone for Kv<V> {
    fn clone(&self) -> Self {
        let bucket = Arc::clone(&self.bucket);
        Self { bucket }
    }
}

impl<V> fmt::Debug for Kv<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kv")
            .field("bucket", &self.bucket.name)
            .finish_non_exhaustive()
    }
}

impl<V> Kv<V> {
    pub(super) fn new(
        shared: Arc<Shared>,
        name: BucketName,
        settings: &BucketSettings,
        merge: Option<Merge<V>>,
    ) -> Self {
        let bucket = Arc::new(Bucket {
            shared,
            name,
            ranges: settings.ranges,
            reads: settings.read_least,
            writes: settings.write_least,
            merge,
        });
        Self { bucket }
    }

    /// Reads a key. What it finds is on W owners, W the bucket's least, before it is given, so that no later
    /// get goes back behind it; not if it was asked for less than the bucket's least R.
    pub fn get(&self, key: impl AsRef<str>) -> KvGet<V> {
        KvGet::new(Arc::clone(&self.bucket), Key::new(key.as_ref()).ok())
    }

    /// Reads many keys, each as [`Self::get`] does: they are not read at one moment. At most
    /// [`MANY_KEYS_MAX`](super::MANY_KEYS_MAX), and no further one once those that were read hold
    /// [`MANY_BYTES_MAX`](super::MANY_BYTES_MAX).
    ///
    /// ```no_run
    /// # async fn example(carts: quorate_driver::kv::Kv<String>) -> Result<(), Box<dyn std::error::Error>> {
    /// let users = ["u-1", "u-2"];
    /// for (user, found) in users.iter().zip(carts.get_many(users).await?) {
    ///     match found {
    ///         Ok(found) => println!("{user}: {:?}", found.values),
    ///         Err(error) => println!("{user}: {error}"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_many<K: AsRef<str>>(&self, keys: impl IntoIterator<Item = K>) -> KvGetMany<V> {
        let keys = keys.into_iter().map(|key| Key::new(key.as_ref()).ok());
        KvGetMany::new(Arc::clone(&self.bucket), keys.collect())
    }

    /// Lists keys that have a value, page by page: deleted and expired ones are not listed. Whether one has,
    /// a page says as a get at its level would, and repairs what it meets. Pages are not of one moment: a
    /// key that has a value as long as they are asked for is listed once, one that is put or deleted
    /// meanwhile may be or not. Owners look at every key that begins with the prefix.
    ///
    /// ```no_run
    /// # async fn example(carts: quorate_driver::kv::Kv<String>) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut place = Some(Default::default());
    /// while let Some(from) = place {
    ///     let page = carts.keys().prefix("user/").from(from).limit(100).await?;
    ///     println!("{:?}", page.keys);
    ///     place = page.next;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn keys(&self) -> KvKeys<V> {
        KvKeys::new(Arc::clone(&self.bucket))
    }

    /// Subscribes to changes of a key. The first thing heard is [`KvNotice::Lagged`](super::KvNotice), once
    /// the subscription is in place: from then on each put and deletion that was acknowledged at the
    /// bucket's least W is heard, at least once. A notice names the key, not what it holds, and comes from
    /// each owner that has taken the change in: a get that begins before W of them have may not find it yet.
    /// A slow reader hears of a key once, and that it lagged once more keys wait than fit. Where an owner was
    /// replaced, forgot the subscription or could not be heard, `Lagged` follows as soon as that is known,
    /// and changes before it may have been missed. That a value ended by its time to live is not told. It
    /// takes one of the node's `ddata.subscribers_max` places.
    ///
    /// ```no_run
    /// # async fn example(carts: quorate_driver::kv::Kv<String>) -> Result<(), Box<dyn std::error::Error>> {
    /// use quorate_driver::kv::KvNotice;
    ///
    /// let mut changes = carts.changes("u-1");
    /// while let Some(notice) = changes.next().await {
    ///     // Whatever it is: what the key holds now.
    ///     let (KvNotice::Changed(_) | KvNotice::Lagged) = notice?;
    ///     println!("{:?}", carts.get("u-1").await?.values);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn changes(&self, key: impl AsRef<str>) -> KvChanges {
        self.follow(Key::new(key.as_ref()).ok().map(Pattern::Key))
    }

    /// Subscribes to changes of all keys that begin so, as [`Self::changes`] does to one: owners of all
    /// ranges tell of them.
    pub fn changes_below(&self, prefix: impl AsRef<str>) -> KvChanges {
        self.follow(Pattern::below(prefix.as_ref()).ok())
    }

    fn follow(&self, pattern: Option<Pattern>) -> KvChanges {
        let shared = Arc::clone(&self.bucket.shared);
        KvChanges::new(shared, self.bucket.name.clone(), pattern)
    }

    /// Has the coordinator move a range to another owner, compare what its owners hold, or make the copies of
    /// a lost store anew. Only on the node that coordinates the bucket
    /// ([`BucketState::coordinates`](crate::stats::BucketState)); completes when it has been taken up.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] with [`KvCommandError::Ranges`](super::KvCommandError::Ranges), or
    /// [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Dropping it may or may not command.
    pub async fn change_ranges(&self, command: RangeCommand) -> Result<(), ClusterError> {
        let bucket = self.bucket.name.clone();
        let command = KvCommand::Ranges { bucket, command };
        self.bucket.shared.core(Command::Kv(command)).await
    }

    /// Deletes what the context has seen of a key. Values that others have put meanwhile stay.
    pub fn delete(&self, key: impl AsRef<str>, context: &KvContext) -> KvPut<V> {
        self.write(key.as_ref(), Some(KeyWrite::Delete), context)
    }

    /// Deletes a key if it holds this version; `None`: if it has no value.
    pub fn delete_if(&self, key: impl AsRef<str>, expected: Option<KvVersion>) -> KvPutIf<V> {
        self.write_if(key.as_ref(), Some(KeyWrite::Delete), expected)
    }

    fn write(&self, key: &str, change: Option<KeyWrite>, context: &KvContext) -> KvPut<V> {
        let key = Key::new(key).ok();
        KvPut::new(Arc::clone(&self.bucket), key, change, context.clone())
    }

    fn write_if(&self, key: &str, change: Option<KeyWrite>, expected: Option<KvVersion>) -> KvPutIf<V> {
        let key = Key::new(key).ok();
        KvPutIf::new(Arc::clone(&self.bucket), key, change, expected)
    }
}

impl<V: Serialize> Kv<V> {
    /// Gives a key a value, in place of what the context has seen: that of the get before, or
    /// `KvContext::default()`. Values that others have put meanwhile stay beside it, as siblings; a key has
    /// at most [`SIBLINGS_MAX`](super::SIBLINGS_MAX), with
    /// [`VALUES_BYTES_MAX`](super::VALUES_BYTES_MAX) bytes together.
    pub fn put(&self, key: impl AsRef<str>, value: &V, context: &KvContext) -> KvPut<V> {
        self.write(key.as_ref(), KeyWrite::put(value), context)
    }

    /// Gives many keys values, each as [`Self::put`] does and none depending on another: no transaction. At
    /// most [`MANY_KEYS_MAX`](super::MANY_KEYS_MAX), with [`MANY_BYTES_MAX`](super::MANY_BYTES_MAX) together.
    pub fn put_many<'v, K: AsRef<str>>(
        &self,
        puts: impl IntoIterator<Item = (K, &'v V, &'v KvContext)>,
    ) -> KvPutMany<V>
    where
        V: 'v,
    {
        let write = |(key, value, context): (K, &V, &KvContext)| {
            let key = Key::new(key.as_ref()).ok();
            (key, KeyWrite::put(value), context.clone())
        };
        let writes = puts.into_iter().map(write).collect();
        KvPutMany::new(Arc::clone(&self.bucket), writes)
    }

    /// Gives a key a value if it holds this version, which a get gave ([`KvFound::version`]) or a conditional
    /// put before; `None`: if it has no value. Of several that expect the same version at most one ever takes
    /// effect. A key that was written like this is written like this only: [`Self::put`] and
    /// [`Self::delete`] are refused, as a conditional put is where a value was put without a condition.
    ///
    /// [`KvFound::version`]: super::KvFound::version
    pub fn put_if(&self, key: impl AsRef<str>, expected: Option<KvVersion>, value: &V) -> KvPutIf<V> {
        self.write_if(key.as_ref(), KeyWrite::put(value), expected)
    }
}

impl KeyWrite {
    /// Nothing if the value cannot be serialised.
    fn put<V: Serialize>(value: &V) -> Option<Self> {
        let bytes = codec::encode(value)?.into();
        Some(Self::Put { bytes, ttl: None })
    }
}
