//! The measured system: entities on the other process's node, reached through a proxy region, or on the
//! node that asks. Nothing is tuned for the measurement: the API and the configuration are what every user
//! has.

use std::future::Future;
use std::time::Duration;

use futures_lite::future::yield_now;
use quorate_driver::Status;
use quorate_driver::spi::Adapter;
use quorate_driver::{
    Cluster, ClusterBuilder, ClusterError, Entity, EntityContext, EntityRef, Kind, Region, Security,
    StartError,
};
use quorate_store_redb::Redb;

use crate::Failure;
use crate::measure::{Asked, IN_FLIGHT, System};
use crate::payload::Bytes;

/// The role of nodes that answer.
pub(crate) const SERVER: &str = "server";
/// The role of the node that asks.
const CLIENT: &str = "client";
/// An ask that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(30);

fn kind() -> Kind<Bytes, Bytes> {
    Kind::new("echo").shards(64).role(SERVER)
}

/// Of the node that asks.
fn kind_here() -> Kind<Bytes, Bytes> {
    Kind::new("echo-here").shards(64).role(CLIENT)
}

/// Answers with what it is asked; to nothing, with how many messages it had.
struct Echo {
    received: u64,
}

impl Entity for Echo {
    type Message = Bytes;
    type Reply = Bytes;

    async fn handle(&mut self, _: &EntityContext, message: Bytes) -> Bytes {
        if message.0.is_empty() {
            return Bytes(self.received.to_le_bytes().to_vec());
        }
        self.received += 1;
        message
    }
}

async fn node<A: Adapter>(
    role: &str,
    security: &Security,
    store: Option<Redb>,
) -> Result<Cluster, StartError> {
    let mut builder = ClusterBuilder::on::<A>("bench")
        .bind("127.0.0.1:0")
        .role(role)
        .fast_profile();
    if let Some(store) = store {
        builder = builder.store(store);
    }
    builder.security(security.clone()).start().await
}

/// A node that hosts entities; it joins the seed's cluster, or forms one.
pub(crate) async fn host<A: Adapter>(
    security: &Security,
    seed: Option<&str>,
    store: Option<Redb>,
) -> Result<Cluster, Failure> {
    let cluster = node::<A>(SERVER, security, store).await?;
    cluster.entities(kind()).start(|_| Echo { received: 0 }).await?;
    match seed {
        Some(seed) => cluster.join([seed]).await?,
        None => cluster.form().await?,
    }
    cluster.up().await?;
    Ok(cluster)
}

/// A node that hosts nothing, in the cluster of a node that does, once all its members are up.
pub(crate) async fn client<A: Adapter>(server: &str, security: &Security) -> Result<Cluster, Failure> {
    let cluster = node::<A>(CLIENT, security, None).await?;
    cluster.join([server]).await?;
    cluster.up().await?;
    while cluster.members().iter().any(|member| member.status != Status::Up) {
        cluster.events().next().await.ok_or(ClusterError::Stopped)?;
        yield_now().await;
    }
    Ok(cluster)
}

/// The entities, one for each lane.
pub(crate) struct Entities(Vec<EntityRef<Bytes, Bytes>>);

impl Entities {
    /// As a node reaches them; every one runs.
    pub(crate) async fn of(cluster: &Cluster) -> Result<Self, Failure> {
        Self::running(&cluster.entities(kind()).proxy().await?).await
    }

    /// The same of entities on this very node.
    pub(crate) async fn here(cluster: &Cluster) -> Result<Self, Failure> {
        let make = |_| Echo { received: 0 };
        Self::running(&cluster.entities(kind_here()).start(make).await?).await
    }

    async fn running(region: &Region<Bytes, Bytes>) -> Result<Self, Failure> {
        let entities = (0..IN_FLIGHT).map(|number| region.entity(format!("echo-{number}")));
        let entities = Self(entities.collect());
        entities.received().await?;
        Ok(entities)
    }
}

impl Asked for Entities {
    fn ask(&self, lane: usize, payload: Vec<u8>) -> impl Future<Output = Result<usize, Failure>> + Send {
        let ask = self.0[lane].ask(Bytes(payload)).timeout(TIMEOUT);
        async move { Ok(ask.await?.0.len()) }
    }
}

impl System for Entities {
    async fn tell(&self, lane: usize, payload: &[u8]) -> Result<(), Failure> {
        Ok(self.0[lane].tell(&Bytes(payload.to_vec())).await?)
    }

    async fn received(&self) -> Result<u64, Failure> {
        let mut sum = 0;
        for entity in &self.0 {
            let answer = entity.ask(Bytes::default()).timeout(TIMEOUT).await?;
            sum += answer
                .0
                .first_chunk()
                .map_or(0, |bytes| u64::from_le_bytes(*bytes));
        }
        Ok(sum)
    }
}
