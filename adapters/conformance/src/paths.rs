//! An instance of a path whose state goes with it: in parts, on a lane of its own, beside messages. Spec:
//! sharding 5.4.

use std::error::Error;
use std::time::Duration;

use quorate_driver::paths::HandoffOptions;
use quorate_driver::spi::Adapter;
use quorate_driver::{Cluster, Entity, EntityContext, Path, Security, Stateful, Termination};

use super::support::{LOOK_AGAIN, all_up, cluster_with, eventually, sleep, within};

/// Bytes of its state: some parts, and more than any buffer on the way.
const STATE_BYTES: usize = 5 << 20;

/// Counts what it is asked, beside many bytes.
struct Archive {
    counted: u64,
    bytes: Vec<u8>,
}

/// The bytes of an archive that nobody has left.
fn bytes() -> Vec<u8> {
    (0_u8..251).cycle().take(STATE_BYTES).collect()
}

impl Entity for Archive {
    type Message = ();
    type Reply = (String, u64, bool);

    async fn handle(&mut self, context: &EntityContext, (): ()) -> (String, u64, bool) {
        self.counted += 1;
        let is_whole = self.bytes == bytes();
        (context.node().to_string(), self.counted, is_whole)
    }
}

impl Stateful for Archive {
    type State = (u64, Vec<u8>);

    async fn into_state(self, _: &EntityContext) -> Result<Self::State, Box<dyn Error + Send + Sync>> {
        Ok((self.counted, self.bytes))
    }
}

async fn archive(node: &Cluster) -> Path<(), (String, u64, bool)> {
    let builder = node.instances("archive").handoff(HandoffOptions::STATEFUL);
    let started = builder.start_stateful(|_, left| {
        let (counted, bytes) = left.unwrap_or_else(|| (0, bytes()));
        Archive { counted, bytes }
    });
    started.await.expect("the leader takes it")
}

/// A host leaves: its instance goes on elsewhere with all that it had, and counts every ask that was
/// answered.
pub async fn the_state_of_an_instance_goes_with_it_when_its_host_leaves<A: Adapter>(security: &Security) {
    // On a busy machine an unoptimized program takes seconds for the state: no move is given up for that, and
    // nobody is missed, or doubts itself, for as long.
    let nodes = cluster_with::<A>(3, security, |config| {
        config.failure_detector.acceptable_heartbeat_pause = Duration::from_secs(30);
        config.paths.ready_timeout = Duration::from_secs(60);
        config.paths.exit_timeout = Duration::from_secs(60);
    });
    let nodes = nodes.await;
    let mut paths = Vec::new();
    for node in &nodes {
        paths.push(archive(node).await);
    }
    let mut host = String::new();
    eventually::<A>("an instance runs", async || {
        let Ok((node, counted, is_whole)) = paths[0].ask(()).await else {
            return false;
        };
        assert_eq!((counted, is_whole), (1, true));
        host = node;
        true
    })
    .await;
    let leaver = nodes.iter().position(|node| node.address().to_string() == host);
    let leaver = leaver.expect("it is one of them");
    let stayer = (leaver + 1) % nodes.len();
    let left = async {
        let left = within::<A, _>("the host leaves", nodes[leaver].leave()).await;
        assert!(left.as_ref().is_ok_and(Termination::is_graceful), "{left:?}");
    };
    let asking = async {
        // The number of asks that have been counted, and of those that may have been.
        let (mut least, mut most) = (1, 1);
        loop {
            most += 1;
            match paths[stayer].ask(()).await {
                Ok((node, counted, is_whole)) => {
                    assert!(
                        (least + 1..=most).contains(&counted),
                        "{counted} of {least} to {most}"
                    );
                    assert!(is_whole, "at {node}");
                    if node != host {
                        return;
                    }
                    (least, most) = (counted, counted);
                }
                // The old host has passed it on, and left before the answer came back through it.
                Err(error) => assert!(error.may_have_been_handled(), "{error}"),
            }
            sleep::<A>(LOOK_AGAIN).await;
        }
    };
    futures_lite::future::zip(left, within::<A, _>("it is elsewhere", asking)).await;
    all_up::<A>(&nodes[stayer], 2).await;
}
