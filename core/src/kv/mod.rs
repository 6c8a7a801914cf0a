//! A keyed store with N copies: keys lie in ranges, and each range has explicit owners, which are stores and
//! not nodes. This file holds the machine's parts and hands each input to its file. Spec: sharding 5.6,
//! 10.19.
//!
//! Every node that has opened a [`bucket`] can call it (`calls`), and has a store of it if it has the
//! bucket's role ([`hosting`]). The oldest member of the role says who owns what ([`leading`]).

pub mod bucket;
mod calls;
mod comparing;
mod hints;
pub mod hosting;
mod keeping;
mod layout;
pub mod leading;
mod listing;
pub mod merkle;
pub mod moving;
mod opening;
pub mod protocol;
pub mod ranges;
pub mod replica;
pub mod requests;
mod speaking;
pub mod state;
mod statements;
mod sweeping;
#[cfg(test)]
mod tests;
mod turns;
mod watching;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use self::bucket::OpenBucket;
use self::calls::{OpenCalls, refuse};
use self::comparing::Comparisons;
use self::hints::Hinting;
use self::hosting::BucketStore;
use self::keeping::Keeping;
use self::leading::LeadBucket;
use self::listing::OpenListings;
use self::protocol::ranges::RangeCommandError;
use self::protocol::{BUCKETS_MAX, BucketBody, Command, Msg, RangeStatement, Rejection, Timer};
use self::state::bucket::BucketName;
use self::state::settings::BucketSettings;
use self::state::table::RangeId;
use self::sweeping::Sweep;
use self::turns::OpenTurns;
use self::watching::OpenWatches;
use crate::cx::OfKv;
use crate::effect::{Answer as AnyAnswer, CommandError as AnyError};
use crate::ident::UniqueAddress;
use crate::input::Token as CallerToken;
use crate::journal::state::StoreId;
use crate::membership::state::member::Status;
use crate::oldest::state::{RoleStanding, oldest};
use crate::ordered::OrderedMap;
use crate::time::Instant;
use crate::token::Token;
use crate::view::View;

/// What the machine may touch outside itself.
pub(crate) type Cx<'a> = crate::cx::Cx<'a, OfKv>;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct KeyedStore {
    buckets: OrderedMap<BucketName, OpenBucket>,
    leads: OrderedMap<BucketName, LeadBucket>,
    calls: OpenCalls,
    listings: OpenListings,
    watches: OpenWatches,
    keeping: Keeping,
    sweep: Sweep,
    comparisons: Comparisons,
    turns: OpenTurns,
    hinting: Hinting,
    /// Coordinators that this node had, so that none has the term of another.
    coordinators: u64,
    is_paused: bool,
    is_draining: bool,
    is_halted: bool,
}

impl KeyedStore {
    /// A bucket that is open here.
    #[must_use]
    pub fn bucket(&self, bucket: &BucketName) -> Option<&OpenBucket> {
        self.buckets.get(bucket)
    }

    /// All buckets that are open here.
    pub fn buckets(&self) -> impl ExactSizeIterator<Item = (&BucketName, &OpenBucket)> {
        self.buckets.iter()
    }

    /// The coordinator of a bucket's ranges, if this node is the oldest member of its role.
    #[must_use]
    pub fn lead(&self, bucket: &BucketName) -> Option<&LeadBucket> {
        self.leads.get(bucket)
    }

    /// Calls of this node to a bucket that somebody waits for: how many for keys of which range, and since
    /// when the first of them is open. Linear in the calls that are open.
    #[must_use]
    pub fn calls_waiting(&self, bucket: &BucketName) -> OrderedMap<RangeId, (usize, Instant)> {
        self.calls.waiting(bucket)
    }

    /// Calls of this node that are not over: some have been answered, and tell the rest of the owners.
    #[must_use]
    pub fn open_calls(&self) -> usize {
        self.calls.len()
    }

