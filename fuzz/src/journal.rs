//! Messages of quorum logs: one written form, and no panic in who hears them.

use std::sync::Arc;

use quorate_core::journal::protocol::{Msg, ReplicaReply, ReplicaRequest};
use quorate_core::journal::replica::{LogReplica, ReplicaOutput};
use quorate_core::journal::state::TokenClaim;
use quorate_core::journal::writer::{LogWriter, WriterBounds, WriterOutput, WriterSettings};
use quorate_core::message::{JournalMsg, Message};
use quorate_core::store::memory::MemoryMap;
use quorate_core::store::{Space, StoreReport};
use quorate_core::wire::{decode_message, kind};

use crate::LIMITS;
use crate::decode::check_body;

/// A message between voters and owners of quorum logs: the first byte picks which. A replica and a writer
/// hear it too.
pub fn journal(data: &[u8]) {
    let Some((pick, body)) = data.split_first() else {
        return;
    };
    let tags = JournalMsg::TAGS;
    let tag = tags[usize::from(*pick) % tags.len()];
    check_body(tag.kind, body);
    let lane = kind::lane_of(tag.kind).unwrap_or(tag.lane);
    match decode_message(tag.kind, lane, body, &LIMITS) {
        Ok(Message::Journal(msg)) => match *msg {
            Msg::Request(request) => ask_twice(&request),
            Msg::Reply(reply) => answer(&reply),
            Msg::Voter(_) => {}
        },
        Ok(_) | Err(_) => {}
    }
}

/// A replica that takes a request takes it again, to the same end.
fn ask_twice(request: &ReplicaRequest) {
    let mut disk = MemoryMap::new();
    let mut replica: LogReplica<u8> = LogReplica::new(request.store, 1_024);
    for _ in 0..2 {
        let mut out = Vec::new();
        replica.on_request(0, request.clone(), &mut out);
        while let Some(output) = out.pop() {
            match output {
                ReplicaOutput::Store(order) => {
                    let outcome = disk.obey(Space(9), &order.order);
                    let id = order.id;
                    replica.on_stored(StoreReport { id, outcome }, &mut out);
                }
                ReplicaOutput::Failed(error) => panic!("{error}"),
                ReplicaOutput::Reply(..) | ReplicaOutput::Reject(..) | ReplicaOutput::Shed => {}
            }
        }
        assert_eq!(replica.waiting().0, 0, "every request is done with");
    }
}

/// A writer whose only replica says this to its first question.
fn answer(reply: &ReplicaReply) {
    let mut out = Vec::new();
    let settings = WriterSettings {
        log: Arc::clone(&reply.log),
        stores: Arc::from([reply.store]),
        opener: reply.opener,
        claim: TokenClaim::Term,
        bounds: WriterBounds {
            page_bytes: 1_024,
            append_bytes_max: 4_096,
            log_bytes_max: 1 << 20,
            attempts_max: 2,
        },
    };
    let mut writer = LogWriter::open(settings, &mut out);
    let Some(WriterOutput::Ask(question)) = out.pop() else {
        panic!("a writer asks");
    };
    let id = question.id;
    for id in [reply.id, id, id] {
        writer.on_reply(ReplicaReply { id, ..reply.clone() }, &mut out);
        writer.repeat(&mut out);
    }
}
