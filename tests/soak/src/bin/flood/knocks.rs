//! Strangers on TCP, in a process of their own, so that what they hold is not taken for what the members
//! hold: each connects, says nothing, a few bytes or a whole ClientHello, and waits until the other side has
//! enough of it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorate_driver::security::DevCa;
use rustls::{ClientConnection, pki_types::ServerName};
use tokio::net::{TcpSocket, TcpStream};

use crate::{AT_ONCE, Result};

/// What a stranger says on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// Nothing.
    Nothing,
    /// One the first three bytes of a TLS record, the next a whole ClientHello: it is answered with
    /// certificates.
    Tls,
}

/// What the strangers do.
#[derive(Clone, Debug)]
pub(crate) struct Knocks {
    /// Connections that are held at once; one that is closed is opened anew.
    pub(crate) held: usize,
    /// Connections in all, after which no more are opened.
    pub(crate) total: u64,
    /// Addresses of the loopback network that they come from; the first is the members' own.
    pub(crate) sources: usize,
    /// Where the members listen.
    pub(crate) to: Vec<SocketAddr>,
}

impl Knocks {
    /// Where the connection of this number comes from.
    pub(crate) fn source(&self, number: u64) -> Ipv4Addr {
        let sources = u64::try_from(self.sources).unwrap_or(1).max(1);
        // A part of 127.0.0.0/8, so it fits.
        let offset = u32::try_from(number % sources).unwrap_or(0);
        Ipv4Addr::from(u32::from(Ipv4Addr::LOCALHOST) + offset)
    }

    /// Where it goes.
    pub(crate) fn target(&self, number: u64) -> Option<SocketAddr> {
        let members = u64::try_from(self.to.len()).ok().filter(|members| *members > 0)?;
        // A round of the sources before the next member has its turn, so that each member sees all of them.
        let sources = u64::try_from(self.sources).unwrap_or(1).max(1);
        let turn = (number + number / sources) % members;
        self.to.get(usize::try_from(turn).ok()?).copied()
    }
}

/// The first flight of a TLS client that will never send another.
fn client_hello() -> Result<Vec<u8>> {
    // Of another authority: it does not come to that.
    let config = DevCa::new("strangers.cluster.internal")?.mtls()?.client_config();
    let name = ServerName::try_from("strangers.cluster.internal")?;
    let mut hello = Vec::new();
    ClientConnection::new(config, name)?.write_tls(&mut hello)?;
    Ok(hello)
}

async fn knock(from: SocketAddr, to: SocketAddr, says: Arc<[u8]>) -> std::io::Result<()> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(from)?;
    let stream: TcpStream = socket.connect(to).await?;
    let _ = stream.try_write(&says);
    let mut rest = [0; 4_096];
    loop {
        stream.readable().await?;
        match stream.try_read(&mut rest) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Knocks until this process ends.
pub(crate) fn besiege(knocks: &Knocks, says: Says, count: &AtomicU64) -> Result<()> {
    let words: [Arc<[u8]>; 2] = match says {
        Says::Nothing => [Arc::from([]), Arc::from([])],
        Says::Tls => [Arc::from([0x16, 0x03, 0x01]), client_hello()?.into()],
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        loop {
            for _ in 0..AT_ONCE {
                let number = count.load(Ordering::Relaxed);
                if tasks.len() >= knocks.held || number >= knocks.total {
                    break;
                }
                let to = knocks.target(number).ok_or("nobody to knock at")?;
                let from = SocketAddr::from((knocks.source(number), 0));
                let [few, whole] = &words;
                let says = if number.is_multiple_of(2) { few } else { whole };
                tasks.spawn(knock(from, to, Arc::clone(says)));
                count.fetch_add(1, Ordering::Relaxed);
            }
            while tasks.try_join_next().is_some() {}
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
}
