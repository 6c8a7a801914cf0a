//! Gossip states that no honest node writes, built column by column and refused one by one. Spec: reliability
//! 3c, B-18 to B-36; membership M-452 to M-455.

use std::string::String;
use std::vec;
use std::vec::Vec;

use crate::config::Limits;
use crate::membership::state::gossip::Gossip;
use crate::message::{Lane, MembershipMsg, Message};
use crate::paths::state::tests::sample_table;
use crate::wire::{COUNTER_MAX, WireError, decode_message};

/// A state as its columns, legal or not.
#[derive(Clone)]
struct StateColumns {
    version: [u8; 2],
    hosts: Vec<String>,
    roles: Vec<&'static str>,
    role_sets: Vec<Vec<u16>>,
    app_versions: Vec<&'static str>,
    /// Host, port, uid, status, up number, role set, app version.
    members: Vec<(u16, u16, i64, u8, u32, u16, u16)>,
    seen: Vec<u8>,
    tombstones: Vec<(u16, u16, i64)>,
    /// Member, version, rows.
    observers: Vec<(u16, u64, u16)>,
    /// Member, status, version.
    records: Vec<(u16, u8, u64)>,
    clock: Vec<(u16, u64)>,
    /// Positions among the members, then the tombstones.
    gone: Vec<u16>,
    paths: Vec<u8>,
    /// Overrides the length of `paths`.
    claimed_paths: Option<usize>,
    /// Overrides of the counts: position in the header, value.
    lies: Vec<(usize, u16)>,
    tail: Vec<u8>,
}

impl StateColumns {
    fn legal() -> Self {
        Self {
            version: [1, 0],
            hosts: ["a", "b", "c"].map(String::from).to_vec(),
            roles: vec!["dc-west", "io", "worker"],
            role_sets: vec![vec![], vec![0, 1], vec![1, 2]],
            app_versions: vec!["0.0.0", "1.2"],
            members: vec![
                (0, 1, -3, 1, 1, 2, 0),
                (0, 1, 4, 4, 2, 0, 0),
                (0, 2, 4, 1, 3, 1, 1),
                (1, 1, 4, 0, 0x7FFF_FFFF, 2, 1),
            ],
            seen: vec![0b1001],
            tombstones: vec![(1, 1, 3), (2, 1, 0)],
            observers: vec![(0, 3, 2), (2, 1, 0), (3, 9, 1)],
            records: vec![(1, 1, 3), (2, 2, 1), (0, 1, 9)],
            clock: vec![(0, 1), (3, COUNTER_MAX)],
            gone: vec![5],
            paths: sample_table().bytes().to_vec(),
            claimed_paths: None,
            lies: Vec::new(),
            tail: Vec::new(),
        }
    }

    fn counts(&self) -> [usize; 9] {
        [
            self.hosts.len(),
            self.roles.len(),
            self.role_sets.len(),
            self.app_versions.len(),
            self.members.len(),
            self.tombstones.len(),
            self.observers.len(),
            self.clock.len(),
            self.gone.len(),
        ]
    }

