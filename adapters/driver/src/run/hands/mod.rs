//! The sockets of a node: does what the pump says, reports what happened. Decides nothing.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Context;
use std::time::Duration;

use async_channel::Sender;
use quorate_core::ident::Address;
use quorate_links::{LinkId, LinkInput, Source};

use super::causes::cause_of;
use super::link::{LinkControl, LinkInputs, LinkTable, broken, serve};
use crate::runtime::Runtime;
use crate::sync::{Either, Notify, TaskSet, lock, race};
use crate::transport::{
    Accepted, HandshakeStats, LinkKind, LinkReader, LinkWriter, Listener, Transport, Unproved,
};

/// Pause after the system refused to accept (out of descriptors, usually): neither a busy loop nor deaf for
/// long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Tasks that hold a socket.
#[derive(Debug)]
pub(crate) struct SocketTasks {
    running: AtomicUsize,
    wake: Arc<Notify>,
}

/// Counts one task while it lives, however it ends.
struct RunningGuard(Arc<SocketTasks>);

impl RunningGuard {
    fn of(tasks: &Arc<SocketTasks>) -> Self {
        tasks.running.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(tasks))
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        self.0.wake.notify();
    }
}

/// Links on their way into the loop: at most those that were dialed and admitted since it last looked.
struct LinkArrivals {
    links: Mutex<Vec<Arriving>>,
    tasks: Arc<SocketTasks>,
}

type Arriving = Pin<Box<dyn Future<Output = ()> + Send>>;

impl LinkArrivals {
    fn push(&self, link: impl Future<Output = ()> + Send + 'static) {
        let running = RunningGuard::of(&self.tasks);
        lock(&self.links).push(Box::pin(async move {
            link.await;
            drop(running);
        }));
        self.tasks.wake.notify();
    }

    fn move_into(&self, into: &mut TaskSet) {
        for link in std::mem::take(&mut *lock(&self.links)) {
            into.push(link);
        }
    }
}

/// See the module.
pub(crate) struct LoopHands<R, T> {
    runtime: R,
    /// Where entities run.
    users: R,
    transport: T,
    links: Arc<LinkTable>,
    /// Links that this node's loop drives itself: see [`Transport::links_run_in_loop`].
    in_loop: TaskSet,
    arrivals: Arc<LinkArrivals>,
    inputs: Arc<LinkInputs>,
    tasks: Arc<SocketTasks>,
    stop_accepting: Arc<Notify>,
}

