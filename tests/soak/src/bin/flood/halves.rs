//! Strangers who have a certificate, or the key, and are no members: each begins the largest legal frame,
//! says half of it and then nothing, until it is cut off; then it comes back as somebody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use quorate_core::ident::UniqueAddress;
use quorate_core::wire::handshake::{HandshakeDecoded, HelloAnswer, LinkKind as HelloLink, decode_answer};
use quorate_driver::spi::{Adapter, LinkKind, LinkReader, LinkWriter, Listener, Transport};
use quorate_tokio::Address;

use crate::Result;
use crate::attack::{announcement, hello};
use crate::siege::Trust;

/// Half of the largest gossip frame.
const HALF_BYTES: usize = 2 << 20;
/// Before it comes back.
const PAUSE: Duration = Duration::from_millis(500);

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Links on which this side was let in.
    pub(crate) links: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// The strangers, on a runtime of their own, until it is over.
pub(crate) fn besiege<A: Adapter>(
    count: u64,
    to: &[Address],
    trust: &Trust,
    over: &AtomicBool,
    held: &Arc<Held>,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for (number, to) in (0..count).zip(to.iter().cycle()) {
            let transport = A::transport(&A::runtime()?, &trust.security()?)?;
            tasks.spawn(stranger(transport, to.clone(), number, Arc::clone(held)));
        }
        while !over.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tasks.abort_all();
        Ok(())
    })
}

async fn stranger<T: Transport>(transport: T, to: Address, number: u64, held: Arc<Held>) {
    let Ok(port) = transport.bind("127.0.0.1:0").await else {
        return;
    };
    for turn in 0_u64.. {
        let from = port.local_address().ok();
        let from = from.and_then(|from| Address::new("127.0.0.1", from.port()).ok());
        let Some(from) = from else {
            return;
        };
        let uid = (number + 1) * 1_000_000 + turn;
        // However it ends: it comes again.
        let _ = hold_half(&transport, &to, UniqueAddress::new(from, uid), &held).await;
        tokio::time::sleep(PAUSE).await;
    }
}

async fn hold_half<T: Transport>(
    transport: &T,
    to: &Address,
    from: UniqueAddress,
    held: &Held,
) -> std::io::Result<()> {
    let (mut reader, mut writer) = transport.dial(to, LinkKind::Control).await?;
    let hello = hello(to, from, HelloLink::Control, 1).ok_or(std::io::ErrorKind::InvalidInput)?;
    writer.write_all(&hello).await?;
    let (mut heard, mut buffer) = (Vec::new(), [0; 256]);
    loop {
        match decode_answer(&heard) {
            HandshakeDecoded::Done {
                value: HelloAnswer::Ack(_),
                ..
            } => break,
            HandshakeDecoded::NeedMore(_) => {}
            HandshakeDecoded::Done { .. } | HandshakeDecoded::Bad(_) => {
                return Err(std::io::ErrorKind::PermissionDenied.into());
            }
        }
        match reader.read(&mut buffer).await? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            len => heard.extend(buffer.iter().take(len)),
        }
    }
    held.links.fetch_add(1, Ordering::Relaxed);
    let mut half = announcement(&UniqueAddress::new(to.clone(), 1), 1);
    half.resize(64 << 10, 0);
    let mut said = 0;
    while said < HALF_BYTES {
        writer.write_all(&half).await?;
        said += half.len();
        held.bytes.fetch_add(half.len() as u64, Ordering::Relaxed);
        half.fill(0);
    }
    while reader.read(&mut buffer).await? > 0 {}
    Ok(())
}
