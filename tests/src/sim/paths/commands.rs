//! What users command: slots are moved, settings changed, one path is removed and comes back. Draws it, and
//! says it to a node.

use quorate_core::ident::UniqueAddress;
use quorate_core::input::{Command, PathCommand};
use quorate_core::paths::state::instances::FaultTolerance;

use super::{PATHS, PathKind, REMOVED};
use crate::sim::engine::Sim;
use crate::sim::plan::SECOND;
use crate::sim::process::Open;

impl Sim {
    /// Somebody commands something now and then.
    pub(crate) fn command_paths(&mut self, nodes: usize) {
        if !self.paths.enabled || self.paths.calm || self.now < self.paths.next_command {
            return;
        }
        self.paths.next_command = self.now + self.paths.commands.between(SECOND / 5, 2 * SECOND);
        let (at, to) = (self.paths.commands.index(nodes), self.paths.commands.index(nodes));
        let kind = PATHS[self.paths.commands.index(PATHS.len())];
        let slot = self.paths.commands.below(3) as u16;
        let what = self.paths.commands.below(20);
        let command = match what {
            0..14 => self.move_of(&kind, slot, to),
            14 => Some(("change", PathCommand::Change(self.changed(&kind)))),
            15 => {
                let removed = PATHS.iter().find(|kind| kind.name == REMOVED);
                removed.map(|kind| ("remove", PathCommand::Remove(kind.path())))
            }
            _ => Some((
                "register path",
                PathCommand::Register {
                    settings: kind.settings(),
                    hosts: true,
                },
            )),
        };
        if let (Some((name, command)), Some(process)) = (command, self.running_at(at)) {
            self.fact(process, format_args!("commands {command:?}"));
            self.command(process, Open::Command(name), Command::Path(command));
        }
    }

    pub(super) fn move_of(
        &self,
        kind: &PathKind,
        slot: u16,
        to: usize,
    ) -> Option<(&'static str, PathCommand)> {
        let to: UniqueAddress = self.incarnation(to)?;
        let path = kind.path();
        Some(("move", PathCommand::Move { path, slot, to }))
    }

    /// The path with other bounds or another tolerance, or as it was.
    fn changed(&mut self, kind: &PathKind) -> quorate_core::paths::state::settings::PathSettings {
        let mut settings = kind.settings();
        let (spare, least) = (self.paths.commands.below(3), self.paths.commands.below(3));
        match self.paths.commands.below(3) {
            0 => settings.fault_tolerance = FaultTolerance::Constant(spare as u16),
            1 => {
                settings.instances_min = 1 + least as u16;
                settings.instances_max = 3 + spare as u16;
            }
            _ => {}
        }
        settings
    }
}
