//! Tokens: each above all before it. Spec: sharding 10.7.

use alloc::vec::Vec;

use super::SOON;
use super::world::{MARGIN, World, secs};
use crate::effect::{Answer, CommandError as AnyError};
use crate::membership::state::member::Status;
use crate::singleton::protocol::{Body, CommandError, Event};
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
    let promised = world.heard_by(0, |body| matches!(body, Body::Promised { .. }));
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
    world.says(2, 0, 1, Body::Claim { term: 40 });
    assert_eq!(world.host(0).killed, 1, "its token is void");
    assert_eq!(
        world.said(0, |event| matches!(event, Event::Superseded { .. })),
        1
    );
    world.ends(0);
    world.run_for(secs(2));
    let next = world.token(0).unwrap();
    assert!(next > first && next.term > 40);
    world.says(2, 0, 2, Body::Claim { term: 41 });
    let refused = world.heard_by(2, |body| matches!(body, Body::Refused { .. }));
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
    world.says(1, 0, 1, Body::Claim { term: u64::MAX });
    world.says(1, 0, 1, Body::Claim { term: 0 });
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
        refused(CommandError::TokenOutOfRange)
    );
    assert_eq!((world.running(), world.host(0).killed), (alloc::vec![0], 0));
    world.forget(0);
    assert!(world.register(0, false));
    assert_eq!(
        world.token_refused(0, Token::new(7, 3)),
        refused(CommandError::NotHosted)
    );
}
