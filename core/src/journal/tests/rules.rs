//! The rules of replicas and owners one by one. Spec: sharding 10.7, 10.16; reliability I-80.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::journal::protocol::{
    LOG_NAME_BYTES_MAX, NUMBER_MAX, Rejection, ReplicaAnswer, ReplicaAsk, ReplicaPage, ReplicaReply,
    ReplicaRequest, SNAPSHOT_BYTES_MAX, TERM_STEP,
};
use crate::journal::replica::{LOGS_REMEMBERED_MAX, LogReplica, REQUESTS_MAX, ReplicaOutput};
use crate::journal::state::{
    LogEntry, LogItem, LogPlace, OpenedLog, SnapshotHead, StoreId, TokenClaim, WriterEnd, WriterError,
};
use crate::journal::writer::{LogWriter, WriterBounds, WriterOutput, WriterSettings};
use crate::store::memory::MemoryMap;
use crate::store::{Bytes, Record, Snapshot, Space, StoreError, StoreReport};
use crate::time::Instant;
use crate::token::Token;

const SPACE: Space = Space(9);
const LOG: &str = "counter/7";

pub(super) const BOUNDS: WriterBounds = WriterBounds {
    page_bytes: 300,
    append_bytes_max: 400,
    log_bytes_max: 1_000,
    attempts_max: 3,
};

fn term(term: u64) -> Token {
    Token::new(term, 1)
}

pub(super) fn bytes(text: &str) -> Bytes {
    Bytes::from(text.as_bytes())
}

fn entry(position: u64, origin: Token, first: u64, records: &[&str]) -> LogEntry {
    LogEntry {
        position,
        origin,
        first,
        records: records.iter().map(|text| bytes(text)).collect(),
    }
}

fn request(opener: u64, token: Token, ask: ReplicaAsk) -> ReplicaRequest {
    ReplicaRequest {
        log: Arc::from(LOG),
        store: StoreId(7),
        opener,
        id: 1,
        token,
        ask,
    }
}

/// A replica whose store answers at once.
struct Bench {
    replica: LogReplica<u8>,
    disk: MemoryMap,
}

impl Bench {
    fn new() -> Self {
        Self {
            replica: LogReplica::new(StoreId(7), BOUNDS.page_bytes),
            disk: MemoryMap::new(),
        }
    }

    fn restart(&mut self) {
        self.replica = LogReplica::new(StoreId(7), BOUNDS.page_bytes);
    }

    fn ask(&mut self, request: ReplicaRequest) -> Vec<ReplicaAnswer> {
        let mut out = Vec::new();
        self.replica.on_request(0, request, &mut out);
        let mut said = Vec::new();
        while !out.is_empty() {
            for output in core::mem::take(&mut out) {
                match output {
                    ReplicaOutput::Store(request) => {
                        let outcome = self.disk.obey(SPACE, &request.order);
                        let id = request.id;
                        self.replica.on_stored(StoreReport { id, outcome }, &mut out);
                    }
                    ReplicaOutput::Reply(_, reply) => said.push(reply.said),
                    other @ (ReplicaOutput::Reject(..) | ReplicaOutput::Shed | ReplicaOutput::Failed(_)) => {
                        panic!("{other:?}")
                    }
                }
            }
        }
        said
    }

    fn accept(&mut self, opener: u64, token: Token, entry: LogEntry) -> Vec<ReplicaAnswer> {
        self.ask(request(
            opener,
            token,
            ReplicaAsk::Accept { entries: vec![entry] },
        ))
    }
}

fn page(snapshot: Option<SnapshotHead>, items: Vec<LogItem>, next: Option<LogPlace>) -> ReplicaAnswer {
    ReplicaAnswer::Page(ReplicaPage {
        snapshot,
        items,
        next,
    })
}

fn held(accepted: Token, entry: LogEntry) -> LogItem {
    LogItem::Entry { accepted, entry }
}

#[test]
fn a_replica_keeps_its_promise_over_a_restart_and_gives_one_token_to_one_opener_only() {
    let mut bench = Bench::new();
    assert_eq!(
        bench.ask(request(1, term(5), ReplicaAsk::Promise)),
        [page(None, vec![], None)]
    );
    assert_eq!(
        bench.ask(request(1, term(5), ReplicaAsk::Promise)),
        [page(None, vec![], None)]
    );
    bench.restart();
    for (opener, token) in [(2, term(5)), (1, term(4)), (2, term(4))] {
        assert_eq!(
            bench.ask(request(opener, token, ReplicaAsk::Promise)),
            [ReplicaAnswer::Refused { held: term(5) }]
        );
    }
    assert_eq!(
        bench.ask(request(1, term(5), ReplicaAsk::Promise)),
        [page(None, vec![], None)]
    );
    assert_eq!(
        bench.ask(request(2, term(6), ReplicaAsk::Promise)),
        [page(None, vec![], None)]
    );
    let from = LogPlace::START;
    assert_eq!(
        bench.ask(request(1, term(5), ReplicaAsk::Read { from })),
        [ReplicaAnswer::Refused { held: term(6) }],
        "only who has the promise is told what is held"
    );
}

