//! What managers, proxies and voters of singletons say, as bytes. Unstable: these layouts may change with any
//! version until they are declared stable. Spec: sharding 2.2, `docs/WIRE.md` 4.9.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::declare::{by_hand, choice, messages, number_as, record};
use super::entity::{put_ticket, read_ticket, take_payload};
use crate::ident::UniqueAddress;
use crate::message::{AskReply, SingletonMsg as Msg};
use crate::singleton::protocol::{InstanceMessage, SingletonBody, SingletonStatement};
use crate::singleton::state::SingletonId;
use crate::token::Token;

number_as! {
    SingletonId: u64, "u64", SingletonId::raw, SingletonId::from_raw;
}

record! { SingletonStatement as "singleton" { singleton: SingletonId, epoch: u64, to: UniqueAddress, body: SingletonBody } }

choice! {
    SingletonBody as "singleton statement" {
        1 HandOverToMe,
        2 HandOverInProgress,
        3 HandOverDone { term: u64 },
        4 TakeOverFromMe,
        5 Identify,
        6 Identified { token: Token },
        7 Gone { token: Token },
        8 Claim { term: u64 },
        9 Promised { term: u64 },
        10 Refused { held: u64 },
    }
}

messages! {
    Msg {
        SINGLETON "Singleton" Statement(statement: SingletonStatement),
        SINGLETON_MESSAGE "SingletonMessage" Delivery(delivery: InstanceMessage),
        SINGLETON_REPLY "SingletonReply" Reply(reply: AskReply),
    }
}

by_hand! {
    InstanceMessage: InstanceMessage, "delivery", 25, |delivery, what, out| {
        SingletonId::put(&delivery.singleton, what, out)?;
        Token::put(&delivery.token, what, out)?;
        put_ticket(delivery.ask.as_ref(), out)?;
        out.extend_from_slice(&delivery.payload);
        Ok(())
    }, |reader, what| Ok(InstanceMessage {
        singleton: SingletonId::read(reader, what)?,
        token: Token::read(reader, what)?,
        ask: read_ticket(reader)?,
        payload: take_payload(reader),
    });
}
