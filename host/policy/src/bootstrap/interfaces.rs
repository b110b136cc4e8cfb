//! Interfaces that only a bootstrap policy has a use for.

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
        let unknown = || vec![-1.0; machines.instance_types.len()];
        let column = machines
            .capacity
            .get(&name)
            .cloned()
            .unwrap_or_else(unknown);
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

pub(crate) fn built_in(to: &mut Interface) -> wasmtime::Result<()> {
    to.function("overhead", |mut cx, (name,): (String,)| {
        let column = cx.data().boot.built_in.get(&name).cloned();
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