#[test]
fn a_replica_accepts_a_token_that_is_not_below_its_promise_and_that_is_a_promise_too() {
    let mut bench = Bench::new();
    bench.ask(request(1, term(5), ReplicaAsk::Promise));
    let old = entry(1, term(4), 1, &["old"]);
    assert_eq!(
        bench.accept(9, term(4), old),
        [ReplicaAnswer::Refused { held: term(5) }]
    );
    let mine = entry(1, term(5), 1, &["mine"]);
    assert_eq!(bench.accept(1, term(5), mine.clone()), [ReplicaAnswer::Accepted]);
    let later = entry(2, term(8), 2, &["later"]);
    assert_eq!(bench.accept(3, term(8), later.clone()), [ReplicaAnswer::Accepted]);
    bench.restart();
    assert_eq!(
        bench.accept(1, term(5), mine.clone()),
        [ReplicaAnswer::Refused { held: term(8) }]
    );
    assert_eq!(
        bench.ask(request(4, term(9), ReplicaAsk::Promise)),
        [page(None, vec![held(term(5), mine), held(term(8), later)], None)]
    );
}

#[test]
fn what_a_replica_holds_is_said_in_pages_and_an_entry_may_be_larger_than_one() {
    let mut bench = Bench::new();
    let large = "x".repeat(1_000);
    let entries: Vec<LogEntry> = (1..=3).map(|at| entry(at, term(1), at, &[&large])).collect();
    for entry in &entries {
        bench.accept(1, term(1), entry.clone());
    }
    let mut expected = entries.iter().map(|entry| held(term(1), entry.clone()));
    let first = bench.ask(request(2, term(2), ReplicaAsk::Promise));
    let next = Some(LogPlace::Entry(2));
    assert_eq!(first, [page(None, vec![expected.next().unwrap()], next)]);
    let from = LogPlace::Entry(2);
    let second = bench.ask(request(2, term(2), ReplicaAsk::Read { from }));
    let next = Some(LogPlace::Entry(3));
    assert_eq!(second, [page(None, vec![expected.next().unwrap()], next)]);
    let from = LogPlace::Entry(3);
    let third = bench.ask(request(2, term(2), ReplicaAsk::Read { from }));
    assert_eq!(third, [page(None, vec![expected.next().unwrap()], None)]);
}

#[test]
fn a_snapshot_replaces_what_it_covers_once_all_of_its_parts_have_come() {
    let mut bench = Bench::new();
    for at in 1..=3 {
        bench.accept(1, term(1), entry(at, term(1), at, &["event"]));
    }
    let snapshot = SnapshotHead {
        through: 2,
        covers: 2,
        token: term(1),
        parts: 2,
    };
    let keep = |index: u32, text: &str| ReplicaAsk::Keep {
        snapshot,
        index,
        bytes: bytes(text),
    };
    assert_eq!(
        bench.ask(request(1, term(1), keep(1, "te"))),
        [],
        "a part is missing"
    );
    assert_eq!(
        bench.ask(request(1, term(1), keep(0, "sta"))),
        [ReplicaAnswer::Kept]
    );
    assert_eq!(
        bench.ask(request(1, term(1), keep(0, "sta"))),
        [ReplicaAnswer::Kept],
        "again"
    );
    assert_eq!(
        bench.accept(1, term(1), entry(2, term(1), 2, &["event"])),
        [ReplicaAnswer::Accepted],
        "what is covered is not kept again"
    );
    let part = |index: u32, text: &str| LogItem::Part {
        index,
        bytes: bytes(text),
    };
    let last = held(term(1), entry(3, term(1), 3, &["event"]));
    assert_eq!(
        bench.ask(request(2, term(2), ReplicaAsk::Promise)),
        [page(
            Some(snapshot),
            vec![part(0, "sta"), part(1, "te"), last],
            None
        )]
    );
    let earlier = SnapshotHead {
        through: 1,
        covers: 1,
        token: term(2),
        parts: 1,
    };
    let (index, bytes) = (0, bytes("older"));
    let older = ReplicaAsk::Keep {
        snapshot: earlier,
        index,
        bytes,
    };
    assert_eq!(
        bench.ask(request(2, term(2), older)),
        [ReplicaAnswer::Kept],
        "the later one says it too"
    );
    assert_eq!(
        bench.ask(request(1, term(1), keep(0, "sta"))),
        [ReplicaAnswer::Refused { held: term(2) }]
    );
}

