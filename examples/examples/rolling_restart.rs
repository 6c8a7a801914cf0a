//! A service for rolling restarts under systemd. A unit with `Type=notify` starts it: it says `READY=1` when
//! the node is a full member and can route messages, so that `systemctl restart` on the next machine waits
//! for this one; SIGTERM has it hand its entities over and leave before it ends. Give each release its
//! version: while two are in the cluster, shards go to the newer one.
//!
//! ```ini
//! [Service]
//! Type=notify
//! ExecStart=/usr/bin/orders 10.0.0.1:2551 1.4.0 10.0.0.1:2551 10.0.0.2:2551 10.0.0.3:2551
//! Restart=on-failure
//! TimeoutStopSec=30
//! ```
//!
//! `cargo run --example rolling_restart -- 127.0.0.1:2551 1.4.0 127.0.0.1:2551`
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorate_tokio::{Cluster, Entity, EntityContext, Kind, Region, Security, ShutdownPhase};

type Failed = Box<dyn std::error::Error>;

/// An order, which answers where it lives.
struct Order;

impl Entity for Order {
    type Message = ();
    type Reply = String;

    async fn handle(&mut self, context: &EntityContext, _: ()) -> String {
        context.node().to_string()
    }
}

/// Tells systemd about the service; nothing happens when it was not started by it.
#[cfg(target_os = "linux")]
fn notify(state: &str) -> std::io::Result<()> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else {
        return Ok(());
    };
    // A name that begins with `@` is in the abstract namespace.
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(path)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.send_to_addr(state.as_bytes(), &address).map(|_| ())
}

#[cfg(not(target_os = "linux"))]
fn notify(_: &str) -> std::io::Result<()> {
    Ok(())
}

async fn start() -> Result<(Cluster, Region<(), String>), Failed> {
    let mut arguments = std::env::args().skip(1);
    let (Some(address), Some(version)) = (arguments.next(), arguments.next()) else {
        return Err("usage: rolling_restart ADDRESS VERSION SEED...".into());
    };
    let cluster = quorate_tokio::builder("orders")
        .bind(address)
        .seeds(arguments)
        .app_version(version)
        .security(Security::insecure_plaintext())
        .fast_profile() // the timings for one machine; leave it out on a network
        .start()
        .await?;
    let orders = cluster.entities(Kind::new("order")).start(|_| Order).await?;
    cluster.up().await?;
    while !orders.is_registered().await? {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok((cluster, orders))
}

async fn ask(orders: Region<(), String>, stopping: Arc<AtomicBool>) {
    let (mut answered, mut unknown) = (0_u32, 0_u32);
    while !stopping.load(Ordering::Relaxed) {
        match orders.entity(format!("order-{}", answered % 50)).ask(()).await {
            Ok(_) => answered += 1,
            Err(error) if error.may_have_been_handled() => unknown += 1,
            Err(_) => {} // not handled: asked again
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    println!("{answered} answers, {unknown} of unknown outcome");
}

#[tokio::main]
async fn main() -> Result<ExitCode, Failed> {
    let (cluster, orders) = start().await?;
    let running = cluster.run_until_signal(); // signals count from here on
    notify("READY=1")?;
    println!("{} is ready", cluster.address());

    // The work of the service: here it asks, so that a restart can be seen to lose nothing.
    let stopping = Arc::new(AtomicBool::new(false));
    let asking = tokio::spawn(ask(orders, Arc::clone(&stopping)));
    cluster.on_shutdown(ShutdownPhase::ServiceUnbind, async move || {
        stopping.store(true, Ordering::Relaxed);
        let _ = notify("STOPPING=1");
    })?;
    cluster.on_shutdown(ShutdownPhase::ServiceRequestsDone, async move || {
        drop(asking.await)
    })?;

    // Until SIGTERM or SIGINT: entities are handed over, then the node leaves.
    let ended = running.await?;
    println!("{ended}");
    Ok(ended.into())
}
