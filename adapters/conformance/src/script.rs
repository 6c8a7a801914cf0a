//! The same inputs give the same effects on every runtime: a scripted node between scripted links, run by the
//! adapter's executor, against what it always did. Spec: reliability I-97, I-98.

use quorate_driver::Security;
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::testing::play;

use super::support::{runtime, within};

/// A script of commands, ticks and bytes gives the same list of effects in a task of the runtime as it gives
/// to a caller who has none, however often.
pub async fn a_script_of_inputs_has_the_same_effects_on_every_runtime<A: Adapter>(_: &Security) {
    let expected = play();
    let wanted = ["Dial", "Write", "Resume", "Publish", "Abort", "Finish"];
    for what in wanted {
        let found = expected.iter().any(|effect| effect.contains(what));
        assert!(found, "the script causes no {what}: {expected:#?}");
    }
    let runtime = runtime::<A>();
    for _ in 0..3 {
        let (sender, receiver) = async_channel::bounded(1);
        runtime.spawn(async move {
            let _ = sender.send(play()).await;
        });
        let found = within::<A, _>("the script", receiver.recv()).await;
        let found = found.expect("the task ends in good order");
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found, expected, "effect {at}");
        }
        assert_eq!(found.len(), expected.len());
    }
}
