//! Tokens: each above all before it. Spec: sharding 10.7.

use alloc::vec::Vec;

use super::SOON;
use super::world::{MARGIN, World, secs};
use crate::effect::{Answer, CommandError as AnyError};
use crate::membership::state::member::Status;
use crate::singleton::protocol::{Event, SingletonBody, SingletonCommandError};
use crate::singleton::state::SingletonId;
use crate::token::Token;

#[test]
fn a_new_owner_has_a_higher_term_after_a_hand_over_and_after_a_crash() {
    let mut world = World::formed(4);
    let first = world.token(0).unwrap();
    assert_eq!(first, Token::new(1, 1));
    world.leave(&[0]);
    world.run_for(secs(2));
    let second = world.token(1).unwrap();
    assert!(second.term > first.term);
    world.remove(&[0]);
    world.crash(&[1]);
    world.set(&[(1, Status::Down)]);
    world.remove(&[1]);
    world.run_for(MARGIN + secs(2));
    assert!(world.token(2).unwrap().term > second.term);
}

#[test]
fn without_a_majority_nothing_starts() {
    let mut world = World::new(3);
    world.cut(&[0]);
    world.set(&[(0, Status::Up), (1, Status::Up), (2, Status::Up)]);
    world.run_for(secs(60));
    assert_eq!(world.running(), Vec::<usize>::new());
    world.heal();
    world.run_for(secs(2));
    assert_eq!(world.running(), [0]);
}

#[test]
fn promises_of_a_higher_term_and_to_an_earlier_question_start_nothing() {
    let mut world = World::new(3);
    world.cut(&[0]);
    world.set(&[(0, Status::Up), (1, Status::Up), (2, Status::Up)]);
    world.run_for(secs(10));
    for from in [1, 2] {
        for epoch in 0..10 {
            world.says(from, 0, epoch, SingletonBody::Promised { term: 41 });
        }
        for term in 1..10 {
            world.says(from, 0, 99, SingletonBody::Promised { term });
        }
    }
    assert_eq!(world.stats(0).answers_stale, 38);
    assert_eq!(world.running(), Vec::<usize>::new());
}

#[test]
fn a_restart_of_the_whole_cluster_goes_on_above_what_its_stores_promised() {
    let mut world = World::formed(3);
    world.leave(&[0]);
    world.run_for(secs(2));
    let last = world.token(1).unwrap();
    world.restart_all();
    world.all_up();
    world.run_for(secs(2));
    assert!(
        world.token(0).unwrap() > last,
        "a token that restarts at one protects nothing"
    );
}

#[test]
fn a_member_that_comes_back_with_its_store_knows_to_whom_it_promised() {
    let mut world = World::new(3);
    world.set(&[(0, Status::Up), (1, Status::Up)]);
    world.run_for(secs(2));
    let token = world.token(0);
    // As if it had been a member before, in an earlier life.
    world.has_store_of(2, 1);
    world.all_up();
    world.run_for(secs(5));
    let promised = world.heard_by(0, |body| matches!(body, SingletonBody::Promised { .. }));
    assert!(promised.iter().any(|(from, _)| *from == 2), "it was asked");
    assert_eq!(world.token(0), token, "what runs is not void because of it");
    assert_eq!(
        world.said(0, |event| matches!(event, Event::Superseded { .. })),
        0
    );
}

#[test]
fn a_node_whose_store_fails_promises_nothing_until_it_works() {
    let mut world = World::new(1);
    world.host(0).store_fails = true;
    world.all_up();
    world.run_for(secs(10));
    assert_eq!(world.running(), Vec::<usize>::new());
    assert!(world.stats(0).terms_not_kept > 0);
    world.host(0).store_fails = false;
    world.run_for(secs(2));
    assert_eq!(world.running(), [0]);
}

