//! How a node gets to know a kind, to host its entities or only to reach them. Decides nothing.

use std::sync::Arc;

use quorate_core::input::{Command, KindSettings};
use quorate_core::sharding::allocation::AllocationSettings;
use quorate_core::sharding::ids::KindId;

use super::Region;
use crate::allocating::Decider;
use crate::commands::{ControlCommand, Registration, outcome};
use crate::error::{ClusterError, LookupError};
use crate::kind::Kind;
use crate::kinds::Types;
use crate::mailbox::{PartingStarter, Starter};
use crate::places;
use crate::shared::Shared;
use crate::sync::{self, Task};

impl<M: 'static, R: 'static> Region<M, R> {
    /// The way to a registered kind's entities.
    pub(crate) fn known(shared: &Arc<Shared>, kind: &str) -> Result<Self, LookupError> {
        let id = KindId::of(kind);
        let known = shared.kinds.check(id, Types::of::<M, R>());
        let extract = known.map_err(|mismatch| LookupError::kind(kind, mismatch))?;
        Ok(Self::new(Arc::clone(shared), id, extract))
    }

    /// Registers a kind whose entities this node hosts.
    pub(crate) async fn host(
        shared: &Arc<Shared>,
        kind: &Kind<M, R>,
        starter: Arc<dyn Starter>,
    ) -> Result<Self, ClusterError> {
        let settings = kind.settings(true)?;
        let starter = match kind.last_message()? {
            Some(last) => Arc::new(PartingStarter { starter, last }) as Arc<dyn Starter>,
            None => starter,
        };
        Self::register(shared, kind, settings, Some(starter)).await
    }

    /// Registers a kind, with the means to start its entities if this node hosts it.
    pub(crate) async fn register(
        shared: &Arc<Shared>,
        kind: &Kind<M, R>,
        settings: KindSettings,
        starter: Option<Arc<dyn Starter>>,
    ) -> Result<Self, ClusterError> {
        let name = Arc::clone(&settings.name);
        let id = KindId::of(&name);
        // Before it is registered: its entities look it up.
        let added = shared.kinds.add(id, Types::of::<M, R>(), kind.extracts());
        let is_new = added.map_err(|mismatch| LookupError::kind(&name, mismatch))?;
        let (reply, answer) = sync::oneshot();
        let follows = settings.allocation == Some(AllocationSettings::External);
        let decider = kind.asked().map(|asked| Decider::new(asked, hands(shared)));
        let command = ControlCommand::Register {
            what: Registration::Kind(Box::new(settings)),
            starter,
            decider,
            reply,
        };
        shared.control(command).await?;
        let registered = outcome(answer.await);
        if registered.is_err() && is_new {
            shared.kinds.remove(id);
        }
        registered?;
        shared.kinds.renew(id, kind.extracts());
        // A proxy's node may coordinate, too.
        if follows && shared.follows(id) {
            shared.background.spawn(places::follow(Arc::clone(shared), name));
        }
        Ok(Self::new(Arc::clone(shared), id, kind.extracts()))
    }
}

/// What hands a command in for somebody who does not wait for what comes of it.
fn hands(shared: &Arc<Shared>) -> impl Fn(Command) -> Task + Send + Sync + 'static {
    let shared = Arc::clone(shared);
    move |command| {
        let shared = Arc::clone(&shared);
        // An error says that the node has ended.
        Box::pin(async move { drop(shared.core(command).await) })
    }
}