    fn head(&self) -> Vec<u8> {
        let mut out = self.version.to_vec();
        for (at, count) in self.counts().into_iter().enumerate() {
            let lie = self.lies.iter().find(|lie| lie.0 == at).map(|lie| lie.1);
            out.extend(lie.unwrap_or(u16::try_from(count).unwrap()).to_le_bytes());
        }
        for count in [self.claimed_paths.unwrap_or(self.paths.len()), self.records.len()] {
            out.extend(u32::try_from(count).unwrap().to_le_bytes());
        }
        out
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = self.head();
        let texts = |out: &mut Vec<u8>, texts: &[&str]| {
            texts
                .iter()
                .for_each(|text| out.push(u8::try_from(text.len()).unwrap()));
            texts.iter().for_each(|text| out.extend(text.as_bytes()));
        };
        texts(
            &mut out,
            &self.hosts.iter().map(String::as_str).collect::<Vec<_>>(),
        );
        texts(&mut out, &self.roles);
        self.role_sets
            .iter()
            .for_each(|set| out.push(u8::try_from(set.len()).unwrap()));
        self.role_sets
            .iter()
            .flatten()
            .for_each(|at| out.extend(at.to_le_bytes()));
        texts(&mut out, &self.app_versions);
        self.members
            .iter()
            .for_each(|member| out.extend(member.0.to_le_bytes()));
        self.members
            .iter()
            .for_each(|member| out.extend(member.1.to_le_bytes()));
        self.members
            .iter()
            .for_each(|member| out.extend(member.2.to_le_bytes()));
        self.members.iter().for_each(|member| out.push(member.3));
        self.members
            .iter()
            .for_each(|member| out.extend(member.4.to_le_bytes()));
        self.members
            .iter()
            .for_each(|member| out.extend(member.5.to_le_bytes()));
        self.members
            .iter()
            .for_each(|member| out.extend(member.6.to_le_bytes()));
        out.extend(&self.seen);
        self.tombstones
            .iter()
            .for_each(|node| out.extend(node.0.to_le_bytes()));
        self.tombstones
            .iter()
            .for_each(|node| out.extend(node.1.to_le_bytes()));
        self.tombstones
            .iter()
            .for_each(|node| out.extend(node.2.to_le_bytes()));
        self.observers
            .iter()
            .for_each(|observer| out.extend(observer.0.to_le_bytes()));
        self.observers
            .iter()
            .for_each(|observer| out.extend(observer.1.to_le_bytes()));
        self.observers
            .iter()
            .for_each(|observer| out.extend(observer.2.to_le_bytes()));
        self.records
            .iter()
            .for_each(|record| out.extend(record.0.to_le_bytes()));
        self.records.iter().for_each(|record| out.push(record.1));
        self.records
            .iter()
            .for_each(|record| out.extend(record.2.to_le_bytes()));
        self.clock
            .iter()
            .for_each(|entry| out.extend(entry.0.to_le_bytes()));
        self.clock
            .iter()
            .for_each(|entry| out.extend(entry.1.to_le_bytes()));
        self.gone.iter().for_each(|at| out.extend(at.to_le_bytes()));
        out.extend(&self.paths);
        out.extend(&self.tail);
        out
    }
}

pub(super) fn decode_state(form: u8, state: &[u8]) -> Result<Message, WireError> {
    let mut body = vec![1, b'r', 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, form];
    body.extend_from_slice(state);
    decode_message(
        MembershipMsg::GOSSIP.kind,
        Lane::Gossip,
        &body,
        &Limits::default(),
    )
}

fn check(id: &str, change: impl FnOnce(&mut StateColumns), error: WireError) {
    let mut state = StateColumns::legal();
    change(&mut state);
    assert_eq!(decode_state(0, &state.bytes()), Err(error), "{id}");
}

const fn malformed(what: &'static str) -> WireError {
    WireError::Malformed { what }
}

const fn non_canonical(what: &'static str) -> WireError {
    WireError::NonCanonical { what }
}

const fn exceeded(what: &'static str) -> WireError {
    WireError::LimitExceeded { what }
}

const fn dangling(what: &'static str) -> WireError {
    WireError::DanglingIndex { what }
}

const fn duplicate(what: &'static str) -> WireError {
    WireError::Duplicate { what }
}

#[test]
fn the_legal_state_is_read() {
    let Ok(Message::Membership(MembershipMsg::Gossip(envelope))) =
        decode_state(0, &StateColumns::legal().bytes())
    else {
        panic!("a gossip")
    };
    let gossip = &envelope.gossip.open(&Gossip::new());
    assert_eq!(
        (
            gossip.members().len(),
            gossip.seen_count(),
            gossip.tombstones().len()
        ),
        (4, 2, 2)
    );
    assert_eq!(gossip.paths(), &sample_table());
    let west = gossip
        .members()
        .iter()
        .filter(|member| member.data_center() == "west")
        .count();
    assert_eq!(west, 1);
}

