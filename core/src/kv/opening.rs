//! How a bucket is opened: its settings are checked, its store is made or read, and the oldest member of its
//! role is asked for the table. Spec: sharding 10.11, 10.19.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::bucket::{BucketStanding, OpenBucket};
use super::hosting::{BucketStore, HostSettings};
use super::protocol::{BUCKETS_MAX, BucketBody, KvCommandError};
use super::state::bucket::BucketName;
use super::state::settings::BucketSettings;
use super::{Cx, KeyedStore, refuse, send};
use crate::effect::Answer as AnyAnswer;
use crate::ident::Role;
use crate::input::Token as CallerToken;
use crate::journal::state::StoreId;
use crate::oldest::state::{may_act, oldest};

/// Callers who wait until one bucket is open, at most.
const WAITS_MAX: usize = 1_024;

impl KeyedStore {
    pub(super) fn open(
        &mut self,
        cx: &mut Cx<'_>,
        caller: CallerToken,
        bucket: &BucketName,
        settings: BucketSettings,
    ) {
        let levels = match settings.check() {
            Ok(levels) => levels,
            Err(error) => return refuse(cx, caller, error.into()),
        };
        let is_full = self.buckets.len() >= BUCKETS_MAX;
        // Who was refused may open it again: those who had other settings may be gone. A durable store stays,
        // because it has given dots.
        if let Some(open) = self.buckets.get_mut(bucket)
            && open.standing == BucketStanding::Refused
        {
            if open.has_durable_store() && *open.settings() == settings {
                open.standing = BucketStanding::Looking;
            } else if !open.has_durable_store() {
                self.buckets.remove(bucket);
            }
        }
        match self.buckets.get_mut(bucket) {
            Some(open) if *open.settings() != settings => {
                let settings = Box::new(open.settings().clone());
                return refuse(cx, caller, KvCommandError::Differs { settings });
            }
            Some(open) => match open.standing {
                BucketStanding::Accepted => return cx.reply(caller, AnyAnswer::Done),
                BucketStanding::Looking if open.waits.len() >= WAITS_MAX => {
                    return refuse(cx, caller, KvCommandError::TooManyCalls);
                }
                BucketStanding::Looking | BucketStanding::Refused => return open.waits.push(caller),
            },
            None if is_full => {
                return refuse(cx, caller, KvCommandError::TooManyBuckets);
            }
            None => {
                let has_role = has_role(cx, settings.role.as_ref());
                let is_durable = settings.is_durable;
                let mut open = OpenBucket::new(settings, levels);
                open.waits.push(caller);
                open.is_loading = has_role && is_durable;
                self.buckets.insert(bucket.clone(), open);
                if has_role && is_durable {
                    self.load_bucket(cx, bucket);
                } else if has_role {
                    let host = self.host_settings(cx, bucket);
                    let store = draw_store(cx);
                    if let Some(open) = self.buckets.get_mut(bucket) {
                        open.store = host.map(|host| BucketStore::in_memory(store, host));
                    }
                }
            }
        }
        self.look_for_table(cx, bucket);
    }

    pub(super) fn host_settings(&self, cx: &Cx<'_>, bucket: &BucketName) -> Option<HostSettings> {
        let open = self.buckets.get(bucket)?;
        Some(HostSettings {
            ranges: open.settings().ranges,
            levels: open.levels(),
            grace_ms: u64::try_from(cx.config().kv.tombstone_grace.as_millis()).unwrap_or(u64::MAX),
            ask_again: cx.config().kv.repeat_interval,
            bytes_max: cx.config().kv.store_bytes_max,
        })
    }

    /// Asks the oldest member of the role for the table, if it is time for it.
    pub(super) fn look_for_table(&mut self, cx: &mut Cx<'_>, bucket: &BucketName) {
        let again = cx.config().kv.repeat_interval;
        let Some(open) = self.buckets.get_mut(bucket) else {
            return;
        };
        if cx.view().self_member().is_none() {
            return;
        }
        let view = Arc::clone(cx.view());
        let oldest = oldest(&view, open.settings().role.as_ref());
        let Some(oldest) = oldest.filter(|oldest| may_act(oldest.status)) else {
            return;
        };
        if let Some(question) = open.look(cx.mono(), again) {
            send(cx, &oldest.node, bucket, BucketBody::Ranges(question));
        }
    }
}

/// Whether this node has the role.
fn has_role(cx: &Cx<'_>, role: Option<&Role>) -> bool {
    role.is_none_or(|role| cx.config().node_roles().contains(role))
}

/// A new name for a store that is kept in memory: nobody else ever has it.
fn draw_store(cx: &mut Cx<'_>) -> StoreId {
    let (high, low) = (cx.rng().next_u64(), cx.rng().next_u64());
    StoreId((u128::from(high) << 64) | u128::from(low))
}
