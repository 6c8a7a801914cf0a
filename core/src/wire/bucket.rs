//! The settings of a bucket, as bytes: in messages and in stores. Spec: sharding 10.11, `docs/WIRE.md` 4.17.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::sync::Arc;

use super::declare::{Maybe, Shape, Text, by_hand, choice, codes, record};
use crate::bytes::WireError;
use crate::ident::Role;
use crate::kv::state::level::Level;
use crate::kv::state::settings::{BucketSettings, MERGE_NAME_BYTES_MAX};

/// [`BucketSettings`] as they are written: what a strict bucket is did not change when there came others.
pub(super) struct WrittenSettings {
    copies: u8,
    read_least: Level,
    write_least: Level,
    ranges: u16,
    merge: Option<Arc<str>>,
    kept: BucketKept,
    role: Option<Role>,
}

/// Where owners keep a bucket, and whether others stand in for them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BucketKept {
    Memory,
    Durable,
    SloppyMemory,
    SloppyDurable,
}

record! {
    WrittenSettings as "bucket settings" {
        copies: u8,
        read_least: Level,
        write_least: Level,
        ranges: u16,
        merge: Maybe<Text<MERGE_NAME_BYTES_MAX, 1>>,
        kept: BucketKept,
        role: Maybe<Role>,
    }
}

codes! { BucketKept as "bucket kept" { 0 Memory, 1 Durable, 2 SloppyMemory, 3 SloppyDurable } }

impl WrittenSettings {
    fn of(settings: &BucketSettings) -> Self {
        let settings = settings.clone();
        Self {
            copies: settings.copies,
            read_least: settings.read_least,
            write_least: settings.write_least,
            ranges: settings.ranges,
            merge: settings.merge,
            kept: match (settings.is_sloppy, settings.is_durable) {
                (false, false) => BucketKept::Memory,
                (false, true) => BucketKept::Durable,
                (true, false) => BucketKept::SloppyMemory,
                (true, true) => BucketKept::SloppyDurable,
            },
            role: settings.role,
        }
    }

    fn settings(self) -> BucketSettings {
        BucketSettings {
            copies: self.copies,
            read_least: self.read_least,
            write_least: self.write_least,
            ranges: self.ranges,
            merge: self.merge,
            is_durable: matches!(self.kept, BucketKept::Durable | BucketKept::SloppyDurable),
            is_sloppy: matches!(self.kept, BucketKept::SloppyMemory | BucketKept::SloppyDurable),
            role: self.role,
        }
    }
}

choice! {
    Level as "level" {
        1 One,
        2 Quorum,
        3 All,
        4 Replicas(count: u16),
    }
}

by_hand! {
    BucketSettings: BucketSettings, "bucket settings", <WrittenSettings as Shape>::BYTES_MIN,
        |settings, what, out| match settings.check() {
            Ok(_) => WrittenSettings::put(&WrittenSettings::of(settings), what, out),
            Err(_) => Err(WireError::Unencodable { what: "bucket settings" }),
        }, |reader, what| {
            let settings = WrittenSettings::read(reader, what)?.settings();
            let is_legal = settings.check().is_ok();
            is_legal.then_some(settings).ok_or(WireError::Malformed { what: "bucket settings" })
        };
}
