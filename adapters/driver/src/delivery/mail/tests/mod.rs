//! Durable mailboxes over stores that wait, fill up and change their owner: what is kept when its sender
//! hears so, and who handles it in which order. Spec: sharding 5.4; seed document 004.

mod hosts;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quorate_core::durable::DurableFailure;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::Payload;

use self::hosts::*;
use super::*;
use crate::error::AskError;
use crate::sync::lock;

#[test]
fn who_asks_hears_that_it_is_kept_when_the_store_has_it_and_not_before_nor_only_when_it_is_handled() {
    let hosts = Hosts::new();
    let mut host = hosts.start();
    until("it runs", || {
        host.hear();
        host.has_started
    });
    hosts.store.waits.store(true, Ordering::SeqCst);
    let (first, second) = (host.ask(1), host.ask(2));
    until("the store is asked", || {
        hosts.store.reached.load(Ordering::SeqCst)
    });
    host.hear();
    assert!(host.answers.is_empty() && hosts.notes().is_empty());
    hosts.store.waits.store(false, Ordering::SeqCst);
    assert_eq!((host.answer(first), host.answer(second)), (Ok(()), Ok(())));
    assert_eq!(hosts.noted(1)[0].2, 1, "its handler is not done");
    // What comes while a handler runs is kept beside it.
    let third = host.ask(3);
    assert_eq!(host.answer(third), Ok(()));
    hosts.let_finish(3);
    let numbers: Vec<u64> = hosts.noted(3).iter().map(|note| note.2).collect();
    assert_eq!(numbers, [1, 2, 3]);
    host.killed();
}

#[test]
fn an_instance_that_stops_finishes_its_message_and_keeps_what_waits_for_the_next_host() {
    let hosts = Hosts::new();
    let mut host = hosts.start();
    let first = host.ask(1);
    assert_eq!(host.answer(first), Ok(()));
    hosts.noted(1);
    hosts.store.waits.store(true, Ordering::SeqCst);
    let rest: Vec<u64> = (2..=50).map(|message| host.ask(message)).collect();
    host.mailbox.drain();
    hosts.store.waits.store(false, Ordering::SeqCst);
    hosts.let_finish(1);
    let host = host.drained();
    assert!(
        rest.iter().all(|ask| host.answers[ask] == Ok(())),
        "{:?}",
        host.answers
    );
    assert_eq!(hosts.notes().len(), 1, "it begins with no other");
    assert!(!host.has_failed);

    let mut next = hosts.start();
    let last = next.ask(51);
    assert_eq!(next.answer(last), Ok(()));
    hosts.let_finish(60);
    let notes = hosts.noted(51);
    assert!(notes.iter().map(|note| note.2).eq(1..=51), "{notes:?}");
    assert!(notes.windows(2).all(|two| two[0].0 < two[1].0), "{notes:?}");
    let marked: Vec<u64> = notes.iter().filter(|note| note.1).map(|note| note.2).collect();
    assert_eq!(marked, [2], "the first that was found, and no other");
    next.killed();
}

#[test]
fn only_the_message_that_a_dead_instance_was_at_comes_again_with_its_number_and_is_marked() {
    let hosts = Hosts::new();
    let mut host = hosts.start();
    for message in 1..=4 {
        let ask = host.ask(message);
        assert_eq!(host.answer(ask), Ok(()));
    }
    hosts.let_finish(1);
    hosts.noted(2);
    host.killed();
    hosts.let_finish(10);
    let next = hosts.start();
    let notes = hosts.noted(5);
    let messages: Vec<(bool, u64)> = notes.iter().map(|note| (note.1, note.2)).collect();
    assert_eq!(
        messages,
        [(false, 1), (false, 2), (true, 2), (false, 3), (false, 4)]
    );
    assert_eq!(notes[1].0, notes[2].0);
    next.killed();
}

#[test]
fn a_message_over_which_an_instance_fails_comes_again_and_holds_up_those_behind_it() {
    let hosts = Hosts::new();
    let mut host = hosts.start();
    let asks = [host.ask(1), host.ask(POISON), host.ask(2)];
    for ask in asks {
        assert_eq!(host.answer(ask), Ok(()));
    }
    hosts.let_finish(1);
    host.ended();
    assert!(host.has_failed, "the core begins another one, after a pause");
    let mut again = hosts.start();
    again.ended();
    let notes = hosts.notes();
    let said: Vec<(bool, u64)> = notes.iter().map(|note| (note.1, note.2)).collect();
    assert_eq!(said, [(false, 1), (false, POISON), (true, POISON)]);
    // One that sets aside what comes repeated goes on.
    let handled = Notes::default();
    struct Wise(Notes);
    impl Entity for Wise {
        type Message = Numbered;
        type Reply = ();

        async fn handle(&mut self, _: &EntityContext, mail: Numbered) {
            lock(&self.0).push((mail.number, mail.is_repeated, mail.message.0));
        }
    }
    let notes = Arc::clone(&handled);
    let wise = hosts.start_made_by(move |_| Wise(Arc::clone(&notes)));
    until("both are handled", || lock(&handled).len() == 2);
    let said: Vec<(bool, u64)> = lock(&handled).iter().map(|note| (note.1, note.2)).collect();
    assert_eq!(said, [(true, POISON), (false, 2)]);
    wise.killed();
}