#[test]
fn somebody_else_s_higher_term_kills_what_runs_and_the_next_is_above_it() {
    let mut world = World::formed(3);
    world.host(0).slow_to_stop = true;
    let first = world.token(0).unwrap();
    world.says(2, 0, 1, SingletonBody::Claim { term: 40 });
    assert_eq!(world.host(0).killed, 1, "its token is void");
    assert_eq!(
        world.said(0, |event| matches!(event, Event::Superseded { .. })),
        1
    );
    world.ends(0);
    world.run_for(secs(2));
    let next = world.token(0).unwrap();
    assert!(next > first && next.term > 40);
    world.says(2, 0, 2, SingletonBody::Claim { term: 41 });
    let refused = world.heard_by(2, |body| matches!(body, SingletonBody::Refused { .. }));
    assert_eq!(
        refused.last(),
        Some(&(0, 2)),
        "a lower or equal one is refused for ever"
    );
}

#[test]
fn a_newcomer_hears_of_the_term_that_is_in_use() {
    let mut world = World::new(3);
    world.set(&[(0, Status::Up)]);
    world.run_for(secs(2));
    let first = world.token(0).unwrap();
    world.all_up();
    world.run_for(secs(2));
    world.crash(&[0]);
    world.wipe_store(0);
    world.set(&[(0, Status::Down)]);
    world.remove(&[0]);
    world.run_for(MARGIN + secs(3));
    assert!(world.token(1).unwrap().term > first.term);
}

#[test]
fn a_term_that_would_leave_none_for_others_is_refused() {
    let mut world = World::formed(2);
    world.says(1, 0, 1, SingletonBody::Claim { term: u64::MAX });
    world.says(1, 0, 1, SingletonBody::Claim { term: 0 });
    world.run_for(SOON);
    assert_eq!(world.running(), [0]);
    assert_eq!(world.rejected(0), 2);
}

#[test]
fn a_further_instance_of_a_term_needs_a_majority_of_those_that_are_members_now() {
    let mut world = World::new(2);
    world.set(&[(0, Status::Up)]);
    world.run_for(SOON);
    assert_eq!(world.token(0), Some(Token::new(1, 1)));
    world.has_promised(1, 5);
    world.hold_wire();
    world.all_up();
    world.fails(0);
    world.run_for(secs(2));
    assert_eq!(
        world.running(),
        Vec::<usize>::new(),
        "of two members both are a majority, and one has not promised"
    );
    world.release_wire();
    world.run_for(secs(2));
    assert_eq!(
        world.token(0),
        Some(Token::new(6, 1)),
        "above what the newcomer knows of"
    );
}

#[test]
fn a_token_that_is_refused_ends_its_instance_and_the_next_one_has_a_higher_term() {
    let mut world = World::formed(1);
    let first = world.token(0).unwrap();
    world.host(0).slow_to_stop = true;
    assert_eq!(world.token_refused(0, Token::NONE), Some(Answer::Done));
    assert_eq!(world.host(0).killed, 0, "a lower one cannot have refused it");
    assert_eq!(world.token_refused(0, Token::new(7, 3)), Some(Answer::Done));
    assert_eq!((world.host(0).killed, world.token(0)), (1, Some(first)));
    world.ends(0);
    world.run_for(secs(2));
    assert_eq!(world.token(0), Some(Token::new(8, 1)));
    // An equal one is another node's, which has taken the same term.
    assert_eq!(world.token_refused(0, Token::new(8, 1)), Some(Answer::Done));
    world.run_for(secs(3));
    assert_eq!(world.token(0), Some(Token::new(9, 1)));
}

#[test]
fn a_token_that_nobody_can_have_had_and_one_of_somebody_else_s_singleton_change_nothing() {
    let mut world = World::formed(1);
    let refused = |error| Some(Answer::Refused(AnyError::Singleton(error)));
    let impossible = Token::new(u64::MAX, 1);
    assert_eq!(
        world.token_refused(0, impossible),
        refused(SingletonCommandError::TokenOutOfRange)
    );
    assert_eq!((world.running(), world.host(0).killed), (alloc::vec![0], 0));
    world.forget(0);
    assert!(world.register(0, false));
    assert_eq!(
        world.token_refused(0, Token::new(7, 3)),
        refused(SingletonCommandError::NotHosted)
    );
}

