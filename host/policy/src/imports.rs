//! The functions that the host offers to guests: `longshore:policy`, by name.
//!
//! A column is a function without parameters that returns a list. It is lowered from the shared
//! array straight into the guest's memory. The guest pays fuel for every call and every byte.

mod cluster;
pub(crate) mod interface;
pub(crate) mod state;

use std::collections::BTreeMap;
use std::sync::Arc;

use wasmtime::Engine;
use wasmtime::component::Linker;

use crate::bootstrap::interfaces as bootstrap;
use crate::columns::{INTERRUPTION_RATES, PLACEMENT_SCORES};
use crate::guest_text::cut;
use crate::signals::Signal;
use interface::{Bytes as _, Interface, strings};
use state::{Level, State, charge};

/// The package whose interfaces the host offers, and its version.
pub(crate) const PACKAGE: &str = "longshore:policy";
pub(crate) const VERSION: &str = "0.1.0";

/// The longest log message kept; longer ones are cut.
const MAX_MESSAGE_BYTES: usize = 2 << 10;

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

const INTERFACES: [(&str, Define); 12] = [
    ("built-in", bootstrap::built_in),
    ("chain", chain),
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
        cx.data_mut().say(level, text);
        Ok(())
    })
}

fn chain(to: &mut Interface) -> wasmtime::Result<()> {
    to.function("costs", |mut cx, (): ()| {
        let costs = cx.data().costs.clone();
        charge(&mut cx, costs.bytes())?;
        Ok((costs,))
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
    to.column("prices", |c| &c.moving.micros)?;
    to.column("available", |c| &c.moving.available)?;
    to.column("reservation-counts", |c| &c.moving.reservation_counts)?;
    to.of_signal("interruption-rates", INTERRUPTION_RATES, |c, seen| {
        c.interruption_rates(seen)
    })?;
    to.of_signal("placement-scores", PLACEMENT_SCORES, |c, seen| {
        c.placement_scores(seen)
    })
}

fn signals(to: &mut Interface) -> wasmtime::Result<()> {
    to.function("keys", |mut cx, (name,): (String,)| {
        let keys = cx
            .data()
            .signal(&name)
            .map_or_else(Arc::default, |signal| signal.keys.clone());
        charge(&mut cx, name.len() + strings(&keys))?;
        Ok((keys,))
    })?;
    to.function("values", |mut cx, (name,): (String,)| {
        let values = cx
            .data()
            .signal(&name)
            .map_or_else(Arc::default, |signal| signal.values.clone());
        charge(&mut cx, name.len() + values.bytes())?;
        Ok((values,))
    })?;
    to.function("time", |mut cx, (name,): (String,)| {
        let time = cx
            .data()
            .signal(&name)
            .map_or(-1.0, |signal: &Signal| signal.time);
        charge(&mut cx, name.len())?;
        Ok((time,))
    })?;
    to.scalar("generation", |state| state.signals_generation)
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
