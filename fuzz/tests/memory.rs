//! What values of replicated data cost in memory and as bytes: per key and per element, and what decoding may
//! allocate. The figures stand in `docs/ddata.md`; run with `--nocapture` to print them.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::config::Config;
use quorate_core::ddata::crdt::{
    CustomTypes, DataOp, DataType, DataValue, Element, GCounterOp, GSetOp, LwwClock, LwwMapOp, Minting,
    OrMultiMapOp, OrSetOp, PnCounterMapOp,
};
use quorate_core::ddata::state::consistency::Consistency;
use quorate_core::ddata::state::key::Key;
use quorate_core::effect::{Answer, DdataAnswer, Effect, Output};
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::input::{Command, DdataCommand, Input, MembershipCommand};
use quorate_core::node::Node;
use quorate_core::time::Now;
use quorate_core::wire::{DataLimits, decode_data, encode_data};
use quorate_fuzz::counting::{allocated, kept};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

const ELEMENTS: u64 = 10_000;

fn node(number: u64) -> UniqueAddress {
    UniqueAddress::new(
        Address::new(&format!("node-{number:02}"), 2551).expect("a legal name"),
        number,
    )
}

fn element(number: u64) -> Element {
    Arc::from(format!("element-{number:08}").as_bytes())
}

fn operation(data_type: DataType, number: u64) -> DataOp {
    let (key, value, clock) = (element(number), element(0), LwwClock::Forward);
    match data_type {
        DataType::GSet => DataOp::GSet(GSetOp::Add(key)),
        DataType::OrSet => DataOp::OrSet(OrSetOp::Add(key)),
        DataType::OrMultiMap => DataOp::OrMultiMap(OrMultiMapOp::AddBinding { key, value }),
        DataType::LwwMap => DataOp::LwwMap(LwwMapOp::Put { key, value, clock }),
        DataType::PnCounterMap => DataOp::PnCounterMap(PnCounterMapOp::Increment { key, by: 1 }),
        DataType::GCounter
        | DataType::PnCounter
        | DataType::OrMap(_)
        | DataType::LwwRegister
        | DataType::Flag
        | DataType::Custom => DataOp::GCounter(GCounterOp::Increment(1)),
    }
}

/// A value of so many elements of 16 bytes, by ten nodes.
fn value(data_type: DataType, elements: u64) -> DataValue {
    let mut all = DataValue::empty(data_type).expect("a built-in type");
    for writer in 0..10 {
        let mut minting = Minting::new(node(writer));
        let mut part = DataValue::empty(data_type).expect("a built-in type");
        for number in (writer..elements).step_by(10) {
            part.apply(&operation(data_type, number), &mut minting)
                .expect("a legal operation");
        }
        all.merge(&part).expect("one type");
    }
    all
}

#[test]
fn an_element_costs_no_more_than_documented() {
    // Bytes per element: in memory (with its 16 bytes and the map's nodes), and written.
    for (data_type, memory_max, written_max) in [
        (DataType::GSet, 80, 18),
        (DataType::OrSet, 120, 30),
        (DataType::OrMultiMap, 200, 48),
        (DataType::LwwMap, 310, 85),
        (DataType::PnCounterMap, 480, 90),
    ] {
        let mut bytes = Vec::new();
        encode_data(&value(data_type, ELEMENTS), &mut bytes).expect("it can be written");
        let limits = DataLimits::default();
        let types = CustomTypes::new();
        let read = || decode_data(&bytes, &limits, &types).expect("what was written is read");
        let (held, calls, data) = allocated(read);
        drop(data);
        let elements = usize::try_from(ELEMENTS).expect("small");
        let (memory, written) = (held / elements, bytes.len() / elements);
        println!(
            "{data_type:?}: {memory} bytes in memory at the most, {written} written, {} allocations",
            calls / elements
        );
        assert!(memory <= memory_max, "{data_type:?}: {memory} bytes in memory");
        assert!(written <= written_max, "{data_type:?}: {written} bytes written");
    }
}

#[test]
fn an_empty_key_and_a_counter_of_ten_nodes_are_small() {
    let mut bytes = Vec::new();
    let mut all = DataValue::empty(DataType::GCounter).expect("a built-in type");
    let (memory, _, ()) = allocated(|| {
        for number in 0..10 {
            let mut minting = Minting::new(node(number));
            all.apply(&DataOp::GCounter(GCounterOp::Increment(1)), &mut minting)
                .expect("a legal operation");
        }
    });
    encode_data(&all, &mut bytes).expect("it can be written");
    println!(
        "value: {} bytes inline; a counter of ten nodes: {memory} more, {} written",
        size_of::<DataValue>(),
        bytes.len()
    );
    assert!(size_of::<DataValue>() <= 96 && memory <= 3_000 && bytes.len() <= 400);
}