#[test]
fn a_replica_that_does_not_know_whether_it_wrote_reads_again() {
    let mut replica: LogReplica<u8> = LogReplica::new(StoreId(7), 300);
    let mut disk = MemoryMap::new();
    let mut out = Vec::new();
    let mut outcomes = vec![Ok(()), Err(StoreError::OutcomeUnknown), Ok(()), Ok(())].into_iter();
    replica.on_request(0, request(1, term(5), ReplicaAsk::Promise), &mut out);
    replica.on_request(0, request(2, term(4), ReplicaAsk::Promise), &mut out);
    let mut said = Vec::new();
    while !out.is_empty() {
        for output in core::mem::take(&mut out) {
            match output {
                ReplicaOutput::Store(request) => {
                    let done = disk.obey(SPACE, &request.order);
                    let outcome = outcomes.next().unwrap().and(done);
                    let id = request.id;
                    replica.on_stored(StoreReport { id, outcome }, &mut out);
                }
                other => said.push(other),
            }
        }
    }
    // The write that nobody confirmed was made: the lower token is refused by what the store holds.
    assert_eq!(said[0], ReplicaOutput::Failed(StoreError::OutcomeUnknown));
    assert!(
        matches!(&said[1], ReplicaOutput::Reply(0, reply) if reply.said == ReplicaAnswer::Refused { held: term(5) }),
        "{said:?}"
    );
    assert_eq!(replica.waiting(), (0, 0));
}

#[test]
fn a_replica_remembers_a_bounded_number_of_logs() {
    let mut bench = Bench::new();
    let name = |number: usize| -> Arc<str> { Arc::from(alloc::format!("log/{number:05}")) };
    for number in 0..=LOGS_REMEMBERED_MAX {
        bench.ask(ReplicaRequest {
            log: name(number),
            ..request(1, term(1), ReplicaAsk::Promise)
        });
    }
    let remembered = |number: &usize| bench.replica.promised(&name(*number)).is_some();
    assert_eq!(
        (0..=LOGS_REMEMBERED_MAX).filter(remembered).count(),
        LOGS_REMEMBERED_MAX
    );
}

#[test]
fn requests_out_of_bounds_are_rejected_and_too_many_are_shed() {
    let ask = |ask: ReplicaAsk| request(1, term(1), ask);
    let accept = |entries: Vec<LogEntry>| ask(ReplicaAsk::Accept { entries });
    let keep = |snapshot: SnapshotHead, index: u32| {
        let bytes = bytes("");
        ask(ReplicaAsk::Keep {
            snapshot,
            index,
            bytes,
        })
    };
    let snapshot = SnapshotHead {
        through: 1,
        covers: 0,
        token: term(1),
        parts: 1,
    };
    let large = vec![0; SNAPSHOT_BYTES_MAX + 1];
    let bad = [
        ReplicaRequest {
            log: Arc::from(""),
            ..ask(ReplicaAsk::Promise)
        },
        ReplicaRequest {
            log: Arc::from("x".repeat(LOG_NAME_BYTES_MAX + 1)),
            ..ask(ReplicaAsk::Promise)
        },
        ReplicaRequest {
            token: Token::NONE,
            ..ask(ReplicaAsk::Promise)
        },
        ReplicaRequest {
            token: term(NUMBER_MAX + 1),
            ..ask(ReplicaAsk::Promise)
        },
        accept(vec![]),
        accept(vec![entry(0, term(1), 1, &[])]),
        accept(vec![entry(1, term(2), 1, &[])]),
        accept(vec![entry(1, term(1), 1, &["a"]), entry(3, term(1), 2, &[])]),
        accept(vec![entry(1, term(1), 1, &["a"]), entry(2, term(1), 3, &[])]),
        accept(vec![entry(NUMBER_MAX + 1, term(1), 1, &[])]),
        keep(
            SnapshotHead {
                through: 0,
                ..snapshot
            },
            0,
        ),
        keep(
            SnapshotHead {
                token: term(2),
                ..snapshot
            },
            0,
        ),
        keep(snapshot, 1),
        ask(ReplicaAsk::Keep {
            snapshot,
            index: 0,
            bytes: Bytes::from(large),
        }),
    ];
    let mut replica: LogReplica<u8> = LogReplica::new(StoreId(7), 300);
    let mut out = Vec::new();
    for request in bad {
        replica.on_request(3, request, &mut out);
        assert_eq!(
            core::mem::take(&mut out),
            [ReplicaOutput::Reject(3, Rejection::OutOfBounds)]
        );
    }
    replica.on_request(
        3,
        ReplicaRequest {
            store: StoreId(8),
            ..ask(ReplicaAsk::Promise)
        },
        &mut out,
    );
    assert_eq!(
        core::mem::take(&mut out),
        [ReplicaOutput::Reject(3, Rejection::OtherStore)]
    );
    for _ in 0..REQUESTS_MAX {
        replica.on_request(3, ask(ReplicaAsk::Promise), &mut out);
    }
    assert_eq!(
        core::mem::take(&mut out).len(),
        1,
        "one is at the store, the others wait"
    );
    replica.on_request(3, ask(ReplicaAsk::Promise), &mut out);
    assert_eq!(out, [ReplicaOutput::Shed]);
}