/// The highest term there is on the wire.
const LAST_TERM: u64 = u64::MAX >> 16;

/// More than one claim may be above what was promised.
const STEP: u64 = 1 << 16;

#[test]
fn i_100_a_claim_of_the_last_term_takes_no_term_from_anybody() {
    let mut world = World::formed(3);
    let first = world.token(0).unwrap();
    for epoch in 0..100 {
        world.says(2, 0, epoch, SingletonBody::Claim { term: LAST_TERM });
        world.says(2, 1, epoch, SingletonBody::Claim { term: LAST_TERM });
    }
    world.run_for(secs(30));
    assert_eq!(world.token(0), Some(first), "what runs is not void");
    assert_eq!(world.stats(0).terms_refused, 100);
    let refused = world.heard_by(2, |body| *body == SingletonBody::Refused { held: first.term });
    assert_eq!(refused.len(), 200, "and says what it has promised");
    let claims = world.heard_by(1, |body| matches!(body, SingletonBody::Claim { .. }));
    assert_eq!(claims.len(), 101, "nobody repeats itself");
    world.crash(&[0]);
    world.set(&[(0, Status::Down)]);
    world.remove(&[0]);
    world.run_for(MARGIN + secs(3));
    assert!(world.token(1).unwrap().term < first.term + 3);
}

#[test]
fn i_100_claims_that_rise_as_fast_as_they_may_need_a_century_for_all_terms() {
    let mut world = World::formed(3);
    world.forgive_two();
    for second in 0..10 {
        let held = world.token(0).map_or(0, |token| token.term);
        for number in 1..100 {
            let term = (held + number * STEP).min(LAST_TERM);
            world.says(2, 0, second * 100 + number, SingletonBody::Claim { term });
        }
        world.run_for(secs(1));
    }
    world.run_for(secs(60));
    let taken = world.token(0).unwrap().term;
    assert!(taken <= 12 * STEP, "{taken}: more than a step in a second");
    assert!(u128::from(LAST_TERM) / u128::from(STEP) > 100 * 365 * 24 * 3_600);
}

#[test]
fn i_100_a_refusal_out_of_reach_is_outvoted_and_one_within_reach_leads_on_by_a_step_after_a_rest() {
    let mut world = World::new(4);
    world.hold_wire();
    world.all_up();
    // The others' promises are under way.
    world.says(3, 0, 1, SingletonBody::Refused { held: LAST_TERM });
    world.release_wire();
    world.run_for(SOON);
    assert_eq!(world.token(0), Some(Token::new(1, 1)));
    assert_eq!(world.stats(0).terms_out_of_reach, 1);
    world.says(3, 0, 1, SingletonBody::Refused { held: LAST_TERM });
    assert_eq!(
        world.token(0),
        Some(Token::new(1, 1)),
        "what runs is not void because of it"
    );

    let mut world = World::new(2);
    world.cut(&[1]);
    world.all_up();
    let mut claimed = 1;
    for epoch in 1..=40 {
        world.says(1, 0, epoch, SingletonBody::Refused { held: claimed + STEP });
        claimed += STEP + 1;
        world.run_for(secs(1));
    }
    world.run_for(secs(120));
    world.heal();
    world.run_for(secs(120));
    let term = world.token(0).expect("it begins once the other promises").term;
    assert!(term < 45 * STEP, "{term}");
    let asked = world.heard_by(1, |body| matches!(body, SingletonBody::Claim { .. }));
    assert!(asked.len() < 250, "{} claims", asked.len());
}

#[test]
fn a_voter_that_missed_more_terms_than_one_claim_may_skip_is_led_there_in_steps() {
    let mut world = World::new(2);
    world.has_promised(0, 5 * STEP);
    world.all_up();
    world.run_for(secs(3));
    assert_eq!(world.running(), Vec::<usize>::new(), "of two both are a majority");
    world.run_for(secs(9));
    assert_eq!(world.token(0).map(|token| token.term), Some(5 * STEP + 1));
    // The other way round: who claims has missed them.
    let mut world = World::new(3);
    world.has_promised(1, 5 * STEP);
    world.has_promised(2, 5 * STEP);
    world.all_up();
    world.run_for(secs(20));
    assert!(world.token(0).is_some_and(|token| token.term > 5 * STEP));
}

