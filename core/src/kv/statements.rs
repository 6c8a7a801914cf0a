//! What nodes say about who owns what: to the coordinator, to stores, to members that look. Only finds out
//! whom it concerns. Spec: sharding 10.1, 10.19 a and b.

use super::bucket::BucketStanding;
use super::leading::LeadBucket;
use super::protocol::{BucketBody, RangeContent, RangeStatement, Rejection};
use super::state::bucket::BucketName;
use super::state::settings::BucketSettings;
use super::{Cx, KeyedStore, send};
use crate::effect::Answer as AnyAnswer;
use crate::ident::UniqueAddress;
use crate::membership::state::member::UpNumber;
use crate::oldest::state::{may_speak, oldest};
use crate::token::Token;

impl KeyedStore {
    /// A node says something about who owns what.
    pub(super) fn on_statement(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        bucket: &BucketName,
        statement: RangeStatement,
    ) -> Result<(), Rejection> {
        let now = cx.mono();
        match statement {
            RangeStatement::Look { settings, store } => {
                self.replace_lead(cx, bucket, &settings);
                if let Some(lead) = self.lead_if_oldest(cx, bucket, &settings)? {
                    return lead.on_look(cx, bucket, from, (&settings, store));
                }
            }
            RangeStatement::Differs { settings } => {
                self.on_coordinated_otherwise(cx, from, (bucket, &settings));
            }
            RangeStatement::Seek { term } => self.on_seek(cx, from, bucket, term),
            RangeStatement::NotOpen { term } => {
                if let Some(lead) = self.leads.get_mut(bucket).filter(|lead| lead.term() == term) {
                    lead.on_not_open(from);
                }
            }
            RangeStatement::Recall { term, store } => {
                if self.coordinates(cx, from, bucket, term)
                    && let Some(store) = self.store_of(bucket, store).filter(|own| own.id() == store)
                    && store.hears(term)
                {
                    store.on_recall(from, term);
                }
            }
            RangeStatement::Found {
                term,
                store,
                known,
                is_last,
            } => {
                if let Some(lead) = self.leads.get_mut(bucket).filter(|lead| lead.term() == term) {
                    return lead.on_found((from, store), &known, is_last);
                }
            }
            RangeStatement::Tell { term, store, ranges } => {
                if self.coordinates(cx, from, bucket, term)
                    && let Some(store) = self.store_of(bucket, store)
                    && store.hears(term)
                {
                    return store.on_tell(from, term, &ranges, now);
                }
            }
            RangeStatement::Adopted { term, store, ranges } => {
                if let Some(lead) = self.leads.get_mut(bucket).filter(|lead| lead.term() == term) {
                    return lead.on_adopted((from, store), &ranges);
                }
            }
            RangeStatement::Repair { term, store, range } => {
                if self.coordinates(cx, from, bucket, term) && self.store_of(bucket, store).is_some() {
                    self.repair_range(cx, bucket, range);
                }
            }
            RangeStatement::Refuse {
                store,
                range,
                configuration,
            } => {
                if let Some(store) = self.store_of(bucket, store) {
                    return store.on_refuse(from, range, &configuration, now);
                }
            }
            RangeStatement::Refuses { store, range, epoch } => {
                let open = self.buckets.get_mut(bucket);
                if let Some(open) = open.filter(|open| open.node_of(store) == Some(from))
                    && let Some(own) = open.store.as_mut()
                {
                    own.on_refuses(store, (range, epoch), now);
                }
            }
        }
        Ok(())
    }

    /// A node sends a table, asks for what this node's store holds, or sends what its own holds.
    pub(super) fn on_content(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        bucket: &BucketName,
        content: RangeContent,
    ) -> Result<(), Rejection> {
        let now = cx.mono();
        match content {
            RangeContent::Table { term, stores, table } => {
                if !self.coordinates(cx, from, bucket, term) {
                    return Ok(());
                }
                let Some(open) = self.buckets.get_mut(bucket) else {
                    return Ok(());
                };
                if !open.stands() {
                    return Ok(());
                }
                open.on_table(term, stores, table);
                for caller in core::mem::take(&mut open.waits) {
                    cx.reply(caller, AnyAnswer::Done);
                }
                self.ask_waiting(cx, bucket);
                self.list_waiting(cx, bucket);
            }
            RangeContent::Pull {
                store,
                range,
                configuration,
                after,
            } => {
                if let Some(store) = self.store_of(bucket, store) {
                    let is_sent = store.on_pull(from, (range, &configuration), after, now)?;
                    cx.counters().parts_sent += u64::from(is_sent);
                }
            }
            RangeContent::Part {
                store,
                range,
                epoch,
                after,
                part,
            } => {
                let open = self.buckets.get_mut(bucket);
                if let Some(open) = open.filter(|open| open.node_of(store) == Some(from))
                    && let Some(own) = open.store.as_mut()
                {
                    let sent = (after.as_deref(), part);
                    let is_merged = own.on_part(store, (range, epoch), sent)?;
                    cx.counters().parts_merged += u64::from(is_merged);
                }
            }
        }
        Ok(())
    }

    /// A peer did something wrong.
    pub(super) fn reject(&self, cx: &mut Cx<'_>, from: &UniqueAddress, rejection: Rejection) {
        cx.counters().rejected += 1;
        cx.reject(from, rejection);
    }

    /// Whether the sender may coordinate the bucket in this picture, under this term. What was said before
    /// this node heard of it is said again.
    fn coordinates(&self, cx: &mut Cx<'_>, from: &UniqueAddress, bucket: &BucketName, term: Token) -> bool {
        let number = u32::try_from(term.term).map(UpNumber::new);
        let role = self.buckets.get(bucket).map(|open| open.settings().role.as_ref());
        let (Some(role), Ok(number)) = (role, number) else {
            return false;
        };
        let is_so = may_speak(cx.view(), role, from, number);
        cx.counters().ignored += u64::from(!is_so);
        is_so
    }

    /// The coordinator asks whether the bucket is open here.
    fn on_seek(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, bucket: &BucketName, term: Token) {
        let statement = match self.buckets.get(bucket) {
            // Asked again when it is known whether it stands.
            Some(open) if open.standing == BucketStanding::Pending => return,
            Some(open) if open.stands() => open.question(),
            Some(_) | None => RangeStatement::NotOpen { term },
        };
        send(cx, from, bucket, BucketBody::Ranges(statement));
    }

    /// The coordinator has other settings.
    fn on_coordinated_otherwise(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        (bucket, settings): (&BucketName, &BucketSettings),
    ) {
        let open = self.buckets.get(bucket);
        let Some(open) = open.filter(|open| open.standing == BucketStanding::Looking) else {
            return;
        };
        let oldest = oldest(cx.view(), open.settings().role.as_ref());
        let is_from_oldest = oldest.is_some_and(|oldest| oldest.node == *from);
        let difference = open.settings().differs_from(settings);
        if let Some(difference) = difference.filter(|_| is_from_oldest) {
            self.on_differs(cx, bucket, difference);
        }
    }

    /// A coordinator that nobody with its settings is left for gives way to other ones: those that stand now.
    fn replace_lead(&mut self, cx: &mut Cx<'_>, bucket: &BucketName, settings: &BucketSettings) {
        let is_void = |lead: &&mut LeadBucket| {
            lead.stores().next().is_none() && lead.settings().differs_from(settings).is_some()
        };
        if let Some(lead) = self.leads.get_mut(bucket).filter(is_void) {
            lead.give_up_log(cx);
            self.leads.remove(bucket);
        }
    }
}