fn settings(claim: TokenClaim) -> WriterSettings {
    WriterSettings {
        log: Arc::from(LOG),
        stores: [1, 2, 3].map(StoreId).into(),
        opener: 77,
        claim,
        bounds: BOUNDS,
    }
}

pub(super) fn asked(out: &mut Vec<WriterOutput>) -> Vec<ReplicaRequest> {
    let mut requests = Vec::new();
    for output in core::mem::take(out) {
        match output {
            WriterOutput::Ask(request) => requests.push(request),
            other => panic!("{other:?}"),
        }
    }
    requests
}

pub(super) fn answer(request: &ReplicaRequest, said: ReplicaAnswer) -> ReplicaReply {
    ReplicaReply {
        log: Arc::clone(&request.log),
        store: request.store,
        opener: request.opener,
        id: request.id,
        said,
    }
}

/// A writer that has found this, and what it writes back.
fn found(pages: [ReplicaAnswer; 2]) -> (LogWriter, Vec<ReplicaRequest>) {
    found_within(BOUNDS, pages)
}

fn found_within(bounds: WriterBounds, pages: [ReplicaAnswer; 2]) -> (LogWriter, Vec<ReplicaRequest>) {
    let mut out = Vec::new();
    let settings = WriterSettings {
        bounds,
        ..settings(TokenClaim::Placed(Token::new(9, 0)))
    };
    let mut writer = LogWriter::open(settings, &mut out);
    let promises = asked(&mut out);
    assert_eq!(promises.len(), 3);
    for (promise, said) in promises.iter().zip(pages) {
        writer.on_reply(answer(promise, said), &mut out);
    }
    (writer, asked(&mut out))
}

pub(super) fn acknowledge(writer: &mut LogWriter, requests: &[ReplicaRequest]) -> Vec<WriterOutput> {
    let mut out = Vec::new();
    for request in &requests[..2] {
        writer.on_reply(answer(request, ReplicaAnswer::Accepted), &mut out);
    }
    out
}

fn open() -> LogWriter {
    open_within(BOUNDS)
}

/// The owner of a log without records.
pub(super) fn open_within(bounds: WriterBounds) -> LogWriter {
    let (mut writer, back) = found_within(bounds, [page(None, vec![], None), page(None, vec![], None)]);
    let opened = acknowledge(&mut writer, &back);
    assert!(matches!(&opened[..], [WriterOutput::Opened(_)]), "{opened:?}");
    writer
}

fn entries(request: &ReplicaRequest) -> &[LogEntry] {
    match &request.ask {
        ReplicaAsk::Accept { entries } => entries,
        ReplicaAsk::Promise | ReplicaAsk::Read { .. } | ReplicaAsk::Keep { .. } => panic!("{request:?}"),
    }
}

#[test]
fn the_highest_accepting_token_wins_and_the_log_ends_at_the_first_gap() {
    let one = entry(1, term(1), 1, &["one"]);
    let lost = entry(2, term(2), 2, &["lost"]);
    let two = entry(2, term(3), 2, &["two", "too"]);
    let behind = entry(4, term(3), 4, &["behind the gap"]);
    let (mut writer, back) = found([
        page(
            None,
            vec![
                held(term(1), one.clone()),
                held(term(2), lost),
                held(term(3), behind),
            ],
            None,
        ),
        page(
            None,
            vec![held(term(5), one.clone()), held(term(4), two.clone())],
            None,
        ),
    ]);
    assert_eq!(
        entries(&back[0]),
        [one, two],
        "all of it is written back, with its origin"
    );
    assert_eq!(back[0].token, term(9));
    let mut out = acknowledge(&mut writer, &back);
    let last = asked(&mut out);
    assert_eq!(
        entries(&last[0]),
        [entry(3, term(9), 4, &[])],
        "then who has opened it"
    );
    assert!(!writer.is_open());
    let record = |sequence: u64, token: Token, text: &str| Record {
        sequence,
        token,
        bytes: bytes(text),
    };
    assert_eq!(
        acknowledge(&mut writer, &last),
        [WriterOutput::Opened(OpenedLog {
            token: term(9),
            snapshot: None,
            records: vec![
                record(1, term(1), "one"),
                record(2, term(3), "two"),
                record(3, term(3), "too")
            ],
            last: 3,
        })]
    );
    assert!(writer.is_open());
}

#[test]
fn the_snapshot_that_covers_most_is_the_beginning() {
    let head = |through: u64, covers: u64| SnapshotHead {
        through,
        covers,
        token: term(2),
        parts: 1,
    };
    let part = |text: &str| LogItem::Part {
        index: 0,
        bytes: bytes(text),
    };
    let three = entry(3, term(2), 5, &["five"]);
    let (mut writer, back) = found([
        page(
            Some(head(1, 1)),
            vec![
                part("older"),
                held(term(2), entry(2, term(2), 2, &["2", "3", "4"])),
            ],
            None,
        ),
        page(
            Some(head(2, 4)),
            vec![part("newer"), held(term(2), three.clone())],
            None,
        ),
    ]);
    assert_eq!(entries(&back[0]), [three]);
    let mut out = acknowledge(&mut writer, &back);
    let last = asked(&mut out);
    let opened = acknowledge(&mut writer, &last);
    let [WriterOutput::Opened(opened)] = &opened[..] else {
        panic!("{opened:?}");
    };
    let (through, token, state) = (4, term(2), bytes("newer"));
    assert_eq!(
        opened.snapshot,
        Some(Snapshot {
            through,
            token,
            state
        })
    );
    assert_eq!((opened.records.len(), opened.last), (1, 5));
}

