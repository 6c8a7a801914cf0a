//! The three measurements, the same for both systems.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quorate_driver::spi::Runtime;
use tokio::sync::{mpsc, oneshot};

use crate::Failure;

/// Asks in flight, and the number of independent lanes (entities, or positions in the stream).
pub(crate) const IN_FLIGHT: usize = 100;

/// What can be asked.
pub(crate) trait Asked: Send + Sync + 'static {
    /// Sends a payload, waits for its echo, says how long that was. One at a time per lane.
    fn ask(&self, lane: usize, payload: Vec<u8>) -> impl Future<Output = Result<usize, Failure>> + Send;
}

/// What is measured.
pub(crate) trait System: Asked {
    /// Sends a payload that is not answered.
    fn tell(&self, lane: usize, payload: &[u8]) -> impl Future<Output = Result<(), Failure>> + Send;
    /// Messages that have arrived there, once everything that was told before has been handled.
    fn received(&self) -> impl Future<Output = Result<u64, Failure>> + Send;
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) rounds: usize,
    /// Asks one after the other.
    pub(crate) single: usize,
    /// How long the asks in flight and the one-way messages run.
    pub(crate) each: Duration,
}

impl Size {
    pub(crate) const QUICK: Self = Self {
        rounds: 1,
        single: 500,
        each: Duration::from_millis(200),
    };
    pub(crate) const FULL: Self = Self {
        rounds: 5,
        single: 10_000,
        each: Duration::from_secs(1),
    };
}

/// What came out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) ask_p50_us: f64,
    pub(crate) ask_p99_us: f64,
    pub(crate) asks_per_s: f64,
    pub(crate) tells_per_s: f64,
    /// Of those that were sent.
    pub(crate) tells_arrived: f64,
}

/// All measurements of one system with one size of payload.
pub(crate) async fn figures<S: System>(
    runtime: &impl Runtime,
    system: &Arc<S>,
    bytes: usize,
    size: Size,
) -> Result<Figures, Failure> {
    let mut figures = Figures::default();
    (figures.ask_p50_us, figures.ask_p99_us) = one_in_flight(runtime, system, bytes, size).await?;
    figures.asks_per_s = many_in_flight(runtime, system, bytes, size).await?.per_s;
    let telling = Arc::clone(system);
    (figures.tells_per_s, figures.tells_arrived) =
        spawned(runtime, async move { one_way(&*telling, bytes, size).await }).await?;
    Ok(figures)
}

/// Runs in a task of the runtime, as users' callers do, and not in the thread that waits for the program's
/// end, which the runtime has to wake for each answer.
async fn spawned<T: Send + 'static>(
    runtime: &impl Runtime,
    measuring: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    let (done, measured) = oneshot::channel();
    runtime.spawn(async move {
        // Nobody waits any more only if the program ends.
        let _ = done.send(measuring.await);
    });
    measured.await?
}

/// The median and the 99th percentile, in microseconds.
pub(crate) async fn one_in_flight<S: Asked>(
    runtime: &impl Runtime,
    system: &Arc<S>,
    bytes: usize,
    size: Size,
) -> Result<(f64, f64), Failure> {
    let system = Arc::clone(system);
    spawned(runtime, async move { alone(&*system, bytes, size).await }).await
}

/// One ask after the other.
async fn alone(system: &impl Asked, bytes: usize, size: Size) -> Result<(f64, f64), Failure> {
    let mut times = Vec::with_capacity(size.single);
    for number in 0..size.single + size.single / 10 {
        let asked = Instant::now();
        check(system.ask(0, vec![1; bytes]).await?, bytes)?;
        // The first ones warm up.
        if number >= size.single / 10 {
            times.push(asked.elapsed());
        }
    }
    Ok(percentiles(&mut times))
}

/// The median and the 99th percentile, in microseconds, of at least one time.
pub(crate) fn percentiles(times: &mut [Duration]) -> (f64, f64) {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e6;
    (at(50), at(99))
}

/// Asks in flight.
pub(crate) struct InFlight {
    pub(crate) per_s: f64,
    times: Vec<Duration>,
}

impl InFlight {
    /// The median and the 99th percentile of how long an ask took, in microseconds.
    pub(crate) fn percentiles(&mut self) -> (f64, f64) {
        percentiles(&mut self.times)
    }
}

/// One ask after the other in each lane.
pub(crate) async fn many_in_flight<S: Asked>(
    runtime: &impl Runtime,
    system: &Arc<S>,
    bytes: usize,
    size: Size,
) -> Result<InFlight, Failure> {
    let started = Instant::now();
    let (done, mut lanes) = mpsc::channel::<Result<Vec<Duration>, Failure>>(IN_FLIGHT);
    for lane in 0..IN_FLIGHT {
        let (system, done) = (Arc::clone(system), done.clone());
        runtime.spawn(async move {
            let asking = async {
                let (mut times, mut now) = (Vec::new(), started.elapsed());
                while now < size.each {
                    check(system.ask(lane, vec![1; bytes]).await?, bytes)?;
                    let then = started.elapsed();
                    times.push(then.saturating_sub(now));
                    now = then;
                }
                Ok(times)
            };
            // Nobody listens any more only if another lane has failed.
            let _ = done.send(asking.await).await;
        });
    }
    drop(done);
    let mut times = Vec::new();
    while let Some(lane) = lanes.recv().await {
        times.extend(lane?);
    }
    let per_s = times.len() as f64 / started.elapsed().as_secs_f64();
    Ok(InFlight { per_s, times })
}

async fn one_way(system: &impl System, bytes: usize, size: Size) -> Result<(f64, f64), Failure> {
    let before = system.received().await?;
    let payload = vec![1; bytes];
    let started = Instant::now();
    let mut sent: u64 = 0;
    while started.elapsed() < size.each {
        // The clock is not part of the message path.
        for lane in 0..IN_FLIGHT {
            system.tell(lane, &payload).await?;
        }
        sent += IN_FLIGHT as u64;
    }
    let arrived = system.received().await?.saturating_sub(before);
    Ok((
        arrived as f64 / started.elapsed().as_secs_f64(),
        arrived as f64 / sent as f64,
    ))
}

fn check(found: usize, expected: usize) -> Result<(), Failure> {
    if found == expected {
        Ok(())
    } else {
        Err(format!("{found} bytes came back, not {expected}").into())
    }
}

/// The median of each figure over the rounds.
pub(crate) fn median<'a>(rounds: impl Iterator<Item = &'a Figures> + Clone) -> Figures {
    let of = |figure: fn(&Figures) -> f64| {
        let mut values: Vec<f64> = rounds.clone().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    Figures {
        ask_p50_us: of(|f| f.ask_p50_us),
        ask_p99_us: of(|f| f.ask_p99_us),
        asks_per_s: of(|f| f.asks_per_s),
        tells_per_s: of(|f| f.tells_per_s),
        tells_arrived: of(|f| f.tells_arrived),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_has_its_own_median() {
        let round = |a, b| Figures {
            ask_p50_us: a,
            asks_per_s: b,
            ..Figures::default()
        };
        let rounds = [round(1.0, 9.0), round(3.0, 7.0), round(2.0, 8.0)];
        let median = median(rounds.iter());
        assert_eq!((median.ask_p50_us, median.asks_per_s), (2.0, 8.0));
    }
}
