//! EC2's instance types for plans: a region from a file, EC2NodeClasses from the manifests, and
//! memory as the manifests' nodes show it.

mod discovered;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use longshore_api::manifests::{Diagnostic, Diagnostics, Document, Location, documents};
use longshore_core::model::{ClusterObjects, NodeOverlay, NodePool, Op, Requirement, Symbol};
use longshore_ec2::bootstrap::Joins;
use longshore_ec2::catalogue::class::{Class, ClassFault};
use longshore_ec2::catalogue::world::{self, World, every_zone};
use longshore_ec2::catalogue::{ClassCatalogue, CoreCatalogues, Region, preview};
use longshore_ec2::nodeclass;
use longshore_ec2::userdata::{Cluster, Taint};
use longshore_ec2::validation::{self, Fault, Verdict};

use super::{shown, unpacked};
use crate::bootstrap::{self, BootPolicy, NodesOf, count_with};
use crate::error::Failure;
use crate::messages::effect;
use crate::node_classes;
use crate::options::Aws;

/// Reads the region that `aws` names. `types` is a file of instance types in place of the region's
/// own.
pub fn world(aws: &Aws, types: Option<&Path>) -> Result<(World, Diagnostics), Failure> {
    let types = match types {
        Some(file) => Some((shown(file), unpacked(file)?)),
        None => None,
    };
    let types = types
        .as_ref()
        .map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
    let name = shown(&aws.world);
    let read = world::read(&name, &unpacked(&aws.world)?, types);
    let (mut world, problems) = read.map_err(|problems| {
        let first = problems.list.first();
        Failure::Unusable {
            source_name: first.map_or(name, |problem| problem.location.source.clone()),
            problems,
        }
    })?;
    world.region.settings = aws.settings;
    Ok((world, problems))
}

/// EC2NodeClasses of the manifests, and what NodeClaims boot from.
#[derive(Default)]
pub struct Classes {
    /// With the file that each is from.
    all: Vec<(String, nodeclass::EC2NodeClass)>,
    images: discovered::Images,
    problems: Vec<Diagnostic>,
}

impl Classes {
    /// Takes the EC2NodeClasses and NodeClaims of a text in. Whatever else is wrong with the text,
    /// the reader of the other manifests reports.
    pub fn read(&mut self, source: &str, bytes: &[u8]) {
        let (found, problems) = documents(source, bytes);
        let found: Vec<Document> = found.into_iter().flat_map(Document::items).collect();
        self.images.read(&found);
        let (classes, problems) = nodeclass::of_documents(&found, problems);
        self.all
            .extend(classes.into_iter().map(|class| (source.to_owned(), class)));
        let about_classes = problems
            .list
            .into_iter()
            .filter(|p| p.kind == "EC2NodeClass");
        self.problems.extend(about_classes);
    }

    /// Gives `objects` the catalogue of every EC2NodeClass that a NodePool names. A NodeClass that
    /// cannot be used, or is nowhere, is a problem; its NodePools meet no instance type. Types that
    /// `overlays` alone have a price for get it.
    pub fn catalogue(
        self,
        objects: &mut ClusterObjects,
        aws: &Aws,
        types: Option<&Path>,
        overlays: &[NodeOverlay],
        problems: &mut Diagnostics,
    ) -> Result<(), Failure> {
        let (mut world, found) = world(aws, types)?;
        found
            .list
            .into_iter()
            .chain(self.problems)
            .for_each(|problem| problems.push(problem));
        let mut classes: Vec<(Class, &nodeclass::EC2NodeClass)> = Vec::new();
        for (source, object) in &self.all {
            match usable(object, &world.region) {
                Ok(class) => classes.push((class, object)),
                Err(faults) => {
                    let name = object.metadata.name.as_deref().unwrap_or_default();
                    let refused = |fault| refused(source, name, fault);
                    faults
                        .into_iter()
                        .map(refused)
                        .for_each(|problem| problems.push(problem));
                }
            }
        }
        classes.extend(world.class.zip(world.object.as_ref()));
        self.images.discover(objects, &classes, &mut world.region);
        let prices = preview::prices(&world.region, overlays, &objects.names);
        world
            .region
            .replace_preview(|name| prices.get(name).copied());
        let wanted = node_classes::tie_pools(objects);
        let region = &world.region;
        let mut boots = Boots::new(aws, world.cluster, world.kubernetes)?;
        let nodes: Vec<Vec<NodesOf>> = wanted.iter().map(|name| nodes_of(objects, name)).collect();
        let mut all = CoreCatalogues::new(region, &mut objects.names);
        for (name, nodes) in wanted.into_iter().zip(nodes) {
            let source = shown(&aws.world);
            match classes.iter().find(|(class, _)| *class.name == *name) {
                Some((class, object)) => match ClassCatalogue::new(region, class.clone()) {
                    Ok(mut class) => {
                        if let Some(boots) = &mut boots {
                            let notes = boots.ask(region, &mut class, object, &nodes)?;
                            notes
                                .into_iter()
                                .map(|note| noted(&source, &name, note))
                                .for_each(|note| problems.push(note));
                        }
                        all.add(Arc::new(class));
                    }
                    Err(fault) => problems.push(refused(&source, &name, class_fault(fault))),
                },
                None if self
                    .all
                    .iter()
                    .any(|(_, o)| o.metadata.name.as_deref() == Some(&name)) => {}
                None => problems.push(Diagnostic {
                    what: "is named by a NodePool and is in neither manifests nor world".into(),
                    hint: "add it: what its nodes have for pods depends on it".into(),
                    ..about(&source, &name)
                }),
            }
        }
        objects.catalogue = all.finish();
        Ok(())
    }
}

