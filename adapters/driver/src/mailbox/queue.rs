//! Where messages to one entity wait. Bounded by a count here and by bytes over the whole node; past either
//! bound the newest is refused. Never waits, and never decides whether an entity lives: the pump (the
//! driver's loop body) puts in and orders, the entity's task takes out. Spec: sharding 10.3, reliability 3b.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use quorate_core::sharding::ids::{AskRef, Payload};

use super::budget::MailboxBudget;
use super::occasion::Occasion;
use crate::sync::lock;

/// Messages that may wait for one entity: enough for a burst of all asks a client usually has in flight,
/// small enough that the last of them is answered in time by a handler of a few milliseconds. Akka's default
/// for bounded mailboxes is 1,000 as well.
pub(crate) const MAILBOX_MESSAGES_MAX: usize = 1_000;

/// What a message costs besides its payload.
const DELIVERY_BYTES: usize = 64;

/// One message on its way to an entity.
#[derive(Debug)]
pub(crate) struct MailboxMessage {
    pub(crate) payload: Payload,
    /// What is known of an ask; nothing of a message that was told. Kept apart, so that who waits for
    /// nobody's answer has no room for it.
    pub(crate) occasion: Option<Box<Occasion>>,
}

impl MailboxMessage {
    /// The ask that it came with.
    pub(crate) fn into_ask(self) -> Option<AskRef> {
        self.occasion?.ask
    }

    fn bytes(&self) -> usize {
        self.payload.len().saturating_add(DELIVERY_BYTES)
    }
}

/// Why a mailbox did not take a message.
#[derive(Debug)]
pub(crate) enum MailboxRefusal {
    /// It is full, or all mailboxes together are.
    Full(MailboxMessage),
    /// The entity is gone.
    Gone(MailboxMessage),
}

/// How far the entity is on its way out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum EntityLifecycle {
    #[default]
    Open,
    /// Handles what is here, then stops.
    Draining,
    /// Ends by itself: finishes the message that it handles, begins with no other.
    Stopping,
    /// Stops now.
    Killed,
    /// Its task has ended.
    Gone,
}

#[derive(Debug, Default)]
struct MailboxInner {
    queue: VecDeque<MailboxMessage>,
    lifecycle: EntityLifecycle,
    waker: Option<Waker>,
    /// Its kind's or its own last message: handled when it has been told to stop and nothing else waits.
    last: Option<Payload>,
    /// The entity has said that it wants to be passivated, and has begun with no message since.
    has_asked: bool,
    /// It is to leave its state when it ends.
    leaves_state: bool,
}

/// The mailbox of one entity: the pump puts in, the entity's task takes out.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    inside: Mutex<MailboxInner>,
}

impl Mailbox {
    /// Puts a message in; whom to wake for it.
    pub(crate) fn push(
        &self,
        delivery: MailboxMessage,
        budget: &MailboxBudget,
    ) -> Result<Option<Waker>, MailboxRefusal> {
        let mut inside = lock(&self.inside);
        match inside.lifecycle {
            EntityLifecycle::Open | EntityLifecycle::Draining => {}
            EntityLifecycle::Stopping | EntityLifecycle::Killed | EntityLifecycle::Gone => {
                return Err(MailboxRefusal::Gone(delivery));
            }
        }
        if inside.queue.len() >= MAILBOX_MESSAGES_MAX || !budget.take(delivery.bytes()) {
            return Err(MailboxRefusal::Full(delivery));
        }
        if inside.queue.capacity() == 0 {
            // Most entities have one message at a time, and those that have more get more room.
            inside.queue.reserve_exact(1);
        }
        inside.queue.push_back(delivery);
        Ok(inside.waker.take())
    }

