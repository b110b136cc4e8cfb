//! The functions that the host offers to guests: `longshore:policy`, by name.
//!
//! A column is a function without parameters that returns a list. It is lowered from the shared
//! array straight into the guest's memory. The guest pays fuel for every call and every byte.

mod cluster;

use std::collections::BTreeMap;
use std::sync::Arc;

use wasmtime::component::{ComponentNamedList, ComponentType, Lift, Linker, Lower};
use wasmtime::{Engine, StoreContextMut, StoreLimits, Trap};

use crate::bootstrap::{self, BootFacts, UserData};
use crate::cluster_columns::{ClusterColumns, ProposalColumns};
use crate::columns::Columns;
use crate::signals::{Signal, Signals};

/// The package whose interfaces the host offers, and its version.
pub(crate) const PACKAGE: &str = "longshore:policy";
pub(crate) const VERSION: &str = "0.1.0";

/// Fuel for a host call: about 110 ns of the host at 0.2 ns per unit of fuel.
const CALL_FUEL: u64 = 600;
/// Bytes copied for one unit of fuel: about 10 GB/s.
const BYTES_PER_FUEL: u64 = 2;
/// The longest log message kept; longer ones are cut.
const MAX_MESSAGE_BYTES: usize = 2 << 10;

/// How loud a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
pub enum Level {
    /// For authors of policies.
    #[component(name = "debug")]
    Debug,
    /// For the curious.
    #[component(name = "info")]
    Info,
    /// For operators, some day.
    #[component(name = "warn")]
    Warn,
    /// For operators, now.
    #[component(name = "error")]
    Error,
}

/// A message of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// How loud.
    pub level: Level,
    /// What it says; cut at 2 KiB.
    pub text: String,
}

/// The data of a store for its guest: the request, and the remaining allowance.
pub(crate) struct State {
    pub columns: Arc<Columns>,
    pub signals: Arc<Signals>,
    pub signals_generation: u32,
    pub cluster: Arc<ClusterColumns>,
    pub proposals: Arc<ProposalColumns>,
    pub node_pool: Arc<str>,
    pub boot: Arc<BootFacts>,
    pub built_in: Arc<UserData>,
    pub now: f64,
    pub limits: StoreLimits,
    pub host_calls: u32,
    pub log_room: usize,
    pub messages: Vec<Message>,
}

/// The guest made more host calls than it may.
#[derive(Debug, thiserror::Error)]
#[error("too many calls of host functions")]
pub(crate) struct TooManyCalls;

/// Takes the fuel for a host call that copies `bytes`.
pub(crate) fn charge(cx: &mut StoreContextMut<State>, bytes: usize) -> wasmtime::Result<()> {
    let state = cx.data_mut();
    state.host_calls = state.host_calls.checked_sub(1).ok_or(TooManyCalls)?;
    let cost = CALL_FUEL + bytes as u64 / BYTES_PER_FUEL;
    let left = cx.get_fuel()?.checked_sub(cost).ok_or(Trap::OutOfFuel)?;
    cx.set_fuel(left)
}

/// A value with a known size in the guest.
trait Bytes {
    fn bytes(&self) -> usize;
}

impl<T: Copy> Bytes for Arc<[T]> {
    fn bytes(&self) -> usize {
        std::mem::size_of_val::<[T]>(self)
    }
}

pub(crate) struct Interface<'a> {
    linker: wasmtime::component::LinkerInstance<'a, State>,
    names: &'a mut Vec<&'static str>,
}

impl Interface<'_> {
    pub(crate) fn function<P, R>(
        &mut self,
        name: &'static str,
        f: impl Fn(StoreContextMut<State>, P) -> wasmtime::Result<R> + Send + Sync + 'static,
    ) -> wasmtime::Result<()>
    where
        P: ComponentNamedList + Lift + 'static,
        R: ComponentNamedList + Lower + 'static,
    {
        self.names.push(name);
        self.linker.func_wrap(name, f)
    }

    pub(crate) fn scalar<R>(
        &mut self,
        name: &'static str,
        get: fn(&State) -> R,
    ) -> wasmtime::Result<()>
    where
        R: Send + Sync + 'static,
        (R,): ComponentNamedList + Lower,
    {
        self.function(name, move |mut cx, (): ()| {
            charge(&mut cx, 0)?;
            Ok((get(cx.data()),))
        })
    }

    fn column<T>(
        &mut self,
        name: &'static str,
        get: fn(&Columns) -> &Arc<[T]>,
    ) -> wasmtime::Result<()>
    where
        T: Copy + Send + Sync + 'static,
        (Arc<[T]>,): ComponentNamedList + Lower,
    {
        self.function(name, move |mut cx, (): ()| {
            let column = get(&cx.data().columns).clone();
            charge(&mut cx, column.bytes())?;
            Ok((column,))
        })
    }

    fn table(
        &mut self,
        name: &'static str,
        get: fn(&Columns) -> &Arc<[Arc<str>]>,
    ) -> wasmtime::Result<()> {
        self.function(name, move |mut cx, (): ()| {
            let table = get(&cx.data().columns).clone();
            charge(&mut cx, strings(&table))?;
            Ok((table,))
        })
    }
}

/// Bytes of a table of strings in a guest: each is a call of the guest's allocator beside its text.
fn strings(table: &[Arc<str>]) -> usize {
    table.iter().map(|text| text.len() + 8).sum()
}

/// Names of functions by interface.
pub(crate) type Offered = BTreeMap<&'static str, Vec<&'static str>>;