#[test]
fn a_replica_that_contradicts_itself_is_not_heard() {
    let part = LogItem::Part {
        index: 0,
        bytes: bytes("?"),
    };
    let two = held(term(1), entry(2, term(1), 2, &[]));
    let nonsense = [
        page(None, vec![part.clone()], None),
        page(
            None,
            vec![two.clone(), held(term(1), entry(1, term(1), 1, &[]))],
            None,
        ),
        page(None, vec![two.clone()], Some(LogPlace::Entry(1))),
        page(
            Some(SnapshotHead {
                through: 1,
                covers: 1,
                token: term(1),
                parts: 2,
            }),
            vec![part],
            None,
        ),
    ];
    for said in nonsense {
        let mut out = Vec::new();
        let mut writer = LogWriter::open(settings(TokenClaim::Term), &mut out);
        let promises = asked(&mut out);
        writer.on_reply(answer(&promises[0], said), &mut out);
        assert_eq!(core::mem::take(&mut out), [WriterOutput::Nonsense(StoreId(1))]);
        writer.on_reply(answer(&promises[1], page(None, vec![], None)), &mut out);
        assert_eq!(out, [], "one answer of three");
    }
}

#[test]
fn one_append_is_in_flight_and_acknowledged_by_a_majority() {
    let mut writer = open();
    let mut out = Vec::new();
    let records = || vec![bytes("a"), bytes("b")];
    assert_eq!(
        writer.append(1, records(), false, &mut out),
        Err(WriterError::SequenceConflict { last: 0 })
    );
    assert_eq!(
        writer.append(0, vec![], false, &mut out),
        Err(WriterError::TooLarge)
    );
    assert_eq!(
        writer.append(0, vec![bytes(&"x".repeat(400))], false, &mut out),
        Err(WriterError::TooLarge)
    );
    writer.append(0, records(), false, &mut out).unwrap();
    let requests = asked(&mut out);
    assert_eq!(
        writer.append(0, records(), false, &mut out),
        Err(WriterError::InFlight)
    );
    for _ in 0..2 {
        writer.on_reply(answer(&requests[0], ReplicaAnswer::Accepted), &mut out);
    }
    assert_eq!(out, [], "one replica, twice");
    writer.repeat(&mut out);
    let repeated = asked(&mut out);
    assert_eq!(
        repeated,
        requests[1..],
        "exactly the same, to who has not answered"
    );
    writer.on_reply(answer(&repeated[0], ReplicaAnswer::Accepted), &mut out);
    assert_eq!(out, [WriterOutput::Appended { last: 2 }]);
    assert!(!writer.is_waiting());
}

#[test]
fn a_log_that_is_full_takes_records_again_behind_a_snapshot() {
    let mut writer = open();
    let mut out = Vec::new();
    let mut last = 0;
    loop {
        match writer.append(last, vec![bytes(&"x".repeat(200))], false, &mut out) {
            Ok(()) => {
                let requests = asked(&mut out);
                acknowledge(&mut writer, &requests);
                last += 1;
            }
            Err(error) => {
                assert_eq!((error, last), (WriterError::Full, 2));
                break;
            }
        }
    }
    assert_eq!(
        writer.keep(1, b"state", &mut out),
        Err(WriterError::SequenceConflict { last })
    );
    writer.keep(last, b"state", &mut out).unwrap();
    for request in &asked(&mut out)[..2] {
        writer.on_reply(answer(request, ReplicaAnswer::Kept), &mut out);
    }
    assert_eq!(core::mem::take(&mut out), [WriterOutput::Kept { covers: last }]);
    writer.append(last, vec![bytes("more")], false, &mut out).unwrap();
}

#[test]
fn a_refusal_ends_the_owner_and_its_own_later_token_does_not() {
    let mut writer = open();
    let mut out = Vec::new();
    writer.append(0, vec![bytes("a")], false, &mut out).unwrap();
    let requests = asked(&mut out);
    // An answer to a question of long ago, with the token that this writer has taken since.
    let late = ReplicaRequest {
        id: 1,
        ..requests[0].clone()
    };
    writer.on_reply(answer(&late, ReplicaAnswer::Refused { held: term(9) }), &mut out);
    assert_eq!(out, []);
    let held = term(10);
    writer.on_reply(answer(&requests[2], ReplicaAnswer::Refused { held }), &mut out);
    assert_eq!(
        core::mem::take(&mut out),
        [WriterOutput::Ended(WriterEnd::Fenced { held })]
    );
    for request in &requests {
        writer.on_reply(answer(request, ReplicaAnswer::Accepted), &mut out);
    }
    assert_eq!(out, [], "it tells nobody anything any more");
    assert_eq!(
        writer.append(0, vec![bytes("a")], false, &mut out),
        Err(WriterError::NotOpen)
    );
}

