//! Keys `placement_initial`, `placement_more`, `placement_joins`, `placement_balance`,
//! `placement_evacuation`, `instance_count` and `scale`: how many instances paths have, and where. Spec:
//! sharding 5.2, 5.3.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_core::paths::state::instances::{FaultTolerance, InstanceDemand, instances as count_instances};
use quorate_core::paths::state::scale::{COOL_DOWN, LoadWindows, Scaling};
use quorate_core::planner::{
    NodeStanding, Ordinals, PlanLimits, PlanNode, PlanSituation, PlanSlot, PlanUnit, PlanningGate, SlotStage,
    plan,
};
use quorate_core::time::Instant;
use serde_json::{Value, json};

use super::json::{Differences, IllFormed, Node, compare};

/// Nodes of a path, slot by slot.
type Table = BTreeMap<String, Vec<String>>;
/// A change as the file writes it.
type Moved = (String, Option<String>, Option<String>);
/// A situation of paths and nodes by their names.
type Named = PlanSituation<String, String>;

/// Most nodes of a case: far beyond the files', so that an odd one takes no time.
const NODES_MAX: usize = 2_000;
/// Longest time since a change.
const SECONDS_MAX: u64 = 1_000_000_000;

/// The greatest denominator that a share is looked for with.
const WHOLE_MAX: u16 = 1_000;
/// How far a share may be from its fraction.
const SHARE_TOLERANCE: f64 = 1e-9;

pub(super) fn initial(case: Node<'_>) -> Result<Differences, IllFormed> {
    let mut placing = Placing::on(names(&case.get("nodes")?)?, Table::new());
    let mut slots = Table::new();
    for path in case.get("paths")?.items()? {
        let [name, count] = path.tuple()?;
        let placed = placing.place(name.text()?, number(&count)?);
        if slots.insert(name.text()?.to_owned(), placed).is_some() {
            return Err(path.refuse("a path appears twice"));
        }
    }
    let ordinals = ordinals_of(&slots, &Ordinals::new(placing.nodes.clone()));
    let mut out = Differences::new();
    check(&mut out, &case, "slots", json!(slots))?;
    check(&mut out, &case, "ordinals", ordinals)?;
    check(&mut out, &case, "loads", loads(&placing.nodes, &slots))?;
    check(&mut out, &case, "cursor", json!(placing.cursor()))?;
    Ok(out)
}

pub(super) fn more(case: Node<'_>) -> Result<Differences, IllFormed> {
    let nodes = names(&case.get("nodes")?)?;
    let table = table_on(&case.get("table")?, &nodes)?;
    let path = case.get("path")?.text()?;
    let before = table.get(path).map_or(0, Vec::len);
    let mut placing = Placing::on(nodes, table);
    for change in case.get("pending")?.items()? {
        let [path, from, to] = change.tuple()?;
        placing.begin([path.text()?, from.text()?, to.text()?], &change)?;
    }
    let cursor = case.get("cursor")?;
    let at = usize::from(number(&cursor)?);
    if at >= placing.nodes.len() {
        return Err(cursor.refuse("there is no such node"));
    }
    placing.situation.placed_last = at.checked_sub(1).map(|last| placing.nodes[last].clone());
    let count = usize::from(number(&case.get("n")?)?) + before;
    let count = u16::try_from(count).map_err(|_| case.refuse("too many slots"))?;
    let slots = placing.place(path, count);
    let mut out = Differences::new();
    check(&mut out, &case, "slots", json!(slots))?;
    check(&mut out, &case, "next_cursor", json!(placing.cursor()))?;
    Ok(out)
}

pub(super) fn joins(case: Node<'_>) -> Result<Differences, IllFormed> {
    let nodes = names(&case.get("nodes")?)?;
    let table = table_on(&case.get("table")?, &nodes)?;
    let mut all = nodes.clone();
    for joined in case.get("joined")?.items()? {
        let name = joined.text()?.to_owned();
        if all.contains(&name) {
            return Err(joined.refuse("it is a node already"));
        }
        all.push(name);
    }
    let (before, after) = (Ordinals::new(nodes), Ordinals::new(all.clone()));
    let mut out = Differences::new();
    check(&mut out, &case, "ordinal_map", json!(before.moved(&after)))?;
    check(&mut out, &case, "new_ordinals", json!(after.joined(&before)))?;
    check(&mut out, &case, "ordinals_before", ordinals_of(&table, &before))?;
    check(&mut out, &case, "ordinals_after", ordinals_of(&table, &after))?;
    let (changes, _) = carried_out(Placing::on(all, table).situation, PlanningGate::Needed);
    check(&mut out, &case, "changes", json!(changes))?;
    Ok(out)
}

pub(super) fn balance(case: Node<'_>) -> Result<Differences, IllFormed> {
    let nodes = names(&case.get("nodes")?)?;
    let table = table_on(&case.get("table")?, &nodes)?;
    let (changes, after) = carried_out(Placing::on(nodes.clone(), table).situation, PlanningGate::Open);
    let mut out = Differences::new();
    check(&mut out, &case, "changes", json!(changes))?;
    check(&mut out, &case, "table_after", json!(after))?;
    check(&mut out, &case, "loads", loads(&nodes, &after))?;
    Ok(out)
}

