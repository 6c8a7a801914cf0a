//! What the pump says to callers when their time is over. Spec: I-44.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::ids::{EntityId, KindId};

use super::tests::Bench;
use crate::commands::UserCommand;
use crate::sync;
use quorate_core::input::Recipient;

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
