//! A gossip state as `docs/WIRE.md` 5.2 writes it, column by column, for rows that spoil one of them.

use quorate_core::ident::UniqueAddress;

use super::craft::text;

pub(super) struct Row {
    pub(super) host: u16,
    pub(super) port: u16,
    pub(super) uid: u64,
    pub(super) status: u8,
}

/// The columns. Fields that are `Some` are written instead of the true count.
pub(super) struct StateColumns {
    pub(super) hosts: Vec<String>,
    pub(super) roles: Vec<String>,
    pub(super) role_sets: Vec<Vec<u16>>,
    pub(super) members: Vec<Row>,
    pub(super) seen: Vec<u8>,
    pub(super) tombstones: Vec<(u16, u16, u64)>,
    pub(super) clock: Vec<(u16, u64)>,
    pub(super) members_claimed: Option<u16>,
    pub(super) records_claimed: Option<u32>,
}

impl StateColumns {
    /// A legal state of these nodes, all Up, in rising order.
    pub(super) fn of(nodes: &[&UniqueAddress]) -> Self {
        let mut nodes = nodes.to_vec();
        nodes.sort();
        let host = |node: &UniqueAddress| node.address().host().to_owned();
        let mut hosts: Vec<String> = nodes.iter().map(|node| host(node)).collect();
        hosts.dedup();
        let place = |node: &UniqueAddress| hosts.iter().position(|known| *known == host(node));
        let row = |node: &&UniqueAddress| Row {
            host: place(node).map_or(0, |at| at as u16),
            port: node.address().port(),
            uid: node.uid(),
            status: 1,
        };
        Self {
            members: nodes.iter().map(row).collect(),
            hosts,
            roles: Vec::new(),
            role_sets: vec![Vec::new()],
            seen: vec![0],
            tombstones: Vec::new(),
            clock: Vec::new(),
            members_claimed: None,
            records_claimed: None,
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = vec![1, 0];
        let count = |out: &mut Vec<u8>, count: usize| out.extend((count as u16).to_le_bytes());
        count(&mut out, self.hosts.len());
        count(&mut out, self.roles.len());
        count(&mut out, self.role_sets.len());
        count(&mut out, 1);
        count(
            &mut out,
            self.members_claimed.map_or(self.members.len(), usize::from),
        );
        count(&mut out, self.tombstones.len());
        count(&mut out, 0);
        count(&mut out, self.clock.len());
        // Nobody is gone, and there never was a path.
        count(&mut out, 0);
        out.extend(0_u32.to_le_bytes());
        out.extend(self.records_claimed.unwrap_or(0).to_le_bytes());
        texts(&mut out, &self.hosts);
        texts(&mut out, &self.roles);
        out.extend(self.role_sets.iter().map(|set| set.len() as u8));
        out.extend(
            self.role_sets
                .iter()
                .flatten()
                .flat_map(|role| role.to_le_bytes()),
        );
        text(&mut out, b"0.0.0");
        self.members(&mut out);
        out.extend(&self.seen);
        out.extend(self.tombstones.iter().flat_map(|(host, _, _)| host.to_le_bytes()));
        out.extend(self.tombstones.iter().flat_map(|(_, port, _)| port.to_le_bytes()));
        out.extend(self.tombstones.iter().flat_map(|(_, _, uid)| uid.to_le_bytes()));
        out.extend(self.clock.iter().flat_map(|(member, _)| member.to_le_bytes()));
        out.extend(self.clock.iter().flat_map(|(_, counter)| counter.to_le_bytes()));
        out
    }

    fn members(&self, out: &mut Vec<u8>) {
        let rows = &self.members;
        out.extend(rows.iter().flat_map(|row| row.host.to_le_bytes()));
        out.extend(rows.iter().flat_map(|row| row.port.to_le_bytes()));
        out.extend(rows.iter().flat_map(|row| row.uid.to_le_bytes()));
        out.extend(rows.iter().map(|row| row.status));
        out.extend((1_u32..).take(rows.len()).flat_map(u32::to_le_bytes));
        out.extend(rows.iter().flat_map(|_| [0; 2]));
        out.extend(rows.iter().flat_map(|_| [0; 2]));
    }
}

fn texts(out: &mut Vec<u8>, texts: &[String]) {
    out.extend(texts.iter().map(|text| text.len() as u8));
    for text in texts {
        out.extend(text.as_bytes());
    }
}
