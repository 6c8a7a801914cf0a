//! What clients sent and were told, held against what the accounts say when all is over. By then every
//! transfer that was ever sent is acknowledged, so each has to be there exactly once. Trusts neither the
//! entities nor the store. Knows no process.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::entity::{Flow, Told, Transfer};
use crate::ending::Judged;
use crate::ledger::{Counts, line};

/// All accounts, by their number.
pub(super) type Readings = BTreeMap<u64, Told>;

/// Which reading counts. Accounts are read one after the other, so one can be read before a deposit and its
/// sender behind the confirmation: only behind a reading in which nothing was on its way is that impossible.
#[derive(Debug, Default)]
pub(super) struct Settling {
    was_settled: bool,
}

impl Settling {
    /// Whether this one counts; or how many transfers it found on their way.
    pub(super) fn look(&mut self, found: &Readings) -> Result<bool, u64> {
        let was_settled = std::mem::take(&mut self.was_settled);
        let open: u64 = found.values().map(|told| told.open).sum();
        if open > 0 {
            return Err(open);
        }
        self.was_settled = true;
        Ok(was_settled)
    }
}

/// Everything that was said.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// What the accounts said at the beginning.
    base: Readings,
    out: BTreeMap<u64, Flow>,
    into: BTreeMap<u64, Flow>,
    /// Sent and not acknowledged, by client and number.
    open: BTreeMap<(u64, u64), Transfer>,
    pub(super) counts: Counts,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) accounts: u64,
    pub(super) transfers: u64,
    pub(super) acknowledged: u64,
    /// Acknowledged when they were sent again at the end: whoever sent them had been killed.
    pub(super) resolved: u64,
    pub(super) lost: u64,
    pub(super) doubled: u64,
    /// Accounts whose sums are not what the transfers say.
    pub(super) wrong: u64,
    /// The sum of all balances, which nothing changes.
    pub(super) sum: i64,
    pub(super) kills: u64,
    pub(super) cuts: u64,
    pub(super) stops: u64,
    /// Processes that were restarted because they had ended by themselves.
    pub(super) fallen: u64,
    /// Writes that came to the store when a later incarnation owned the log, and were refused.
    pub(super) refused: u64,
    /// Incarnations that ended because of that.
    pub(super) fenced: u64,
    /// Messages that were sent more than once.
    pub(super) resent: u64,
    pub(super) recovered: u64,
    pub(super) longest_gap: Duration,
    /// Why the work did not go on.
    pub(super) stuck: Option<String>,
}

impl Ledger {
    /// Begins with what the accounts say.
    pub(super) fn begin(&mut self, found: Readings) {
        self.base = found;
    }

    /// A client sends a transfer, for the first time.
    pub(super) fn sent(&mut self, transfer: Transfer) {
        self.out.entry(transfer.from).or_default().add(&transfer);
        self.into.entry(transfer.to).or_default().add(&transfer);
        self.open.insert((transfer.client, transfer.number), transfer);
        self.counts.sent += 1;
    }

    /// It was acknowledged.
    pub(super) fn acknowledged(&mut self, now: Instant, client: u64, number: u64) {
        if self.open.remove(&(client, number)).is_some() {
            self.counts.acknowledged(now);
        }
    }

    /// What was sent and not acknowledged.
    pub(super) fn open(&self) -> impl ExactSizeIterator<Item = &Transfer> {
        self.open.values()
    }

    /// Holds everything against what the accounts say now.
    pub(super) fn judge(&self, found: &Readings) -> Verdict {
        let mut verdict = Verdict {
            accounts: found.len() as u64,
            transfers: self.counts.sent,
            acknowledged: self.counts.acknowledged,
            longest_gap: self.counts.longest_gap,
            ..Verdict::default()
        };
        let named = [self.out.keys(), self.into.keys()].into_iter().flatten();
        let accounts: BTreeSet<&u64> = self.base.keys().chain(found.keys()).chain(named).collect();
        for account in accounts {
            let (base, now) = (self.base.get(account), found.get(account));
            let (base, now) = (
                base.cloned().unwrap_or_default(),
                now.cloned().unwrap_or_default(),
            );
            let mut is_right = now.balance
                == base.balance + now.into.amount - base.into.amount - (now.out.amount - base.out.amount)
                && now.open == 0;
            let flows = [(&self.out, base.out, now.out), (&self.into, base.into, now.into)];
            for (said, base, now) in flows {
                let said = said.get(account).copied().unwrap_or_default();
                let there = now.transfers.saturating_sub(base.transfers);
                verdict.lost += said.transfers.saturating_sub(there);
                verdict.doubled += there.saturating_sub(said.transfers);
                is_right &= now.amount - base.amount == said.amount
                    && now.marks.wrapping_sub(base.marks) == said.marks;
            }
            verdict.wrong += u64::from(!is_right);
        }
        verdict.sum = found.values().map(|told| told.balance).sum();
        verdict
    }
}

