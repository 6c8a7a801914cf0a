//! The node that is flooded, in a process of its own so that its memory can be told from the attackers'.

use std::io::Write;
use std::time::Duration;

use quorate_demo::process;
use quorate_tokio::{EntityContext, Security};

use crate::{CLUSTER, kind};

/// Between two lines about itself.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// Runs until the parent is gone. Prints its address and uid, then a line of figures ten times a second.
pub(crate) async fn run() -> crate::Result<()> {
    process::end_with_parent()?;
    let builder = quorate_tokio::builder(CLUSTER).bind("127.0.0.1:0");
    let node = builder.security(Security::insecure_plaintext()).start().await?;
    node.join([node.address().address()]).await?;
    node.up().await?;
    let region = node
        .entities(kind())
        .start_fn(async |_: EntityContext, _: Vec<u8>| ())
        .await?;
    drop(region);
    let mut out = std::io::stdout();
    writeln!(out, "{} {}", node.address().address(), node.address().uid())?;
    out.flush()?;
    loop {
        tokio::time::sleep(REPORT_INTERVAL).await;
        let stats = node.stats().await?;
        let links = stats.links;
        writeln!(
            out,
            "{} {} {} {} {} {} {} {}",
            links.links_open,
            links.inbound_bytes_held,
            node.view().unreachable().len(),
            links.frames_received,
            links.gossip_frames_beyond_rate + links.control_frames_beyond_rate,
            links.links_closed_for_violation + links.links_closed_for_stalled_frame,
            links.handshakes_refused,
            links.inbound_waits,
        )?;
        out.flush()?;
    }
}
