//! The bytes of what workers and a queue say to each other, on their way between versions of the library.
//! They never change; variants are only appended.

use std::fmt::Debug;

use quorate_core::sharding::ids::Payload;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{WorkReply, WorkRequest, WorkState, WorkerId};
use crate::codec::{Bytes, decode, encode};

const WORKER: WorkerId = WorkerId { node: 1, number: 2 };

fn nine() -> Bytes {
    Bytes(Payload::from([9]))
}

fn assert_frozen<T: Serialize + DeserializeOwned + Debug>(values: &[(T, &[u8])]) {
    for (value, bytes) in values {
        assert_eq!(&*encode(value).unwrap(), *bytes, "{value:?}");
        let back: T = decode(bytes).unwrap();
        assert_eq!(encode(&back), encode(value));
    }
}

#[test]
fn the_bytes_of_orders_and_answers_never_change() {
    let push = WorkRequest::Push {
        payload: nine(),
        waits: true,
    };
    let pull = WorkRequest::Pull {
        worker: WORKER,
        instance: 3,
        turn: 4,
        done: vec![5],
        holds: vec![6, 7],
    };
    let settled = WorkRequest::Settled {
        worker: WORKER,
        instance: 3,
        id: 5,
        is_done: true,
    };
    assert_frozen(&[
        (push, &[0, 1, 9, 1]),
        (pull, &[1, 1, 2, 3, 4, 1, 5, 2, 6, 7]),
        (settled, &[2, 1, 2, 3, 5, 1]),
        (WorkRequest::Bye { worker: WORKER }, &[3, 1, 2]),
        (WorkRequest::State, &[4]),
        (WorkRequest::Look, &[5]),
    ]);
    let state = WorkState {
        unfinished: 1,
        waiting: 2,
        workers: 3,
    };
    let job = WorkReply::Job {
        instance: 3,
        job: Some((5, nine())),
    };
    assert_frozen(&[
        (WorkReply::Taken, &[0]),
        (WorkReply::Done, &[1]),
        (job, &[2, 3, 1, 5, 1, 9]),
        (WorkReply::State(state), &[3, 1, 2, 3]),
        (WorkReply::Full, &[4]),
        (WorkReply::TooLarge, &[5]),
        (WorkReply::Store, &[6]),
    ]);
}