pub(super) fn evacuation(case: Node<'_>) -> Result<Differences, IllFormed> {
    let nodes = names(&case.get("nodes")?)?;
    let table = table_on(&case.get("table")?, &nodes)?;
    let mut situation = Placing::on(nodes, table).situation;
    let leaving = case.get("leaving")?;
    let name = leaving.text()?;
    let node = situation.nodes.iter_mut().find(|node| node.node == name);
    node.ok_or_else(|| leaving.refuse("it is no node"))?.standing = NodeStanding::Leaving;
    let (changes, after) = carried_out(situation, PlanningGate::Needed);
    let mut out = Differences::new();
    check(&mut out, &case, "changes", json!(changes))?;
    check(&mut out, &case, "table_after", json!(after))?;
    Ok(out)
}

pub(super) fn instance_count(case: Node<'_>) -> Result<Differences, IllFormed> {
    let demand = InstanceDemand {
        scale_target: number(&case.get("scale_target")?)?,
        min: number(&case.get("hint_min")?)?,
        max: case.get("hint_max")?.non_null().map(number).transpose()?,
    };
    let tolerance = tolerance(&case.get("f")?)?;
    let found = count_instances(number(&case.get("eligible")?)?, &tolerance, demand);
    let mut out = Differences::new();
    check(&mut out, &case, "f_of_n", json!(found.wanted_tolerance))?;
    check(&mut out, &case, "clamped", json!(found.is_clamped()))?;
    check(&mut out, &case, "instances", json!(found.instances))?;
    Ok(out)
}

pub(super) fn scale(case: Node<'_>) -> Result<Differences, IllFormed> {
    let mut windows = LoadWindows::default();
    let changed = Instant::from_millis(1_000_000);
    let mut now = changed;
    if let Some(since) = case.get("since_last_change_s")?.non_null() {
        let time = Duration::try_from_secs_f64(since.float()?).ok();
        let time = time.filter(|time| time.as_secs() < SECONDS_MAX);
        windows.on_change(changed, COOL_DOWN);
        now = changed + time.ok_or_else(|| since.refuse("expected a time"))?;
    }
    for load in case.get("windows")?.items()? {
        windows.on_window(now, load.float()?);
    }
    let [n, min, max] = ["n", "min", "max"].map(|name| number(&case.get(name)?));
    let decision = match windows.decide(n?, min?, max?) {
        Scaling::More => 1,
        Scaling::Stay => 0,
        Scaling::Fewer => -1,
    };
    let mut out = Differences::new();
    check(&mut out, &case, "decision", json!(decision))?;
    Ok(out)
}

/// Notes a difference unless the case expects what was found.
fn check(out: &mut Differences, case: &Node<'_>, name: &str, found: Value) -> Result<(), IllFormed> {
    compare(out, name, case.expected(name)?.value(), &found);
    Ok(())
}

/// Nodes on which paths are placed one after the other.
struct Placing {
    nodes: Vec<String>,
    situation: Named,
}

impl Placing {
    fn on(nodes: Vec<String>, table: Table) -> Self {
        let units = table.into_iter().map(|(path, hosts)| {
            let slots = (0..).zip(hosts).map(|(slot, host)| PlanSlot::settled(slot, host));
            let slots: Vec<_> = slots.collect();
            PlanUnit::new(path, slots.len() as u16, slots)
        });
        Self {
            situation: PlanSituation {
                units: units.collect(),
                nodes: nodes.iter().cloned().map(PlanNode::open).collect(),
                placed_last: None,
                commanded: Vec::new(),
                by_load: Vec::new(),
            },
            nodes,
        }
    }

    /// A slot of the path is on its way.
    fn begin(&mut self, [path, from, to]: [&str; 3], change: &Node<'_>) -> Result<(), IllFormed> {
        let units = &mut self.situation.units;
        let mut slots = units
            .iter_mut()
            .filter(|unit| unit.unit == path)
            .flat_map(|unit| &mut unit.slots);
        let slot = slots.find(|slot| slot.host.as_deref() == Some(from) && slot.stage == SlotStage::Settled);
        let slot = slot.ok_or_else(|| change.refuse("no such slot"))?;
        if !self.nodes.iter().any(|node| node == to) {
            return Err(change.refuse("there is no such node"));
        }
        slot.stage = SlotStage::Moving(Some(to.to_owned()));
        Ok(())
    }

