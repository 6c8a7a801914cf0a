//! The transport alone, without a node behind it: bytes both ways, the end of a link, and that links which
//! come and go leave nothing behind in the node that they reach. Spec: `ARCHITECTURE.md` (links are one-way),
//! reliability 3b.

use std::time::Duration;

use quorate_core::ident::Address;
use quorate_driver::Security;
use quorate_driver::spi::{Accepted, Adapter, LinkKind, LinkReader, LinkWriter, Listener, Transport};

use super::support::both;
use super::support::{cluster, eventually, sleep, transport, within};

/// Links that are opened and dropped again.
pub const CYCLES: usize = 1_000;

/// How many may be in their handshake at once: below what one source may have.
const AT_ONCE: u64 = 8;

async fn read_exactly(reader: &mut impl LinkReader, count: usize) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    while all.len() < count {
        match reader.read(&mut buffer).await.expect("the link is open") {
            0 => break,
            len => all.extend_from_slice(buffer.get(..len).expect("no more than there is room for")),
        }
    }
    all
}

/// A link without the pump: both directions, more bytes than any buffer holds, and the end.
pub async fn a_link_carries_bytes_both_ways_and_ends<A: Adapter>(security: &Security) {
    let one = transport::<A>(security);
    let other = transport::<A>(security);
    let mut listener = one.bind("127.0.0.1:0").await.expect("it listens");
    let _other_listener = other.bind("127.0.0.1:0").await.expect("it listens");
    let port = listener.local_address().expect("it has a port").port();
    let to = Address::new("127.0.0.1", port).expect("an address");
    let sent: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();

    let dialing = async {
        let (mut reader, mut writer) = other.dial(&to, LinkKind::Control).await.expect("it is dialed");
        writer.write_all(b"hello").await.expect("it is sent");
        assert_eq!(read_exactly(&mut reader, 7).await, b"welcome");
        writer.write_all(&sent).await.expect("it is sent");
        writer.close().await.expect("it ends in good order");
        // Held until the other side has read all of it.
        let _ = reader.read(&mut [0]).await;
    };
    let accepting = async {
        let Accepted {
            remote,
            mut reader,
            mut writer,
        } = listener.accept().await.expect("it is accepted");
        assert!(remote.ip().is_loopback());
        assert_eq!(read_exactly(&mut reader, 5).await, b"hello");
        writer.write_all(b"welcome").await.expect("it is sent");
        let received = read_exactly(&mut reader, usize::MAX).await;
        assert!(received == sent, "{} bytes of {}", received.len(), sent.len());
    };
    within::<A, _>("both ends are done", both(dialing, accepting)).await;
}

/// Links that are dropped in the middle of their handshake leave nothing behind.
pub async fn links_come_and_go_without_a_leak<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(2, security).await;
    let node = &nodes[0];
    let open = async || node.stats().await.expect("the node runs").links.links_open;
    let before = open().await;
    let transport = transport::<A>(security);
    let _listener = transport.bind("127.0.0.1:0").await.expect("it listens");
    let mut dialed = 0;
    for cycle in 0..CYCLES {
        let dial = transport.dial(node.address().address(), LinkKind::User);
        if let Ok((reader, mut writer)) = within::<A, _>("a dial", dial).await {
            let _ = writer.write_all(b"Qrh1").await;
            // Every other one ends in good order: a transport may forget what it had not delivered of the
            // rest.
            if cycle % 2 == 0 {
                let _ = writer.close().await;
            }
            drop((reader, writer));
            dialed += 1;
        }
        // One source may not have more than a few handshakes open: let the node notice that they are over.
        while cycle % 8 == 7 && open().await > before + AT_ONCE {
            sleep::<A>(Duration::from_millis(2)).await;
        }
    }
    assert_eq!(dialed, CYCLES);
    eventually::<A>("all of them are gone", async || open().await <= before).await;
    let stats = node.stats().await.expect("the node runs").links;
    assert!(stats.handshakes_refused > 0, "{stats:?}");
}
