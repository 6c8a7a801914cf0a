//! What errors say of time limits, and of what became of a command.

use quorate_core::effect::CommandError;
use quorate_core::event::JoinFailure;

use super::*;

#[test]
fn a_cluster_error_says_whether_it_is_a_time_out_and_whether_something_may_have_happened() {
    let not_joined = |halted| ClusterError::NotJoined {
        halted,
        cause: Box::new(JoinFailure::NoWelcome),
    };
    let told = [
        (ClusterError::Refused(CommandError::Stopped), (false, false)),
        (ClusterError::StopMessage, (false, false)),
        (ClusterError::Stopped, (false, true)),
        (not_joined(HaltReason::JoinAborted), (true, true)),
        (not_joined(HaltReason::JoinRefused), (false, false)),
        (ClusterError::Daemons(DaemonsError::NoMajority), (true, true)),
        (ClusterError::Daemons(DaemonsError::InProgress), (false, false)),
    ];
    for (error, expected) in told {
        let said = (error.is_timeout(), error.may_have_been_handled());
        assert_eq!(said, expected, "{error}");
    }
}
