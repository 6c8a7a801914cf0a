//! Links in memory, for the tests of what encrypts them.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use async_channel::{Receiver, Sender};

use crate::transport::{LinkReader, LinkWriter};

pub(crate) struct PipeReader {
    pipe: Receiver<Vec<u8>>,
    rest: Vec<u8>,
}

pub(crate) struct PipeWriter(Sender<Vec<u8>>);

impl LinkReader for PipeReader {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() {
            self.rest = self.pipe.recv().await.unwrap_or_default();
        }
        let count = self.rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.rest[..count]);
        self.rest.drain(..count);
        Ok(count)
    }
}

impl LinkWriter for PipeWriter {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let sent = self.0.send(bytes.to_vec()).await;
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    async fn close(&mut self) -> io::Result<()> {
        self.0.close();
        Ok(())
    }
}

pub(crate) fn pipe() -> (PipeReader, PipeWriter) {
    let (writer, reader) = async_channel::bounded(64);
    let reader = PipeReader {
        pipe: reader,
        rest: Vec::new(),
    };
    (reader, PipeWriter(writer))
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        thread::park();
    }
}
