//! A scripted node between scripted links, without a runtime: what it does is always the same. Spec:
//! reliability I-97, I-98.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use quorate_core::config::Config;
use quorate_core::event::SeedCause;
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::input::{Command, KindSettings, MembershipCommand, ShardingCommand};
use quorate_core::message::{DetectorMsg, Heartbeat, Join, MembershipMsg, Message};
use quorate_core::time::{Instant, Now};
use quorate_core::wire::encode_message;
use quorate_core::wire::handshake::{AUTH_NONE, FEATURES, Hello, LinkKind as HelloLink, encode_hello};
use quorate_links::{LinkId, LinkInput, LinkOrder, ReadChunk, Source, ValidLinkLimits};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use crate::commands::ControlCommand;
use crate::mailbox::Reports;
use crate::pump::{LoopAction, Parts, Pump};
use crate::security::Security;
use crate::sync::oneshot;

/// How long the script plays, in virtual milliseconds, and how long one step is.
const LENGTH_MILLIS: u64 = 20_000;
const STEP_MILLIS: u64 = 50;

struct Stage {
    pump: Pump,
    me: UniqueAddress,
    peer: UniqueAddress,
    millis: u64,
    effects: Vec<String>,
}

/// The effects, each with the time at which it came.
#[must_use]
pub fn play() -> Vec<String> {
    let node = |port, uid| UniqueAddress::new(Address::new("script", port).expect("an address"), uid);
    let (me, peer) = (node(1, 11), node(2, 22));
    let config = Config::fast(ClusterName::new("script").expect("a name"));
    let parts = Parts {
        config: config.validate().expect("the preset is legal"),
        limits: ValidLinkLimits::default(),
        me: me.clone(),
        rng: ChaCha8Rng::seed_from_u64(98),
        reports: Arc::new(Reports::default()),
        authentication: Security::insecure_plaintext().authentication(),
    };
    let mut stage = Stage {
        pump: Pump::new(parts, Now::default()),
        me: me.clone(),
        peer,
        millis: 0,
        effects: Vec::new(),
    };
    stage.command(Command::Membership(MembershipCommand::JoinSeeds(vec![
        me.address().clone(),
    ])));
    stage.command(Command::Sharding(ShardingCommand::RegisterKind(Box::new(
        KindSettings::new("kind", 4, true),
    ))));
    stage.pass(2_000);
    let control = stage.greeted(HelloLink::Control, 1);
    stage.say(
        control,
        &Message::Membership(MembershipMsg::Join(Join {
            to: me.clone(),
            roles: Default::default(),
            app_version: Default::default(),
        })),
    );
    for sequence in 1..20 {
        let to = me.clone();
        stage.say(
            control,
            &Message::Detector(DetectorMsg::Heartbeat(Heartbeat::new(&to, sequence))),
        );
        stage.pass(100);
    }
    // A link that is replaced, one that is cut off, one that is refused, and a peer that falls silent.
    let newer = stage.greeted(HelloLink::Control, 2);
    stage.received(newer, b"noise".to_vec());
    let refused = stage.knock();
    let mut hello = stage.hello(HelloLink::User, 3);
    hello.cluster = ClusterName::new("other").expect("a name");
    stage.received(refused, encoded(&hello));
    stage.pass(LENGTH_MILLIS);
    stage.command(Command::Membership(MembershipCommand::Leave));
    stage.pass(LENGTH_MILLIS);
    stage.effects
}

fn encoded(hello: &Hello) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_hello(hello, &mut bytes).expect("it is a hello");
    bytes
}

impl Stage {
    fn pass(&mut self, millis: u64) {
        let until = self.millis + millis;
        while self.millis < until {
            self.millis += STEP_MILLIS;
            self.pump.set_time(Now {
                mono: Instant::from_micros(self.millis * 1_000),
                unix_ms: self.millis,
            });
            self.pump.tick();
            self.turn();
        }
    }

    /// Ends a turn. Nobody listens where the node dials.
    fn turn(&mut self) {
        self.pump.take_reports();
        self.pump.read_users(64);
        self.pump.flush();
        let mut failed = Vec::new();
        while let Some(action) = self.pump.next_action() {
            if let LoopAction::Link(LinkOrder::Dial { link, .. }) = action {
                failed.push(link);
            }
            self.effects
                .push(format!("{} ms: {}", self.millis, shown(&action)));
        }
        for link in failed {
            self.pump.link(LinkInput::DialFailed(link, SeedCause::Refused));
        }
    }

    fn command(&mut self, command: Command) {
        let (reply, _answer) = oneshot();
        self.pump.control(ControlCommand::Core { command, reply });
        self.turn();
    }

    fn hello(&self, link: HelloLink, epoch: u32) -> Hello {
        Hello {
            versions: (1, 1),
            cluster: ClusterName::new("script").expect("a name"),
            from: self.peer.clone(),
            to: self.me.address().clone(),
            expected_uid: None,
            link,
            epoch,
            features: FEATURES,
            auth_method: AUTH_NONE,
            nonce: [7; 16],
        }
    }

    fn knock(&mut self) -> LinkId {
        let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
        self.pump
            .accepted(Source::of(from))
            .expect("there is room for a link")
    }

    fn greeted(&mut self, link: HelloLink, epoch: u32) -> LinkId {
        let id = self.knock();
        let hello = encoded(&self.hello(link, epoch));
        self.received(id, hello);
        id
    }

    fn say(&mut self, link: LinkId, message: &Message) {
        let mut bytes = Vec::new();
        encode_message(message, 1, &Default::default(), &mut bytes).expect("it is legal");
        self.received(link, bytes);
    }

    fn received(&mut self, link: LinkId, buffer: Vec<u8>) {
        let len = buffer.len();
        self.pump.link(LinkInput::Received(
            link,
            ReadChunk {
                buffer,
                len,
                read_at: None,
            },
        ));
        self.turn();
    }
}

/// An effect in words. Bytes by their number and hash.
fn shown(action: &LoopAction) -> String {
    match action {
        LoopAction::Link(order) => ordered(order),
        LoopAction::Start(_) => "Start".into(),
        LoopAction::Publish(event) => format!("Publish {event:?}"),
        LoopAction::Answer(_, answer) => format!("Answer {answer:?}"),
        LoopAction::Halt(reason) => format!("Halt {reason:?}"),
    }
}

fn ordered(order: &LinkOrder) -> String {
    match order {
        LinkOrder::Dial { link, to, kind } => format!("Dial {link} {to} {kind:?}"),
        LinkOrder::Write { link, bytes } => {
            let mut hash = DefaultHasher::new();
            bytes.hash(&mut hash);
            format!("Write {link}: {} bytes, {:x}", bytes.len(), hash.finish())
        }
        LinkOrder::Resume { link, .. } => format!("Resume {link}"),
        LinkOrder::Datagram { link, bytes } => format!("Datagram {link}: {} bytes", bytes.len()),
        LinkOrder::Drain(link) => format!("Drain {link}"),
        LinkOrder::Finish(link) => format!("Finish {link}"),
        LinkOrder::Abort(link) => format!("Abort {link}"),
    }
}