#[test]
fn a_full_mailbox_refuses_the_newest_and_takes_more_when_something_was_handled() {
    let hosts = Hosts::new();
    let mut host = hosts.start();
    let mut kept = 0;
    let refused = loop {
        let ask = host.put(payload(kept, 90_000), true);
        match host.answer(ask) {
            Ok(()) if kept < 100 => kept += 1,
            Ok(()) => panic!("there is no end to it"),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, AskError::Failed(AskFailure::MailboxFull));
    assert!(!refused.may_have_been_handled());
    assert_eq!(kept, (1 << 19) / 90_000);
    host.put(payload(99, 90_000), false);
    until("it is a dead letter", || {
        host.hear();
        host.dead == [AskFailure::MailboxFull]
    });
    hosts.let_finish(1);
    hosts.noted(2);
    let ask = host.put(payload(kept, 90_000), true);
    assert_eq!(host.answer(ask), Ok(()));
    let bytes = hosts.shared.queue_bounds.message_bytes_max();
    let large = host.put(payload(kept, bytes), true);
    let unreadable = host.put(Payload::from([0, 0xff]), true);
    assert_eq!(
        host.answer(large),
        Err(AskError::NotDurable(DurableFailure::TooLarge))
    );
    assert_eq!(host.answer(unreadable), Err(AskError::Undecodable));
    host.killed();
}

#[test]
fn an_instance_whose_mailbox_was_taken_over_ends_and_who_waits_may_have_been_kept() {
    let hosts = Hosts::new();
    let mut old = hosts.start();
    let first = old.ask(1);
    assert_eq!(old.answer(first), Ok(()));
    hosts.noted(1);
    let mut new = hosts.start();
    let second = new.ask(2);
    assert_eq!(new.answer(second), Ok(()));
    hosts.noted(2);
    let late = old.ask(3);
    let late = old.answer(late).unwrap_err();
    assert!(late.may_have_been_handled(), "{late:?}");
    old.ended();
    assert!(old.has_failed);
    hosts.let_finish(3);
    hosts.noted(3);
    let fourth = new.ask(4);
    assert_eq!(new.answer(fourth), Ok(()));
    hosts.let_finish(1);
    let messages: Vec<(bool, u64)> = hosts.noted(4).iter().map(|note| (note.1, note.2)).collect();
    assert_eq!(messages, [(false, 1), (true, 1), (false, 2), (false, 4)]);
    new.killed();
}

#[test]
fn a_store_without_room_keeps_nothing_and_an_instance_that_is_killed_meanwhile_says_so_of_what_waits() {
    let hosts = Hosts::new();
    let mut host = hosts.start();
    hosts.let_finish(1);
    hosts.store.is_full.store(true, Ordering::SeqCst);
    let ask = host.ask(1);
    let full = host.answer(ask);
    assert_eq!(full, Err(AskError::NotDurable(DurableFailure::Full)));
    hosts.store.is_full.store(false, Ordering::SeqCst);
    let ask = host.ask(2);
    assert_eq!(host.answer(ask), Ok(()));
    hosts.noted(1);
    // Else it may be what confirms that message that waits in the store, and not the next one.
    until("the second message is confirmed", || {
        hosts.store.appended.load(Ordering::SeqCst) == 2
    });
    hosts.store.reached.store(false, Ordering::SeqCst);
    hosts.store.waits.store(true, Ordering::SeqCst);
    let ask = host.ask(3);
    until("the store is asked", || {
        hosts.store.reached.load(Ordering::SeqCst)
    });
    let behind = host.ask(4);
    host.mailbox.kill();
    let error = host.answer(ask).unwrap_err();
    assert!(error.may_have_been_handled(), "{error:?}");
    let error = host.answer(behind).unwrap_err();
    assert_eq!(error, AskError::Failed(AskFailure::EntityStoppedUnhandled));
    hosts.store.waits.store(false, Ordering::SeqCst);
    host.ended();
}

#[test]
fn numbers_rise_although_everything_was_handled_and_the_log_is_empty() {
    let hosts = Hosts::new();
    let mut last = 0;
    for life in 0..3_u64 {
        let mut host = hosts.start();
        for message in 0..30 {
            hosts.let_finish(1);
            let ask = host.put(payload(life * 100 + message, 60_000), true);
            assert_eq!(host.answer(ask), Ok(()));
            hosts.noted(usize::try_from(life * 30 + message + 1).unwrap());
        }
        let host = host.drained();
        assert!(!host.has_failed);
        let highest = hosts.notes().iter().map(|note| note.0).max().unwrap();
        assert!(highest > last, "{highest}");
        last = highest;
    }
    let notes = hosts.notes();
    assert!(notes.windows(2).all(|two| two[0].0 < two[1].0), "{notes:?}");
    assert!(notes.iter().all(|note| !note.1), "{notes:?}");
}

#[test]
fn what_an_instance_tells_itself_is_handled_beside_its_mailbox_and_confirms_nothing() {
    struct Timed(Notes, Receiver<()>);
    impl Entity for Timed {
        type Message = Numbered;
        type Reply = ();

        async fn handle(&mut self, context: &EntityContext, mail: Numbered) {
            let (message, _) = mail.message;
            lock(&self.0).push((mail.number, mail.is_repeated, message));
            if message == 1 {
                let mut own = Mail::own((7, Vec::new()));
                own.number = 99;
                let started = context.start_timer::<Self>("again", Duration::ZERO, own);
                assert_eq!(started, Ok(()));
            } else if message == 7 {
                // Meanwhile the next one is handed out.
                let _ = self.1.recv().await;
            }
        }
    }
    let hosts = Hosts::new();
    let (notes, leave) = (Arc::clone(&hosts.notes), hosts.leave.1.clone());
    let mut host = hosts.start_made_by(move |_| Timed(Arc::clone(&notes), leave.clone()));
    for message in 1..=3 {
        let ask = host.ask(message);
        assert_eq!(host.answer(ask), Ok(()));
    }
    hosts.let_finish(1);
    hosts.noted(4);
    host.drained();
    let messages: Vec<u64> = hosts.notes().iter().map(|note| note.2).collect();
    assert_eq!(messages, [1, 7, 2, 3]);
}
