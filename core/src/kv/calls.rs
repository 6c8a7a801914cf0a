//! Calls of this node that are open: each waits until it is known who owns its key, then asks, repeats, and
//! ends in time. What is asked is the call's to decide. Spec: sharding 5.6.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::bucket::{BucketStanding, OpenBucket};
use super::protocol::hints::{HintAsk, HintStatement, HintWanted};
use super::protocol::{Answer, BucketBody, KvCommandError, OwnerAnswer, OwnerAsk, Rejection, Timer};
use super::requests::{Call, CallOutput, CallPlace};
use super::state::bucket::BucketName;
use super::state::call::{Ballot, CallId};
use super::state::exchange::{KvAnswer, KvRefusal};
use super::state::outcome::{CallAnswer, CallError, CallGoal};
use super::state::table::RangeId;
use super::{Cx, KeyedStore, send};
use crate::ddata::state::key::Key;
use crate::effect::{Answer as AnyAnswer, CommandError as AnyError};
use crate::ident::UniqueAddress;
use crate::input::Token as CallerToken;
use crate::journal::state::StoreId;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::time::Instant;

const TIMEOUT_MIN: Duration = Duration::from_millis(1);
const TIMEOUT_MAX: Duration = Duration::from_secs(3_600);

/// How far a call is.
#[derive(Clone, Debug)]
enum CallProgress {
    /// Nobody has said yet who owns its range.
    Waiting(CallGoal),
    /// Owners are asked.
    Asking(Box<Call>),
}

/// Who is told what a call came to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asker {
    /// A caller.
    User(CallerToken),
    /// A listing of this node.
    Listing(u64),
}

#[derive(Clone, Debug)]
struct OpenCall {
    bucket: BucketName,
    key: Key,
    range: RangeId,
    /// Who is to be answered, and has not been.
    asker: Option<Asker>,
    progress: CallProgress,
    since: Instant,
    deadline: Instant,
    /// When it is looked at again: the deadline, or a repetition.
    due: Instant,
    /// How long after a repetition the next one comes, once nobody waits for the call any more.
    pause: Duration,
    /// For how long hints have held what the call has found: who keeps it again is told.
    hint_age_ms: u64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenCalls {
    last: u64,
    open: OrderedMap<u64, OpenCall>,
    due: OrderedSet<(Instant, u64)>,
    /// Calls that nobody waits for: they only give owners what they lack.
    unawaited: OrderedSet<u64>,
}

impl OpenCalls {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether one more has room among so many: the oldest that nobody waits for give way.
    fn make_room(&mut self, max: usize) -> bool {
        while self.open.len() >= max {
            let Some(oldest) = self.unawaited.pop_first() else {
                return false;
            };
            self.remove(oldest);
        }
        true
    }

    /// Calls of a bucket that somebody waits for: of each range how many, and since when the first of them
    /// does. Linear in all calls.
    pub(super) fn waiting(&self, bucket: &BucketName) -> OrderedMap<RangeId, (usize, Instant)> {
        let waits = |call: &&OpenCall| call.asker.is_some() && call.bucket == *bucket;
        let mut waiting = OrderedMap::new();
        // In the order in which they were begun.
        for call in self.open.values().filter(waits) {
            waiting.entry(call.range).or_insert((0, call.since)).0 += 1;
        }
        waiting
    }

    /// When a call is to be looked at next.
    fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The number of the next call, or of something else that owners are asked.
    pub(super) fn draw_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn insert(&mut self, call: OpenCall) -> u64 {
        let number = self.draw_number();
        self.due.insert((call.due, number));
        if call.asker.is_none() {
            self.unawaited.insert(number);
        }
        self.open.insert(number, call);
        number
    }

    fn remove(&mut self, number: u64) -> Option<OpenCall> {
        let call = self.open.remove(&number)?;
        self.due.remove(&(call.due, number));
        self.unawaited.remove(&number);
        Some(call)
    }

    /// Has a call looked at again at this time, or at its deadline if that is before.
    fn schedule(&mut self, number: u64, at: Instant) {
        if let Some(call) = self.open.get_mut(&number) {
            self.due.remove(&(call.due, number));
            call.due = at.min(call.deadline);
            self.due.insert((call.due, number));
        }
    }

