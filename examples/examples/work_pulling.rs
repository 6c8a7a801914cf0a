//! Jobs that workers on any node pull when they are ready: nobody is given more than it takes, and what a
//! worker drops goes to the next. `cargo run --example work_pulling`
#![forbid(unsafe_code)]

use std::time::Duration;

use quorate_tokio::{Cluster, Security, delivery::WorkQueue};

/// Far beyond what a job takes.
const LIMIT: Duration = Duration::from_secs(30);
const JOBS: u32 = 20;

type Failed = Box<dyn std::error::Error + Send + Sync>;

async fn node(seed: Option<&Cluster>) -> Result<(Cluster, WorkQueue<u32>), Failed> {
    let builder = quorate_tokio::builder("render")
        .bind("127.0.0.1:0")
        .fast_profile();
    let cluster = builder.security(Security::insecure_plaintext()).start().await?;
    cluster
        .join([seed.unwrap_or(&cluster).address().address()])
        .await?;
    cluster.up().await?;
    let frames = cluster.work_queue("frames").start().await?; // the oldest node holds it
    Ok((cluster, frames))
}

/// Works until the queue ends, and says how much it did.
async fn work(name: &'static str, frames: WorkQueue<u32>) -> u32 {
    let (mut worker, mut done, mut dropped) = (frames.worker(), 0, false);
    while let Some(job) = worker.next().await {
        if name == "clumsy" && !dropped {
            dropped = true; // without a word: the job goes to whoever asks next
            continue;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        job.confirm();
        done += 1;
    }
    println!("{name} did {done} jobs");
    done
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let (first, queue) = node(None).await?;
    let (second, other) = node(Some(&first)).await?;
    let workers = [
        tokio::spawn(work("careful", queue.clone())),
        tokio::spawn(work("clumsy", other.clone())),
    ];

    // Each completes when its job is done, however often that had to be tried.
    let jobs: Vec<_> = (0..JOBS)
        .map(|number| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.run(number).timeout(LIMIT).await })
        })
        .collect();
    for job in jobs {
        job.await??;
    }
    println!("{JOBS} jobs are done");

    second.leave().await?;
    first.leave().await?;
    let mut sum = 0;
    for worker in workers {
        sum += worker.await?;
    }
    println!("the workers say {sum}");
    Ok(())
}