#[test]
fn b_18_names_in_another_order_or_unused_are_refused() {
    check("hosts swapped", |s| s.hosts.swap(0, 1), non_canonical("hosts"));
    check(
        "host unused",
        |s| s.hosts.push("d".into()),
        non_canonical("hosts"),
    );
    check("roles swapped", |s| s.roles.swap(1, 2), non_canonical("roles"));
    check("role unused", |s| s.roles.push("zeta"), non_canonical("roles"));
    check(
        "default data center",
        |s| s.roles[0] = "dc-default",
        non_canonical("roles"),
    );
    check(
        "sets swapped",
        |s| s.role_sets.swap(1, 2),
        non_canonical("role sets"),
    );
    check(
        "set twice",
        |s| s.role_sets[2] = vec![0, 1],
        non_canonical("role sets"),
    );
    check(
        "set backwards",
        |s| s.role_sets[2] = vec![2, 1],
        non_canonical("role sets"),
    );
    check(
        "set unused",
        |s| s.role_sets.push(vec![2]),
        non_canonical("role sets"),
    );
    check(
        "versions swapped",
        |s| s.app_versions.swap(0, 1),
        non_canonical("app versions"),
    );
    check(
        "version unused",
        |s| s.app_versions.push("2"),
        non_canonical("app versions"),
    );
}

#[test]
fn b_18_rows_in_another_order_are_refused() {
    check(
        "members swapped",
        |s| s.members.swap(0, 1),
        non_canonical("member"),
    );
    check(
        "tombstones swapped",
        |s| s.tombstones.swap(0, 1),
        non_canonical("tombstone"),
    );
    check(
        "observers swapped",
        |s| s.observers.swap(0, 1),
        non_canonical("observers"),
    );
    check(
        "subjects swapped",
        |s| s.records.swap(0, 1),
        non_canonical("reachability subject"),
    );
    check("clock swapped", |s| s.clock.swap(0, 1), non_canonical("clock"));
    let skip_host = |s: &mut StateColumns| {
        s.members[3].0 = 2;
        s.tombstones = vec![(2, 1, 3)];
    };
    check("host skipped", skip_host, non_canonical("hosts"));
}

#[test]
fn b_19_values_outside_their_range_are_refused() {
    check(
        "state version",
        |s| s.version = [2, 0],
        malformed("state version"),
    );
    check("state flags", |s| s.version = [1, 1], malformed("state version"));
    check("host", |s| s.hosts[2] = "c\u{1b}".into(), malformed("address"));
    check("empty host", |s| s.hosts[0] = String::new(), malformed("address"));
    check(
        "long host",
        |s| s.hosts[2] = "x".repeat(129),
        malformed("address"),
    );
    check("role", |s| s.roles[2] = "w rker", malformed("role"));
    check("two data centers", |s| s.roles[1] = "dc-x", malformed("roles"));
    check(
        "app version",
        |s| s.app_versions[1] = "1.2.3.4",
        malformed("app version"),
    );
    check("port", |s| s.members[0].1 = 0, malformed("address"));
    check(
        "tombstone's port",
        |s| s.tombstones[0].1 = 0,
        malformed("address"),
    );
    check("status", |s| s.members[0].3 = 9, malformed("status"));
    check(
        "up number",
        |s| s.members[0].4 = 0x8000_0000,
        malformed("up number"),
    );
    check(
        "reachability",
        |s| s.records[0].1 = 3,
        malformed("reachability status"),
    );
    check(
        "row newer than its observer",
        |s| s.records[0].2 = 4,
        malformed("reachability version"),
    );
    check(
        "rows miscounted",
        |s| s.observers[0].2 = 3,
        malformed("reachability records"),
    );
}

#[test]
fn b_29_b_30_m_454_counts_and_duplicates() {
    let max = Limits::default();
    let lie =
        |at, count: usize| move |s: &mut StateColumns| s.lies = vec![(at, u16::try_from(count).unwrap())];
    check("B-29", lie(4, max.members_max + 1), exceeded("members"));
    check(
        "tombstones",
        lie(5, max.tombstones_max + 1),
        exceeded("tombstones"),
    );
    check("hosts", lie(0, 7), exceeded("hosts"));
    check("roles", lie(1, 32 * 3 + 1), exceeded("roles"));
    check("role sets", lie(2, 5), exceeded("role sets"));
    check("app versions", lie(3, 5), exceeded("app versions"));
    check("observers", lie(6, 5), exceeded("reachability versions"));
    check("clock entries", lie(7, 5), exceeded("clock entries"));
    check("gone", lie(8, 7), exceeded("gone"));
    check(
        "paths",
        |s| s.claimed_paths = Some((256 << 10) + 1),
        exceeded("path bytes"),
    );
    check("no table", |s| s.paths = vec![0; 21], non_canonical("paths"));
    check(
        "records",
        |s| s.records = vec![(1, 1, 1); 65],
        exceeded("reachability records"),
    );
    check("B-30", |s| s.members[1] = s.members[0], duplicate("member"));
    check(
        "tombstone twice",
        |s| s.tombstones[1] = s.tombstones[0],
        duplicate("tombstone"),
    );
    check("host twice", |s| s.hosts[1] = "a".into(), duplicate("hosts"));
    check("observer twice", |s| s.observers[1].0 = 0, duplicate("observers"));
    check(
        "subject twice",
        |s| s.records[1].0 = 1,
        duplicate("reachability subject"),
    );
    check("clock entry twice", |s| s.clock[1].0 = 0, duplicate("clock"));
}

