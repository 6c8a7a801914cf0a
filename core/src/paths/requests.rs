//! What this node's users want of the leader: said to whoever leads now, again until it is answered, and
//! given up after a while. Decides nothing. Spec: sharding 10.17 i.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::leader::leader_of;
use super::protocol::{
    Command, PathBody, PathCommandError, PathRefusal, PathRequest, REQUESTS_MAX, Rejection,
};
use super::{Cx, say};
use crate::effect::{Answer as AnyAnswer, CommandError as AnyError};
use crate::ident::UniqueAddress;
use crate::input::Token;
use crate::ordered::OrderedMap;
use crate::time::Instant;

/// Leaders whose answers count: the present one, and those before it.
const LEADERS_MAX: usize = 4;

#[derive(Clone, Debug)]
struct OpenRequest {
    token: Token,
    request: PathRequest,
    deadline: Instant,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct PathRequests {
    open: OrderedMap<u64, OpenRequest>,
    last: u64,
    /// Who was asked lately, the last one last: a former leader's answer is true as well.
    asked: VecDeque<UniqueAddress>,
}

impl PathRequests {
    /// A caller's command becomes a request.
    pub(super) fn begin(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        command: Command,
    ) -> Result<(), PathCommandError> {
        let request = match command {
            Command::Register { settings, hosts } => {
                settings.check()?;
                let settings = Arc::new(settings);
                PathRequest::Register { settings, hosts }
            }
            Command::Change(settings) => {
                settings.check()?;
                PathRequest::Change(Arc::new(settings))
            }
            Command::Remove(path) => PathRequest::Remove(path),
            Command::Move { path, slot, to } => PathRequest::Move { path, slot, to },
        };
        if self.open.len() >= REQUESTS_MAX {
            return Err(PathCommandError::TooMany);
        }
        self.last += 1;
        let deadline = cx.mono() + cx.config().paths.request_timeout;
        let open = OpenRequest {
            token,
            request,
            deadline,
        };
        self.open.insert(self.last, open);
        self.ask(cx, self.last);
        Ok(())
    }

    pub(super) fn are_open(&self) -> bool {
        !self.open.is_empty()
    }

    fn ask(&mut self, cx: &mut Cx<'_>, number: u64) {
        let leader = leader_of(cx.view());
        if let (Some(leader), Some(open)) = (leader, self.open.get(&number)) {
            let request = open.request.clone();
            if self.asked.back() != Some(&leader) {
                self.asked.push_back(leader.clone());
                if self.asked.len() > LEADERS_MAX {
                    self.asked.pop_front();
                }
            }
            say(cx, &leader, PathBody::Request { number, request });
        }
    }

    fn ask_all(&mut self, cx: &mut Cx<'_>) {
        let numbers: Vec<u64> = self.open.keys().copied().collect();
        for number in numbers {
            self.ask(cx, number);
        }
    }

    /// Another member may lead now.
    pub(super) fn look(&mut self, cx: &mut Cx<'_>) {
        if !self.are_open() {
            return;
        }
        let leader = leader_of(cx.view());
        if leader.as_ref() != self.asked.back() {
            self.ask_all(cx);
        }
    }

    /// Time to ask again; what has waited for too long is given up.
    pub(super) fn repeat(&mut self, cx: &mut Cx<'_>) {
        let now = cx.mono();
        let late = self.open.iter().filter(|(_, open)| open.deadline <= now);
        let late: Vec<u64> = late.map(|(number, _)| *number).collect();
        for number in late {
            self.close(cx, number, Err(PathCommandError::NoAnswer));
        }
        self.ask_all(cx);
    }

    /// The leader answers.
    pub(super) fn on_answer(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        number: u64,
        refusal: Option<PathRefusal>,
    ) {
        if !self.asked.contains(from) {
            return cx.reject(from, Rejection::NotAsked);
        }
        let result = refusal.map_or(Ok(()), |refusal| Err(PathCommandError::Refused(refusal)));
        self.close(cx, number, result);
    }

    fn close(&mut self, cx: &mut Cx<'_>, number: u64, result: Result<(), PathCommandError>) {
        if let Some(open) = self.open.remove(&number) {
            let answer = match result {
                Ok(()) => AnyAnswer::Done,
                Err(error) => AnyAnswer::Refused(AnyError::Path(error)),
            };
            cx.reply(open.token, answer);
        }
    }

    /// This node has stopped.
    pub(super) fn end(&mut self, cx: &mut Cx<'_>) {
        while let Some((_, open)) = self.open.pop_first() {
            cx.reply(open.token, AnyAnswer::Refused(AnyError::Stopped));
        }
    }
}
