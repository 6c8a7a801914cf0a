//! Three nodes in one program, over QUIC:
//! `cargo run -p quorate-quinn --features dev-certs --example hello_quinn`.
//!
//! A throw-away authority gives each a certificate; they form a cluster over loopback UDP, one node asks
//! entities wherever they live, and one node leaves.

use std::error::Error;

use quorate_quinn::{Cluster, Entity, EntityContext, Kind, Security, security::DevCa};

struct Greeter {
    node: String,
    greeted: u64,
}

impl Entity for Greeter {
    type Message = String;
    type Reply = String;

    async fn handle(&mut self, context: &EntityContext, who: String) -> String {
        self.greeted += 1;
        let (me, node, number) = (context.id_text(), &self.node, self.greeted);
        format!("{me} on {node} greets {who}, number {number}")
    }
}

async fn start(authority: &DevCa, seed: Option<&Cluster>) -> Result<Cluster, Box<dyn Error>> {
    let node = quorate_quinn::builder("hello")
        .bind("127.0.0.1:0")
        .security(Security::mtls(authority.mtls()?))
        .fast_profile() // the timings for one machine; leave it out on a network
        .start()
        .await?;
    // The first node forms the cluster: its own address is its only seed.
    let seed = seed.unwrap_or(&node).address().address().clone();
    node.join([seed]).await?;
    node.up().await?;
    println!("up: {}", node.address());
    Ok(node)
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let authority = DevCa::new("hello.cluster.internal")?;
        let first = start(&authority, None).await?;
        let nodes = [
            start(&authority, Some(&first)).await?,
            start(&authority, Some(&first)).await?,
        ];
        let host = |cluster: &Cluster| {
            let node = cluster.address().address().to_string();
            move |_| Greeter {
                node: node.clone(),
                greeted: 0,
            }
        };
        let greeters = first.entities(Kind::new("greeter")).start(host(&first)).await?;
        for node in &nodes {
            node.entities(Kind::<String, String>::new("greeter"))
                .start(host(node))
                .await?;
        }
        for id in ["ada", "grace", "barbara", "edsger", "leslie"] {
            println!("{}", greeters.entity(id).ask("you".to_owned()).await?);
        }
        for node in nodes.iter().chain([&first]) {
            println!("{} ends: {:?}", node.address(), node.leave().await?);
        }
        Ok(())
    })
}
