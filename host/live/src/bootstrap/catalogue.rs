//! The instance types of a NodeClass's catalogue as machines of a bootstrap policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use longshore_ec2::bootstrap::{Capacity, Kept};
use longshore_ec2::catalogue::class::Kubelet;
use longshore_ec2::catalogue::machine::RESOURCES;
use longshore_ec2::catalogue::{ClassCatalogue, Region, image_of};
use longshore_ec2::launch::root_bytes;
use longshore_ec2::nodeclass::{Ami, EC2NodeClass};
use longshore_ec2::userdata::{Boot, Family, Fault, render, resolve};
use longshore_policy::{BootFacts, ClusterFacts, Machines};

use super::{Machine, Request, cluster, kind, overhead_columns};

/// Every instance type of a region under a NodeClass, in the order of [`Region::types`], and what
/// each boots with without a policy.
pub struct CatalogueMachines {
    facts: Arc<BootFacts>,
    boots: Vec<Boot>,
    texts: Vec<String>,
    capacity: Vec<Capacity>,
    kept: Vec<Kept>,
    lasting_taints: usize,
    labels: BTreeMap<String, String>,
}

impl CatalogueMachines {
    /// The machines of `class`, whose object is `node_class`, in a cluster with an API server of
    /// version `kubernetes`, empty if it is not known. `boot` is a node to come before the DNS
    /// address, the number of pods and our taint are added. Fails where the built-in user data
    /// cannot be rendered.
    pub fn new(
        region: &Region,
        class: &ClassCatalogue,
        node_class: &EC2NodeClass,
        kubernetes: &str,
        boot: &Boot,
    ) -> Result<Self, Fault> {
        let count = region.types().len();
        let (image_names, images) = images(region, class, node_class);
        let mut machines = Machines {
            // An object that was read from JSON serializes.
            node_class: serde_json::to_string(node_class).unwrap_or_default(),
            image_names,
            images,
            ..Machines::default()
        };
        let root = root_bytes(&node_class.spec);
        machines.root_bytes = vec![root.map_or(-1.0, |bytes| bytes as f64); count];
        let (mut boots, mut texts): (Vec<Boot>, Vec<String>) = (Vec::new(), Vec::new());
        let (mut capacity, mut kept) = (Vec::new(), Vec::new());
        // Texts by the kubelet's settings, which are all that differs between machines.
        let mut rendered: BTreeMap<String, String> = BTreeMap::new();
        for (at, of) in region.types().iter().enumerate() {
            let machine = class.machine(at);
            machines.instance_types.push(of.name.to_string());
            let interfaces = of.network.default_interfaces();
            machines
                .network_interfaces
                .push(interfaces.try_into().unwrap_or(0));
            let addresses = of.network.ipv4_per_interface;
            machines
                .addresses_per_interface
                .push(addresses.try_into().unwrap_or(0));
            let disks = of.local_disks.map_or(0, |disks| disks.total_gb);
            machines.local_bytes.push(disks as f64 * 1e9);
            let number = of.local_disks.map_or(Some(0), |disks| disks.number);
            machines.local_disks.push(number.unwrap_or(u32::MAX));
            for (name, amount) in RESOURCES.into_iter().zip(machine.capacity) {
                let amount = amount.map_or(-1.0, |amount| amount.milli as f64 / 1000.0);
                let column = machines.capacity.entry(name.to_owned()).or_default();
                column.push(amount);
            }
            class.labels(region, at, &mut |key, values| {
                if let [value] = values {
                    let column = machines.labels.entry(key.to_owned());
                    let column = column.or_insert_with(|| vec![String::new(); count]);
                    column[at] = (*value).to_owned();
                }
            });
            let usual = Kept::of(machine);
            let mut one = boot.clone();
            class.class().expressions.write(&mut one.kubelet, machine);
            resolve(&mut one, usual.max_pods);
            let settings = serde_json::to_string(&one.kubelet).unwrap_or_default();
            let text = match rendered.get(&settings) {
                Some(text) => text.clone(),
                None => {
                    let text = render(&one)?;
                    rendered.insert(settings, text.clone());
                    text
                }
            };
            boots.push(one);
            texts.push(text);
            capacity.push(Capacity::of(machine));
            kept.push(usual);
        }
        Ok(CatalogueMachines {
            facts: Arc::new(BootFacts {
                cluster: ClusterFacts {
                    version: kubernetes.to_owned(),
                    ..cluster(boot, true)
                },
                machines,
                built_in: overhead_columns(kept.iter().copied()),
            }),
            boots,
            texts,
            capacity,
            kept,
            lasting_taints: boot.taints.len(),
            labels: boot.labels.clone(),
        })
    }

    /// What a machine keeps back whose user data gives the kubelet these settings. `None` for
    /// Custom images: what they do with their user data is not known.
    pub fn booted(
        &self,
        region: &Region,
        class: &ClassCatalogue,
        at: usize,
        said: &Kubelet,
    ) -> Option<Kept> {
        let custom = self.boots.get(at)?.family == Family::Custom;
        (!custom).then(|| Kept::of(&class.booted(region, at, said)))
    }

    /// The question for all of them. `booted` is [`CatalogueMachines::booted`].
    pub fn request<'a>(&self, booted: super::Booted<'a>) -> Option<Request<'a>> {
        let first = self.boots.first()?;
        let types = self.facts.machines.instance_types.iter();
        let rows = types.zip(&self.boots).zip(&self.texts).enumerate();
        let machine = |(at, ((name, boot), text)): (usize, ((&String, &Boot), &String))| Machine {
            name: name.clone(),
            boot: boot.clone(),
            text: text.clone(),
            capacity: self.capacity[at],
            kept: Some(self.kept[at]),
        };
        Some(Request {
            facts: self.facts.clone(),
            kind: kind(first, self.lasting_taints, &self.labels),
            machines: rows.map(machine).collect(),
            booted,
        })
    }
}

/// Names of the images in a NodeClass's status, and for each type the index of the one that it
/// boots, [`u32::MAX`] where none fits. An image without a name has its ID.
fn images(
    region: &Region,
    class: &ClassCatalogue,
    node_class: &EC2NodeClass,
) -> (Vec<String>, Vec<u32>) {
    let status = node_class.status.as_ref();
    let all = status.map_or(&[][..], |status| &status.amis);
    let name = |image: &Ami| image.name.clone().unwrap_or_else(|| image.id.clone());
    let of = |at: usize| {
        let image = image_of(region, class, all, at)?;
        let index = all.iter().position(|other| std::ptr::eq(other, image))?;
        u32::try_from(index).ok()
    };
    let types = 0..region.types().len();
    let of = types.map(|at| of(at).unwrap_or(u32::MAX)).collect();
    (all.iter().map(name).collect(), of)
}
