//! The demo's own member: forms the cluster with the node processes, asks every file, kills a node on the
//! way, and says what it sees. Hosts nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_lite::future;
use quorate_core::membership::events::diff;
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{AskError, Cluster, ClusterBuilder, ClusterEvent, Events, Security};
use quorate_driver::{
    Event, Status, UniqueAddress, View,
    events::{DowningEvent, MembershipEvent},
    membership::MembershipChange,
};

use super::asks::{self, Answer, Asks, Job};
use super::failure::Failure;
use super::kind::{self, Content, READER, SHARDS, Told};
use super::nodes::{Nodes, State};
use super::options::{Kill, Options};
use super::screen::{self, Row};
use super::tally::Tally;
use crate::files::Files;
use crate::screen::Screen;

/// How often the demo looks at what nobody tells it: processes, deadlines, the screen.
const TICK: Duration = Duration::from_millis(20);
/// Without progress for this long (and for as long as the largest file may take) the demo gives up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two looks at where the shards are, until every node has some.
const PLACE_EVERY: Duration = Duration::from_millis(200);
/// Files of which it is said that they cannot be read; the others are only counted.
const COMPLAINTS_MAX: u64 = 5;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    /// Everybody is Up.
    Formed,
    /// Every shard has a home and every node is one.
    Placed,
    /// Every file is counted, and the loss is fixed.
    Counted,
    /// Every shard was heard from once more.
    Settled,
}

impl Goal {
    const fn name(self) -> &'static str {
        match self {
            Self::Formed => "all nodes to be Up",
            Self::Placed => "every node to host a shard",
            Self::Counted => "the answers",
            Self::Settled => "every shard to answer",
        }
    }
}

/// What the reader wakes up for.
enum Woken {
    Event(Option<ClusterEvent>),
    Answer(Option<Answer>),
    Tick,
}

/// Whom the reader asks, for what, and where it shows what it sees.
pub(crate) struct Scene {
    pub(crate) nodes: Nodes,
    pub(crate) files: Files,
    pub(crate) screen: Screen,
}

/// The member that asks.
pub(crate) struct Reader<A: Adapter> {
    pub(crate) screen: Screen,
    pub(crate) nodes: Nodes,
    pub(crate) files: Files,
    pub(crate) tally: Tally,
    pub(crate) asks: Asks<A::Runtime>,
    runtime: A::Runtime,
    cluster: Cluster,
    events: Events,
    view: Arc<View>,
    kill: Kill,
    progress_at: Instant,
    placed_at: Instant,
    patience: Duration,
}

impl<A: Adapter> Reader<A> {
    /// Joins the cluster of `nodes`.
    pub(crate) async fn join(
        name: &str,
        security: Security,
        options: &Options,
        scene: Scene,
    ) -> Result<Self, Failure> {
        let Scene { nodes, files, screen } = scene;
        let cluster = ClusterBuilder::on::<A>(name)
            .bind("127.0.0.1:0")
            .role(READER)
            .security(security)
            .fast_profile()
            .config(|config| config.limits.entity_id_bytes_max = kind::ID_BYTES_MAX)
            .start()
            .await
            .map_err(|error| Failure::Usage(error.to_string()))?;
        let runtime = A::runtime().map_err(|error| Failure::Usage(error.to_string()))?;
        let failed = |error: quorate_driver::ClusterError| Failure::Run(error.to_string());
        let events = cluster.events();
        let region = cluster.entities(kind::files()).proxy().await.map_err(failed)?;
        cluster
            .join(nodes.all.first().map(|node| &node.address))
            .await
            .map_err(failed)?;
        let largest = files.found.iter().map(|file| file.bytes).max().unwrap_or(0);
        Ok(Self {
            screen,
            tally: Tally::new(nodes.all.len()),
            asks: Asks::new(runtime.clone(), region, &files.found),
            runtime,
            nodes,
            // The first event is a snapshot: what it shows is new.
            view: Arc::new(View::idle(cluster.address().clone())),
            files,
            cluster,
            events,
            kill: options.kill,
            progress_at: Instant::now(),
            placed_at: Instant::now(),
            patience: PATIENCE + asks::reading_time_max(largest),
        })
    }

    /// Waits until everybody is Up.
    pub(crate) async fn form(&mut self) -> Result<(), Failure> {
        self.reach(Goal::Formed).await
    }

    /// Waits until every node hosts a part of the shards.
    pub(crate) async fn place(&mut self) -> Result<(), Failure> {
        self.locate_all();
        self.reach(Goal::Placed).await
    }

    /// Counts every file.
    pub(crate) async fn count(&mut self) -> Result<(), Failure> {
        self.reach(Goal::Counted).await
    }

    /// Finds out where every shard is now, and how many members there are.
    pub(crate) async fn settle(&mut self) -> Result<usize, Failure> {
        self.locate_all();
        self.reach(Goal::Settled).await?;
        Ok(self.cluster.view().members().len())
    }