#[test]
fn b_26_every_lie_about_a_count_is_noticed() {
    let honest = StateColumns::legal();
    for (at, count) in honest.counts().into_iter().enumerate() {
        for lie in (0..=u16::MAX).step_by(257).chain([0, 1, 2, 3, 4, 5]) {
            let state = StateColumns {
                lies: vec![(at, lie)],
                ..honest.clone()
            };
            let decoded = decode_state(0, &state.bytes());
            assert_eq!(
                decoded.is_ok(),
                usize::from(lie) == count,
                "count {at} as {lie}: {decoded:?}"
            );
        }
    }
}

#[test]
fn b_32_to_b_36_m_452_m_455_indexes_and_roles_in_the_state() {
    check("B-32 host", |s| s.members[3].0 = 3, dangling("hosts"));
    check("B-32 tombstone", |s| s.tombstones[1].0 = 3, dangling("hosts"));
    check("B-32 role", |s| s.role_sets[2] = vec![1, 3], dangling("roles"));
    check("B-32 role set", |s| s.members[0].5 = 3, dangling("role sets"));
    check(
        "B-32 app version",
        |s| s.members[0].6 = 2,
        dangling("app versions"),
    );
    check("B-32 clock", |s| s.clock[1].0 = 4, dangling("clock"));
    check("B-32 observer", |s| s.observers[2].0 = 4, dangling("observers"));
    check("B-32 subject", |s| s.records[2].0 = 4, dangling("reachability"));
    check("B-33 seen", |s| s.seen = vec![0b1_1001], dangling("seen"));
    check("B-34 Removed", |s| s.members[0].3 = 5, malformed("status"));
    check(
        "B-35",
        |s| s.tombstones[0] = (1, 1, 4),
        malformed("member with a tombstone"),
    );
    check("B-36", |s| s.clock[0].1 = u64::MAX, exceeded("clock counts"));
    check(
        "B-36",
        |s| s.clock[0].1 = COUNTER_MAX + 1,
        exceeded("clock counts"),
    );
    check(
        "B-36 reachability",
        |s| s.observers[0].1 = u64::MAX,
        exceeded("clock counts"),
    );
}

/// Two incarnations at one address are legal in a merged state: two members may each have admitted one (B-31
/// speaks of one writer, which the state does not show).
#[test]
fn b_31_two_incarnations_of_one_address_are_kept() {
    let mut state = StateColumns::legal();
    state.members[1].3 = 1;
    assert!(decode_state(0, &state.bytes()).is_ok());
}

#[test]
fn b_13_b_16_a_state_that_is_too_long_or_too_short() {
    check("B-13", |s| s.tail = vec![0], WireError::TrailingBytes);
    let whole = StateColumns::legal().bytes();
    for len in 0..whole.len() {
        assert_eq!(
            decode_state(0, &whole[..len]),
            Err(WireError::Incomplete),
            "cut at {len}"
        );
    }
    assert_eq!(decode_state(2, &whole), Err(malformed("state form")));
}

#[test]
fn who_is_gone_is_refused_in_another_order_and_of_members_that_stay() {
    fn gone(at: &'static [u16]) -> impl FnOnce(&mut StateColumns) {
        move |state| state.gone = at.to_vec()
    }
    check("out of order", gone(&[4, 1]), non_canonical("gone"));
    check("twice", gone(&[1, 1]), duplicate("gone"));
    check("a member that is Up", gone(&[0]), malformed("gone"));
    check("a member that is Joining", gone(&[3]), malformed("gone"));
    check("beyond the tombstones", gone(&[6]), dangling("gone"));
    check(
        "more than there are",
        gone(&[0, 1, 2, 3, 4, 5, 6]),
        exceeded("gone"),
    );
}