#[test]
fn a_placement_is_refused_by_a_later_one_only_and_a_term_that_was_taken_is_raised_so_often() {
    let mut out = Vec::new();
    let placement = Token::new(9, 3);
    let mut writer = LogWriter::open(settings(TokenClaim::Placed(placement)), &mut out);
    // The entity was there before, and begins again where it was placed.
    let (promises, held) = (asked(&mut out), placement.opened());
    writer.on_reply(answer(&promises[0], ReplicaAnswer::Refused { held }), &mut out);
    assert_eq!(
        core::mem::take(&mut out),
        [WriterOutput::TakeAgain { attempt: 1 }]
    );
    writer.take_again(&mut out);
    assert_eq!(writer.token(), placement.opened().next());
    // It is somewhere else by now.
    let (promises, held) = (asked(&mut out), Token::new(9, 4).opened());
    writer.on_reply(answer(&promises[0], ReplicaAnswer::Refused { held }), &mut out);
    let end = WriterEnd::Fenced { held };
    assert_eq!(core::mem::take(&mut out), [WriterOutput::Ended(end)]);

    // Who has no placement counts, and leaves the terms to those who give tokens away.
    let mut writer = LogWriter::open(settings(TokenClaim::Count), &mut out);
    let promises = asked(&mut out);
    writer.on_reply(answer(&promises[0], ReplicaAnswer::Refused { held }), &mut out);
    out.clear();
    writer.take_again(&mut out);
    assert_eq!(writer.token(), held.next());
    out.clear();

    let mut writer = LogWriter::open(settings(TokenClaim::Term), &mut out);
    for attempt in 1..=BOUNDS.attempts_max {
        let promises = asked(&mut out);
        let held = term(u64::from(attempt) * 10);
        writer.on_reply(answer(&promises[0], ReplicaAnswer::Refused { held }), &mut out);
        assert_eq!(core::mem::take(&mut out), [WriterOutput::TakeAgain { attempt }]);
        writer.repeat(&mut out);
        assert_eq!(out, [], "it rests");
        writer.take_again(&mut out);
        assert_eq!(writer.token(), term(u64::from(attempt) * 10 + 1));
    }
    let promises = asked(&mut out);
    let held = term(1_000);
    writer.on_reply(answer(&promises[0], ReplicaAnswer::Refused { held }), &mut out);
    assert_eq!(out, [WriterOutput::Ended(WriterEnd::Fenced { held })]);
}

#[test]
fn what_the_last_append_replaces_is_forgotten_and_the_numbers_go_on() {
    let mut writer = open();
    let mut out = Vec::new();
    for (last, text) in ["first", "second"].iter().enumerate() {
        writer
            .append(last as u64, vec![bytes(text)], false, &mut out)
            .unwrap();
        let requests = asked(&mut out);
        acknowledge(&mut writer, &requests);
    }
    writer.forget(1, &mut out).unwrap();
    let requests = asked(&mut out);
    let snapshot = SnapshotHead {
        through: 2,
        covers: 1,
        token: term(9),
        parts: 0,
    };
    let (index, nothing) = (0, bytes(""));
    let expected = ReplicaAsk::Keep {
        snapshot,
        index,
        bytes: nothing,
    };
    assert_eq!(requests[0].ask, expected);
    let mut bench = Bench::new();
    for (at, origin) in [(1, &[][..]), (2, &["first"][..]), (3, &["second"][..])] {
        bench.accept(77, term(9), entry(at, term(9), at.max(2) - 1, origin));
    }
    assert_eq!(bench.ask(request(77, term(9), expected)), [ReplicaAnswer::Kept]);
    let left = held(term(9), entry(3, term(9), 2, &["second"]));
    let said = page(Some(snapshot), vec![left], None);
    assert_eq!(
        bench.ask(request(1, term(10), ReplicaAsk::Promise)),
        core::slice::from_ref(&said)
    );

    for request in &requests[..2] {
        writer.on_reply(answer(request, ReplicaAnswer::Kept), &mut out);
    }
    assert_eq!(core::mem::take(&mut out), [WriterOutput::Kept { covers: 1 }]);
    writer.forget(1, &mut out).unwrap();
    assert_eq!(
        out,
        [WriterOutput::Kept { covers: 1 }],
        "nothing is left to forget"
    );

    let (mut writer, back) = found([said.clone(), said]);
    let mut out = acknowledge(&mut writer, &back);
    let last = asked(&mut out);
    let opened = acknowledge(&mut writer, &last);
    let [WriterOutput::Opened(opened)] = &opened[..] else {
        panic!("{opened:?}");
    };
    assert_eq!((opened.snapshot.as_ref(), opened.last), (None, 2));
    assert_eq!(opened.records[0].sequence, 2);
}

