//! The system's requests to end this process, for every runtime alike: one thread per process waits for them
//! and tells who listens. Decides nothing about nodes. Spec: `shutdown`.

use std::fmt;
use std::io;
use std::sync::Mutex;

use async_channel::{Receiver, Sender, TrySendError};

use crate::sync::lock;

/// Signals that wait for one listener: after the second nobody counts.
const WAITING_MAX: usize = 4;

/// A signal that asks this process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShutdownSignal {
    /// SIGTERM: what service managers and container platforms send.
    Terminate,
    /// SIGINT: Ctrl-C.
    Interrupt,
}

impl ShutdownSignal {
    /// The signal's number.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Interrupt => 2,
            Self::Terminate => 15,
        }
    }

    fn of(number: i32) -> Option<Self> {
        [Self::Terminate, Self::Interrupt]
            .into_iter()
            .find(|signal| i32::from(signal.number()) == number)
    }
}

/// Its name.
impl fmt::Display for ShutdownSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        })
    }
}

/// Everybody who listens; `None` until somebody does.
static LISTENERS: Mutex<Option<Vec<Sender<ShutdownSignal>>>> = Mutex::new(None);

/// Signals from now on. While somebody listens they end nothing by themselves; one that nobody listens for
/// ends the process, as it would have if nobody ever had.
pub(crate) fn listen() -> io::Result<Receiver<ShutdownSignal>> {
    let mut listeners = lock(&LISTENERS);
    if listeners.is_none() {
        watch()?;
    }
    let (sender, receiver) = async_channel::bounded(WAITING_MAX);
    listeners.get_or_insert_default().push(sender);
    Ok(receiver)
}

/// The next one; never if there is none any more.
pub(crate) async fn next(signals: &Receiver<ShutdownSignal>) -> ShutdownSignal {
    match signals.recv().await {
        Ok(signal) => signal,
        Err(_) => std::future::pending().await,
    }
}

/// Completes at the next request of the system to end this process (SIGTERM or SIGINT), on any runtime.
/// Signals count from the call on, whether it is polled or not. Programs with a node wait in
/// [`Cluster::run_until_signal`](crate::Cluster::run_until_signal) instead.
///
/// # Errors
/// The system's signals cannot be had.
///
/// # Cancel safety
/// Dropping it stops listening; a signal that nobody listens for ends the process.
pub fn shutdown_signal() -> impl Future<Output = io::Result<ShutdownSignal>> + Send {
    let listening = listen();
    async move { Ok(next(&listening?).await) }
}

fn tell(number: i32) {
    let Some(signal) = ShutdownSignal::of(number) else {
        return;
    };
    let mut listeners = lock(&LISTENERS);
    let listening = listeners.get_or_insert_default();
    listening.retain(|listener| !matches!(listener.try_send(signal), Err(TrySendError::Closed(_))));
    if listening.is_empty() {
        drop(listeners);
        // An error leaves the process as it is: the next signal tries again.
        let _ = signal_hook::low_level::emulate_default_handler(number);
    }
}

fn start(wait: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("quorate-signals".to_owned());
    thread.spawn(wait).map(drop)
}

#[cfg(unix)]
fn watch() -> io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};

    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT])?;
    start(move || signals.forever().for_each(tell))
}

/// Elsewhere a handler can only set a flag, which the thread looks at.
#[cfg(not(unix))]
fn watch() -> io::Result<()> {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use signal_hook::consts::{SIGINT, SIGTERM};

    /// Between two looks: nobody notices it at a keyboard.
    const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(50);

    let mut flags = Vec::new();
    for number in [SIGTERM, SIGINT] {
        let flag = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(number, Arc::clone(&flag))?;
        flags.push((number, flag));
    }
    start(move || {
        loop {
            for (number, flag) in &flags {
                if flag.swap(false, Ordering::SeqCst) {
                    tell(*number);
                }
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_the_number_that_shells_know() {
        for (number, name) in [(2, "SIGINT"), (15, "SIGTERM")] {
            let signal = ShutdownSignal::of(number).expect("it is one of ours");
            assert_eq!(
                (i32::from(signal.number()), signal.to_string().as_str()),
                (number, name)
            );
        }
        assert_eq!(ShutdownSignal::of(1), None);
    }
}