/// Everything that the host offers, ready to link, and by name.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<(Linker<State>, Offered)> {
    let mut linker = Linker::new(engine);
    let mut offered = Offered::new();
    for (name, define) in INTERFACES {
        let mut names = Vec::new();
        let instance = linker.instance(&format!("{PACKAGE}/{name}@{VERSION}"))?;
        define(&mut Interface {
            linker: instance,
            names: &mut names,
        })?;
        offered.insert(name, names);
    }
    Ok((linker, offered))
}

type Define = fn(&mut Interface) -> wasmtime::Result<()>;

const INTERFACES: [(&str, Define); 11] = [
    ("built-in", bootstrap::built_in),
    ("cluster", bootstrap::cluster),
    ("log", log),
    ("machines", bootstrap::machines),
    ("node-pools", cluster::node_pools),
    ("nodes", cluster::nodes),
    ("offerings", offerings),
    ("owners", cluster::owners),
    ("proposals", cluster::proposals),
    ("request", request),
    ("signals", signals),
];

fn request(to: &mut Interface) -> wasmtime::Result<()> {
    to.function("node-pool", |mut cx, (): ()| {
        let name = cx.data().node_pool.clone();
        charge(&mut cx, name.len())?;
        Ok((name,))
    })?;
    to.scalar("now", |state| state.now)
}

fn log(to: &mut Interface) -> wasmtime::Result<()> {
    to.function("write", |mut cx, (level, text): (Level, String)| {
        charge(&mut cx, text.len())?;
        let text = cut(text, MAX_MESSAGE_BYTES);
        let state = cx.data_mut();
        if let Some(left) = state.log_room.checked_sub(text.len()) {
            state.log_room = left;
            state.messages.push(Message { level, text });
        } else {
            state.log_room = 0;
        }
        Ok(())
    })
}

fn offerings(to: &mut Interface) -> wasmtime::Result<()> {
    to.scalar("generation", |state| state.columns.generation)?;
    to.scalar("count", |state| state.columns.count() as u32)?;
    to.table("instance-type-names", |c| &c.fixed.instance_type_names)?;
    to.column("instance-types", |c| &c.fixed.instance_types)?;
    to.table("zone-names", |c| &c.fixed.zone_names)?;
    to.column("zones", |c| &c.fixed.zones)?;
    to.table("capacity-type-names", |c| &c.fixed.capacity_type_names)?;
    to.column("capacity-types", |c| &c.fixed.capacity_types)?;
    to.table("architecture-names", |c| &c.fixed.architecture_names)?;
    to.column("architectures", |c| &c.fixed.architectures)?;
    to.table("reservation-names", |c| &c.fixed.reservation_names)?;
    to.column("reservations", |c| &c.fixed.reservations)?;
    to.column("cpu-millicores", |c| &c.fixed.cpu_millicores)?;
    to.column("memory-mib", |c| &c.fixed.memory_mib)?;
    to.column("gpu-counts", |c| &c.fixed.gpu_counts)?;
    to.column("prices", |c| &c.moving.prices)?;
    to.column("available", |c| &c.moving.available)?;
    to.column("reservation-counts", |c| &c.moving.reservation_counts)?;
    to.column("interruption-rates", |c| &c.moving.interruption_rates)?;
    to.column("placement-scores", |c| &c.moving.placement_scores)
}

fn signals(to: &mut Interface) -> wasmtime::Result<()> {
    to.function("keys", |mut cx, (name,): (String,)| {
        let keys = cx
            .data()
            .signals
            .get(&name)
            .map_or_else(Arc::default, |signal| signal.keys.clone());
        charge(&mut cx, name.len() + strings(&keys))?;
        Ok((keys,))
    })?;
    to.function("values", |mut cx, (name,): (String,)| {
        let values = cx
            .data()
            .signals
            .get(&name)
            .map_or_else(Arc::default, |signal| signal.values.clone());
        charge(&mut cx, name.len() + values.bytes())?;
        Ok((values,))
    })?;
    to.function("time", |mut cx, (name,): (String,)| {
        let time = cx
            .data()
            .signals
            .get(&name)
            .map_or(-1.0, |signal: &Signal| signal.time);
        charge(&mut cx, name.len())?;
        Ok((time,))
    })?;
    to.scalar("generation", |state| state.signals_generation)
}

/// The beginning of a guest's text, of at most `room` bytes, without characters that steer a
/// terminal.
pub(crate) fn cut(mut text: String, room: usize) -> String {
    if text.len() > room {
        let end = (0..=room)
            .rev()
            .find(|&at| text.is_char_boundary(at))
            .unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    if text.contains(|c: char| c.is_control() && c != '\n') {
        text.retain(|c| !c.is_control() || c == '\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{HostConfig, engine};

    /// Functions of an interface in wit/, sorted.
    fn promised(interface: &str) -> Vec<String> {
        let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap() + "/../../wit/policy@0.1.0";
        let files = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
        let text: String = files.collect();
        let start = text.find(&format!("\ninterface {interface} {{")).unwrap();
        let body = &text[start..][..text[start..].find("\n}").unwrap()];
        let functions = body
            .lines()
            .filter_map(|line| line.trim().split_once(": func("));
        let mut names: Vec<String> = functions.map(|(name, _)| name.to_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_host_offers_what_the_contract_promises_and_nothing_else() {
        let (_, offered) = linker(&engine(&HostConfig::default()).unwrap()).unwrap();
        assert_eq!(offered.len(), INTERFACES.len());
        for (interface, mut functions) in offered {
            functions.sort();
            assert_eq!(functions, promised(interface), "{interface}");
        }
    }
}
