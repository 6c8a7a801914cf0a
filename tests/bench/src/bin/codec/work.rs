//! One state in all its forms, and the steps that are measured on it.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::Arc;

use quorate_core::config::Limits;
use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::membership::gossip::Gossip;
use quorate_core::membership::merge;
use quorate_core::message::{GossipBody, GossipEnvelope, Lane, MembershipMsg, Message};
use quorate_core::wire::{Encoder, HEADER_BYTES, decode_message};

use crate::naive;
use crate::state::{self, Shape};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The state to a frame, checksum included.
    Encode,
    /// A frame's body to a checked state in its columns.
    Decode,
    /// The same, and then to a state whose every member is a value, beside nothing known.
    DecodeAndOpen,
    /// The same beside an equal state, with which everything is shared.
    OpenBesideEqual,
    /// A received state that is equal to the held one.
    MergeEqual,
    /// A received state that is older than the held one.
    MergeOlder,
    /// Two open states, neither of which has news.
    MergeOpen,
    /// Inflates and checks.
    DecodeDeflated,
    /// Encodes and deflates.
    EncodeDeflated,
    NaiveEncode,
    NaiveDecode,
    /// Copies the bytes of the state.
    Memcpy,
}

impl Step {
    pub(crate) const ALL: [Self; 12] = [
        Self::Encode,
        Self::Decode,
        Self::DecodeAndOpen,
        Self::OpenBesideEqual,
        Self::MergeEqual,
        Self::MergeOlder,
        Self::MergeOpen,
        Self::EncodeDeflated,
        Self::DecodeDeflated,
        Self::NaiveEncode,
        Self::NaiveDecode,
        Self::Memcpy,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Encode => "encode",
            Self::Decode => "decode",
            Self::DecodeAndOpen => "decode-and-open",
            Self::OpenBesideEqual => "open-beside-equal",
            Self::MergeEqual => "merge-equal",
            Self::MergeOlder => "merge-older",
            Self::MergeOpen => "merge-open",
            Self::EncodeDeflated => "encode-deflated",
            Self::DecodeDeflated => "decode-deflated",
            Self::NaiveEncode => "naive-encode",
            Self::NaiveDecode => "naive-decode",
            Self::Memcpy => "memcpy",
        }
    }
}

/// A state as a value, as bytes, and as the naive copy.
pub(crate) struct Workload {
    plain: Limits,
    deflating: Limits,
    message: Message,
    held: Gossip,
    newer: Gossip,
    twin: Gossip,
    body: Vec<u8>,
    deflated: Vec<u8>,
    received: GossipBody,
    naive: naive::State,
    naive_bytes: Vec<u8>,
    scratch: RefCell<(Encoder, Vec<u8>)>,
}

/// Compression off.
fn plain() -> Limits {
    Limits {
        compress_from_bytes: usize::MAX,
        ..Limits::default()
    }
}

impl Workload {
    pub(crate) fn new(members: usize, shape: Shape) -> Self {
        let held = state::gossip(members, shape, 0);
        let to = UniqueAddress::new(Address::new("receiver", 2551).expect("a legal address"), 1);
        let message = Message::Membership(MembershipMsg::Gossip(GossipEnvelope {
            to,
            gossip: Arc::new(held.clone()).into(),
        }));
        let naive = naive::copy(&held);
        let mut workload = Self {
            plain: plain(),
            deflating: Limits::default(),
            newer: state::gossip(members, shape, 1),
            twin: state::gossip(members, shape, 0),
            received: Arc::new(held.clone()).into(),
            naive_bytes: postcard::to_allocvec(&naive).expect("it has a form"),
            body: Vec::new(),
            deflated: Vec::new(),
            scratch: RefCell::default(),
            message,
            held,
            naive,
        };
        workload.body = workload.encode(&workload.plain);
        workload.deflated = workload.encode(&workload.deflating);
        workload.received = decode(&workload.body, &workload.plain);
        workload
    }

    pub(crate) fn members(&self) -> usize {
        self.held.members().len()
    }

    fn per_member(&self, bytes: usize) -> f64 {
        bytes as f64 / self.members() as f64
    }

    pub(crate) fn bytes_per_member(&self) -> f64 {
        self.per_member(self.body.len())
    }

    pub(crate) fn deflated_bytes_per_member(&self) -> f64 {
        self.per_member(self.deflated.len())
    }

    pub(crate) fn naive_bytes_per_member(&self) -> f64 {
        self.per_member(self.naive_bytes.len())
    }

    fn encode(&self, limits: &Limits) -> Vec<u8> {
        let mut frame = Vec::new();
        let encoded = Encoder::new().encode(&self.message, 0, limits, &mut frame);
        encoded.expect("it fits a frame");
        frame.split_off(HEADER_BYTES)
    }

    fn encode_again(&self, limits: &Limits) -> usize {
        let (encoder, out) = &mut *self.scratch.borrow_mut();
        out.clear();
        let encoded = encoder.encode(&self.message, 0, limits, out);
        encoded.expect("it fits a frame");
        out.len()
    }

    /// Runs a step once; the number keeps the compiler from leaving it out.
    pub(crate) fn run(&self, step: Step) -> usize {
        match step {
            Step::Encode => self.encode_again(&self.plain),
            Step::EncodeDeflated => self.encode_again(&self.deflating),
            Step::Decode => size(&decode(&self.body, &self.plain)),
            Step::DecodeDeflated => size(&decode(&self.deflated, &self.deflating)),
            Step::DecodeAndOpen => decode(&self.body, &self.plain)
                .open(&Gossip::new())
                .members()
                .len(),
            Step::OpenBesideEqual => self.received.open(&self.held).members().len(),
            Step::MergeEqual => usize::from(self.received.without_news(&self.held).is_some()),
            Step::MergeOlder => usize::from(self.received.without_news(&self.newer).is_some()),
            Step::MergeOpen => merge::merge(&self.held, &self.twin).members().len(),
            Step::NaiveEncode => postcard::to_allocvec(&self.naive).map_or(0, |bytes| bytes.len()),
            Step::NaiveDecode => {
                let state = postcard::from_bytes::<naive::State>(&self.naive_bytes);
                usize::from(state.is_ok())
            }
            Step::Memcpy => black_box(black_box(&self.body).clone()).len(),
        }
    }
}

fn decode(body: &[u8], limits: &Limits) -> GossipBody {
    match decode_message(MembershipMsg::GOSSIP.kind, Lane::Gossip, body, limits) {
        Ok(Message::Membership(MembershipMsg::Gossip(envelope))) => envelope.gossip,
        other => unreachable!("what was encoded decodes: {other:?}"),
    }
}

fn size(body: &GossipBody) -> usize {
    match body {
        GossipBody::Packed(packed) => packed.as_bytes().len(),
        GossipBody::Held(gossip) => gossip.members().len(),
    }
}