    /// Another node speaks, or this one to itself.
    pub(crate) fn on_message(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, message: Msg) {
        if self.is_halted || message.to_uid != cx.me().uid() {
            cx.counters().ignored += 1;
            return;
        }
        let Msg { bucket, body, .. } = message;
        let is_for_lead = matches!(
            body,
            BucketBody::Ranges(
                RangeStatement::Look { .. }
                    | RangeStatement::NotOpen { .. }
                    | RangeStatement::Found { .. }
                    | RangeStatement::Adopted { .. }
            )
        );
        let heard = match body {
            BucketBody::Ranges(statement) => self.on_statement(cx, from, &bucket, statement),
            BucketBody::Ask(asked) => {
                cx.counters().asked += 1;
                let now = cx.now();
                let store = self.store_of(&bucket, asked.store);
                store.map_or(Ok(()), |store| store.on_ask(from, &asked, now))
            }
            BucketBody::Answer(answered) => {
                self.on_owner_answer(cx, from, *answered);
                Ok(())
            }
            BucketBody::Content(content) => self.on_content(cx, from, &bucket, content),
            BucketBody::Trees(statement) => self.on_tree(cx, from, &bucket, *statement),
            BucketBody::List(asked) => self.on_list_asked(cx, from, &bucket, &asked),
            BucketBody::Listed(answered) => self.on_listed(cx, from, &bucket, *answered),
            BucketBody::Watch(statement) => self.on_watch_statement(cx, from, &bucket, statement),
            BucketBody::Notice(notice) => self.on_notice(cx, from, &bucket, notice),
            BucketBody::Hint(statement) => self.on_hint(cx, from, &bucket, *statement),
        };
        if let Err(rejection) = heard {
            self.reject(cx, from, rejection);
        }
        // What is said of keys is much, and nothing follows from it for the coordinator.
        if is_for_lead {
            self.look_at_lead(cx, &bucket);
        }
        self.speak_for_store(cx, &bucket);
        self.keep(cx);
        self.say_if_drained(cx);
        self.await_next(cx);
    }

    /// This node's store of a bucket, if it is the one that is meant.
    fn store_of(&mut self, bucket: &BucketName, store: StoreId) -> Option<&mut BucketStore> {
        let open = self.buckets.get_mut(bucket)?;
        open.store.as_mut().filter(|own| own.id() == store)
    }

    /// A caller wants something.
    pub(crate) fn on_command(&mut self, cx: &mut Cx<'_>, caller: CallerToken, command: Command) {
        match command {
            Command::Open { bucket, settings } => {
                self.open(cx, caller, &bucket, settings);
                self.after_input(cx, &bucket);
            }
            Command::Call {
                bucket,
                key,
                goal,
                timeout,
            } => {
                self.begin_call(cx, caller, (bucket, key), goal, timeout);
                self.await_calls(cx);
            }
            Command::List {
                bucket,
                wanted,
                timeout,
            } => {
                self.begin_listing(cx, caller, bucket, wanted, timeout);
                self.await_calls(cx);
            }
            Command::Watch { bucket, pattern } => {
                self.begin_watch(cx, caller, bucket, pattern);
                self.await_next(cx);
            }
            Command::Unwatch { watch } => {
                self.end_watch(cx, watch);
                cx.reply(caller, AnyAnswer::Done);
            }
            Command::Ranges { bucket, command } => {
                let now = cx.mono();
                let lead = self.leads.get_mut(&bucket);
                let done = lead.map_or(Err(RangeCommandError::NotCoordinating), |lead| {
                    lead.on_command(command, now)
                });
                match done {
                    Ok(()) => cx.reply(caller, AnyAnswer::Done),
                    Err(error) => refuse(cx, caller, error.into()),
                }
                self.after_input(cx, &bucket);
            }
        }
    }

    /// This node coordinates the ranges of a bucket, if it is the oldest member of its role and may act.
    fn lead_if_oldest(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: &BucketName,
        settings: &BucketSettings,
    ) -> Result<Option<&mut LeadBucket>, Rejection> {
        let role = settings.role.as_ref();
        let is_acting = cx.succession().standing(role) == Some(RoleStanding::Acting);
        let Some(number) = cx.succession().up_number(role).filter(|_| is_acting) else {
            return Ok(None);
        };
        if !self.leads.contains_key(bucket) {
            let Ok(levels) = settings.check() else {
                return Ok(None);
            };
            if self.leads.len() >= BUCKETS_MAX {
                return Err(Rejection::TooManyBuckets);
            }
            self.coordinators += 1;
            let term = Token::new(u64::from(number.get()), self.coordinators);
            let settings = (settings.clone(), levels);
            let lead = LeadBucket::new(bucket, settings, term, cx.config(), self.is_paused);
            self.leads.insert(bucket.clone(), lead);
        }
        Ok(self.leads.get_mut(bucket))
    }