#[test]
fn where_stores_hold_the_last_term_nothing_begins_and_it_is_said_once() {
    let mut world = World::new(1);
    world.has_promised(0, LAST_TERM);
    world.all_up();
    world.run_for(secs(600));
    assert_eq!(world.running(), Vec::<usize>::new());
    assert_eq!(world.said(0, |event| *event == Event::TermsUsedUp), 1);
    assert_eq!(world.stats(0).terms_used_up, 1);
    let claims = world.heard_by(0, |body| matches!(body, SingletonBody::Claim { .. }));
    assert!(claims.len() < 5, "{} claims", claims.len());
    // A minority that holds it is outvoted.
    let mut world = World::new(3);
    world.has_promised(2, LAST_TERM);
    world.all_up();
    world.run_for(secs(60));
    assert_eq!(world.token(0), Some(Token::new(1, 1)));
}

#[test]
fn i_100_a_hand_over_and_a_fence_lead_no_further_than_their_reach() {
    let mut world = World::new(2);
    world.cut(&[0]);
    world.all_up();
    for _ in 0..50 {
        world.says(0, 1, 0, SingletonBody::HandOverDone { term: LAST_TERM });
    }
    world.crash(&[0]);
    world.set(&[(0, Status::Down)]);
    world.remove(&[0]);
    world.run_for(MARGIN + secs(5));
    let term = world.token(1).expect("it runs").term;
    assert!(term <= STEP + 1, "{term}");
    let held = Token::new(LAST_TERM, 1);
    let refused = Some(Answer::Refused(AnyError::Singleton(
        SingletonCommandError::TokenOutOfRange,
    )));
    assert_eq!(world.token_refused(1, held), refused);
    assert_eq!(world.token(1).map(|token| token.term), Some(term), "it runs on");
}

#[test]
fn i_100_who_claims_terms_of_any_singletons_leaves_room_for_those_of_others() {
    let mut world = World::formed(2);
    for other in 0..2_000 {
        world.says_of(
            1,
            0,
            SingletonId::of(&alloc::format!("{other}")),
            SingletonBody::Claim { term: 1 },
        );
    }
    assert_eq!(world.stats(0).terms_not_kept, 2_000 - 256);
    let mine = SingletonId::of("mine");
    world.says_of(0, 1, mine, SingletonBody::Claim { term: 1 });
    assert_eq!(world.promised(1, mine), 1);
}

#[test]
fn a_full_table_of_promises_has_room_for_others_once_a_member_with_some_is_gone() {
    let mut world = World::formed(6);
    for from in 1..=4 {
        for number in 0..256 {
            let other = SingletonId::of(&alloc::format!("{from}.{number}"));
            world.says_of(from, 0, other, SingletonBody::Claim { term: 1 });
        }
    }
    let mine = SingletonId::of("mine");
    world.says_of(5, 0, mine, SingletonBody::Claim { term: 1 });
    assert_eq!(world.promised(0, mine), 0);
    world.crash(&[1]);
    world.remove(&[1]);
    world.says_of(5, 0, mine, SingletonBody::Claim { term: 1 });
    assert_eq!(world.promised(0, mine), 1);
}

#[test]
fn i_100_stores_whose_term_an_operator_has_lowered_let_the_next_instance_begin() {
    let mut world = World::new(2);
    world.has_promised(0, LAST_TERM);
    world.has_promised(1, LAST_TERM);
    world.all_up();
    world.run_for(secs(10));
    assert_eq!(world.running(), Vec::<usize>::new());
    world.lower_terms(17);
    world.restart_all();
    world.all_up();
    world.run_for(secs(3));
    assert_eq!(world.token(0), Some(Token::new(18, 1)));
}