    /// How many messages wait.
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.inside).queue.len()
    }

    /// Has the entity look up: something of its own has changed.
    pub(crate) fn nudge(&self) {
        let waker = lock(&self.inside).waker.take();
        wake(waker);
    }

    /// Whether it may still live for long.
    pub(crate) fn is_open(&self) -> bool {
        lock(&self.inside).lifecycle == EntityLifecycle::Open
    }

    /// Ready once the entity is to end in whatever way; `true` if what waits here is to be handled before.
    pub(crate) fn poll_ending(&self, cx: &Context<'_>) -> Poll<bool> {
        let mut inside = lock(&self.inside);
        if inside.lifecycle == EntityLifecycle::Open {
            inside.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(inside.lifecycle == EntityLifecycle::Draining)
    }

    /// Lets the entity finish what is here, then stop.
    pub(crate) fn drain(&self) {
        self.advance(EntityLifecycle::Draining);
    }

    /// The same, and has it leave its state.
    pub(crate) fn drain_with_state(&self) {
        lock(&self.inside).leaves_state = true;
        self.drain();
    }

    /// Whether it is to leave its state.
    pub(crate) fn leaves_state(&self) -> bool {
        lock(&self.inside).leaves_state
    }

    /// The entity ends by itself, after the message that it handles.
    pub(crate) fn stop(&self) {
        self.advance(EntityLifecycle::Stopping);
    }

    /// The entity wants to be passivated, with a last message if it gives one; whether that has to be said.
    /// Said at most once for each message that it handles, so that a task that asks again and again fills
    /// nothing.
    pub(crate) fn passivate(&self, last: Option<Payload>) -> bool {
        let mut inside = lock(&self.inside);
        if inside.lifecycle > EntityLifecycle::Draining {
            return false;
        }
        if last.is_some() {
            inside.last = last;
        }
        inside.lifecycle == EntityLifecycle::Open && !std::mem::replace(&mut inside.has_asked, true)
    }

    /// What it handles last unless it says something else, from its beginning.
    pub(crate) fn ends_with(&self, last: Payload) {
        lock(&self.inside).last = Some(last);
    }

    /// Stops the entity now.
    pub(crate) fn kill(&self) {
        self.advance(EntityLifecycle::Killed);
    }

    fn advance(&self, lifecycle: EntityLifecycle) {
        let mut inside = lock(&self.inside);
        inside.lifecycle = inside.lifecycle.max(lifecycle);
        let waker = inside.waker.take();
        drop(inside);
        wake(waker);
    }

    /// The next message, `None` once the entity has to stop. The flag says that taking it made room in the
    /// budget.
    pub(crate) fn poll_next(
        &self,
        cx: &Context<'_>,
        budget: &MailboxBudget,
    ) -> Poll<Option<(MailboxMessage, bool)>> {
        let mut inside = lock(&self.inside);
        if inside.lifecycle >= EntityLifecycle::Stopping {
            return Poll::Ready(None);
        }
        if let Some(delivery) = inside.queue.pop_front() {
            inside.has_asked = false;
            let made_room = budget.give_back(delivery.bytes());
            return Poll::Ready(Some((delivery, made_room)));
        }
        if inside.lifecycle == EntityLifecycle::Draining {
            // Its own, so no budget has counted it.
            let last = inside.last.take().map(|payload| MailboxMessage {
                payload,
                occasion: None,
            });
            return Poll::Ready(last.map(|last| (last, false)));
        }
        inside.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Whether the entity has to stop at once.
    pub(crate) fn is_killed(&self) -> bool {
        lock(&self.inside).lifecycle >= EntityLifecycle::Killed
    }

    /// Ready once the entity has to stop at once.
    pub(crate) fn poll_killed(&self, cx: &Context<'_>) -> Poll<()> {
        let mut inside = lock(&self.inside);
        if inside.lifecycle >= EntityLifecycle::Killed {
            return Poll::Ready(());
        }
        inside.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Closes it for good and returns what was never handled. The flag says that this made room in the
    /// budget.
    pub(crate) fn close(&self, budget: &MailboxBudget) -> (VecDeque<MailboxMessage>, bool) {
        let mut inside = lock(&self.inside);
        inside.lifecycle = EntityLifecycle::Gone;
        take_all(inside, budget)
    }

    /// Stops the entity now and takes what it has not begun with. In one piece: an entity that hears at once
    /// that it is to end finds nothing there.
    pub(crate) fn kill_and_take(&self, budget: &MailboxBudget) -> VecDeque<MailboxMessage> {
        let mut inside = lock(&self.inside);
        inside.lifecycle = inside.lifecycle.max(EntityLifecycle::Killed);
        let waker = inside.waker.take();
        let (left, _) = take_all(inside, budget);
        wake(waker);
        left
    }
}

fn take_all(
    mut inside: MutexGuard<'_, MailboxInner>,
    budget: &MailboxBudget,
) -> (VecDeque<MailboxMessage>, bool) {
    let left = std::mem::take(&mut inside.queue);
    drop(inside);
    let bytes = left.iter().map(MailboxMessage::bytes).sum();
    (left, budget.give_back(bytes))
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;
    use crate::sync::CountedWakes;

    fn delivery(bytes: usize) -> MailboxMessage {
        MailboxMessage {
            payload: vec![0; bytes].into(),
            occasion: None,
        }
    }

    fn next(mailbox: &Mailbox, budget: &MailboxBudget) -> Poll<Option<usize>> {
        mailbox
            .poll_next(&Context::from_waker(Waker::noop()), budget)
            .map(|next| next.map(|(delivery, _)| delivery.payload.len()))
    }

    #[test]
    fn the_newest_is_refused_when_the_mailbox_is_full() {
        let (mailbox, budget) = (Mailbox::default(), MailboxBudget::default());
        for _ in 0..MAILBOX_MESSAGES_MAX {
            assert!(mailbox.push(delivery(1), &budget).is_ok());
        }
        assert!(matches!(
            mailbox.push(delivery(2), &budget),
            Err(MailboxRefusal::Full(_))
        ));
        assert_eq!(next(&mailbox, &budget), Poll::Ready(Some(1)));
        assert!(mailbox.push(delivery(2), &budget).is_ok());
    }

    #[test]
    fn all_mailboxes_share_one_budget_of_bytes() {
        let budget = MailboxBudget::new(1_000, 2_000);
        let (a, b) = (Mailbox::default(), Mailbox::default());
        assert!(a.push(delivery(1_000), &budget).is_ok());
        assert!(!budget.has_room());
        assert!(b.push(delivery(700), &budget).is_ok());
        assert!(matches!(
            b.push(delivery(700), &budget),
            Err(MailboxRefusal::Full(_))
        ));
        let (left, made_room) = a.close(&budget);
        assert_eq!((left.len(), made_room), (1, true));
        assert!(budget.has_room());
    }

    #[test]
    fn room_is_said_by_whoever_brings_the_bytes_below_their_bound_also_from_exactly_there() {
        let (mailbox, budget) = (Mailbox::default(), MailboxBudget::new(2 * DELIVERY_BYTES, 1_000));
        for _ in 0..3 {
            assert!(mailbox.push(delivery(0), &budget).is_ok());
        }
        let made_room = || {
            let next = mailbox.poll_next(&Context::from_waker(Waker::noop()), &budget);
            assert!(matches!(next, Poll::Ready(Some(_))));
            let Poll::Ready(Some((_, made_room))) = next else {
                return (false, budget.has_room());
            };
            (made_room, budget.has_room())
        };
        assert_eq!(made_room(), (false, false), "as much is left as may wait");
        assert_eq!(made_room(), (true, true));
        assert_eq!(made_room(), (false, true), "it was said");
    }

    #[test]
    fn an_entity_that_waits_for_something_else_hears_that_it_is_to_end() {
        let (mailbox, woken) = (Mailbox::default(), Arc::<CountedWakes>::default());
        let waker = woken.waker();
        let cx = Context::from_waker(&waker);
        assert_eq!(mailbox.poll_ending(&cx), Poll::Pending);
        mailbox.drain();
        assert_eq!(woken.count(), 1);
        assert_eq!(mailbox.poll_ending(&cx), Poll::Ready(true));
        mailbox.stop();
        assert_eq!(mailbox.poll_ending(&cx), Poll::Ready(false));
    }

    #[test]
    fn the_last_message_comes_when_the_entity_is_told_to_stop_and_nothing_else_waits() {
        let budget = MailboxBudget::default();
        let mailbox = Mailbox::default();
        assert!(mailbox.push(delivery(1), &budget).is_ok());
        assert!(mailbox.passivate(None), "said");
        assert!(!mailbox.passivate(Some(vec![0; 7].into())), "once is enough");
        assert_eq!(next(&mailbox, &budget), Poll::Ready(Some(1)));
        assert_eq!(
            next(&mailbox, &budget),
            Poll::Pending,
            "nobody has told it to stop"
        );
        assert!(mailbox.push(delivery(2), &budget).is_ok());
        mailbox.drain();
        assert!(!mailbox.passivate(Some(vec![0; 8].into())), "it stops already");
        assert_eq!(next(&mailbox, &budget), Poll::Ready(Some(2)));
        assert_eq!(next(&mailbox, &budget), Poll::Ready(Some(8)), "the newer one");
        assert_eq!(next(&mailbox, &budget), Poll::Ready(None));
        assert!(budget.has_room());
        let mailbox = Mailbox::default();
        mailbox.stop();
        assert!(!mailbox.passivate(Some(vec![0; 7].into())));
        assert_eq!(next(&mailbox, &budget), Poll::Ready(None));
    }

    #[test]
    fn a_kinds_last_message_gives_way_to_the_entitys_own_and_one_that_stops_itself_gets_none() {
        let (mailbox, budget) = (Mailbox::default(), MailboxBudget::default());
        mailbox.ends_with(vec![0; 5].into());
        assert!(mailbox.push(delivery(1), &budget).is_ok());
        assert!(mailbox.passivate(None));
        mailbox.drain();
        assert_eq!(next(&mailbox, &budget), Poll::Ready(Some(1)));
        assert_eq!(next(&mailbox, &budget), Poll::Ready(Some(5)));
        assert_eq!(next(&mailbox, &budget), Poll::Ready(None), "once");
        let mailbox = Mailbox::default();
        mailbox.ends_with(vec![0; 5].into());
        assert!(mailbox.passivate(Some(vec![0; 6].into())));
        mailbox.drain();
        assert_eq!(next(&mailbox, &budget), Poll::Ready(Some(6)));
        assert_eq!(next(&mailbox, &budget), Poll::Ready(None));
        let mailbox = Mailbox::default();
        mailbox.ends_with(vec![0; 5].into());
        mailbox.stop();
        assert_eq!(next(&mailbox, &budget), Poll::Ready(None));
    }

    #[test]
    fn an_entity_that_goes_on_may_ask_to_be_passivated_again() {
        let budget = MailboxBudget::default();
        let mailbox = Mailbox::default();
        assert!(mailbox.passivate(None) && !mailbox.passivate(None));
        assert!(mailbox.push(delivery(1), &budget).is_ok());
        assert_eq!(next(&mailbox, &budget), Poll::Ready(Some(1)));
        assert!(mailbox.passivate(None));
    }

    #[test]
    fn draining_hands_out_what_is_there_and_killing_does_not() {
        let budget = MailboxBudget::default();
        let mailbox = Mailbox::default();
        assert!(mailbox.push(delivery(1), &budget).is_ok());
        mailbox.drain();
        assert_eq!(next(&mailbox, &budget), Poll::Ready(Some(1)));
        assert_eq!(next(&mailbox, &budget), Poll::Ready(None));
        let mailbox = Mailbox::default();
        assert!(mailbox.push(delivery(1), &budget).is_ok());
        mailbox.stop();
        assert_eq!(next(&mailbox, &budget), Poll::Ready(None), "no other is begun");
        assert!(!mailbox.is_killed());
        mailbox.kill();
        assert!(mailbox.is_killed());
        assert_eq!(next(&mailbox, &budget), Poll::Ready(None));
        assert!(matches!(
            mailbox.push(delivery(1), &budget),
            Err(MailboxRefusal::Gone(_))
        ));
        assert_eq!(mailbox.close(&budget).0.len(), 1);
        assert!(budget.has_room());
    }

    /// An entity that ends on another thread as soon as it hears of it.
    #[derive(Default)]
    struct Quick {
        mailbox: Mailbox,
        budget: MailboxBudget,
        found: Mutex<Option<usize>>,
    }

    impl Wake for Quick {
        fn wake(self: Arc<Self>) {
            let (left, _) = self.mailbox.close(&self.budget);
            *lock(&self.found) = Some(left.len());
        }
    }

    #[test]
    fn whoever_kills_an_entity_has_what_it_had_not_begun_with_however_quickly_it_ends() {
        let quick = Arc::new(Quick::default());
        let (mailbox, budget) = (&quick.mailbox, &quick.budget);
        assert!(mailbox.push(delivery(1), budget).is_ok());
        let waker = Waker::from(Arc::clone(&quick));
        assert_eq!(mailbox.poll_killed(&Context::from_waker(&waker)), Poll::Pending);
        assert_eq!(mailbox.kill_and_take(budget).len(), 1);
        assert_eq!(*lock(&quick.found), Some(0), "it has ended, and found nothing");
        assert!(budget.has_room());
    }
}