    /// Takes who asked for a call and is to be answered now, and the key.
    fn take_asker(&mut self, number: u64) -> Option<(Asker, Key)> {
        let call = self.open.get_mut(&number)?;
        let asker = call.asker.take()?;
        self.unawaited.insert(number);
        Some((asker, call.key.clone()))
    }

    /// Whether each of them has one time at which it is looked at, and those are known that nobody waits for.
    pub(super) fn is_consistent(&self) -> bool {
        let is_noted = |(number, call): (&u64, &OpenCall)| {
            self.due.contains(&(call.due, *number)) && self.unawaited.contains(number) == call.asker.is_none()
        };
        self.open.len() == self.due.len()
            && self.unawaited.iter().all(|number| self.open.contains_key(number))
            && self.open.iter().all(is_noted)
    }
}

impl KeyedStore {
    /// A caller wants something of a key.
    pub(super) fn begin_call(
        &mut self,
        cx: &mut Cx<'_>,
        caller: CallerToken,
        (bucket, key): (BucketName, Key),
        goal: CallGoal,
        timeout: Duration,
    ) {
        let open = self.buckets.get(&bucket);
        if open.is_none_or(|open| open.standing == BucketStanding::Refused) {
            return refuse(cx, caller, KvCommandError::NotOpen);
        }
        let is_log = matches!(goal, CallGoal::Log { .. });
        if is_log && open.is_some_and(|open| !open.settings().is_strict()) {
            return refuse(cx, caller, KvCommandError::NotStrict);
        }
        if !self.calls.make_room(cx.config().kv.open_calls_max) {
            return refuse(cx, caller, KvCommandError::TooManyCalls);
        }
        self.insert_call(cx, Some(Asker::User(caller)), (bucket, key), goal, timeout);
    }

    /// Reads a key for nobody, or ends the turn about it, so that each owner gets what it lacks.
    pub(super) fn begin_repair(
        &mut self,
        cx: &mut Cx<'_>,
        of: (BucketName, Key),
        goal: CallGoal,
        timeout: Duration,
    ) {
        if self.calls.len() < cx.config().kv.open_calls_max {
            self.insert_call(cx, None, of, goal, timeout);
        }
    }

    pub(super) fn insert_call(
        &mut self,
        cx: &mut Cx<'_>,
        asker: Option<Asker>,
        (bucket, key): (BucketName, Key),
        goal: CallGoal,
        timeout: Duration,
    ) {
        let Some(open) = self.buckets.get(&bucket) else {
            return;
        };
        let deadline = deadline(cx, timeout);
        let call = OpenCall {
            range: open.settings().range_of(&key),
            bucket,
            key,
            asker,
            progress: CallProgress::Waiting(goal),
            since: cx.mono(),
            deadline,
            due: deadline,
            pause: cx.config().kv.repeat_interval,
            hint_age_ms: 0,
        };
        let number = self.calls.insert(call);
        self.ask_owners(cx, number);
    }

    /// Begins to ask, if it is known whom.
    fn ask_owners(&mut self, cx: &mut Cx<'_>, number: u64) {
        let open_from = self.calls.open.keys().next().copied().unwrap_or(number);
        let Some(open) = self.calls.open.get_mut(&number) else {
            return;
        };
        let Some(bucket) = self.buckets.get(&open.bucket) else {
            return;
        };
        let (CallProgress::Waiting(goal), Some(configuration)) =
            (&open.progress, bucket.configuration(open.range))
        else {
            return;
        };
        let origin = cx.me().uid();
        let place = CallPlace {
            id: CallId { origin, number },
            open_from,
            levels: bucket.levels(),
            configuration: configuration.clone(),
            minters: bucket.minters(open.range, cx.view()),
            rounds_from: cx.now().unix_ms,
            last_turn: Ballot::NONE,
        };
        let mut out = Vec::new();
        let call = Call::begin(place, goal.clone(), &mut out);
        open.progress = CallProgress::Asking(Box::new(call));
        let again = cx.mono() + cx.config().kv.repeat_interval;
        self.calls.schedule(number, again);
        self.perform(cx, number, out);
    }

    /// It is known who owns what: calls that waited for it begin. Linear in the open calls.
    pub(super) fn ask_waiting(&mut self, cx: &mut Cx<'_>, bucket: &BucketName) {
        let waits =
            |call: &OpenCall| call.bucket == *bucket && matches!(call.progress, CallProgress::Waiting(_));
        let waiting = self.calls.open.iter().filter(|(_, call)| waits(call));
        let waiting: Vec<u64> = waiting.map(|(number, _)| *number).collect();
        for number in waiting {
            self.ask_owners(cx, number);
        }
    }