    fn locate_all(&mut self) {
        self.placed_at = Instant::now();
        (0..SHARDS).for_each(|shard| self.asks.locate(&self.files.found, shard));
    }

    async fn reach(&mut self, goal: Goal) -> Result<(), Failure> {
        self.progress_at = Instant::now();
        let mut tick_at = self.runtime.now().mono;
        loop {
            self.asks.fill(&self.files.found, goal == Goal::Counted);
            if goal == Goal::Counted {
                self.kill_if_due()?;
                self.show_progress();
            }
            if self.has_reached(goal) {
                self.screen.erase();
                return Ok(());
            }
            match self.wake(tick_at).await {
                Woken::Event(event) => self.on_event(event)?,
                Woken::Answer(Some((job, result))) => self.on_answer(job, result)?,
                Woken::Answer(None) => {}
                Woken::Tick => {
                    tick_at = self.runtime.now().mono + TICK;
                    self.look_around(goal)?;
                }
            }
        }
    }

    /// Whatever comes first.
    async fn wake(&mut self, tick_at: quorate_driver::spi::Instant) -> Woken {
        let (events, asks, files) = (&mut self.events, &mut self.asks, &self.files.found);
        let event = async { Woken::Event(events.next().await) };
        let answer = async {
            if asks.has_open() {
                Woken::Answer(asks.next(files).await)
            } else {
                future::pending().await
            }
        };
        let tick = async {
            self.runtime.sleep_until(tick_at).await;
            Woken::Tick
        };
        future::or(event, future::or(answer, tick)).await
    }

    fn has_reached(&self, goal: Goal) -> bool {
        match goal {
            Goal::Formed => {
                let members = self.view.members();
                members.len() == self.nodes.all.len() + 1
                    && members.iter().all(|member| member.status == Status::Up)
                    && self.view.unreachable().is_empty()
            }
            Goal::Placed => self.asks.is_idle() && self.tally.is_spread(),
            Goal::Counted => {
                let mended = match (self.kill, &self.tally.loss) {
                    (Kill::Nobody, _) => true,
                    (Kill::Oldest | Kill::Youngest, loss) => loss.as_ref().is_some_and(|l| l.is_mended()),
                };
                mended && self.tally.answered == self.files.found.len() && self.asks.is_idle()
            }
            Goal::Settled => self.asks.is_idle(),
        }
    }

    fn look_around(&mut self, goal: Goal) -> Result<(), Failure> {
        while let Some(address) = self.nodes.next_ended() {
            let name = self.nodes.name(&address);
            self.screen
                .say(format_args!("the process of {name} has ended by itself"));
        }
        if goal == Goal::Placed && self.asks.is_idle() && self.placed_at.elapsed() >= PLACE_EVERY {
            self.locate_all();
        }
        if self.nodes.all.iter().all(|node| node.state != State::Running) {
            return Err(Failure::Run("no node process is left".to_owned()));
        }
        if self.progress_at.elapsed() > self.patience {
            let (done, all) = (self.tally.answered, self.files.found.len());
            return Err(Failure::Run(format!(
                "waited {:?} for {} ({done} of {all} files are counted)",
                self.patience,
                goal.name()
            )));
        }
        Ok(())
    }

    fn kill_if_due(&mut self) -> Result<(), Failure> {
        let third = self.tally.answered * 3 >= self.files.found.len() || self.files.found.len() < 3;
        if self.kill == Kill::Nobody || self.tally.loss.is_some() || !third {
            return Ok(());
        }
        let Some(victim) = self.nodes.victim(self.kill, &self.cluster.view()) else {
            return Err(Failure::Run("no node is old enough to be killed".to_owned()));
        };
        self.tally.lose(victim);
        self.nodes.kill(victim);
        let which = match self.kill {
            Kill::Oldest => "the oldest, which hosts the coordinator",
            Kill::Youngest => "the youngest",
            Kill::Nobody => "nobody",
        };
        let name = self
            .nodes
            .all
            .get(victim)
            .map(|node| self.nodes.name(&node.address))
            .unwrap_or_default();
        let (answered, shards) = (self.tally.answered, self.tally.shards_of(victim));
        self.screen.say(format_args!(
            "SIGKILL to {name}: {which}; {shards} shards, {answered} files counted"
        ));
        // Its shards may have no file left to ask: their probes find out when they live again.
        let lost: Vec<bool> = self
            .tally
            .loss
            .iter()
            .flat_map(|loss| loss.shards.clone())
            .collect();
        for (shard, lost) in (0..SHARDS).zip(lost) {
            if lost {
                self.asks.locate(&self.files.found, shard);
            }
        }
        Ok(())
    }

