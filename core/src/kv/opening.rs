//! How a bucket is opened: its settings are checked, its store is made or read, and when the cluster has
//! accepted its settings, the oldest member of its role is asked for the table. Spec: sharding 10.11, 10.19.

use alloc::sync::Arc;

use super::bucket::{BucketStanding, OpenBucket};
use super::hosting::{BucketStore, HostSettings};
use super::protocol::{BUCKETS_MAX, BucketBody, Event, KvCommandError};
use super::state::bucket::BucketName;
use super::state::settings::{BucketFields, BucketSettings};
use super::{Cx, KeyedStore, refuse, send};
use crate::effect::Answer as AnyAnswer;
use crate::ident::{Role, UniqueAddress};
use crate::input::Token as CallerToken;
use crate::journal::state::StoreId;
use crate::oldest::state::{may_act, oldest};
use crate::sharding::protocol::registry::Judgement;
use crate::sharding::state::fields::FieldDifferences;

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
            if open.has_durable_store() && settings.differs_from(open.settings()).is_none() {
                open.standing = BucketStanding::Pending;
                self.register(cx, bucket);
            } else if !open.has_durable_store() {
                self.buckets.remove(bucket);
            }
        }
        match self.buckets.get_mut(bucket) {
            Some(open) => match (settings.differs_from(open.settings()), open.standing) {
                (Some(difference), _) => refuse(cx, caller, KvCommandError::Differs { difference }),
                (None, BucketStanding::Accepted) => cx.reply(caller, AnyAnswer::Done),
                (None, _) if open.waits.len() >= WAITS_MAX => {
                    refuse(cx, caller, KvCommandError::TooManyCalls);
                }
                (None, BucketStanding::Pending | BucketStanding::Looking | BucketStanding::Refused) => {
                    open.waits.push(caller);
                }
            },
            None if is_full => refuse(cx, caller, KvCommandError::TooManyBuckets),
            None => {
                let has_role = has_role(cx, settings.role.as_ref());
                let is_durable = settings.is_durable;
                let mut open = OpenBucket::new(settings, levels);
                open.waits.push(caller);
                self.buckets.insert(bucket.clone(), open);
                if has_role && is_durable {
                    return self.load_bucket(cx, bucket);
                }
                if has_role {
                    let host = self.host_settings(cx, bucket);
                    let store = draw_store(cx);
                    if let Some(open) = self.buckets.get_mut(bucket) {
                        open.store = host.map(|host| BucketStore::in_memory(store, host));
                    }
                }
                self.register(cx, bucket);
            }
        }
    }

    /// Asks the cluster whether the settings of a bucket stand: not before it is known that this node's store
    /// has no others, because what is asked for may be the first and stand.
    pub(super) fn register(&self, cx: &mut Cx<'_>, bucket: &BucketName) {
        if let Some(open) = self.buckets.get(bucket) {
            let fields = BucketFields {
                name: bucket.clone(),
                settings: open.settings().clone(),
            };
            cx.say_registered(bucket.clone(), Some(fields));
        }
    }

    /// The cluster has decided about the settings of a bucket.
    pub(crate) fn on_judged(&mut self, cx: &mut Cx<'_>, bucket: &BucketName, judgement: Judgement) {
        let open = self.buckets.get_mut(bucket).filter(|_| !self.is_halted);
        let Some(open) = open else {
            return;
        };
        match judgement {
            Judgement::Accepted if open.stands() => {}
            Judgement::Accepted if open.loaded.is_some() => self.begin_loaded(cx, bucket),
            Judgement::Accepted => self.look(cx, bucket),
            Judgement::Refused(difference) => self.on_differs(cx, bucket, difference),
            Judgement::TooMany => self.end_bucket(cx, bucket, &KvCommandError::TooManyBuckets),
        }
        self.after_input(cx, bucket);
    }

    /// A bucket takes part from now on.
    pub(super) fn look(&mut self, cx: &mut Cx<'_>, bucket: &BucketName) {
        if let Some(open) = self.buckets.get_mut(bucket) {
            open.standing = BucketStanding::Looking;
        }
        self.look_at_leads(cx);
        self.look_for_table(cx, bucket);
    }

    /// This node is the oldest, and the registry refused another node's bucket.
    pub(crate) fn on_refused_on(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: BucketName,
        node: UniqueAddress,
        difference: FieldDifferences,
    ) {
        cx.notify((bucket, Event::RefusedOn { node, difference }));
    }

    /// A bucket of this node has other settings elsewhere.
    pub(super) fn on_differs(&mut self, cx: &mut Cx<'_>, bucket: &BucketName, difference: FieldDifferences) {
        let event = Event::Refused {
            difference: difference.clone(),
        };
        cx.notify((bucket.clone(), event));
        self.end_bucket(cx, bucket, &KvCommandError::Differs { difference });
    }

    /// This node takes no part in a bucket until its settings stand, nor coordinates it.
    fn end_bucket(&mut self, cx: &mut Cx<'_>, bucket: &BucketName, error: &KvCommandError) {
        let Some(open) = self.buckets.get(bucket) else {
            return;
        };
        if !open.waits.is_empty() {
            // The caller was not told before that it is open, and hears now that it is not.
            cx.say_registered(bucket.clone(), None);
        }
        let lead = self.leads.get_mut(bucket);
        if let Some(lead) = lead.filter(|lead| lead.settings().differs_from(open.settings()).is_none()) {
            lead.give_up_log(cx);
            self.leads.remove(bucket);
        }
        self.give_up(cx, bucket, error);
    }

    pub(super) fn host_settings(&self, cx: &Cx<'_>, bucket: &BucketName) -> Option<HostSettings> {
        let open = self.buckets.get(bucket)?;
        Some(HostSettings {
            ranges: open.settings().ranges,
            levels: open.levels(),
            grace_ms: u64::try_from(cx.config().kv.tombstone_grace.as_millis()).unwrap_or(u64::MAX),
            ask_again: cx.config().kv.repeat_interval,
            bytes_max: cx.config().kv.store_bytes_max,
            is_sloppy: open.settings().is_sloppy,
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
