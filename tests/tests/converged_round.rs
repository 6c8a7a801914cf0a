//! A round of gossip among members that agree, and their heartbeats, take nothing from the heap: neither to
//! say nor to hear. The heap is counted, so the test is a program of its own. Spec: membership 2.5.

use std::time::Duration;

use cap::Cap;
use quorate_core::admission::PeerProof;
use quorate_core::config::Config;
use quorate_core::effect::{Effect, Output};
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::input::{Command, Input, MembershipCommand};
use quorate_core::membership::member::Status;
use quorate_core::node::Node;
use quorate_core::time::{Instant, Now};
use quorate_core::wire::{self, DecodedFrame};
use quorate_tests::sim::Purpose;
use rand_chacha::ChaCha8Rng;

#[global_allocator]
static HEAP: Cap<std::alloc::System> = Cap::new(std::alloc::System, usize::MAX);

const NODES: usize = 12;
const STEP: Duration = Duration::from_millis(100);
/// Frames under way at once, far more than there are.
const FRAMES_MAX: usize = 1_000;

/// One frame: who said it to whom, in a buffer that is used again.
#[derive(Default)]
struct FrameUnderWay {
    from: usize,
    to: usize,
    bytes: Vec<u8>,
}

struct World {
    nodes: Vec<Node<ChaCha8Rng>>,
    names: Vec<UniqueAddress>,
    /// The first `under_way` of these are.
    letters: Vec<FrameUnderWay>,
    under_way: usize,
    spare: FrameUnderWay,
    said: usize,
    at: Duration,
}

impl World {
    fn new() -> Self {
        let unique = |index| UniqueAddress::new(Address::new("node", 2_551 + index).expect("legal"), 7);
        let names: Vec<_> = (0..NODES as u16).map(unique).collect();
        let mut world = Self {
            nodes: Vec::new(),
            names: names.clone(),
            letters: Vec::new(),
            under_way: 0,
            spare: FrameUnderWay::default(),
            said: 0,
            at: Duration::from_secs(1),
        };
        world.letters.resize_with(FRAMES_MAX, FrameUnderWay::default);
        let letters = world.letters.iter_mut().chain([&mut world.spare]);
        letters.for_each(|letter| letter.bytes.reserve(4 << 10));
        for (index, me) in names.iter().enumerate() {
            let config = Config::lan(ClusterName::new("test").expect("legal"));
            let config = config.validate().expect("legal");
            let rng = Purpose::Node(index as u32).rng(1);
            world.nodes.push(Node::new(config, me.clone(), rng, world.now()));
        }
        for index in 0..NODES {
            let join = MembershipCommand::Join(names[0].address().clone());
            let command = Command::Membership(join);
            world.handle(index, Input::Command { token: 1, command });
        }
        world
    }

    fn now(&self) -> Now {
        let millis = self.at.as_millis() as u64;
        Now {
            mono: Instant::from_millis(millis),
            unix_ms: 1_750_000_000_000 + millis,
        }
    }

    fn handle(&mut self, index: usize, input: Input<'_>) {
        let now = self.now();
        let node = &mut self.nodes[index];
        node.handle(now, input);
        while let Output::Effect(effect) = node.poll() {
            let (Effect::Send { to, message } | Effect::Offer { to, message }) = effect else {
                continue;
            };
            let is_it = |name: &UniqueAddress| name.address() == to.address();
            let to = self.names.iter().position(is_it).expect("one of these");
            let letter = &mut self.letters[self.under_way];
            (letter.from, letter.to) = (index, to);
            letter.bytes.clear();
            let limits = &node.config().limits;
            wire::encode_message(&message, 1, limits, &mut letter.bytes).expect("it fits");
            self.under_way += 1;
        }
    }

    fn deliver(&mut self) {
        while self.under_way > 0 {
            self.under_way -= 1;
            self.said += 1;
            // What its receiver says comes into the other buffer.
            let spare = std::mem::take(&mut self.spare);
            let letter = std::mem::replace(&mut self.letters[self.under_way], spare);
            let limits = &self.nodes[letter.to].config().limits;
            let DecodedFrame::Frame { frame, .. } = wire::decode_frame(&letter.bytes, limits) else {
                panic!("the frame is whole and legal");
            };
            let from = self.names[letter.from].clone();
            let input = Input::Frame {
                from: &from,
                proof: PeerProof::Nothing,
                lane: frame.lane,
                kind: frame.kind,
                body: frame.body,
            };
            self.handle(letter.to, input);
            self.spare = letter;
        }
    }

    fn run(&mut self, time: Duration) {
        let until = self.at + time;
        while self.at < until {
            self.at += STEP;
            for index in 0..NODES {
                self.handle(index, Input::Tick);
            }
            self.deliver();
        }
    }

    fn is_converged(&self) -> bool {
        let all_up = |node: &Node<ChaCha8Rng>| {
            let members = node.view().members();
            members.len() == NODES && members.iter().all(|member| member.status == Status::Up)
        };
        self.nodes
            .iter()
            .all(|node| all_up(node) && node.view().is_converged())
    }
}

#[test]
fn a_converged_round_takes_nothing_from_the_heap() {
    let mut world = World::new();
    // Until the failure detector has as many intervals of each as it keeps.
    world.run(Duration::from_secs(1_200));
    assert!(world.is_converged());
    let (before, said) = (HEAP.total_allocated(), world.said);
    world.run(Duration::from_secs(60));
    let (taken, said) = (HEAP.total_allocated() - before, world.said - said);
    assert!(world.is_converged());
    println!("{said} frames, {taken} bytes taken from the heap");
    assert!(said > 60 * NODES, "they say nothing: {said} frames");
    assert_eq!(
        taken, 0,
        "bytes taken from the heap while {said} frames were said"
    );
}
