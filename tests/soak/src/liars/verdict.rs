//! What a run has come to.

use crate::ending::Judged;

/// What the memory of a node may grow by.
pub(super) const GROWTH_MAX: u64 = 64 << 20;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) transport: &'static str,
    /// Kinds of messages that were told, and how many of each at least.
    pub(super) kinds: usize,
    pub(super) messages: u64,
    /// How many were to be told.
    pub(super) wanted: u64,
    pub(super) sent: u64,
    /// Frames that the three have read meanwhile.
    pub(super) heard: u64,
    /// What the memory of each node has grown by, at most.
    pub(super) growth: Vec<u64>,
    /// Nodes that ended, the liar left out.
    pub(super) ended: usize,
    /// Somebody answers each of the three while the liar is a member, and each of the eight at the end.
    pub(super) answered: bool,
    /// The cluster of eight.
    pub(super) formed: bool,
    /// Why the run did not go on.
    pub(super) stuck: Option<String>,
}

impl Judged for Verdict {
    fn fault(&self) -> Option<String> {
        let grown = self.growth.iter().max().copied().unwrap_or(u64::MAX);
        if let Some(stuck) = &self.stuck {
            return Some(stuck.clone());
        }
        if self.messages < self.wanted {
            return Some(format!("only {} messages of a kind were told", self.messages));
        }
        if self.heard < self.sent {
            return Some(format!("only {} frames of {} were read", self.heard, self.sent));
        }
        if grown >= GROWTH_MAX {
            return Some(format!("a node grew by {grown} bytes"));
        }
        let what = [
            (self.ended == 0, "a node ended"),
            (self.answered, "a node is not answered"),
            (self.formed, "no cluster of eight came about"),
        ];
        let wrong = what.into_iter().find(|(holds, _)| !holds);
        wrong.map(|(_, what)| what.to_owned())
    }

    fn json(&self) -> String {
        let growth: Vec<String> = self.growth.iter().map(u64::to_string).collect();
        format!(
            r#"{{"transport":"{}","kinds":{},"messages":{},"sent":{},"heard":{},"growth":[{}],"ended":{},"answered":{},"formed":{}}}"#,
            self.transport,
            self.kinds,
            self.messages,
            self.sent,
            self.heard,
            growth.join(","),
            self.ended,
            self.answered,
            self.formed
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Verdict {
        Verdict {
            transport: "tokio",
            kinds: 3,
            messages: 10,
            wanted: 10,
            sent: 30,
            heard: 40,
            growth: vec![1, 2, GROWTH_MAX - 1],
            ended: 0,
            answered: true,
            formed: true,
            stuck: None,
        }
    }

    #[test]
    fn the_line_has_the_names_that_are_promised() {
        assert_eq!(good().fault(), None);
        assert_eq!(
            good().json(),
            r#"{"transport":"tokio","kinds":3,"messages":10,"sent":30,"heard":40,"growth":[1,2,67108863],"ended":0,"answered":true,"formed":true}"#
        );
    }

    #[test]
    fn each_thing_that_does_not_hold_is_a_fault() {
        let bad = [
            Verdict {
                messages: 9,
                ..good()
            },
            Verdict {
                growth: vec![1, GROWTH_MAX, 1],
                ..good()
            },
            Verdict {
                growth: vec![],
                ..good()
            },
            Verdict { heard: 29, ..good() },
            Verdict { ended: 1, ..good() },
            Verdict {
                answered: false,
                ..good()
            },
            Verdict {
                formed: false,
                ..good()
            },
            Verdict {
                stuck: Some("nobody answers".to_owned()),
                ..good()
            },
        ];
        for verdict in bad {
            assert!(verdict.fault().is_some(), "{verdict:?}");
        }
    }
}