    fn on_answer(&mut self, job: Job, result: Result<Told, AskError>) -> Result<(), Failure> {
        let shard = asks::shard(job, &self.files.found);
        let id = |files: &Files| match job {
            Job::File(index) => files.found[index as usize].id.escape_ascii().to_string(),
            Job::Shard(shard) => format!("shard {shard}"),
        };
        let told = result
            .map_err(|error| Failure::Run(format!("asking {} cannot succeed: {error}", id(&self.files))))?;
        if let Content::Unreadable(error) = &told.content
            && self.tally.unreadable < COMPLAINTS_MAX
        {
            let (node, id) = (told.node + 1, id(&self.files));
            self.screen.say(format_args!(
                "node {node} cannot read {id} ({error}): it counts as 0 words"
            ));
        }
        self.tally.heard(shard, &told);
        self.progress_at = Instant::now();
        Ok(())
    }

    fn on_event(&mut self, event: Option<ClusterEvent>) -> Result<(), Failure> {
        match event {
            Some(ClusterEvent::Event(Event::Membership(MembershipEvent::Changed { change, view }))) => {
                self.view = view;
                self.on_change(&change);
            }
            Some(ClusterEvent::Snapshot(view) | ClusterEvent::Resync(view)) => {
                let changes = diff(self.view.gossip(), view.gossip(), view.me());
                self.view = view;
                changes.iter().for_each(|change| self.on_change(change));
            }
            Some(ClusterEvent::Event(Event::Downing(DowningEvent::Decision(decision)))) => {
                let down: Vec<String> = decision
                    .down
                    .iter()
                    .map(|node| self.nodes.name(node.address()))
                    .collect();
                let (strategy, down) = (decision.strategy, down.join(", "));
                self.screen
                    .say(format_args!("{strategy} downs {down}: {}", decision.rule));
            }
            Some(ClusterEvent::Terminated(end)) => {
                return Err(Failure::Run(format!("the reader's own node has ended: {end:?}")));
            }
            None => return Err(Failure::Run("the reader's own node has ended".to_owned())),
            Some(_) => {}
        }
        Ok(())
    }

    fn on_change(&mut self, change: &MembershipChange) {
        let (node, what) = match change {
            MembershipChange::Joined(member) => (&member.node, "is Joining"),
            MembershipChange::WeaklyUp(member) => (&member.node, "is WeaklyUp"),
            MembershipChange::Up(member) => (&member.node, "is Up"),
            MembershipChange::Left(member) => (&member.node, "is Leaving"),
            MembershipChange::Exited(member) => (&member.node, "is Exiting"),
            MembershipChange::Downed(member) => (&member.node, "is Down"),
            MembershipChange::Removed { member, .. } => (&member.node, "is removed"),
            MembershipChange::Unreachable(member) => (&member.node, "is unreachable"),
            MembershipChange::Reachable(member) => (&member.node, "is reachable again"),
            MembershipChange::LeaderChanged(Some(leader)) => (leader, "leads"),
            // Who has seen what is for the curious (`node` and the log show more).
            MembershipChange::LeaderChanged(_)
            | MembershipChange::TombstonesChanged
            | MembershipChange::PreparingForShutdown(_)
            | MembershipChange::ReadyForShutdown(_)
            | MembershipChange::RoleLeaderChanged { .. }
            | MembershipChange::SeenChanged { .. }
            | MembershipChange::ReachabilityChanged => return,
            // What a later version tells.
            _ => return,
        };
        let name = self.nodes.name(node.address());
        self.note_loss(change, node);
        let since = match &self.tally.loss {
            Some(loss) if self.is_lost(node) => {
                format!(", {} ms after the kill", loss.killed_at.elapsed().as_millis())
            }
            Some(_) | None => String::new(),
        };
        self.screen.say(format_args!("{name} {what}{since}"));
    }

    fn is_lost(&self, node: &UniqueAddress) -> bool {
        let lost = self
            .tally
            .loss
            .as_ref()
            .and_then(|loss| self.nodes.all.get(loss.node));
        lost.is_some_and(|lost| lost.address == *node.address())
    }

    fn note_loss(&mut self, change: &MembershipChange, node: &UniqueAddress) {
        if !self.is_lost(node) {
            return;
        }
        let Some(loss) = &mut self.tally.loss else { return };
        let removed = matches!(change, MembershipChange::Removed { .. });
        // Gossip may bring the verdict and its consequence at once.
        let gone = removed
            || matches!(
                change,
                MembershipChange::Downed(_) | MembershipChange::Unreachable(_)
            );
        let now = Some(Instant::now());
        if gone {
            loss.unreachable_at = loss.unreachable_at.or(now);
            self.progress_at = Instant::now();
        }
        if removed {
            loss.removed_at = loss.removed_at.or(now);
        }
    }

    fn show_progress(&mut self) {
        let (nodes, tally) = (&self.nodes, &self.tally);
        let row = |index: usize| Row {
            name: format!("node {}", index + 1),
            files: tally.shares.get(index).map_or(0, |share| share.files),
            shards: tally.shards_of(index),
            note: nodes.all.get(index).map_or("", |node| node.state.note()),
        };
        let rows = || (0..nodes.all.len()).map(row).collect();
        screen::progress(&mut self.screen, tally.answered, self.files.found.len(), rows);
    }
}
