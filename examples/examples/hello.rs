//! The smallest cluster: one node, one kind of entity, one question. `cargo run --example hello`
#![forbid(unsafe_code)]

use quorate_tokio::{Entity, EntityContext, Kind, Security};

struct Greeter {
    greeted: u64,
}

impl Entity for Greeter {
    type Message = String;
    type Reply = String;

    async fn handle(&mut self, context: &EntityContext, who: String) -> String {
        self.greeted += 1;
        format!("{} greets {who}, number {}", context.id_text(), self.greeted)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = quorate_tokio::builder("hello")
        .bind("127.0.0.1:0")
        .security(Security::insecure_plaintext()) // has no default: everybody who reaches the port is trusted
        .fast_profile() // the timings for one machine; leave it out on a network
        .start()
        .await?;
    cluster.form().await?; // a cluster of one
    cluster.up().await?;
    println!("{} is up", cluster.address());

    let greeters = cluster
        .entities(Kind::new("greeter"))
        .start(|_| Greeter { greeted: 0 })
        .await?;
    for who in ["Grace", "Edsger"] {
        println!("{}", greeters.entity("ada").ask(who.to_owned()).await?);
    }

    println!("{:?}", cluster.leave().await?);
    Ok(())
}