/// A node that is the only member, and a number that stands for its clock.
struct Alone {
    node: Node<ChaCha8Rng>,
    now: Now,
    token: u64,
}

impl Alone {
    fn new() -> Self {
        let name = ClusterName::new("alone").expect("a legal name");
        let config = Config::lan(name).validate().expect("the defaults are legal");
        let (me, now) = (node(1), Now::default());
        let mut alone = Self {
            node: Node::new(config, me.clone(), ChaCha8Rng::seed_from_u64(1), now),
            now,
            token: 0,
        };
        alone.command(Command::Membership(MembershipCommand::Join(me.address().clone())));
        alone
    }

    /// Gives a command and lets time pass until it is answered.
    fn command(&mut self, command: Command) -> Answer {
        self.token += 1;
        let token = self.token;
        self.node.handle(self.now, Input::Command { token, command });
        loop {
            match self.node.poll() {
                Output::Effect(Effect::Reply { token: of, answer }) if of == token => return answer,
                Output::Effect(_) => {}
                Output::Sleep(wake) => {
                    self.now.mono = wake.expect("an answer is due").at;
                    self.node.handle(self.now, Input::Tick);
                }
            }
        }
    }

    /// Half a minute in which nobody wants anything.
    fn rest(&mut self) {
        let until = self.now.mono + Duration::from_secs(30);
        while self.now.mono < until {
            match self.node.poll() {
                Output::Effect(_) => {}
                Output::Sleep(wake) => {
                    self.now.mono = wake.map_or(until, |wake| wake.at.min(until));
                    self.node.handle(self.now, Input::Tick);
                }
            }
        }
    }

    fn increment(&mut self, key: &str) {
        let answer = self.command(Command::Ddata(DdataCommand::Update {
            key: Key::new(key).expect("a legal key"),
            initial: DataValue::empty(DataType::GCounter).expect("a built-in type"),
            op: DataOp::GCounter(GCounterOp::Increment(1)),
            consistency: Consistency::Local,
            timeout: Duration::from_secs(1),
        }));
        assert!(
            matches!(answer, Answer::Ddata(DdataAnswer::Written(Ok(())))),
            "{answer:?}"
        );
    }
}

/// What a node holds for each of as many keys as it may have.
#[test]
fn a_hundred_thousand_keys_cost_a_node_what_is_documented() {
    const KEYS: usize = 100_000;
    let mut alone = Alone::new();
    let replicas = Command::Ddata(DdataCommand::Replicas);
    while matches!(
        alone.command(replicas.clone()),
        Answer::Ddata(DdataAnswer::Replicas(0))
    ) {
        alone.now.mono = alone.now.mono + Duration::from_secs(1);
        alone.node.handle(alone.now, Input::Tick);
    }
    alone.increment("first");
    let names: Vec<String> = (1..KEYS).map(|number| format!("likes/{number:010}")).collect();
    let (at_once, at_rest) = kept(|| {
        let ((), at_once) = kept(|| names.iter().for_each(|name| alone.increment(name)));
        alone.rest();
        at_once
    });
    let (at_once, at_rest) = (at_once / KEYS, at_rest / KEYS);
    let counted = alone.node.ddata().bytes() / KEYS;
    println!(
        "per key with a name of 16 bytes and a counter of one node: {at_rest} bytes at rest, {at_once} before its change was told, counted as {counted}"
    );
    assert_eq!(alone.node.ddata().keys().count(), KEYS);
    assert!(at_rest <= 1_400 && at_once <= 2_000);
}

#[test]
fn claims_without_bytes_allocate_next_to_nothing() {
    let limits = DataLimits::default();
    for claim in [
        &[1, 0xFF, 0xFF][..],
        &[3, 0xFF, 0xFF, 0, 0],
        &[4, 0x10, 0x27],
        &[4, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0],
        &[
            8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, b'a', 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF,
        ],
    ] {
        let (bytes, _, result) = allocated(|| decode_data(claim, &limits, &CustomTypes::new()));
        assert!(result.is_err() && bytes <= 256, "{claim:?}: {bytes} bytes");
    }
}