    /// An owner answers.
    pub(super) fn on_owner_answer(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, said: OwnerAnswer) {
        if !self.on_settled(cx, from, &said) && !self.on_hint_taken(cx, from, &said) {
            let store = said.store;
            self.on_call_answer(cx, (from, store, 0), said);
        }
    }

    /// An owner answers a call, or a store that stands in for it.
    pub(super) fn on_call_answer(
        &mut self,
        cx: &mut Cx<'_>,
        (from, store, age_ms): (&UniqueAddress, StoreId, u64),
        said: OwnerAnswer,
    ) {
        let number = said.call;
        let deadline = self.calls.open.get(&number).map(|open| open.deadline);
        if deadline.is_some_and(|deadline| deadline <= cx.mono()) {
            // What a process that stood still goes on with may have been forgotten since by its owners.
            self.on_calls_due(cx);
        }
        let Some(open) = self.calls.open.get_mut(&number) else {
            cx.counters().answers_late += 1;
            return;
        };
        let Some(bucket) = self.buckets.get_mut(&open.bucket) else {
            return;
        };
        match bucket.node_of(store) {
            Some(node) if node == from => {}
            Some(_) => return self.reject(cx, from, Rejection::NotItsStore),
            None => {
                cx.counters().ignored += 1;
                return;
            }
        }
        note_owner(bucket, open.range, &said.answer);
        let CallProgress::Asking(call) = &mut open.progress else {
            return;
        };
        if store != said.store && !call.admits_stand_ins() {
            cx.counters().answers_late += 1;
            return;
        }
        // What it keeps of it again is as old.
        if call.is_get() {
            open.hint_age_ms = open.hint_age_ms.max(age_ms);
        }
        let is_hindered = matches!(
            said.answer,
            KvAnswer::Refused(KvRefusal::Blocked(_) | KvRefusal::Busy)
        );
        let mut out = Vec::new();
        let (owner, now_ms) = ((said.store, said.epoch), cx.now().unix_ms);
        call.on_answer(owner, said.step, said.answer, now_ms, &mut out);
        if is_hindered && out.is_empty() && open.asker.is_some() {
            // Somebody else's turn: two that wait for as long would meet again.
            let again = cx.config().kv.repeat_interval / 8;
            let spread = u64::try_from(again.as_micros()).unwrap_or(u64::MAX).max(1);
            let wait = again + Duration::from_micros(u64::from(cx.rng().next_u32()) % spread);
            let at = open.due.min(cx.mono() + wait);
            self.calls.schedule(number, at);
        }
        self.perform(cx, number, out);
    }

    /// Does what a call wants.
    fn perform(&mut self, cx: &mut Cx<'_>, number: u64, out: Vec<CallOutput>) {
        for output in out {
            match output {
                CallOutput::Ask { to, step, ask } => {
                    let Some(open) = self.calls.open.get(&number) else {
                        return;
                    };
                    let CallProgress::Asking(call) = &open.progress else {
                        return;
                    };
                    let Some(bucket) = self.buckets.get_mut(&open.bucket) else {
                        return;
                    };
                    let of = (open.range, to);
                    if call.admits_stand_ins()
                        && let Some((store, node)) = bucket.stand_in(of, call.configuration(), cx.view())
                        && let Some(wanted) = HintWanted::of(&ask, open.hint_age_ms)
                    {
                        let asked = HintAsk {
                            store,
                            owner: to,
                            range: open.range,
                            configuration: call.configuration().clone(),
                            key: open.key.clone(),
                            call: number,
                            step,
                            wanted,
                        };
                        let body = BucketBody::Hint(Box::new(HintStatement::Ask(asked)));
                        send(cx, &node, &open.bucket, body);
                        continue;
                    }
                    let Some(node) = bucket.place_of(to, cx.view()) else {
                        continue;
                    };
                    let asked = OwnerAsk {
                        store: to,
                        range: open.range,
                        configuration: call.configuration().clone(),
                        key: open.key.clone(),
                        call: number,
                        step,
                        ask,
                    };
                    send(cx, &node, &open.bucket, BucketBody::Ask(Box::new(asked)));
                }
                CallOutput::Answer(result) => self.answer_call(cx, number, result),
                CallOutput::Over => {
                    self.calls.remove(number);
                }
            }
        }
    }