    /// Gives a path so many slots; who got the new ones.
    fn place(&mut self, path: &str, count: u16) -> Vec<String> {
        let units = &mut self.situation.units;
        let at = units
            .iter()
            .position(|unit| unit.unit == path)
            .unwrap_or_else(|| {
                units.push(PlanUnit::new(path.to_owned(), 0, Vec::new()));
                units.len() - 1
            });
        units[at].count = count;
        let planned = plan(&self.situation, PlanningGate::Needed, PlanLimits::NONE);
        let mut placed = Vec::new();
        for change in planned.changes {
            let to = change.to.unwrap_or_default();
            let unit = &mut self.situation.units[at];
            unit.slots.push(PlanSlot::settled(change.slot, to.clone()));
            placed.push(to);
        }
        self.situation.placed_last = planned.placed_last;
        placed
    }

    /// The position of the node with which the next slot begins.
    fn cursor(&self) -> u64 {
        let last = self.situation.placed_last.as_ref();
        let at = last.map_or(0, |last| self.nodes.partition_point(|node| node <= last));
        (at % self.nodes.len()) as u64
    }
}

/// What is planned, without limits, and the table afterwards.
fn carried_out(situation: Named, gate: PlanningGate) -> (Vec<Moved>, Table) {
    let planned = plan(&situation, gate, PlanLimits::NONE).changes;
    let mut table = Table::new();
    for unit in situation.units {
        let hosts = unit.slots.into_iter().map(|slot| {
            let mut changes = planned.iter();
            let change = changes.find(|change| change.unit == unit.unit && change.slot == slot.slot);
            change.map_or(slot.host, |change| change.to.clone())
        });
        table.insert(unit.unit.clone(), hosts.flatten().collect());
    }
    let moved = planned
        .into_iter()
        .map(|change| (change.unit, change.from, change.to));
    (moved.collect(), table)
}

fn tolerance(node: &Node<'_>) -> Result<FaultTolerance, IllFormed> {
    let kind = node.get("kind")?;
    match kind.text()? {
        "const" => Ok(FaultTolerance::Constant(number(&node.get("value")?)?)),
        "share" => {
            let value = node.get("share")?.float()?;
            let part = |whole: u16| value * f64::from(whole);
            let is_exact = |whole: &u16| (part(*whole) - part(*whole).round()).abs() < SHARE_TOLERANCE;
            let whole = (1..=WHOLE_MAX)
                .filter(|_| (0.0..=1.0).contains(&value))
                .find(is_exact);
            let whole = whole.ok_or_else(|| node.refuse("the share is no fraction"))?;
            // At most `whole`, because the share is at most 1.
            let share = FaultTolerance::share(part(whole).round() as u16, whole);
            share.map_err(|error| node.refuse(error.to_string()))
        }
        "table" => {
            let mut entries = Vec::new();
            for entry in node.get("table")?.items()? {
                let [nodes, tolerance] = entry.tuple()?;
                entries.push((number(&nodes)?, number(&tolerance)?));
            }
            FaultTolerance::table(entries).map_err(|error| node.refuse(error.to_string()))
        }
        other => Err(kind.refuse(format!("no kind of tolerance: `{other}`"))),
    }
}

fn ordinals_of(table: &Table, ordinals: &Ordinals<String>) -> Value {
    let row = |(path, nodes): (&String, &Vec<String>)| {
        let ordinals = nodes.iter().map(|node| ordinals.of(node));
        (path.clone(), json!(ordinals.collect::<Vec<_>>()))
    };
    table.iter().map(row).collect()
}

fn loads(nodes: &[String], table: &Table) -> Value {
    let load = |node| table.values().flatten().filter(|host| *host == node).count();
    nodes.iter().map(load).collect()
}

/// Sorted names of nodes, at least one.
fn names(list: &Node<'_>) -> Result<Vec<String>, IllFormed> {
    let names = texts(list)?;
    if names.is_empty() || names.len() > NODES_MAX {
        return Err(list.refuse(format!("expected 1 to {NODES_MAX} nodes")));
    }
    if !names.is_sorted_by(|one, other| one < other) {
        return Err(list.refuse("expected sorted nodes"));
    }
    Ok(names)
}

/// A table whose slots are on these nodes, those of a path on different ones.
fn table_on(object: &Node<'_>, nodes: &[String]) -> Result<Table, IllFormed> {
    let row = |(path, list): (&str, Node<'_>)| Ok((path.to_owned(), texts(&list)?));
    let table: Table = object.entries()?.into_iter().map(row).collect::<Result<_, _>>()?;
    let known: BTreeSet<&String> = nodes.iter().collect();
    for (path, hosts) in &table {
        let hosting: BTreeSet<&String> = hosts.iter().collect();
        if hosting.len() < hosts.len() || !hosting.is_subset(&known) {
            return Err(object.refuse(format!("`{path}` is twice on a node, or on none")));
        }
    }
    Ok(table)
}

fn texts(list: &Node<'_>) -> Result<Vec<String>, IllFormed> {
    let text = |item: &Node<'_>| Ok(item.text()?.to_owned());
    list.items()?.iter().map(text).collect()
}

fn number(node: &Node<'_>) -> Result<u16, IllFormed> {
    let number = u16::try_from(node.natural()?).ok();
    number.ok_or_else(|| node.refuse("too large"))
}
