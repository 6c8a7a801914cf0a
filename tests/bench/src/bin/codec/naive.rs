//! The same state as plain serde structs, written by postcard: what a codec costs that nobody thought about.

use quorate_core::membership::gossip::Gossip;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Node {
    host: String,
    port: u16,
    uid: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Member {
    node: Node,
    status: u8,
    up_number: u32,
    roles: Vec<String>,
    app_version: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    observer: Node,
    subject: Node,
    status: u8,
    version: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct State {
    members: Vec<Member>,
    /// Positions of the members that have seen the state.
    seen: Vec<u32>,
    reachability: Vec<Record>,
    versions: Vec<(Node, u64)>,
    clock: Vec<(Node, u64)>,
    tombstones: Vec<Node>,
}

fn node(node: &quorate_core::ident::UniqueAddress) -> Node {
    Node {
        host: node.address().host().to_owned(),
        port: node.address().port(),
        uid: node.uid(),
    }
}

pub(crate) fn copy(gossip: &Gossip) -> State {
    State {
        members: gossip
            .members()
            .iter()
            .map(|member| Member {
                node: node(&member.node),
                status: member.status as u8,
                up_number: member.up_number.get(),
                roles: member
                    .roles
                    .user_roles()
                    .map(|role| role.as_str().to_owned())
                    .collect(),
                app_version: member.app_version.as_str().to_owned(),
            })
            .collect(),
        seen: gossip.seen_set().iter().map(|at| at as u32).collect(),
        reachability: gossip
            .reachability()
            .records()
            .iter()
            .map(|record| Record {
                observer: node(&record.observer),
                subject: node(&record.subject),
                status: record.status as u8,
                version: record.version,
            })
            .collect(),
        versions: gossip
            .reachability()
            .versions()
            .iter()
            .map(|entry| (node(&entry.0), entry.1))
            .collect(),
        clock: gossip
            .version()
            .entries()
            .iter()
            .map(|entry| (node(&entry.0), entry.1))
            .collect(),
        tombstones: gossip.tombstones().iter().map(node).collect(),
    }
}