#[test]
fn i_84_a_token_is_one_openers_and_nobody_else_reads_with_it() {
    let mut bench = Bench::new();
    bench.ask(request(1, term(5), ReplicaAsk::Promise));
    let from = LogPlace::START;
    assert_eq!(
        bench.ask(request(2, term(5), ReplicaAsk::Read { from })),
        [ReplicaAnswer::Refused { held: term(5) }],
        "the same token by another opening"
    );
    assert_eq!(
        bench.ask(request(1, term(5), ReplicaAsk::Read { from })),
        [page(None, vec![], None)]
    );
}

#[test]
fn parts_of_a_snapshot_weigh_until_the_last_has_come_and_nothing_after() {
    let mut bench = Bench::new();
    let snapshot = SnapshotHead {
        through: 2,
        covers: 2,
        token: term(1),
        parts: 3,
    };
    let keep = |snapshot: SnapshotHead, index: u32, text: &str| {
        let bytes = bytes(text);
        ReplicaAsk::Keep {
            snapshot,
            index,
            bytes,
        }
    };
    bench.ask(request(1, term(1), keep(snapshot, 0, "four")));
    assert_eq!(
        bench.replica.waiting(),
        (0, 4),
        "the request is done with, its part is held"
    );
    bench.ask(request(1, term(1), keep(snapshot, 0, "four")));
    assert_eq!(bench.replica.waiting(), (0, 4), "once, however often it comes");
    bench.ask(request(1, term(1), keep(snapshot, 2, "seventy")));
    assert_eq!(bench.replica.waiting(), (0, 11));
    assert_eq!(
        bench.ask(request(1, term(1), keep(snapshot, 1, "x"))),
        [ReplicaAnswer::Kept]
    );
    assert_eq!(bench.replica.waiting(), (0, 0));
    // Those of one that is given up for a later one are given back as well.
    let parts_of = |through: u64| SnapshotHead {
        through,
        covers: through,
        token: term(1),
        parts: 2,
    };
    bench.ask(request(1, term(1), keep(parts_of(5), 0, "given up")));
    bench.ask(request(1, term(1), keep(parts_of(6), 0, "six")));
    assert_eq!(bench.replica.waiting(), (0, 3));
    assert_eq!(
        bench.ask(request(1, term(1), keep(parts_of(6), 1, ""))),
        [ReplicaAnswer::Kept]
    );
    assert_eq!(bench.replica.waiting(), (0, 0));
}

#[test]
fn i_100_counts_that_are_used_up_go_on_in_the_next_term_and_after_the_last_there_is_none() {
    let last = u64::MAX >> 16;
    assert_eq!(
        TokenClaim::Count.above(Token::new(3, last)),
        Some(Token::new(4, 1))
    );
    assert_eq!(
        TokenClaim::Count.above(Token::new(3, u64::MAX)),
        Some(Token::new(4, 1))
    );
    assert_eq!(TokenClaim::Count.above(Token::new(last, last)), None);
    assert_eq!(TokenClaim::Term.above(Token::new(last, 1)), None);
    assert_eq!(TokenClaim::TermAbove(last).above(Token::new(3, 1)), None);
    assert_eq!(
        TokenClaim::TermAbove(last).first(),
        Token::new(last, 1),
        "no voter reads a higher one"
    );
    assert_eq!(TokenClaim::TermAbove(7).first(), Token::new(8, 1));
}

#[test]
fn i_100_a_promise_rises_by_a_step_at_a_time_and_a_few_times_a_second() {
    let mut bench = Bench::new();
    let refused = |term| {
        vec![ReplicaAnswer::Refused {
            held: Token::new(term, 1),
        }]
    };
    assert_eq!(bench.ask(request(1, term(1), ReplicaAsk::Promise)).len(), 1);
    let last = term(NUMBER_MAX);
    assert_eq!(bench.ask(request(9, last, ReplicaAsk::Promise)), refused(1));
    assert_eq!(bench.accept(9, last, entry(1, term(1), 1, &["x"])), refused(1));
    assert_eq!(
        bench.ask(request(9, term(2 + TERM_STEP), ReplicaAsk::Promise)),
        refused(1)
    );
    let mut held = 1;
    for _ in 0..1_000 {
        let next = term(held + TERM_STEP);
        if let [ReplicaAnswer::Page(_)] = bench.ask(request(9, next, ReplicaAsk::Promise))[..] {
            held = next.term;
        }
    }
    assert_eq!(held, 1 + 16 * TERM_STEP, "in one second");
    assert!(u128::from(NUMBER_MAX / (16 * TERM_STEP)) > 8 * 365 * 24 * 3_600);
    // The next term is anybody's at any time.
    assert!(matches!(
        bench.ask(request(2, term(held + 1), ReplicaAsk::Promise))[..],
        [ReplicaAnswer::Page(_)]
    ));
    bench.replica.set_now(Instant::from_micros(1_000_000));
    assert!(matches!(
        bench.ask(request(2, term(held + TERM_STEP), ReplicaAsk::Promise))[..],
        [ReplicaAnswer::Page(_)]
    ));
}