impl<R: Runtime, T: Transport> LoopHands<R, T> {
    pub(crate) fn new(
        runtime: R,
        users: R,
        transport: T,
        inputs: Arc<LinkInputs>,
        wake: Arc<Notify>,
    ) -> Self {
        let tasks = Arc::new(SocketTasks {
            running: AtomicUsize::new(0),
            wake,
        });
        let arrivals = LinkArrivals {
            links: Mutex::default(),
            tasks: Arc::clone(&tasks),
        };
        Self {
            runtime,
            users,
            transport,
            links: Arc::default(),
            in_loop: TaskSet::default(),
            arrivals: Arc::new(arrivals),
            inputs,
            tasks,
            stop_accepting: Arc::new(Notify::default()),
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let running = RunningGuard::of(&self.tasks);
        self.runtime.spawn(async move {
            task.await;
            drop(running);
        });
    }

    /// Runs a user's task.
    pub(crate) fn start(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.users.spawn(task);
    }

    /// Listens until [`Self::stop_accepting`]. A full channel makes it wait: what the kernel does with
    /// strangers meanwhile is bounded by its backlog.
    pub(crate) fn listen(
        &self,
        mut listener: T::Listener,
        knocks: Sender<Accepted<T::Reader, T::Writer>>,
        wake: Arc<Notify>,
    ) {
        let (stop, runtime) = (Arc::clone(&self.stop_accepting), self.runtime.clone());
        let inputs = Arc::clone(&self.inputs);
        self.spawn(async move {
            let accepting = async {
                loop {
                    match listener.accept().await {
                        Ok(knock) => {
                            if knocks.send(knock).await.is_err() {
                                return;
                            }
                            wake.notify();
                        }
                        Err(error) if Unproved::of(&error).is_some() => inputs.turned_away(&error),
                        Err(error) => {
                            tracing::warn!(target: "cluster::transport", event = "accept_failed", %error);
                            inputs.accept_failed();
                            let pause = runtime.now().mono + ACCEPT_PAUSE;
                            runtime.sleep_until(pause).await;
                        }
                    }
                }
            };
            race(stop.notified(), accepting).await;
        });
    }

    /// What became of handshakes below the links.
    pub(crate) fn handshakes(&self) -> HandshakeStats {
        self.transport.handshakes()
    }

    pub(crate) fn stop_accepting(&self) {
        self.stop_accepting.notify();
    }

    /// Takes over a link that the pump has admitted.
    pub(crate) fn adopt(&mut self, link: LinkId, accepted: Accepted<T::Reader, T::Writer>) {
        let control = Arc::new(LinkControl::default());
        self.links.insert(link, Arc::clone(&control));
        let (mut reader, writer, inputs) = (accepted.reader, accepted.writer, Arc::clone(&self.inputs));
        control.write_by(writer.direct());
        if !self.transport.links_run_in_loop() {
            return self.spawn(serve(reader, writer, link, control, inputs));
        }
        if reader.is_established() {
            self.arrivals.push(serve(reader, writer, link, control, inputs));
            return;
        }
        let arrivals = Arc::clone(&self.arrivals);
        self.spawn(async move {
            match race(control.given_up(), reader.establish()).await {
                Either::Left(()) => {}
                Either::Right(Ok(())) => arrivals.push(serve(reader, writer, link, control, inputs)),
                Either::Right(Err(error)) => inputs.push(broken(link, &error)),
            }
        });
    }

    pub(crate) fn dial(&mut self, link: LinkId, to: Address, kind: LinkKind) {
        let control = Arc::new(LinkControl::default());
        self.links.insert(link, Arc::clone(&control));
        let (transport, inputs) = (self.transport.clone(), Arc::clone(&self.inputs));
        let arrivals = Arc::clone(&self.arrivals);
        self.spawn(async move {
            let dialed = match race(control.given_up(), transport.dial(&to, kind)).await {
                Either::Left(()) => return,
                Either::Right(dialed) => dialed,
            };
            let (reader, writer) = match dialed {
                Ok(halves) => halves,
                Err(error) => return inputs.push(LinkInput::DialFailed(link, cause_of(&error))),
            };
            if let Some(datagrams) = writer.datagrams() {
                inputs.push(LinkInput::Datagrams(link, datagrams.max_size()));
                control.send_datagrams_by(datagrams);
            }
            control.write_by(writer.direct());
            inputs.push(LinkInput::Dialed(link));
            let serving = serve(reader, writer, link, control, inputs);
            if transport.links_run_in_loop() {
                arrivals.push(serving);
            } else {
                serving.await;
            }
        });
    }

    /// Drives the links of this loop as far as they get; see [`TaskSet::poll`].
    pub(crate) fn poll_links(&mut self, cx: Option<&mut Context<'_>>) {
        self.arrivals.move_into(&mut self.in_loop);
        self.in_loop.poll(cx);
    }

    pub(crate) fn control(&self, link: LinkId) -> Option<Arc<LinkControl>> {
        self.links.get(link)
    }

    /// What the loop wants of each link.
    pub(crate) fn links(&self) -> Arc<LinkTable> {
        Arc::clone(&self.links)
    }

    /// Sends beside a link's stream. If the transport does not take it: most bytes that it takes now.
    pub(crate) fn send_datagram(&self, link: LinkId, bytes: &[u8]) -> Option<usize> {
        let control = self.links.get(link)?;
        let datagrams = control.datagrams()?;
        (!datagrams.send(bytes)).then(|| datagrams.max_size())
    }

    /// The link's tasks finish by themselves.
    pub(crate) fn finish(&mut self, link: LinkId) -> Option<Arc<LinkControl>> {
        let control = self.links.remove(link)?;
        control.finish();
        Some(control)
    }

    pub(crate) fn abort(&mut self, link: LinkId) {
        if let Some(control) = self.links.remove(link) {
            control.abort();
        }
    }

    /// Whether no task holds a socket any more.
    pub(crate) fn are_idle(&self) -> bool {
        self.tasks.running.load(Ordering::SeqCst) == 0
    }
}

/// Where a link came from.
pub(crate) fn source(remote: &SocketAddr) -> Source {
    Source::of(remote.ip())
}

#[cfg(test)]
mod tests;
