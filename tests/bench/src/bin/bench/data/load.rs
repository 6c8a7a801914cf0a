//! What is asked: updates of registers with a consistency, a bare link to each of the two others, and
//! elements added to a large set while bytes are counted.

use std::time::Duration;

use futures_lite::future::zip;
use quorate_driver::Cluster;
use quorate_driver::data::{Data, Read, Register, Write};
use quorate_driver::spi::{Adapter, Transport};

use super::node::pause;
use super::report::Bytes;
use crate::measure::{Asked, IN_FLIGHT};
use crate::{Failure, floor, payload};

/// Elements of the set before something is added.
const SET_ELEMENTS: u64 = 1_000;
/// Bytes of an element.
const ELEMENT_BYTES: usize = 16;
/// Updates in turns with waiting, so that they spread as a few at a time do and not as one.
const PACE: Duration = Duration::from_millis(20);
/// The changes of one second are everywhere after this: two rounds of gossip with the documented timings.
const SETTLE: Duration = Duration::from_secs(5);
/// Where it only shows that it works.
const SETTLE_QUICK: Duration = Duration::from_secs(1);

/// A register for each lane, so that updates in flight do not meet in one value.
pub(super) struct Registers {
    lanes: Vec<Register<payload::Bytes>>,
    level: Write,
}

impl Registers {
    pub(super) fn new(data: &Data, prefix: &str, level: Write) -> Self {
        let lanes = (0..IN_FLIGHT).map(|lane| data.register(format!("{prefix}-{lane}")));
        Self {
            lanes: lanes.collect(),
            level,
        }
    }
}

impl Asked for Registers {
    async fn ask(&self, lane: usize, payload: Vec<u8>) -> Result<usize, Failure> {
        let bytes = payload.len();
        self.lanes[lane].set(payload::Bytes(payload), self.level).await?;
        Ok(bytes)
    }
}

/// Asks both others at once, and waits for both.
pub(super) struct TwoPeers<A: Adapter>(pub(super) floor::Client<A>, pub(super) floor::Client<A>);

impl<A: Adapter> Asked for TwoPeers<A>
where
    <A::Transport as Transport>::Listener: Sync,
{
    async fn ask(&self, lane: usize, payload: Vec<u8>) -> Result<usize, Failure> {
        let (one, two) = zip(self.0.ask(lane, payload.clone()), self.1.ask(lane, payload)).await;
        Ok(one?.min(two?))
    }
}

/// The bytes that this node sends for an update that adds an element to a set of a thousand: by `Majority`,
/// and by `Local` until it has spread. What it sends while nothing is written is taken off.
pub(super) async fn bytes<A: Adapter>(
    cluster: &Cluster,
    system: &'static str,
    quick: bool,
) -> Result<Bytes, Failure> {
    let (updates, settle) = if quick { (20, SETTLE_QUICK) } else { (100, SETTLE) };
    let set = cluster.data().set::<[u8; ELEMENT_BYTES]>("bytes");
    for number in 0..SET_ELEMENTS {
        set.add(element(number), Write::Local).await?;
    }
    let held = set.read(Read::All).await?.len() as u64;
    if held != SET_ELEMENTS {
        return Err(format!("{held} elements, not {SET_ELEMENTS}").into());
    }
    pause::<A>(settle).await?;
    let before = sent(cluster).await?;
    pause::<A>(settle).await?;
    let idle_per_s = (sent(cluster).await? - before) / settle.as_secs_f64();
    let mut per_update = [0.0; 2];
    for (round, level) in (0..).zip([Write::Majority, Write::Local]) {
        let (before, began) = (sent(cluster).await?, std::time::Instant::now());
        for number in 0..updates {
            let number = SET_ELEMENTS + round * updates + number;
            set.add(element(number), level).await?;
            pause::<A>(PACE).await?;
        }
        pause::<A>(settle).await?;
        let idle = idle_per_s * began.elapsed().as_secs_f64();
        per_update[usize::from(level == Write::Local)] =
            (sent(cluster).await? - before - idle) / updates as f64;
    }
    let [majority, local] = per_update;
    Ok(Bytes {
        system,
        majority,
        local,
    })
}

async fn sent(cluster: &Cluster) -> Result<f64, Failure> {
    Ok(cluster.stats().await?.links.bytes_sent as f64)
}

/// No two are equal, and none is nearly empty on the wire.
fn element(number: u64) -> [u8; ELEMENT_BYTES] {
    u128::from(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_be_bytes()
}
