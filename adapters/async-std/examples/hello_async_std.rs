//! Three nodes in one program, on async-std: `cargo run -p quorate-async-std --example hello_async_std`.
//!
//! They form a cluster over loopback TCP, one node asks entities wherever they live, and one node leaves.

use std::error::Error;

use quorate_async_std::{Cluster, Entity, EntityContext, Kind, Security};

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

async fn start(seed: Option<&Cluster>) -> Result<Cluster, Box<dyn Error>> {
    let node = quorate_async_std::builder("hello")
        .bind("127.0.0.1:0")
        .security(Security::insecure_plaintext())
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
    async_std::task::block_on(async {
        let first = start(None).await?;
        let nodes = [start(Some(&first)).await?, start(Some(&first)).await?];
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