    /// Begins and ends coordinators, as this node is the oldest member of roles or not.
    fn look_at_leads(&mut self, cx: &mut Cx<'_>) {
        let succession = Arc::clone(cx.succession());
        // One that was outdone begins anew, whether the bucket is open here or not.
        let outdone = self.leads.iter().filter(|(_, lead)| lead.is_outdone());
        let outdone = outdone.map(|(bucket, lead)| (bucket.clone(), lead.settings().clone()));
        let open = self.buckets.iter();
        let open = open.filter(|(_, open)| open.stands());
        let open = open.map(|(bucket, open)| (bucket.clone(), open.settings().clone()));
        let begun: Vec<_> = outdone.chain(open).collect();
        self.leads.retain(|_, lead| {
            let role = lead.settings().role.as_ref();
            let stays = succession.standing(role) == Some(RoleStanding::Acting) && !lead.is_outdone();
            if !stays {
                lead.give_up_log(cx);
            }
            stays
        });
        for (bucket, settings) in begun {
            // There may be as many as are open here, and whoever finds no room looks again.
            let _ = self.lead_if_oldest(cx, &bucket, &settings);
        }
        let leads: Vec<BucketName> = self.leads.keys().cloned().collect();
        for bucket in leads {
            self.look_at_lead(cx, &bucket);
        }
    }

    fn look_at_lead(&mut self, cx: &mut Cx<'_>, bucket: &BucketName) {
        if let Some(lead) = self.leads.get_mut(bucket) {
            lead.look(cx, bucket);
        }
        if self.leads.get(bucket).is_some_and(LeadBucket::is_outdone) {
            self.look_at_leads(cx);
        }
    }

