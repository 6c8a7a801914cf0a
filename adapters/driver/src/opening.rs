//! The two halves of a link that has to shake hands before it carries bytes: the reader does that within its
//! first read, and the writer waits for it. So a slow or hostile dialer holds up neither the port nor other
//! links, and the driver's limit on the time for a link's first message covers both. Decides nothing; what is
//! said in a handshake is TLS's or Noise's.

use std::future::Future;
use std::io;
use std::pin::Pin;

use crate::sync::{self, Receiver};
use crate::transport::LinkReader;

/// Bytes of a refused dialer that are read and thrown away, so that it receives what says why: data left
/// unread would make the system answer with a reset. More than a dialer can say before it has heard of the
/// refusal.
const LINGER_BYTES: usize = 64 * 1024;

/// The reading half, or the handshake that makes it.
pub(crate) struct Opening<R>(OpeningState<R>);

enum OpeningState<R> {
    Handshake(Pin<Box<dyn Future<Output = io::Result<R>> + Send>>),
    Open(R),
    Failed,
}

/// The writing half, or its place while the reader has the link.
pub(crate) struct Pending<W>(PendingState<W>);

enum PendingState<W> {
    Waiting(Receiver<W>),
    Open(W),
    Failed,
}

/// A link's two halves, whose handshake is still to come.
pub(crate) fn opening<R, W, H>(handshake: impl FnOnce(sync::Sender<W>) -> H) -> (Opening<R>, Pending<W>)
where
    H: Future<Output = io::Result<R>> + Send + 'static,
{
    let (hand_over, handed_over) = sync::oneshot();
    let handshake = Box::pin(handshake(hand_over));
    (
        Opening(OpeningState::Handshake(handshake)),
        Pending(PendingState::Waiting(handed_over)),
    )
}

/// The halves of a link that has shaken hands.
pub(crate) const fn opened<R, W>(reader: R, writer: W) -> (Opening<R>, Pending<W>) {
    (
        Opening(OpeningState::Open(reader)),
        Pending(PendingState::Open(writer)),
    )
}

impl<R> Opening<R> {
    /// What has come of it, if that is done.
    pub(crate) const fn get(&self) -> Option<&R> {
        match &self.0 {
            OpeningState::Open(open) => Some(open),
            OpeningState::Handshake(_) | OpeningState::Failed => None,
        }
    }

    /// Shakes hands, if that is still to be done.
    pub(crate) async fn open(&mut self) -> io::Result<&mut R> {
        if let OpeningState::Handshake(handshake) = &mut self.0 {
            let outcome = handshake.as_mut().await;
            self.0 = OpeningState::Failed;
            self.0 = OpeningState::Open(outcome?);
        }
        match &mut self.0 {
            OpeningState::Open(open) => Ok(open),
            OpeningState::Handshake(_) | OpeningState::Failed => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl<W> Pending<W> {
    /// Waits for the handshake, if that is still to be done.
    pub(crate) async fn open(&mut self) -> io::Result<&mut W> {
        if let PendingState::Waiting(handed_over) = &mut self.0 {
            let received = Pin::new(handed_over).await;
            self.0 = received.map_or(PendingState::Failed, PendingState::Open);
        }
        match &mut self.0 {
            PendingState::Open(open) => Ok(open),
            PendingState::Waiting(_) | PendingState::Failed => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

/// Reads what a refused dialer still says, until it hangs up.
pub(crate) async fn linger(reader: &mut impl LinkReader) {
    let (mut thrown_away, mut buffer) = (0, [0; 1_024]);
    while thrown_away < LINGER_BYTES {
        match reader.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => thrown_away += count,
        }
    }
}
