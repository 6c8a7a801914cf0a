//! Replicas with stores that crash and fail, owners that compete, and a network that loses, repeats and
//! overtakes. Checks what must hold with every answer: no acknowledged record is lost, none is there twice,
//! nobody with a lower token is acknowledged.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use crate::journal::protocol::{ReplicaReply, ReplicaRequest};
use crate::journal::replica::{LogReplica, ReplicaOutput};
use crate::journal::state::{OpenedLog, StoreId, TokenClaim, WriterEnd, WriterError};
use crate::journal::writer::{LogWriter, WriterBounds, WriterOutput, WriterSettings};
use crate::ordered::{OrderedMap, OrderedSet};
use crate::rng::{below, chance};
use crate::store::memory::MemoryMap;
use crate::store::{Bytes, Sequence, Space, StoreError, StoreReport, StoreRequest};
use crate::token::Token;

const SPACE: Space = Space(9);

const BOUNDS: WriterBounds = WriterBounds {
    page_bytes: 400,
    append_bytes_max: 1_000,
    log_bytes_max: 100_000,
    attempts_max: 100,
};

/// A node's store and replica.
struct Node {
    id: StoreId,
    disk: MemoryMap,
    replica: Option<LogReplica<usize>>,
    /// Asked and not done.
    asked: VecDeque<StoreRequest>,
    /// Done and not said.
    done: VecDeque<StoreReport>,
}

/// Who owns the log, or wants to.
struct Owner {
    writer: LogWriter,
    /// Everything it knows to be in the log.
    history: Vec<u64>,
    /// What it appends, and the highest token that had opened the log before.
    appending: Option<(Vec<u64>, Token)>,
    rests: bool,
}

enum Packet {
    Request(usize, ReplicaRequest),
    Reply(ReplicaReply),
}

/// What happened, so that a run which shows nothing is noticed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) opened: u32,
    pub(super) opened_with_records: u32,
    pub(super) opened_with_snapshot: u32,
    pub(super) opened_without_some: u32,
    pub(super) acknowledged: u32,
    pub(super) kept: u32,
    pub(super) fenced: u32,
    pub(super) taken_again: u32,
    pub(super) adopted: u32,
    pub(super) crashes: u32,
    pub(super) failures: u32,
}

pub(super) struct World {
    rng: ChaCha8Rng,
    nodes: Vec<Node>,
    owners: OrderedMap<usize, Owner>,
    net: Vec<Packet>,
    next_record: u64,
    next_opener: u64,
    /// What is in the log for good.
    acknowledged: Vec<u64>,
    /// The last record that anybody wanted to be forgotten.
    forgotten: Sequence,
    /// The highest token that has opened the log.
    highest: Token,
    pub(super) seen: Seen,
    /// No faults any more.
    calm: bool,
}

