//! An HTTP service in front of entities. Every process is a member of the cluster and serves all counters,
//! wherever they live: `GET /counters/ID`, `POST /counters/ID/N`, and `GET /ready` for a load balancer.
//!
//! `cargo run -- 127.0.0.1:8001 127.0.0.1:2551 127.0.0.1:2551` starts the first node,
//! `cargo run -- 127.0.0.1:8002 127.0.0.1:2552 127.0.0.1:2551` another one. SIGTERM ends a node: it takes no
//! new requests, answers the open ones, hands its counters over and leaves.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use axum::extract::{Path, State};
use axum::{Router, http::StatusCode, routing};
use quorate_tokio::{AskError, Cluster, Entity, EntityContext, Kind, Region, Security, ShutdownPhase};
use serde::{Deserialize, Serialize};
use tokio::{net::TcpListener, sync::oneshot};

#[derive(Serialize, Deserialize)]
enum Message {
    Add(u64),
    Read,
}

#[derive(Default)]
struct Counter {
    count: u64,
}

impl Entity for Counter {
    type Message = Message;
    type Reply = u64;

    async fn handle(&mut self, _: &EntityContext, message: Message) -> u64 {
        if let Message::Add(more) = message {
            self.count = self.count.saturating_add(more);
        }
        self.count
    }
}

#[derive(Clone)]
struct Service {
    cluster: Cluster,
    counters: Region<Message, u64>,
}

type Answer = Result<String, (StatusCode, String)>;

/// What an error means to a client: may it send the same again?
fn status(error: AskError) -> StatusCode {
    match (error.may_have_been_handled(), error.is_timeout()) {
        (false, _) => StatusCode::SERVICE_UNAVAILABLE, // nothing was counted: yes
        (true, true) => StatusCode::GATEWAY_TIMEOUT,
        (true, false) => StatusCode::BAD_GATEWAY,
    }
}

async fn ask(service: &Service, id: &str, message: Message) -> Answer {
    match service.counters.entity(id).ask(message).await {
        Ok(count) => Ok(format!("{count}\n")),
        Err(error) => Err((status(error), format!("{error}\n"))),
    }
}

async fn read(State(service): State<Service>, Path(id): Path<String>) -> Answer {
    ask(&service, &id, Message::Read).await
}

async fn add(State(service): State<Service>, Path((id, more)): Path<(String, u64)>) -> Answer {
    ask(&service, &id, Message::Add(more)).await
}

async fn ready(State(service): State<Service>) -> StatusCode {
    if service.cluster.is_ready() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(http), Some(address)) = (arguments.next(), arguments.next()) else {
        return Err("usage: quorate-axum-service HTTP-ADDRESS NODE-ADDRESS SEED...".into());
    };
    let builder = quorate_tokio::builder("counters").bind(address).seeds(arguments);
    let cluster = builder
        .security(Security::insecure_plaintext())
        .fast_profile()
        .start()
        .await?;
    cluster.up().await?;
    let counters = cluster
        .entities(Kind::new("counter"))
        .start(|_| Counter::default())
        .await?;

    let service = Service {
        cluster: cluster.clone(),
        counters,
    };
    let routes = Router::new()
        .route("/counters/{id}", routing::get(read))
        .route("/counters/{id}/{more}", routing::post(add))
        .route("/ready", routing::get(ready))
        .with_state(service);
    let (stop, stopped) = oneshot::channel::<()>();
    let listener = TcpListener::bind(http).await?;
    println!("serving {}", listener.local_addr()?);
    let end = async { drop(stopped.await) };
    let serving = axum::serve(listener, routes).with_graceful_shutdown(end);
    let server = tokio::spawn(serving.into_future());
    // Before counters move: no new requests, and the open ones are answered.
    cluster.on_shutdown(ShutdownPhase::ServiceUnbind, async move || drop(stop))?;
    cluster.on_shutdown(ShutdownPhase::ServiceRequestsDone, async move || {
        drop(server.await)
    })?;

    Ok(cluster.run_until_signal().await?.into())
}
