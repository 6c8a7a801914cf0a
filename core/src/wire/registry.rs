//! What nodes and the oldest member say about kinds and singletons, as bytes. Unstable as all of sharding. Spec: sharding 10.11,
//! `docs/WIRE.md` 4.7.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::declare::Form;
use crate::bytes::WireError;
use crate::bytes::{Reader, put_text};
use crate::config::Limits;
use crate::ident::Role;
use crate::sharding::protocol::registry::{
    Announced, Fields, REGISTRATIONS_PER_NODE_MAX, RegistrationId, RegistryMsg, Verdict,
};
use crate::sharding::state::fields::{Keeping, KindFields, StoreMode};
use crate::sharding::state::ids::{KindId, Term};
use crate::sharding::state::remember::RememberStore;
use crate::singleton::state::SingletonId;
use crate::singleton::state::fields::{Hosting, SingletonFields};

const ANNOUNCE: u8 = 1;
const VERDICTS: u8 = 2;
const QUERY: u8 = 3;

const ACCEPTED: u8 = 1;
const REFUSED: u8 = 2;
const TOO_MANY: u8 = 3;

const KIND: u8 = 1;
const SINGLETON: u8 = 2;

const FLAG_ACCEPTED: u8 = 1;
const FLAG_RUNNING: u8 = 2;

/// Of a kind and of a singleton.
const FLAG_HOSTS: u8 = 1;
const FLAG_LEASE: u8 = 2;
/// Of a singleton.
const FLAG_DURABLE: u8 = 4;

const REMEMBERS_NOBODY: u8 = 0;
const IN_DATA: u8 = 1;
const IN_EVENTS: u8 = 2;

pub(super) fn put(message: &RegistryMsg, limits: &Limits, out: &mut Vec<u8>) -> Result<(), WireError> {
    match message {
        RegistryMsg::Announce { round, all } => {
            out.push(ANNOUNCE);
            out.extend_from_slice(&round.to_le_bytes());
            put_count(all.len(), out)?;
            all.iter().try_for_each(|said| put_announced(said, out))
        }
        RegistryMsg::Verdicts {
            term,
            round,
            verdicts,
        } => {
            out.push(VERDICTS);
            Term::put(term, "", limits, out)?;
            out.extend_from_slice(&round.to_le_bytes());
            put_count(verdicts.len(), out)?;
            verdicts.iter().try_for_each(|(id, verdict)| {
                put_id(*id, out);
                put_verdict(verdict, out)
            })
        }
        RegistryMsg::Query { term } => {
            out.push(QUERY);
            Term::put(term, "", limits, out)
        }
    }
}

pub(super) fn read(reader: &mut Reader<'_>) -> Result<RegistryMsg, WireError> {
    match reader.u8()? {
        ANNOUNCE => {
            let round = reader.u32()?;
            let count = read_count(reader)?;
            let all = (0..count).map(|_| read_announced(reader));
            let all = all.collect::<Result<Vec<_>, _>>()?;
            Ok(RegistryMsg::Announce { round, all })
        }
        VERDICTS => {
            let term = Term::read(reader, "")?;
            let round = reader.u32()?;
            let count = read_count(reader)?;
            let verdicts = (0..count).map(|_| read_judged(reader));
            let verdicts = verdicts.collect::<Result<Vec<_>, _>>()?;
            Ok(RegistryMsg::Verdicts {
                term,
                round,
                verdicts,
            })
        }
        QUERY => Ok(RegistryMsg::Query {
            term: Term::read(reader, "")?,
        }),
        _ => Err(WireError::Malformed {
            what: "registry message",
        }),
    }
}

