//! A keyed store with N copies: keys lie in ranges, and each range has explicit owners, which are stores and
//! not nodes. Spec: sharding 5.6, 10.19.

pub mod merkle;
pub mod moving;
pub mod protocol;
pub mod ranges;
pub mod replica;
pub mod requests;
pub mod state;

use alloc::string::String;

use crate::cx::OfKv;
use crate::effect::{Answer as AnyAnswer, CommandError as AnyError};
use crate::ident::UniqueAddress;
use crate::input::Token as CallerToken;
use crate::kv::protocol::{Command, KvCommandError, Msg, Timer};
use crate::store::StoreReport;
use crate::view::View;

/// What the machine may touch outside itself.
pub(crate) type Cx<'a> = crate::cx::Cx<'a, OfKv>;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Kv {}

impl Kv {
    pub(crate) fn on_message(&mut self, _: &mut Cx<'_>, _: &UniqueAddress, _: Msg) {}
    pub(crate) fn on_command(&mut self, cx: &mut Cx<'_>, token: CallerToken, _: Command) {
        cx.reply(token, AnyAnswer::Refused(AnyError::Kv(KvCommandError::NotOpen)));
    }
    pub(crate) fn on_timer(&mut self, _: &mut Cx<'_>, _: Timer) {}
    pub(crate) fn on_stored(&mut self, _: &mut Cx<'_>, _: StoreReport) {}
    pub(crate) fn on_ages_changed(&mut self, _: &mut Cx<'_>, _: &View) {}
    pub(crate) fn on_margin_over(&mut self, _: &mut Cx<'_>) {}
    pub(crate) fn on_paused(&mut self) {}
    pub(crate) fn on_still_member(&mut self, _: &mut Cx<'_>) {}
    pub(crate) fn halt(&mut self, _: &mut Cx<'_>) {}
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        Ok(())
    }
}
