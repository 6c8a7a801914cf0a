//! What the pump says of peers and to callers when their time is over. Spec: reliability 3a (rotation), I-44.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::ids::{EntityId, KindId};
use quorate_links::Recipient as _;

use super::door::Door;
use super::tests::{Bench, me, peer};
use crate::commands::UserCommand;
use crate::recipient::Recipient;
use crate::sync;

#[test]
fn the_link_of_one_who_is_no_member_is_not_kept_beyond_its_age() {
    let mut bench = Bench::new();
    bench.pump.node.strangers.push(peer());
    let (node, base) = (&mut bench.pump.node, &bench.pump.base);
    let door = Door { node, base };
    assert_eq!(door.admits(&peer(), None), Err("it is no member".to_owned()));
    assert_eq!(door.admits(&me(), None), Ok(()));
}

#[test]
fn i_44_a_caller_whom_the_node_has_not_answered_hears_of_its_end_with_the_stop() {
    let mut bench = Bench::new();
    let (reply, answer) = sync::oneshot();
    bench.pump.user(UserCommand::Ask {
        to: Recipient::Entity(KindId::of("k"), EntityId::from("e")),
        payload: b"?".as_slice().into(),
        timeout: Duration::from_secs(60),
        chain: AskChain::default(),
        reply,
    });
    let mut answer = pin!(answer);
    let mut context = Context::from_waker(Waker::noop());
    assert!(answer.as_mut().poll(&mut context).is_pending());
    bench.pump.stop();
    assert_eq!(answer.as_mut().poll(&mut context), Poll::Ready(None));
}