impl World {
    pub(super) fn new(seed: u64, nodes: usize) -> Self {
        let nodes = (0..nodes).map(|index| {
            let mut disk = MemoryMap::new();
            let id = StoreId(disk.boot(100 + index as u128).id);
            let replica = Some(LogReplica::new(id, BOUNDS.page_bytes));
            Node {
                id,
                disk,
                replica,
                asked: VecDeque::new(),
                done: VecDeque::new(),
            }
        });
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            nodes: nodes.collect(),
            owners: OrderedMap::new(),
            net: Vec::new(),
            next_record: 0,
            next_opener: 0,
            acknowledged: Vec::new(),
            forgotten: 0,
            highest: Token::NONE,
            seen: Seen::default(),
            calm: false,
        }
    }

    /// One thing happens.
    pub(super) fn step(&mut self) {
        match below(&mut self.rng, 1_000) {
            0..=3 => self.open(),
            8..=9 => self.kill_owner(),
            11..=60 => self.append(),
            61..=70 => self.keep(),
            71..=90 => self.repeat(),
            91..=94 => self.take_again(),
            95..=99 => self.forget(),
            100..=115 => self.crash_or_restart(),
            116..=549 => self.do_stored(),
            _ => self.deliver(),
        }
    }

    fn owner(&mut self) -> Option<usize> {
        let pick = below(&mut self.rng, self.owners.len());
        self.owners.keys().nth(pick).copied()
    }

    /// Somebody new wants the log; those before go on, as far as they can.
    fn open(&mut self) {
        if self.owners.len() >= 3 {
            self.kill_owner();
        }
        self.next_opener += 1;
        let mut out = Vec::new();
        let settings = WriterSettings {
            log: Arc::from("counter/7"),
            stores: self.nodes.iter().map(|node| node.id).collect(),
            opener: self.next_opener,
            claim: TokenClaim::Term,
            bounds: BOUNDS,
        };
        let owner = Owner {
            writer: LogWriter::open(settings, &mut out),
            history: Vec::new(),
            appending: None,
            rests: false,
        };
        let index = self.next_opener as usize;
        self.owners.insert(index, owner);
        self.perform(index, out);
    }

    fn kill_owner(&mut self) {
        if let Some(index) = self.owner() {
            self.owners.remove(&index);
        }
    }

    fn append(&mut self) {
        let Some(index) = self.owner() else { return };
        let count = 1 + below(&mut self.rng, 3);
        let payloads: Vec<u64> = (0..count as u64)
            .map(|more| self.next_record + 1 + more)
            .collect();
        let owner = self.owners.get_mut(&index).unwrap();
        let mut out = Vec::new();
        let records = payloads
            .iter()
            .map(|payload| Bytes::from(payload.to_be_bytes().as_slice()));
        let expected = owner.history.len() as Sequence;
        match owner.writer.append(expected, records.collect(), false, &mut out) {
            Ok(()) => {
                owner.appending = Some((payloads, self.highest));
                self.next_record += count as u64;
            }
            Err(WriterError::NotOpen | WriterError::InFlight) => {}
            Err(error) => panic!("{error}"),
        }
        self.perform(index, out);
    }

    fn keep(&mut self) {
        let Some(index) = self.owner() else { return };
        let owner = self.owners.get_mut(&index).unwrap();
        if owner.appending.is_some() {
            return;
        }
        let state: Vec<u8> = owner
            .history
            .iter()
            .flat_map(|payload| payload.to_be_bytes())
            .collect();
        let mut out = Vec::new();
        let covers = owner.history.len() as Sequence;
        match owner.writer.keep(covers, &state, &mut out) {
            Ok(()) | Err(WriterError::NotOpen | WriterError::InFlight) => {}
            Err(error) => panic!("{error}"),
        }
        self.perform(index, out);
    }

    /// Some of the records are needed no more, those that come first.
    fn forget(&mut self) {
        let Some(index) = self.owner() else { return };
        let owner = self.owners.get_mut(&index).unwrap();
        let through = below(&mut self.rng, owner.history.len() + 1) as Sequence;
        let mut out = Vec::new();
        match owner.writer.forget(through, &mut out) {
            Ok(()) => self.forgotten = self.forgotten.max(through),
            Err(WriterError::NotOpen | WriterError::InFlight) => {}
            Err(error) => panic!("{error}"),
        }
        self.perform(index, out);
    }

    fn repeat(&mut self) {
        let Some(index) = self.owner() else { return };
        let mut out = Vec::new();
        self.owners.get_mut(&index).unwrap().writer.repeat(&mut out);
        self.perform(index, out);
    }

    fn take_again(&mut self) {
        let Some(index) = self.owner() else { return };
        let owner = self.owners.get_mut(&index).unwrap();
        let mut out = Vec::new();
        if core::mem::take(&mut owner.rests) {
            owner.writer.take_again(&mut out);
        }
        self.perform(index, out);
    }

    fn crash_or_restart(&mut self) {
        let pick = below(&mut self.rng, self.nodes.len());
        let crashes = chance(&mut self.rng, 0.2);
        let node = &mut self.nodes[pick];
        if node.replica.is_some() && !crashes {
            return;
        }
        match node.replica.take() {
            Some(_) => {
                // What was not done is lost, what was done is not said.
                node.asked.clear();
                node.done.clear();
                self.seen.crashes += 1;
            }
            None => node.replica = Some(LogReplica::new(node.id, BOUNDS.page_bytes)),
        }
    }

    fn heal(&mut self) {
        self.calm = true;
        self.owners.clear();
        for node in &mut self.nodes {
            if node.replica.is_none() {
                node.replica = Some(LogReplica::new(node.id, BOUNDS.page_bytes));
            }
        }
    }

    /// A store does what it was asked, in order, or says that it has.
    fn do_stored(&mut self) {
        let pick = below(&mut self.rng, self.nodes.len());
        let node = &mut self.nodes[pick];
        if chance(&mut self.rng, 0.6) {
            if let Some(StoreRequest { id, order }) = node.asked.pop_front() {
                let outcome = match below(&mut self.rng, if self.calm { 1 } else { 40 }) {
                    1 => Err(StoreError::Busy),
                    2 if !order.is_read() => Err(StoreError::OutcomeUnknown),
                    3 if !order.is_read() => {
                        let _ = node.disk.obey(SPACE, &order);
                        Err(StoreError::OutcomeUnknown)
                    }
                    _ => node.disk.obey(SPACE, &order),
                };
                node.done.push_back(StoreReport { id, outcome });
            }
        } else if let (Some(report), Some(replica)) = (node.done.pop_front(), &mut node.replica) {
            let mut out = Vec::new();
            replica.on_stored(report, &mut out);
            self.perform_replica(pick, out);
        }
    }

    fn deliver(&mut self) {
        if self.net.is_empty() {
            return;
        }
        let pick = below(&mut self.rng, self.net.len());
        let packet = self.net.swap_remove(pick);
        if !self.calm {
            if chance(&mut self.rng, 0.1) {
                return;
            }
            if chance(&mut self.rng, 0.1) {
                let again = match &packet {
                    Packet::Request(owner, request) => Packet::Request(*owner, request.clone()),
                    Packet::Reply(reply) => Packet::Reply(reply.clone()),
                };
                self.net.push(again);
            }
        }
        let mut out = Vec::new();
        match packet {
            Packet::Request(owner, request) => {
                let at = self
                    .nodes
                    .iter()
                    .position(|node| node.id == request.store)
                    .unwrap();
                let Some(replica) = &mut self.nodes[at].replica else {
                    return;
                };
                let mut out = Vec::new();
                replica.on_request(owner, request, &mut out);
                self.perform_replica(at, out);
            }
            Packet::Reply(reply) => {
                let index = reply.opener as usize;
                let Some(owner) = self.owners.get_mut(&index) else {
                    return;
                };
                owner.writer.on_reply(reply, &mut out);
                self.perform(index, out);
            }
        }
    }

    fn perform_replica(&mut self, at: usize, out: Vec<ReplicaOutput<usize>>) {
        for output in out {
            match output {
                ReplicaOutput::Store(request) => self.nodes[at].asked.push_back(request),
                ReplicaOutput::Reply(_, reply) => self.net.push(Packet::Reply(reply)),
                ReplicaOutput::Failed(_) => self.seen.failures += 1,
                ReplicaOutput::Reject(_, rejection) => panic!("{rejection}"),
                ReplicaOutput::Shed => panic!("shed"),
            }
        }
    }

    fn perform(&mut self, index: usize, out: Vec<WriterOutput>) {
        for output in out {
            match output {
                WriterOutput::Ask(request) => self.net.push(Packet::Request(index, request)),
                WriterOutput::Opened(opened) => self.on_opened(index, &opened),
                WriterOutput::Appended { last } => self.on_appended(index, last),
                WriterOutput::Kept { .. } => self.seen.kept += 1,
                WriterOutput::NearlyFull { .. } => panic!("it is far from full"),
                WriterOutput::TakeAgain { .. } => {
                    self.seen.taken_again += 1;
                    self.owners.get_mut(&index).unwrap().rests = true;
                }
                WriterOutput::Nonsense(store) => panic!("{store:?} is not believed"),
                WriterOutput::Ended(WriterEnd::Fenced { held }) => {
                    let owner = self.owners.remove(&index).unwrap();
                    assert!(held >= owner.writer.token());
                    self.seen.fenced += 1;
                }
                WriterOutput::Ended(WriterEnd::Damaged) => panic!("damaged"),
            }
        }
    }

    fn on_opened(&mut self, index: usize, opened: &OpenedLog) {
        let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
        let mut history: Vec<u64> = Vec::new();
        if let Some(snapshot) = &opened.snapshot {
            history.extend(snapshot.state.chunks(8).map(number));
            assert_eq!(history.len() as Sequence, snapshot.through);
            self.seen.opened_with_snapshot += 1;
        } else {
            let first = opened.records.first().map(|record| record.sequence);
            let missing = first.unwrap_or(opened.last + 1) - 1;
            assert!(
                missing <= self.forgotten,
                "nobody wanted {missing} to be forgotten"
            );
            history.extend(&self.acknowledged[..missing as usize]);
            self.seen.opened_without_some += u32::from(missing > 0);
        }
        for record in &opened.records {
            history.push(number(&record.bytes));
            assert_eq!(record.sequence, history.len() as Sequence, "a gap");
            assert!(record.token < opened.token);
        }
        assert!(
            opened
                .records
                .windows(2)
                .all(|pair| pair[0].token <= pair[1].token)
        );
        assert_eq!(opened.last, history.len() as Sequence);
        assert!(
            history.starts_with(&self.acknowledged),
            "acknowledged {:?}, found {history:?}",
            self.acknowledged
        );
        let once: OrderedSet<u64> = history.iter().copied().collect();
        assert_eq!(once.len(), history.len(), "twice in the log: {history:?}");
        self.seen.opened += 1;
        self.seen.opened_with_records += u32::from(!opened.records.is_empty());
        self.seen.adopted += (history.len() - self.acknowledged.len()) as u32;
        // What was opened is written back: it stays.
        self.acknowledged.clone_from(&history);
        self.highest = self.highest.max(opened.token);
        self.owners.get_mut(&index).unwrap().history = history;
    }

    fn on_appended(&mut self, index: usize, last: Sequence) {
        let owner = self.owners.get_mut(&index).unwrap();
        let (payloads, before) = owner.appending.take().unwrap();
        assert!(owner.writer.token() >= before, "a lower token was acknowledged");
        owner.history.extend(payloads);
        assert_eq!(owner.history.len() as Sequence, last);
        // A later owner may have found the records already.
        let agree =
            owner.history.starts_with(&self.acknowledged) || self.acknowledged.starts_with(&owner.history);
        assert!(
            agree,
            "acknowledged {:?} and {:?}",
            self.acknowledged, owner.history
        );
        if owner.history.len() > self.acknowledged.len() {
            self.acknowledged.clone_from(&owner.history);
        }
        self.seen.acknowledged += 1;
    }

    /// Lets one owner open and append without faults; it must come to an end.
    pub(super) fn prove_live(&mut self) {
        self.heal();
        let before = self.seen.acknowledged;
        for step in 0..20_000 {
            match step % 16 {
                // What those say who are gone may still arrive, and fence.
                0 if self.owners.is_empty() => self.open(),
                0 if step % 160 == 0 => self.repeat(),
                1 => self.take_again(),
                2 => self.append(),
                3..=9 => self.do_stored(),
                _ => self.deliver(),
            }
            if self.seen.acknowledged >= before + 3 {
                return;
            }
        }
        panic!("nothing is acknowledged without faults");
    }
}