/// Three replicas that have promised these terms, and how many repetitions an opening takes, at most 60; one
/// replica may say anything.
fn openings(terms: [u64; 3], claim: TokenClaim, liar: Option<Token>) -> Option<(u64, LogWriter)> {
    let mut benches = [1, 2, 3].map(|store| Bench {
        replica: LogReplica::new(StoreId(store), BOUNDS.page_bytes),
        disk: MemoryMap::new(),
    });
    for (second, (bench, promised)) in (1..).zip(benches.iter_mut().zip(terms)) {
        let mut at = 0;
        while at < promised {
            at = promised.min(at + TERM_STEP);
            bench.replica.set_now(Instant::from_micros(at * 1_000_000));
            let store = bench.replica.store();
            bench.ask(ReplicaRequest {
                store,
                ..request(99 + second, term(at), ReplicaAsk::Promise)
            });
        }
    }
    let mut out = Vec::new();
    let mut writer = LogWriter::open(settings(claim), &mut out);
    for round in 0..60 {
        while !out.is_empty() {
            for output in core::mem::take(&mut out) {
                match output {
                    WriterOutput::Ask(asked) => {
                        let at = usize::try_from(asked.store.0).unwrap() - 1;
                        let lie = liar.filter(|_| at == 2);
                        let said = match lie {
                            Some(held) => vec![ReplicaAnswer::Refused { held }],
                            None => benches[at].ask(asked.clone()),
                        };
                        for said in said {
                            writer.on_reply(answer(&asked, said), &mut out);
                        }
                    }
                    WriterOutput::TakeAgain { .. } => writer.take_again(&mut out),
                    WriterOutput::Opened(_) => return Some((round, writer)),
                    other => panic!("{other:?}"),
                }
            }
        }
        for bench in &mut benches {
            bench
                .replica
                .set_now(Instant::from_micros((1 << 40) + round * 1_000_000));
        }
        writer.repeat(&mut out);
    }
    None
}

#[test]
fn i_100_replicas_that_are_far_behind_are_led_to_a_token_and_an_owner_to_theirs() {
    let far = 5 * TERM_STEP + 7;
    let (rounds, writer) =
        openings([0, 0, far], TokenClaim::Placed(Token::new(far, 3)), None).expect("it opens");
    assert_eq!(writer.token(), Token::new(far, 3).opened());
    assert!(rounds <= 12, "{rounds}");
    let (rounds, writer) = openings([far, far, 0], TokenClaim::Term, None).expect("it opens");
    assert!(writer.token().term > far && writer.token().term < far + 3 * TERM_STEP);
    assert!(rounds <= 12, "{rounds}");
    let (rounds, _) = openings([0, 0, 0], TokenClaim::Placed(Token::new(40_000, 1)), None).expect("it opens");
    assert_eq!(rounds, 0, "terms that clusters have are within one step");
}

#[test]
fn i_100_a_placement_that_most_replicas_are_out_of_reach_of_hears_so() {
    let mut out = Vec::new();
    let mut writer = LogWriter::open(settings(TokenClaim::Placed(Token::new(2, 1))), &mut out);
    let held = Token::new(5 * TERM_STEP, 1);
    for request in &asked(&mut out)[..2] {
        writer.on_reply(answer(request, ReplicaAnswer::Refused { held }), &mut out);
    }
    assert_eq!(core::mem::take(&mut out), [], "one of them alone may lie");
    writer.repeat(&mut out);
    let held = Token::new(2 + TERM_STEP, 1);
    assert_eq!(out, [WriterOutput::Ended(WriterEnd::Fenced { held })]);
}

#[test]
fn i_100_a_replica_that_names_the_last_token_is_outvoted() {
    let last = Token::new(NUMBER_MAX, NUMBER_MAX);
    for claim in [
        TokenClaim::Term,
        TokenClaim::Count,
        TokenClaim::Placed(Token::new(2, 1)),
    ] {
        let (rounds, mut writer) = openings([1, 1, 0], claim, Some(last)).expect("it opens");
        assert!(
            rounds == 0 && writer.token().term < 5,
            "{claim:?}: {}",
            writer.token()
        );
        let mut out = Vec::new();
        writer.append(0, vec![bytes("x")], false, &mut out).unwrap();
        let asks = asked(&mut out);
        writer.on_reply(answer(&asks[2], ReplicaAnswer::Refused { held: last }), &mut out);
        for request in &asks[..2] {
            writer.on_reply(answer(request, ReplicaAnswer::Accepted), &mut out);
        }
        assert!(matches!(out[..], [WriterOutput::Appended { last: 1 }]), "{out:?}");
    }
}
