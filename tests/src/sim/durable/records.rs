//! What is written into the logs of durable entities: events, and what becomes of a time that a clock keeps.
//! Bytes only. Spec: sharding 10.7.

use quorate_core::sharding::ids::EntityId;
use quorate_core::wakeups::{WakeUp, WakeUps, WakeupChange};

/// The first byte of an event, and of a state.
const FORM: u8 = 1;
/// The bit of the events that reminders are.
const REMINDER: u64 = 1 << 62;
/// The bit of the events that confirmations are.
const CONFIRMED: u64 = 1 << 60;
/// The bit of the events of those who only take a log over.
const USURPER: u64 = 1 << 61;
/// The first byte of a change of a clock, and of what one keeps.
const CHANGE_FORM: u8 = 4;
const CLOCK_FORM: u8 = 5;

/// What an entity keeps: that a message was handled, or a reminder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) number: u64,
    /// What the wall clock showed when a reminder was handled.
    pub(crate) at_ms: u64,
}

impl Event {
    pub(crate) const fn of_message(at: usize) -> Self {
        Self {
            number: at as u64,
            at_ms: 0,
        }
    }

    pub(crate) const fn of_reminder(serial: u64, at_ms: u64) -> Self {
        Self {
            number: REMINDER | serial,
            at_ms,
        }
    }

    pub(super) const fn of_confirmation(number: u64) -> Self {
        Self {
            number: CONFIRMED | number,
            at_ms: 0,
        }
    }

    /// What somebody wrote who has taken a log over.
    pub(super) const fn of_usurper(life: u64) -> Self {
        Self {
            number: USURPER | life,
            at_ms: 0,
        }
    }

    pub(crate) const fn is_reminder(&self) -> bool {
        self.number & REMINDER != 0
    }

    pub(crate) const fn serial(&self) -> u64 {
        self.number & !REMINDER
    }
}

/// Events as bytes.
pub(super) fn bytes_of(events: &[Event]) -> Vec<u8> {
    let mut bytes = vec![FORM];
    for event in events {
        bytes.extend(event.number.to_le_bytes());
        bytes.extend(event.at_ms.to_le_bytes());
    }
    bytes
}

/// The events that bytes are.
pub(super) fn events_of(bytes: &[u8]) -> Option<Vec<Event>> {
    let rest = bytes.strip_prefix(&[FORM])?;
    let (numbers, rest) = rest.as_chunks::<8>();
    let (pairs, odd) = numbers.as_chunks::<2>();
    let event = |[number, at_ms]: &[[u8; 8]; 2]| Event {
        number: u64::from_le_bytes(*number),
        at_ms: u64::from_le_bytes(*at_ms),
    };
    (rest.is_empty() && odd.is_empty()).then(|| pairs.iter().map(event).collect())
}

/// A change of a clock as bytes.
pub(super) fn bytes_of_change(WakeupChange { entity, at_ms }: &WakeupChange) -> Vec<u8> {
    let mut bytes = vec![CHANGE_FORM, u8::from(at_ms.is_some())];
    bytes.extend(at_ms.unwrap_or(0).to_le_bytes());
    bytes.extend(entity.as_bytes());
    bytes
}

/// The change that bytes are.
pub(super) fn change_of(bytes: &[u8]) -> Option<WakeupChange> {
    let (is_some, rest) = bytes.strip_prefix(&[CHANGE_FORM])?.split_first()?;
    let (at_ms, entity) = rest.split_first_chunk::<8>()?;
    Some(WakeupChange {
        entity: EntityId::new(entity),
        at_ms: (*is_some == 1).then_some(u64::from_le_bytes(*at_ms)),
    })
}

/// What a clock keeps as bytes.
pub(super) fn bytes_of_clock(clock: &WakeUps) -> Vec<u8> {
    let mut bytes = vec![CLOCK_FORM];
    bytes.extend(clock.version().to_le_bytes());
    for (entity, WakeUp { at_ms, version }) in clock.iter() {
        bytes.extend(at_ms.to_le_bytes());
        bytes.extend(version.to_le_bytes());
        bytes.push(u8::try_from(entity.as_bytes().len()).unwrap_or(u8::MAX));
        bytes.extend(entity.as_bytes());
    }
    bytes
}

/// What a clock keeps that bytes are.
pub(super) fn clock_of(bytes: &[u8]) -> Option<WakeUps> {
    let (version, mut rest) = bytes.strip_prefix(&[CLOCK_FORM])?.split_first_chunk::<8>()?;
    let mut all = Vec::new();
    while !rest.is_empty() {
        let (at_ms, behind) = rest.split_first_chunk::<8>()?;
        let (version, behind) = behind.split_first_chunk::<8>()?;
        let (len, behind) = behind.split_first()?;
        let (entity, behind) = behind.split_at_checked(usize::from(*len))?;
        let (at_ms, version) = (u64::from_le_bytes(*at_ms), u64::from_le_bytes(*version));
        all.push((EntityId::new(entity), WakeUp { at_ms, version }));
        rest = behind;
    }
    Some(WakeUps::restored(u64::from_le_bytes(*version), all))
}
