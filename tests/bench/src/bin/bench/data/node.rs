//! One node of the three, with a store for the keys that are durable. What is not said here is the documented
//! default: the timings are those for a network.

use std::ffi::OsString;
use std::future::Future;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use quorate_core::ddata::state::key::Pattern;
use quorate_demo::process;
use quorate_demo::trust;
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{Cluster, ClusterBuilder, Security};
use quorate_store_redb::Redb;

use crate::{Failure, floor};

/// Between two looks at how many replicas there are.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What a process of the three has to know.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Its store.
    pub(super) file: PathBuf,
    /// Whether changes travel as changes.
    pub(super) deltas: bool,
    /// Whom it joins; the first forms the cluster.
    pub(super) seed: Option<String>,
}

impl Place {
    pub(super) fn arguments(&self) -> impl Iterator<Item = OsString> + use<> {
        let deltas = if self.deltas { "deltas" } else { "whole" };
        let seed = self.seed.clone().unwrap_or_default();
        [self.file.clone().into(), deltas.into(), seed.into()].into_iter()
    }

    /// From the arguments of a process.
    pub(crate) fn read(mut arguments: impl Iterator<Item = OsString>) -> Result<Self, Failure> {
        let mut next = || arguments.next().ok_or("an argument is missing");
        Ok(Self {
            file: next()?.into(),
            deltas: next()? == "deltas",
            seed: Some(next()?.into_string().map_err(|_| "an address is text")?),
        })
    }
}

/// The process with another replica, and the other end of a bare link.
pub(crate) async fn serve<A: Adapter>(place: &Place) -> Result<(), Failure> {
    let security = trust::introduced(&process::introduction()?)?;
    process::end_with_parent()?;
    let _cluster = start::<A>(place, &security).await?;
    let (address, floor): (String, _) = floor::listen::<A>(&security, None).await?;
    let mut out = std::io::stdout();
    writeln!(out, "{address}")?;
    out.flush()?;
    answer::<A>(floor).await
}

/// From a task of the runtime, as the node answers.
async fn answer<A: Adapter>(floor: impl Future<Output = ()> + Send + 'static) -> Result<(), Failure> {
    let (done, ended) = tokio::sync::oneshot::channel();
    A::runtime()?.spawn(async move {
        floor.await;
        let _ = done.send(());
    });
    Ok(ended.await?)
}

/// A member of the cluster.
pub(super) async fn start<A: Adapter>(place: &Place, security: &Security) -> Result<Cluster, Failure> {
    let (file, deltas) = (place.file.clone(), place.deltas);
    let store = blocking::unblock(move || Redb::open(file)).await?;
    let durable = Pattern::parse("durable*")?;
    let cluster = ClusterBuilder::on::<A>("bench-data")
        .bind("127.0.0.1:0")
        .security(security.clone())
        .store(store)
        .config(move |config| {
            config.ddata.durable_keys = vec![durable];
            config.ddata.deltas = deltas;
        })
        .start()
        .await?;
    let own = cluster.address().address().to_string();
    let seed = place.seed.as_ref().filter(|seed| !seed.is_empty());
    cluster.join([seed.unwrap_or(&own)]).await?;
    cluster.up().await?;
    Ok(cluster)
}

/// Waits until a node counts so many replicas.
pub(super) async fn replicas<A: Adapter>(cluster: &Cluster, count: usize) -> Result<(), Failure> {
    while cluster.data().replicas().await? != count {
        pause::<A>(LOOK_AGAIN).await?;
    }
    Ok(())
}

pub(super) async fn pause<A: Adapter>(time: Duration) -> Result<(), Failure> {
    let runtime = A::runtime()?;
    runtime.sleep_until(runtime.now().mono + time).await;
    Ok(())
}
