//! The asks by which a producer hears its entities: each message is one, and where none is on its way one
//! that only asks. What they say goes to the rules of the core. Spec: sharding 1.14.

use std::future::{Future, IntoFuture, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use quorate_core::delivery::ConsumerRequest;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::EntityId;
use quorate_core::time::Instant;

use super::message::{DeliveryBody, DeliveryMessage, Receipt};
use super::orders::TaskReport;
use super::sending::{Ended, Output, Task};
use crate::codec;
use crate::error::AskError;
use crate::region::Ask;
use quorate_core::input::Recipient;

/// How long an ask waits, as a share of the time after which the first message is sent again to an entity
/// that confirms nothing (`resend_idle`): what was lost on a link that broke is asked for before that.
const LINE_SHARE: u32 = 2;
/// The bounds of that time.
const LINE_TIMEOUT_MIN: Duration = Duration::from_millis(50);
const LINE_TIMEOUT_MAX: Duration = Duration::from_secs(60);

/// The pause after a line that broke; doubled each time.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);

impl Task {
    /// An entity has answered on a line, or did not.
    pub(super) async fn on_line(
        &mut self,
        now: Instant,
        entity: &EntityId,
        line: u64,
        said: Result<Receipt, AskError>,
    ) -> Result<(), Ended> {
        let mut outputs = Vec::new();
        if let Some(pair) = self.pairs.get_mut(entity) {
            pair.lines.close(line);
        }
        let failed = match said {
            Ok(mut receipt) => {
                if let Some(pair) = self.pairs.get_mut(entity) {
                    pair.pause = None;
                    if receipt.resend.take_if(|from| *from == 0).is_some() {
                        pair.lines.begins_anew_on(line);
                    }
                }
                self.on_receipt(now, entity, receipt, &mut outputs);
                None
            }
            Err(error) => Some(error),
        };
        if self
            .pairs
            .get_mut(entity)
            .is_some_and(|pair| pair.lines.takes_begin())
        {
            self.rules.on_resend(now, entity, 0, &mut outputs);
        }
        self.carry_out(outputs).await?;
        match failed {
            Some(error) => self.on_broken_line(now, entity, error),
            None => {
                self.open_line(entity);
                Ok(())
            }
        }
    }

    fn on_receipt(&mut self, now: Instant, entity: &EntityId, receipt: Receipt, outputs: &mut Vec<Output>) {
        if let Some(confirmed) = receipt.ack {
            self.rules.on_ack(now, entity, confirmed, outputs);
        }
        // First what is there and what is not, then how far it may go.
        if let Some(from) = receipt.resend {
            self.rules.on_resend(now, entity, from, outputs);
        }
        if let Some(wanted) = receipt.request {
            let request = ConsumerRequest {
                confirmed: wanted.confirmed,
                up_to: wanted.up_to,
                support_resend: wanted.support_resend,
                via_timeout: wanted.via_timeout,
            };
            self.rules.on_request(now, entity, request, outputs);
        }
    }

    fn on_broken_line(&mut self, now: Instant, entity: &EntityId, error: AskError) -> Result<(), Ended> {
        if matches!(
            error,
            AskError::Stopped | AskError::Failed(AskFailure::NodeStopped | AskFailure::NodeStoppedUnsent)
        ) {
            return Err(Ended);
        }
        if matches!(
            error,
            AskError::Failed(AskFailure::TimeoutSent | AskFailure::TimeoutBuffered | AskFailure::NobodyHosts)
        ) {
            // It has waited long enough already.
            self.open_line(entity);
            return Ok(());
        }
        tracing::debug!(target: "cluster::delivery", event = "line_broken", producer = self.from.name, ?entity, %error);
        if let Some(pair) = self.pairs.get_mut(entity)
            && pair.lines.is_empty()
            && pair.again_at.is_none()
        {
            let pause = pair
                .pause
                .map_or(PAUSE_MIN, |pause| pause.saturating_mul(2).min(PAUSE_MAX));
            pair.pause = Some(pause);
            pair.again_at = Some(now + pause);
        }
        Ok(())
    }

    /// Asks an entity what it has to say, unless it is being asked or nothing is to be confirmed.
    pub(super) fn open_line(&mut self, entity: &EntityId) {
        let Some(pair) = self.pairs.get_mut(entity) else {
            return;
        };
        if pair.unconfirmed == 0 || !pair.lines.is_empty() {
            return;
        }
        pair.again_at = None;
        let line = pair.lines.open();
        let from = self.from.clone();
        let asked = self.ask(entity, DeliveryBody::Line { from });
        let (inbox, entity) = (Arc::clone(&self.inbox), entity.clone());
        self.shared
            .background
            .spawn(async move { inbox.put(TaskReport::Line(entity, line, asked.await)) });
    }

    pub(super) fn ask(&self, entity: &EntityId, inside: DeliveryBody) -> Ask<Receipt> {
        let to = Recipient::Entity(self.kind, entity.clone());
        let payload = codec::encode(&DeliveryMessage::<()>::new(inside));
        let share = self.rules.settings().resend_idle / LINE_SHARE;
        let timeout = share.clamp(LINE_TIMEOUT_MIN, LINE_TIMEOUT_MAX);
        Ask::new(Arc::clone(&self.shared), to, payload).timeout(timeout)
    }

    /// Hands an ask in, in the order of these calls, and waits only for that.
    pub(super) async fn submit(&self, entity: EntityId, line: u64, asked: Ask<Receipt>) -> Result<(), Ended> {
        let mut asked = asked.into_future();
        let first = poll_fn(|cx| match Pin::new(&mut asked).poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if asked.is_submitted() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        match first.await {
            Some(done) => self.inbox.put(TaskReport::Line(entity, line, done)),
            None => {
                let inbox = Arc::clone(&self.inbox);
                self.shared
                    .background
                    .spawn(async move { inbox.put(TaskReport::Line(entity, line, asked.await)) });
            }
        }
        Ok(())
    }
}
