//! All that lies between a node and the bytes of its links, without I/O: handshakes, frames, queues by lane,
//! dialing, budgets, renewal. Bytes and time in, bytes and orders out; `no_std` with `alloc`, no clock, no
//! entropy, no cryptography.
//!
//! A **link** is a stream of bytes that one node dials and another accepts; only the dialer sends frames.
//! Each node dials two to a peer (control and user), and a third (bulk) when there is something for it. A
//! host owns a [`Node`] and its [`Links`] and connects them: it does what [`Links::next_order`] says, reports
//! what happened with [`Links::handle`], and between any two of them lets the node speak ([`Links::perform`])
//! and hear ([`Links::next_event`], [`Links::next_frame`]).
//!
//! ```
//! use quorate_core::config::Config;
//! use quorate_core::effect::Output;
//! use quorate_core::ident::{Address, ClusterName, UniqueAddress};
//! use quorate_core::input::{Command, Input, MembershipCommand};
//! use quorate_core::{node::Node, time::Now};
//! use quorate_links::{LinkInput, LinkOrder, Links, Source};
//! use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (now, config) = (Now::default(), Config::lan(ClusterName::new("example")?).validate()?);
//! let address = |port| Address::new("host", port).expect("a name");
//! let end = |port: u16| {
//!     let (me, rng) = (UniqueAddress::new(address(port), port.into()), ChaCha8Rng::seed_from_u64);
//!     (Node::new(config.clone(), me.clone(), rng(1), now), Links::new(config.clone(), me, rng(2), now))
//! };
//! let ((mut node, mut dialer), (mut other, mut acceptor)) = (end(1), end(2));
//!
//! // The first wants to join the second. What it has to say waits for a link.
//! let command = Command::Membership(MembershipCommand::Join(address(2)));
//! node.handle(now, Input::Command { token: 1, command });
//! while let Output::Effect(effect) = node.poll() {
//!     let _others = dialer.perform(node.view(), effect); // `Some`: an effect that is no business of links
//! }
//! let Some(LinkOrder::Dial { link, .. }) = dialer.next_order() else { panic!("nothing to dial") };
//!
//! // Here a host connects, and another one accepts. Then bytes go both ways.
//! let accepted = acceptor.accepted(Source::of([127, 0, 0, 1].into())).ok_or("no place")?;
//! dialer.handle(&mut node, LinkInput::Dialed(link));
//! let written = |links: &mut Links| -> Vec<u8> {
//!     let orders = std::iter::from_fn(|| links.next_order());
//!     let bytes = orders.filter_map(|order| match order {
//!         LinkOrder::Write { bytes, .. } => Some(bytes),
//!         _ => None,
//!     });
//!     bytes.flatten().collect()
//! };
//! acceptor.handle(&mut other, LinkInput::Received(accepted, written(&mut dialer)[..].into()));
//! dialer.handle(&mut node, LinkInput::Received(link, written(&mut acceptor)[..].into()));
//! assert!(dialer.next_event().is_none(), "no word for the node: only what goes wrong is one");
//! dialer.flush(&node);
//! acceptor.handle(&mut other, LinkInput::Received(accepted, written(&mut dialer)[..].into()));
//! assert!(acceptor.next_urgent_frame(&mut other), "what waited has arrived, and the other node has it");
//! # Ok(())
//! # }
//! ```
//!
//! # What a host does in a turn
//!
//! 1. [`Links::set_time`], then [`Links::tick`] until it has nothing more to do.
//! 2. [`Links::handle`] for everything that happened; after each, [`Links::next_urgent_frame`] until there is
//!    none.
//! 3. [`Links::next_frame`] with whether the node has room, for as many frames as a turn may take.
//! 4. [`Links::flush`], then every [`Links::next_order`]; [`Links::next_report`] for the log.
//! 5. Sleep until [`Links::deadline`], the node's own deadline, or a socket.
//!
//! After each step of 1 to 3 the node is polled: its effects go to [`Links::perform`], [`Links::next_event`]
//! to the node. A [`LinkedNode`] does all of that in one [`LinkedNode::poll`], for hosts that put nothing of
//! their own between node and links, and is what others call step by step.
//!
//! # What is guaranteed
//!
//! * A message reaches the incarnation it is for or none; frames of a link come in their order, and none of
//!   an older link comes after the first of its successor.
//! * What is not sent comes back as `LinkEvent::Dropped`, whole and once; what was written to a link that
//!   breaks is lost.
//! * Every queue and buffer has a bound, by a setting of [`LinkLimits`] or one of [`limits`].
//!   Strangers take no place and no byte from members.
//! * Nothing that a peer sends makes it panic; what it does wrong is counted, and costs it its link.
//! * The same inputs with the same generator give the same orders.
//!
//! Who is at the other end of a link is proved below it, by TLS for instance: a host says what was proved
//! ([`LinkInput::Identified`]) and brings a [`LinkAuthentication`] that judges it. Names are not resolved
//! and nothing is encrypted here.
//!
//! [`Node`]: quorate_core::node::Node
#![cfg_attr(
    test,
    expect(
        clippy::wildcard_enum_match_arm,
        reason = "a test that wants one arm fails on every other"
    )
)]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod aging;
mod authentication;
mod base;
mod budget;
mod crowd;
pub mod first_bytes;
mod inbound;
mod inbuf;
pub mod limits;
mod linked;
mod links;
mod order;
mod outbound;
mod peer_link;
mod pending;
mod quarantine;
mod queue;
mod rates;
mod recipient;
mod report;
mod settings;
mod stats;
#[cfg(test)]
mod tests;
mod timers;
mod violations;

pub use authentication::{LinkAuthentication, LinkEnd, PeerIdentity, Plaintext};
pub use crowd::{Crowd, Source};
pub use linked::{HostStep, LinkedNode};
pub use links::Links;
pub use order::{LinkId, LinkInput, LinkOrder, ReadChunk};
pub use pending::{Bounds, Pending};
pub use quorate_core::wire::handshake::LinkKind;
pub use recipient::LinkRecipient;
pub use report::{LinkRefusal, LinkReport, ReportParty};
pub use settings::{LinkLimits, ValidLinkLimits};
pub use stats::{LinkState, LinkStats};