impl Judged for Verdict {
    fn fault(&self) -> Option<String> {
        if self.lost > 0 || self.doubled > 0 || self.wrong > 0 || self.sum != 0 {
            return Some(format!(
                "{} transfers are lost, {} have counted twice, {} accounts are wrong, and all balances together are {}",
                self.lost, self.doubled, self.wrong, self.sum
            ));
        }
        self.stuck.clone()
    }

    fn json(&self) -> String {
        line(&[
            ("accounts", &self.accounts),
            ("transfers", &self.transfers),
            ("acknowledged", &self.acknowledged),
            ("resolved", &self.resolved),
            ("lost", &self.lost),
            ("doubled", &self.doubled),
            ("wrong", &self.wrong),
            ("kills", &self.kills),
            ("cuts", &self.cuts),
            ("stops", &self.stops),
            ("fallen", &self.fallen),
            ("refused", &self.refused),
            ("fenced", &self.fenced),
            ("resent", &self.resent),
            ("recovered", &self.recovered),
            ("sum", &self.sum),
            ("longest_gap_ms", &self.longest_gap.as_millis()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(number: u64, from: u64, to: u64, amount: i64) -> Transfer {
        Transfer {
            client: 7,
            number,
            from,
            to,
            amount,
        }
    }

    #[test]
    fn a_reading_counts_only_behind_one_with_nothing_on_its_way() {
        let calm = readings(&[transfer(1, 1, 2, 5)]);
        let mut busy = calm.clone();
        busy.entry(1).or_default().open = 3;
        let mut settling = Settling::default();
        let said = [&busy, &calm, &busy, &calm, &calm, &calm].map(|found| settling.look(found));
        assert_eq!(said, [Err(3), Ok(false), Err(3), Ok(false), Ok(true), Ok(true)]);
    }

    /// What accounts say that have these transfers.
    fn readings(all: &[Transfer]) -> Readings {
        let mut readings = Readings::new();
        for transfer in all {
            let from = readings.entry(transfer.from).or_default();
            from.balance -= transfer.amount;
            from.out.add(transfer);
            let to = readings.entry(transfer.to).or_default();
            to.balance += transfer.amount;
            to.into.add(transfer);
        }
        readings
    }

    fn judged(ledger: &Ledger, now: &Readings) -> (u64, u64, u64) {
        let verdict = ledger.judge(now);
        assert_eq!(
            verdict.fault().is_none(),
            (verdict.lost, verdict.doubled, verdict.wrong) == (0, 0, 0)
        );
        (verdict.lost, verdict.doubled, verdict.wrong)
    }

    #[test]
    fn every_transfer_is_to_be_there_once_and_nothing_else() {
        let before = transfer(1, 1, 2, 50);
        let all = [transfer(2, 1, 2, 5), transfer(3, 2, 3, 7), transfer(4, 3, 1, 7)];
        let mut ledger = Ledger::default();
        ledger.begin(readings(&[before]));
        for one in all {
            ledger.sent(one);
            ledger.acknowledged(Instant::now(), one.client, one.number);
        }
        ledger.acknowledged(Instant::now(), 7, 4);
        assert_eq!(
            (
                ledger.counts.sent,
                ledger.counts.acknowledged,
                ledger.open().len()
            ),
            (3, 3, 0)
        );
        let with = |some: &[Transfer]| readings(&[&[before], some].concat());
        assert_eq!(judged(&ledger, &with(&all)), (0, 0, 0));
        assert_eq!(judged(&ledger, &with(&all[..2])), (2, 0, 2), "here and there");
        assert_eq!(
            judged(&ledger, &with(&[all[0], all[1], all[2], all[2]])),
            (0, 2, 2)
        );
        assert_eq!(judged(&ledger, &Readings::new()).0, 6);
        // One is lost and another one doubled, of the same amount.
        let swapped = [all[0], all[1], Transfer { number: 9, ..all[2] }];
        assert_eq!(judged(&ledger, &with(&swapped)), (0, 0, 2));
        let mut open = with(&all);
        open.get_mut(&1).unwrap().open = 1;
        assert_eq!(judged(&ledger, &open), (0, 0, 1));
    }
}