/// A kind's fields: name, role (empty for none), shards, extractor, flags, what is kept.
pub(super) fn put_fields(fields: &KindFields, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_text(out, &fields.name, "kind")?;
    put_text(out, fields.role.as_ref().map_or("", Role::as_str), "role")?;
    out.extend_from_slice(&fields.shards.to_le_bytes());
    put_text(out, &fields.extractor, "extractor")?;
    let Some(keeping) = fields.keeping else {
        out.push(0);
        return Ok(());
    };
    out.push(FLAG_HOSTS | if keeping.lease { FLAG_LEASE } else { 0 });
    out.push(match keeping.store {
        StoreMode::Memory => 0,
        StoreMode::DistributedData => 1,
        StoreMode::Events => 2,
        StoreMode::Other { code: 0..=2 } => return Err(WireError::Unencodable { what: "store mode" }),
        StoreMode::Other { code } => code,
    });
    out.push(match keeping.remember_entities {
        None => REMEMBERS_NOBODY,
        Some(RememberStore::Data) => IN_DATA,
        Some(RememberStore::Events) => IN_EVENTS,
    });
    Ok(())
}

fn read_keeping(lease: bool, reader: &mut Reader<'_>) -> Result<Keeping, WireError> {
    let store = match reader.u8()? {
        0 => StoreMode::Memory,
        1 => StoreMode::DistributedData,
        2 => StoreMode::Events,
        code => StoreMode::Other { code },
    };
    let remember_entities = match reader.u8()? {
        REMEMBERS_NOBODY => None,
        IN_DATA => Some(RememberStore::Data),
        IN_EVENTS => Some(RememberStore::Events),
        _ => return Err(WireError::Malformed { what: "remembers" }),
    };
    Ok(Keeping {
        store,
        remember_entities,
        lease,
    })
}

pub(super) fn read_fields(reader: &mut Reader<'_>) -> Result<KindFields, WireError> {
    let name = Arc::from(reader.text("kind")?);
    let role = read_role(reader)?;
    let shards = reader.u32()?;
    let extractor = Arc::from(reader.text("extractor")?);
    let keeping = match reader.u8()? {
        0 => None,
        flags if flags & FLAG_HOSTS != 0 && flags & !(FLAG_HOSTS | FLAG_LEASE) == 0 => {
            Some(read_keeping(flags & FLAG_LEASE != 0, reader)?)
        }
        _ => return Err(WireError::Malformed { what: "kind flags" }),
    };
    let fields = KindFields {
        name,
        role,
        shards,
        extractor,
        keeping,
    };
    if fields.is_legal() {
        Ok(fields)
    } else {
        Err(WireError::LimitExceeded { what: "kind" })
    }
}

/// Which of the two it is.
fn put_id(id: RegistrationId, out: &mut Vec<u8>) {
    let (sort, raw) = match id {
        RegistrationId::Kind(kind) => (KIND, kind.raw()),
        RegistrationId::Singleton(singleton) => (SINGLETON, singleton.raw()),
    };
    out.push(sort);
    out.extend_from_slice(&raw.to_le_bytes());
}

fn put_either(fields: &Fields, out: &mut Vec<u8>) -> Result<(), WireError> {
    match fields {
        Fields::Kind(fields) => put_fields(fields, out),
        Fields::Singleton(fields) => put_singleton(fields, out),
    }
}

fn read_either(sort: u8, reader: &mut Reader<'_>) -> Result<Fields, WireError> {
    match sort {
        KIND => Ok(Fields::Kind(read_fields(reader)?)),
        SINGLETON => Ok(Fields::Singleton(read_singleton(reader)?)),
        _ => Err(WireError::Malformed { what: "registration" }),
    }
}

/// A singleton's fields: name, role (empty for none), how it is hosted.
fn put_singleton(fields: &SingletonFields, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_text(out, &fields.name, "singleton")?;
    put_text(out, fields.role.as_ref().map_or("", Role::as_str), "role")?;
    out.push(fields.hosting.map_or(0, |hosting| {
        let lease = if hosting.lease { FLAG_LEASE } else { 0 };
        let durable = if hosting.durable { FLAG_DURABLE } else { 0 };
        FLAG_HOSTS | lease | durable
    }));
    Ok(())
}

