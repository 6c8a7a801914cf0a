//! Who drives a link: the node's loop or a task of the runtime, and that a handshake is never the loop's.

use std::future::{Future, pending};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use quorate_core::ident::Address;
use quorate_core::time::{Instant, Now};

use super::{LinkInputs, LinkKind, LoopHands, Notify, lock};
use crate::runtime::Runtime;
use crate::transport::{Accepted, LinkReader, LinkWriter, Listener, Transport};
use quorate_links::LinkInput;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Keeps what is spawned until the test runs it.
#[derive(Clone, Default)]
struct Later(Arc<Mutex<Vec<Task>>>);

impl Later {
    /// Runs every task that was spawned once; says how many have ended.
    fn run(&self) -> usize {
        let mut tasks = lock(&self.0);
        let before = tasks.len();
        tasks.retain_mut(|task| {
            task.as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        });
        before - tasks.len()
    }
}

impl Runtime for Later {
    fn now(&self) -> Now {
        Now {
            mono: Instant::ZERO,
            unix_ms: 0,
        }
    }

    fn sleep_until(&self, _: Instant) -> impl Future<Output = ()> + Send + 'static {
        pending()
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        lock(&self.0).push(Box::pin(task));
    }

    fn dedicated(&self) -> io::Result<Self> {
        Ok(self.clone())
    }
}

/// A transport without a network.
#[derive(Clone, Copy)]
struct Fake {
    in_loop: bool,
}

/// A link on which nothing ever comes. It notes whether it was read, and by then whether it had shaken hands.
struct FakeReader {
    established: bool,
    refuses: bool,
    said: Arc<Mutex<Vec<&'static str>>>,
}

struct FakeWriter;

struct FakePort;

impl Transport for Fake {
    type Listener = FakePort;
    type Reader = FakeReader;
    type Writer = FakeWriter;

    async fn bind(&self, _: &str) -> io::Result<FakePort> {
        Ok(FakePort)
    }

    async fn dial(&self, _: &Address, _: LinkKind) -> io::Result<(FakeReader, FakeWriter)> {
        pending().await
    }

    fn links_run_in_loop(&self) -> bool {
        self.in_loop
    }
}

impl Listener for FakePort {
    type Reader = FakeReader;
    type Writer = FakeWriter;

    fn local_address(&self) -> io::Result<std::net::SocketAddr> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn accept(&mut self) -> io::Result<Accepted<FakeReader, FakeWriter>> {
        pending().await
    }
}

impl LinkReader for FakeReader {
    async fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        lock(&self.said).push("read");
        pending().await
    }

    fn is_established(&self) -> bool {
        self.established
    }

    async fn establish(&mut self) -> io::Result<()> {
        lock(&self.said).push("handshake");
        if self.refuses {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        self.established = true;
        Ok(())
    }
}

impl LinkWriter for FakeWriter {
    async fn write_all(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Hands that have taken over link 1, the tasks they spawned, what was reported, and what the link has noted.
struct Bench {
    hands: LoopHands<Later, Fake>,
    runtime: Later,
    inputs: Arc<LinkInputs>,
    said: Arc<Mutex<Vec<&'static str>>>,
}

impl Bench {
    fn adopting(in_loop: bool, established: bool, refuses: bool) -> Self {
        let (runtime, wake) = (Later::default(), Arc::<Notify>::default());
        let inputs = Arc::new(LinkInputs::new(&runtime, Arc::clone(&wake)));
        let mut hands = LoopHands::new(
            runtime.clone(),
            runtime.clone(),
            Fake { in_loop },
            Arc::clone(&inputs),
            wake,
        );
        let said = Arc::default();
        let reader = FakeReader {
            established,
            refuses,
            said: Arc::clone(&said),
        };
        let accepted = Accepted {
            remote: ([127, 0, 0, 1], 1).into(),
            reader,
            writer: FakeWriter,
        };
        hands.adopt(1, accepted);
        Self {
            hands,
            runtime,
            inputs,
            said,
        }
    }

    /// What the link has noted since the last look.
    fn said(&self) -> Vec<&'static str> {
        std::mem::take(&mut *lock(&self.said))
    }

    fn reported(&self) -> Vec<LinkInput> {
        let mut inputs = std::collections::VecDeque::new();
        self.inputs.take(&mut inputs);
        inputs.into()
    }
}

#[test]
fn the_loop_drives_a_link_that_has_nothing_to_shake_hands_about() {
    let mut bench = Bench::adopting(true, true, false);
    assert_eq!((bench.runtime.run(), bench.said()), (0, vec![]));
    bench.hands.poll_links(None);
    assert_eq!(bench.said(), ["read"]);
}

#[test]
fn a_handshake_is_a_task_of_its_own_and_the_loop_gets_the_link_after_it() {
    let mut bench = Bench::adopting(true, false, false);
    bench.hands.poll_links(None);
    assert_eq!(bench.said(), [""; 0], "the loop never shakes hands");
    assert_eq!((bench.runtime.run(), bench.said()), (1, vec!["handshake"]));
    bench.hands.poll_links(None);
    assert_eq!(bench.said(), ["read"]);
    assert!(!bench.hands.are_idle(), "it is counted until it ends");
    bench.hands.abort(1);
    bench.hands.poll_links(None);
    assert!(bench.hands.are_idle());
}

#[test]
fn a_handshake_that_fails_or_is_given_up_ends_the_link() {
    let bench = Bench::adopting(true, false, true);
    assert_eq!(bench.runtime.run(), 1);
    assert!(matches!(bench.reported()[..], [LinkInput::Broken(1)]));
    assert!(bench.hands.are_idle());

    let mut bench = Bench::adopting(true, false, false);
    bench.hands.abort(1);
    assert_eq!((bench.runtime.run(), bench.said()), (1, vec![]));
    assert!(bench.hands.are_idle());
}

#[test]
fn a_transport_that_wants_it_so_has_a_task_for_each_link() {
    let mut bench = Bench::adopting(false, true, false);
    bench.hands.poll_links(None);
    assert_eq!(bench.said(), [""; 0]);
    assert_eq!((bench.runtime.run(), bench.said()), (0, vec!["read"]));
}

#[test]
fn dialing_is_never_the_loops_either() {
    let mut bench = Bench::adopting(true, true, false);
    bench.hands.dial(2, Address::new("h", 1).unwrap(), LinkKind::User);
    assert_eq!(lock(&bench.runtime.0).len(), 1);
    bench.hands.abort(2);
    assert_eq!(bench.runtime.run(), 1);
}
