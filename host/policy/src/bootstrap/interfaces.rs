//! Interfaces that only a bootstrap policy has a use for.

use super::answers::{NodeKind, Taint};
use super::facts::{BootFacts, ClusterFacts};
use crate::imports::interface::Interface;
use crate::imports::state::charge;

/// Defines a function without parameters that answers a list out of the facts.
macro_rules! list {
    ($to:ident, $name:literal, $of:expr, $bytes:expr) => {
        $to.function($name, |mut cx, (): ()| {
            let list = $of(&cx.data().boot);
            charge(&mut cx, list.iter().map($bytes).sum())?;
            Ok((list,))
        })?
    };
}

/// What a text costs a guest: its bytes and its length.
fn bytes(text: impl AsRef<str>) -> usize {
    text.as_ref().len() + 8
}

pub(crate) fn cluster(to: &mut Interface) -> wasmtime::Result<()> {
    for (name, get) in [
        ("name", (|f| &f.name) as fn(&ClusterFacts) -> &String),
        ("endpoint", |f| &f.endpoint),
        ("certificate-authority", |f| &f.certificate_authority),
        ("version", |f| &f.version),
    ] {
        to.function(name, move |mut cx, (): ()| {
            let text = get(&cx.data().boot.cluster).clone();
            charge(&mut cx, text.len())?;
            Ok((text,))
        })?;
    }
    list!(
        to,
        "service-ranges",
        |f: &BootFacts| f.cluster.service_ranges.clone(),
        bytes
    );
    list!(
        to,
        "dns-addresses",
        |f: &BootFacts| f.cluster.dns_addresses.clone(),
        bytes
    );
    Ok(())
}

pub(crate) fn machines(to: &mut Interface) -> wasmtime::Result<()> {
    to.function("node-class", |mut cx, (): ()| {
        let text = cx.data().boot.machines.node_class.clone();
        charge(&mut cx, text.len())?;
        Ok((text,))
    })?;
    to.scalar("count", |state| {
        state.boot.machines.instance_types.len() as u32
    })?;
    list!(
        to,
        "instance-type-names",
        |f: &BootFacts| f.machines.instance_types.clone(),
        bytes
    );
    to.function("label-values", |mut cx, (key,): (String,)| {
        let (values, _) = cx.data().boot.machines.label(&key);
        charge(&mut cx, key.len() + values.iter().map(bytes).sum::<usize>())?;
        Ok((values,))
    })?;
    to.function("labels", |mut cx, (key,): (String,)| {
        let (_, rows) = cx.data().boot.machines.label(&key);
        charge(&mut cx, key.len() + 4 * rows.len())?;
        Ok((rows,))
    })?;
    to.function("capacity", |mut cx, (name,): (String,)| {
        let machines = &cx.data().boot.machines;
        let unknown = || vec![f64::NAN; machines.instance_types.len()];
        let known = machines.capacity.get(&name);
        let column = known.map_or_else(unknown, |column| known_amounts(column));
        charge(&mut cx, name.len() + 8 * column.len())?;
        Ok((column,))
    })?;
    list!(
        to,
        "network-interfaces",
        |f: &BootFacts| f.machines.network_interfaces.clone(),
        |_| 4
    );
    list!(
        to,
        "addresses-per-interface",
        |f: &BootFacts| f.machines.addresses_per_interface.clone(),
        |_| 4
    );
    list!(
        to,
        "local-bytes",
        |f: &BootFacts| f.machines.local_bytes.clone(),
        |_| 8
    );
    list!(
        to,
        "local-disks",
        |f: &BootFacts| f.machines.local_disks.clone(),
        |_| 4
    );
    list!(
        to,
        "root-bytes",
        |f: &BootFacts| known_amounts(&f.machines.root_bytes),
        |_| 8
    );
    list!(
        to,
        "image-names",
        |f: &BootFacts| f.machines.image_names.clone(),
        bytes
    );
    list!(
        to,
        "images",
        |f: &BootFacts| f.machines.images.clone(),
        |_| 4
    );
    Ok(())
}

/// Amounts as the contract has them: what is not known is no number.
fn known_amounts(column: &[f64]) -> Vec<f64> {
    let known = |&amount: &f64| if amount < 0.0 { f64::NAN } else { amount };
    column.iter().map(known).collect()
}

pub(crate) fn kind(to: &mut Interface) -> wasmtime::Result<()> {
    to.function("node-pool", |mut cx, (): ()| {
        let name = cx.data().kind.node_pool.clone();
        charge(&mut cx, name.len())?;
        Ok((name,))
    })?;
    for (name, get) in [
        ("labels", (|of| &of.labels) as fn(&NodeKind) -> &Pairs),
        ("known-labels", |of| &of.known_labels),
    ] {
        to.function(name, move |mut cx, (): ()| {
            let pairs = get(&cx.data().kind).clone();
            let of = |(key, value): &(String, String)| bytes(key) + bytes(value);
            charge(&mut cx, pairs.iter().map(of).sum())?;
            Ok((pairs,))
        })?;
    }
    for (name, get) in [
        ("taints", (|of| &of.taints) as fn(&NodeKind) -> &Vec<Taint>),
        ("startup-taints", |of| &of.startup_taints),
    ] {
        to.function(name, move |mut cx, (): ()| {
            let taints = get(&cx.data().kind).clone();
            let of = |taint: &Taint| {
                let texts = [&taint.key, &taint.value, &taint.effect, &taint.time_added];
                texts.map(bytes).iter().sum::<usize>()
            };
            charge(&mut cx, taints.iter().map(of).sum())?;
            Ok((taints,))
        })?;
    }
    Ok(())
}

type Pairs = Vec<(String, String)>;

pub(crate) fn built_in(to: &mut Interface) -> wasmtime::Result<()> {
    to.function("overhead", |mut cx, (name,): (String,)| {
        let column = cx.data().boot.built_in.get(&name);
        let column = column.map(|column| known_amounts(column));
        let column = column.unwrap_or_default();
        charge(&mut cx, name.len() + 8 * column.len())?;
        Ok((column,))
    })?;
    to.function("texts", |mut cx, (): ()| {
        let texts = cx.data().built_in.texts.clone();
        charge(&mut cx, texts.iter().map(|text| text.len() + 8).sum())?;
        Ok((texts,))
    })?;
    to.function("text-of", |mut cx, (): ()| {
        let of = cx.data().built_in.of.clone();
        charge(&mut cx, 4 * of.len())?;
        Ok((of,))
    })
}