/// What the catalogue depends on of a NodeClass that nodes can be made from. Without subnets in its
/// status it has one in every zone.
fn usable(object: &nodeclass::EC2NodeClass, region: &Region) -> Result<Class, Vec<Fault>> {
    let faults = validation::rules(&object.spec);
    if !faults.is_empty() {
        return Err(faults);
    }
    if let Verdict::Invalid(invalid) = validation::nodeclass(object, region) {
        return Err(invalid.faults);
    }
    let mut class = Class::of(object).map_err(|fault| vec![class_fault(fault)])?;
    if class.subnets.is_empty() {
        class.subnets = every_zone(region);
    }
    Ok(class)
}

/// A fault of a NodeClass, with its field below `spec`.
pub fn class_fault(ClassFault { field, what, hint }: ClassFault) -> Fault {
    Fault {
        field: field.trim_start_matches("spec.").to_owned(),
        what,
        hint: hint.to_owned(),
    }
}

/// A problem of a NodeClass that says nothing yet.
fn about(source: &str, name: &str) -> Diagnostic {
    Diagnostic {
        location: Location {
            source: source.to_owned(),
            ..Location::default()
        },
        kind: "EC2NodeClass".into(),
        name: name.to_owned(),
        ..Diagnostic::default()
    }
}

/// A fault below `spec` of a NodeClass.
fn refused(source: &str, name: &str, fault: Fault) -> Diagnostic {
    Diagnostic {
        field: format!("spec.{}", fault.field),
        what: fault.what,
        hint: fault.hint,
        ..about(source, name)
    }
}

/// What a bootstrap policy has to say of a NodeClass.
fn noted(source: &str, name: &str, note: String) -> Diagnostic {
    Diagnostic {
        what: note,
        hint: "`longshore render userdata --bootstrap` shows what the policy renders".into(),
        ..about(source, name)
    }
}

/// Nodes of each NodePool of a NodeClass, in the order of the NodePools' names.
fn nodes_of(objects: &ClusterObjects, class: &str) -> Vec<NodesOf> {
    let text = |symbol: Symbol| objects.names.text(symbol).to_owned();
    let taint = |taint: &longshore_core::model::Taint| Taint {
        key: text(taint.key),
        value: text(taint.value),
        effect: effect(taint.effect).to_owned(),
        time_added: None,
    };
    let mine = objects.pools.iter().filter(|pool| {
        objects.names.text(pool.class.group) == nodeclass::GROUP
            && objects.names.text(pool.class.name) == class
    });
    let nodes = |pool: &NodePool| {
        let one = |requirement: &Requirement| match &requirement.op {
            Op::In(values) if values.len() == 1 => Some((requirement.key, values[0])),
            _ => None,
        };
        let labels = pool.requirements.iter().filter_map(one);
        let labels = labels.chain(pool.labels.iter());
        let labels = labels.map(|(key, value)| (text(key), text(value)));
        let taints = pool.taints.iter().chain(&pool.startup_taints);
        NodesOf::new(text(pool.name), labels, taints.map(taint))
    };
    let mut all: Vec<NodesOf> = mine.map(nodes).collect();
    all.sort_by(|a, b| a.node_pool.cmp(&b.node_pool));
    all
}

/// A bootstrap policy and the cluster that nodes join.
pub struct Boots {
    policy: BootPolicy,
    cluster: Cluster,
    kubernetes: String,
    world: PathBuf,
}

impl Boots {
    /// The policy that `aws` names, if it names one. A failure if the world has no cluster, because
    /// user data names it.
    pub fn new(
        aws: &Aws,
        cluster: Option<Cluster>,
        kubernetes: String,
    ) -> Result<Option<Self>, Failure> {
        let Some(entry) = &aws.bootstrap else {
            return Ok(None);
        };
        let Some(cluster) = cluster else {
            return Err(Failure::Input {
                file: aws.world.clone(),
                reason: "has no cluster, and --bootstrap renders user data, which names it".into(),
                hint: "add `cluster` with name, endpoint, caBundle, cidr and kubeDNSIP".into(),
            });
        };
        Ok(Some(Boots {
            policy: bootstrap::load(entry)?,
            cluster,
            kubernetes,
            world: aws.world.clone(),
        }))
    }

    /// Makes a NodeClass's catalogue count with what its nodes keep back by the policy. What the
    /// policy was refused for, and what answers instead.
    pub fn ask(
        &mut self,
        region: &Region,
        class: &mut ClassCatalogue,
        object: &nodeclass::EC2NodeClass,
        nodes: &[NodesOf],
    ) -> Result<Vec<String>, Failure> {
        let joins = Joins {
            cluster: &self.cluster,
            kubernetes: &self.kubernetes,
        };
        let asked = count_with(&mut self.policy, region, class, object, joins, nodes);
        let notes = asked.map(|counted| counted.notes);
        notes.map_err(|fault| Failure::Input {
            file: self.world.clone(),
            reason: format!("{}: {fault}", class.class().name),
            hint: fault.hint.to_owned(),
        })
    }
}