fn read_singleton(reader: &mut Reader<'_>) -> Result<SingletonFields, WireError> {
    let name = Arc::from(reader.text("singleton")?);
    let role = read_role(reader)?;
    let hosting = match reader.u8()? {
        0 => None,
        flags if flags & FLAG_HOSTS != 0 && flags & !(FLAG_HOSTS | FLAG_LEASE | FLAG_DURABLE) == 0 => {
            Some(Hosting {
                lease: flags & FLAG_LEASE != 0,
                durable: flags & FLAG_DURABLE != 0,
            })
        }
        _ => {
            let what = "singleton flags";
            return Err(WireError::Malformed { what });
        }
    };
    let fields = SingletonFields { name, role, hosting };
    if fields.is_legal() {
        Ok(fields)
    } else {
        Err(WireError::LimitExceeded { what: "singleton" })
    }
}

fn read_role(reader: &mut Reader<'_>) -> Result<Option<Role>, WireError> {
    match reader.text("role")? {
        "" => Ok(None),
        role => match Role::from_wire(role) {
            Ok(role) => Ok(Some(role)),
            Err(_) => Err(WireError::Malformed { what: "role" }),
        },
    }
}

fn put_announced(said: &Announced, out: &mut Vec<u8>) -> Result<(), WireError> {
    out.push(match &said.fields {
        Fields::Kind(_) => KIND,
        Fields::Singleton(_) => SINGLETON,
    });
    put_either(&said.fields, out)?;
    let accepted = if said.accepted.is_some() { FLAG_ACCEPTED } else { 0 };
    out.push(accepted | if said.running { FLAG_RUNNING } else { 0 });
    if let Some(number) = said.accepted {
        out.extend_from_slice(&number.to_le_bytes());
    }
    Ok(())
}

fn read_announced(reader: &mut Reader<'_>) -> Result<Announced, WireError> {
    let sort = reader.u8()?;
    let fields = read_either(sort, reader)?;
    let flags = reader.u8()?;
    if flags & !(FLAG_ACCEPTED | FLAG_RUNNING) != 0 {
        let what = "announcement flags";
        return Err(WireError::Malformed { what });
    }
    let accepted = (flags & FLAG_ACCEPTED != 0).then(|| reader.u64()).transpose()?;
    Ok(Announced {
        fields,
        accepted,
        running: flags & FLAG_RUNNING != 0,
    })
}

fn put_verdict(verdict: &Verdict, out: &mut Vec<u8>) -> Result<(), WireError> {
    match verdict {
        Verdict::Accepted { number } => {
            out.push(ACCEPTED);
            out.extend_from_slice(&number.to_le_bytes());
            Ok(())
        }
        Verdict::Refused { standing } => {
            out.push(REFUSED);
            put_either(standing, out)
        }
        Verdict::TooMany => {
            out.push(TOO_MANY);
            Ok(())
        }
    }
}

fn read_judged(reader: &mut Reader<'_>) -> Result<(RegistrationId, Verdict), WireError> {
    let (sort, raw) = (reader.u8()?, reader.u64()?);
    let id = match sort {
        KIND => RegistrationId::Kind(KindId::from_raw(raw)),
        SINGLETON => RegistrationId::Singleton(SingletonId::from_raw(raw)),
        _ => return Err(WireError::Malformed { what: "registration" }),
    };
    let verdict = match reader.u8()? {
        ACCEPTED => Verdict::Accepted {
            number: reader.u64()?,
        },
        REFUSED => Verdict::Refused {
            standing: read_either(sort, reader)?,
        },
        TOO_MANY => Verdict::TooMany,
        _ => return Err(WireError::Malformed { what: "verdict" }),
    };
    Ok((id, verdict))
}

fn put_count(count: usize, out: &mut Vec<u8>) -> Result<(), WireError> {
    let what = "registrations";
    let count = u16::try_from(count).map_err(|_| WireError::LimitExceeded { what })?;
    if usize::from(count) > REGISTRATIONS_PER_NODE_MAX {
        return Err(WireError::LimitExceeded { what });
    }
    out.extend_from_slice(&count.to_le_bytes());
    Ok(())
}

fn read_count(reader: &mut Reader<'_>) -> Result<usize, WireError> {
    let count = usize::from(reader.u16()?);
    if count > REGISTRATIONS_PER_NODE_MAX {
        return Err(WireError::LimitExceeded {
            what: "registrations",
        });
    }
    Ok(count)
}