    /// A timer is due.
    pub(crate) fn on_timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        match timer {
            Timer::Calls => {
                self.on_calls_due(cx);
                self.on_listings_due(cx);
            }
            Timer::Compare => self.compare(cx),
            Timer::Repeat => {
                let (now, buckets) = (cx.now(), self.buckets.keys().cloned().collect::<Vec<_>>());
                for bucket in buckets {
                    let open = self.buckets.get_mut(&bucket);
                    if let Some(store) = open.and_then(|open| open.store.as_mut()) {
                        store.on_tick(now);
                    }
                    self.look_for_table(cx, &bucket);
                    self.speak_for_store(cx, &bucket);
                }
                self.say_watches(cx);
                self.keeping.repeat(cx);
                self.sweep(cx);
                self.deliver_hints(cx);
                self.compare(cx);
                self.end_turns(cx);
                self.look_at_leads(cx);
            }
        }
        self.keep(cx);
        self.await_next(cx);
    }

    /// The picture changed, or who acts for whom in it.
    pub(crate) fn on_ages_changed(&mut self, cx: &mut Cx<'_>, before: &View, after: &View) {
        if self.is_halted {
            return;
        }
        for member in after.gone_since(before) {
            for store in self.buckets.values_mut().filter_map(|open| open.store.as_mut()) {
                store.forget_origin(member.node.uid());
            }
        }
        for open in self.buckets.values_mut() {
            // The next oldest member has to hear of the bucket: it need not have opened it.
            let role = open.settings().role.clone();
            let node = |view: &View| oldest(view, role.as_ref()).map(|oldest| oldest.node.clone());
            if node(before) != node(after) {
                open.miss();
            }
        }
        self.look_at_leads(cx);
        let buckets: Vec<BucketName> = self.buckets.keys().cloned().collect();
        for bucket in buckets {
            self.look_for_table(cx, &bucket);
        }
        self.deliver_hints(cx);
        self.say_if_drained(cx);
        self.await_next(cx);
    }

    /// The work of a departed member is free.
    pub(crate) fn on_margin_over(&mut self, cx: &mut Cx<'_>) {
        self.look_at_leads(cx);
        self.await_next(cx);
    }

    /// This process stood still: nothing is decided for others until it is known to be a member.
    pub(crate) fn on_paused(&mut self, cx: &Cx<'_>, since: Instant) {
        self.note_absence(cx, since);
        self.set_paused(true);
    }

    /// It is a member still.
    pub(crate) fn on_still_member(&mut self, cx: &mut Cx<'_>) {
        self.set_paused(false);
        self.look_at_leads(cx);
        self.await_next(cx);
    }

    fn set_paused(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
        for lead in self.leads.values_mut() {
            lead.on_paused(is_paused);
        }
    }

    /// This node leaves: its ranges are to go to others.
    pub(crate) fn on_drain_requested(&mut self, cx: &mut Cx<'_>) {
        self.is_draining = true;
        self.deliver_hints(cx);
        self.say_if_drained(cx);
    }

    /// The coordinators move what a leaving member has. Nothing is waited for where too few others are there.
    fn say_if_drained(&mut self, cx: &mut Cx<'_>) {
        if !self.is_draining || self.is_halted {
            return;
        }
        let view = Arc::clone(cx.view());
        let can_move = |open: &OpenBucket| {
            let role = open.settings().role.as_ref();
            let others = view.members_in(Status::Up).filter(|member| {
                member.node != *view.me() && role.is_none_or(|role| member.roles.contains(role))
            });
            others.count() >= open.levels().copies() && !view.is_shutting_down()
        };
        let waits = |open: &OpenBucket| open.store().is_some_and(BucketStore::is_needed) && can_move(open);
        if !self.buckets.values().any(waits) {
            self.is_draining = false;
            cx.say_drained();
        }
    }

    /// The node ends: whoever waits hears that nothing more comes.
    pub(crate) fn halt(&mut self, cx: &mut Cx<'_>) {
        self.is_halted = true;
        self.end_calls(cx);
        self.end_listings(cx);
        for open in self.buckets.values_mut() {
            for caller in core::mem::take(&mut open.waits) {
                cx.reply(caller, AnyAnswer::Refused(AnyError::Stopped));
            }
        }
        self.leads.clear();
    }

    /// After something about a bucket was heard.
    fn after_input(&mut self, cx: &mut Cx<'_>, bucket: &BucketName) {
        self.speak_for_store(cx, bucket);
        self.keep(cx);
        self.look_at_lead(cx, bucket);
        self.say_if_drained(cx);
        self.await_next(cx);
    }

    /// Waits for what there is to wait for.
    fn await_next(&self, cx: &mut Cx<'_>) {
        self.await_calls(cx);
        if self.is_halted {
            return;
        }
        self.await_round(cx);
        if cx.is_set(Timer::Repeat) {
            return;
        }
        let lacks = |open: &OpenBucket| {
            let store = open.store.as_ref();
            let is_busy =
                |store: &BucketStore| store.is_arriving() || store.has_watchers() || store.hints() > 0;
            open.needs_table() || store.is_some_and(is_busy)
        };
        let is_needed = !self.leads.is_empty()
            || self.keeping.waits()
            || self.has_to_sweep()
            || self.is_behind()
            || !self.watches.is_empty()
            || self.buckets.values().any(lacks);
        if is_needed {
            let at = cx.mono() + cx.config().kv.repeat_interval;
            cx.wake(Timer::Repeat, at);
        }
    }

    /// Checks the machine's rules. Linear.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        if !self.calls.is_consistent() || !self.listings.is_consistent() {
            return Err(String::from(
                "an open call without a time at which it is looked at",
            ));
        }
        Ok(())
    }
}

/// Says something about a bucket to a node, this one included.
fn send(cx: &mut Cx<'_>, to: &UniqueAddress, bucket: &BucketName, body: BucketBody) {
    let message = Msg {
        to_uid: to.uid(),
        bucket: bucket.clone(),
        body,
    };
    cx.send(to, message);
}