    fn answer_call(&mut self, cx: &mut Cx<'_>, number: u64, result: Result<CallAnswer, CallError>) {
        match self.calls.take_asker(number) {
            Some((Asker::User(caller), _)) => {
                count(cx, result.is_ok());
                cx.counters().logs_fenced += u64::from(is_fenced(&result));
                cx.reply(caller, AnyAnswer::Kv(Answer::Called(result)));
            }
            Some((Asker::Listing(listing), key)) => self.on_key_read(cx, listing, &key, result),
            None => {}
        }
    }

    /// Calls are to be repeated, or their time is over.
    pub(super) fn on_calls_due(&mut self, cx: &mut Cx<'_>) {
        let now = cx.mono();
        while let Some((_, number)) = self.calls.due.first().copied().filter(|(at, _)| *at <= now) {
            let Some(open) = self.calls.open.get_mut(&number) else {
                return;
            };
            let mut out = Vec::new();
            let is_over = open.deadline <= now;
            match &mut open.progress {
                CallProgress::Waiting(_) => {
                    out.push(CallOutput::Answer(Err(CallError::Timeout { acknowledged: 0 })));
                }
                CallProgress::Asking(call) if is_over => call.on_timeout(&mut out),
                CallProgress::Asking(call) => {
                    cx.counters().calls_repeated += 1;
                    call.repeat(&mut out);
                    let at = now + open.pause;
                    // Who is away for longer than an answer takes may be so for good.
                    if open.asker.is_none() {
                        open.pause = (open.pause * 2).min(TIMEOUT_MAX);
                    }
                    self.calls.schedule(number, at);
                }
            }
            self.perform(cx, number, out);
            if is_over {
                self.calls.remove(number);
            }
        }
    }

    /// The node ends: nobody hears any more what becomes of a call.
    pub(super) fn end_calls(&mut self, cx: &mut Cx<'_>) {
        while let Some(number) = self.calls.open.keys().next().copied() {
            let mut out = Vec::new();
            match self.calls.open.get_mut(&number).map(|open| &mut open.progress) {
                Some(CallProgress::Asking(call)) => call.on_timeout(&mut out),
                Some(CallProgress::Waiting(_)) | None => {
                    out.push(CallOutput::Answer(Err(CallError::Timeout { acknowledged: 0 })));
                }
            }
            self.perform(cx, number, out);
            self.calls.remove(number);
        }
    }

    /// Waits for what is due next.
    pub(super) fn await_calls(&self, cx: &mut Cx<'_>) {
        let due = [self.calls.next_due(), self.listings.next_due()];
        match due.into_iter().flatten().min() {
            Some(at) => cx.wake(Timer::Calls, at),
            None => {
                cx.cancel(Timer::Calls);
            }
        }
    }
}

/// When a call is over that is to be waited for so long.
pub(super) fn deadline(cx: &Cx<'_>, timeout: Duration) -> Instant {
    cx.mono() + timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX)
}

/// A caller is answered.
pub(super) fn count(cx: &mut Cx<'_>, is_done: bool) {
    let counters = cx.counters();
    *if is_done {
        &mut counters.calls_done
    } else {
        &mut counters.calls_failed
    } += 1;
}

/// Whether who asked had a log, and somebody else has taken it over since.
const fn is_fenced(result: &Result<CallAnswer, CallError>) -> bool {
    use super::state::logged::LogDenial::Fenced;
    matches!(
        result,
        Ok(CallAnswer::Logged {
            log: Err(Fenced { .. }),
            ..
        })
    )
}

/// Takes note of what an answer says of the range.
fn note_owner(bucket: &mut OpenBucket, range: RangeId, answer: &KvAnswer) {
    match answer {
        KvAnswer::Minted { dot, .. } => bucket.on_actor(range, dot.actor),
        KvAnswer::Refused(KvRefusal::OtherActor(actor)) => bucket.on_actor(range, *actor),
        KvAnswer::Refused(KvRefusal::OtherConfiguration(configuration)) => {
            bucket.on_configuration(range, configuration);
        }
        KvAnswer::Held(_) | KvAnswer::Done | KvAnswer::Refused(_) => {}
    }
}

pub(super) fn refuse(cx: &mut Cx<'_>, caller: CallerToken, error: KvCommandError) {
    cx.reply(caller, AnyAnswer::Refused(AnyError::Kv(error)));
}
