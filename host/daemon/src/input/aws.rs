//! EC2's instance types for plans: a region from a file, EC2NodeClasses from the manifests, and
//! memory as the manifests' nodes show it.

mod discovered;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use longshore_api::manifests::{Diagnostic, Diagnostics, Document, Location, documents};
use longshore_core::model::{
    ClusterObjects, Estimates, NodeOverlay, NodePool, Op, Requirement, Symbol,
};
use longshore_ec2::bootstrap::Joins;
use longshore_ec2::catalogue::built_in::{self, PRICED, SPOT_SHARE};
use longshore_ec2::catalogue::class::{Class, ClassFault};
use longshore_ec2::catalogue::world::{self, World, every_zone};
use longshore_ec2::catalogue::{ClassCatalogue, CoreCatalogues, Region, preview};
use longshore_ec2::facts;
use longshore_ec2::nodeclass;
use longshore_ec2::userdata::{Cluster, Taint};
use longshore_ec2::validation::{self, Fault, Verdict};

use super::region::Places;
use super::{shown, unpacked};
use crate::options::Aws;
use crate::policies::load_bootstrap;
use longshore_live::bootstrap::{BootPolicy, NodesOf, count_with};
use longshore_live::error::Failure;
use longshore_live::observe::node_classes;
use longshore_report::messages::effect;

/// Reads the region that `aws` names. `types` is a file of instance types in place of the region's
/// own.
pub fn world(
    aws: &Aws,
    file: &Path,
    types: Option<&Path>,
) -> Result<(World, Diagnostics), Failure> {
    let types = types_of(types)?;
    let types = types
        .as_ref()
        .map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
    let name = shown(file);
    let read = world::read(&name, &unpacked(file)?, types);
    let (mut world, problems) = read.map_err(|problems| unusable(name, problems))?;
    world.region.settings = aws.settings;
    Ok((world, problems))
}

fn types_of(types: Option<&Path>) -> Result<Option<(String, Vec<u8>)>, Failure> {
    types
        .map(|file| Ok((shown(file), unpacked(file)?)))
        .transpose()
}

fn unusable(name: String, problems: Diagnostics) -> Failure {
    let first = problems.list.first();
    Failure::Unusable {
        source_name: first.map_or(name, |problem| problem.location.source.clone()),
        problems,
    }
}

/// Which prices of a region are estimates, and what they are estimated from.
struct Estimated {
    on_demand: bool,
    words: String,
}

/// The region of the manifests as it is built in.
fn built_in(
    aws: &Aws,
    places: &Places,
    types: Option<&Path>,
) -> Result<(World, Diagnostics, Estimated), Failure> {
    let hint = "name a file with region, zones and instance types: --world WORLD.yaml";
    let mut problems = Diagnostics::default();
    let mut note = |what: String, hint: &str| {
        problems.push(Diagnostic {
            location: Location {
                source: MANIFESTS.to_owned(),
                ..Location::default()
            },
            what,
            hint: hint.to_owned(),
            ..Diagnostic::default()
        });
    };
    let name = places.region().unwrap_or_else(|| {
        let what = format!("name no zone of AWS: planned as if in {PRICED}");
        note(what, hint);
        PRICED
    });
    let others: Vec<&str> = places.others().collect();
    if !others.is_empty() {
        let what = format!(
            "name zones of {} too: planned as if in {name}",
            others.join(", ")
        );
        note(
            what,
            "a cluster is in one region; correct the zones, or plan each region alone",
        );
    }
    let facts = match types_of(types)? {
        None => None,
        Some((name, bytes)) => {
            let (facts, found) = facts::read(&name, &bytes);
            if facts.is_empty() {
                return Err(unusable(name, found));
            }
            found
                .list
                .into_iter()
                .for_each(|problem| problems.push(problem));
            Some(facts)
        }
    };
    let known = built_in::region(name, |zone| places.id(zone), facts);
    let Some(mut known) = known else {
        return Err(Failure::Usage {
            message: format!("the cluster is in {name}, and that region is not built in"),
            hint: hint.to_owned(),
        });
    };
    known.region.settings = aws.settings;
    let mut words = format!("a spot price is {SPOT_SHARE} of the on-demand price");
    let on_demand = known.estimates_on_demand();
    if on_demand {
        words += &format!(
            ", and an on-demand price of {name} is that of {PRICED} times {:.2}",
            known.factor
        );
    }
    let world = World {
        region: known.region,
        class: None,
        object: None,
        cluster: None,
        kubernetes: String::new(),
    };
    Ok((world, problems, Estimated { on_demand, words }))
}

/// What is said of in messages about no file alone.
const MANIFESTS: &str = "the manifests";

/// EC2NodeClasses of the manifests, and what NodeClaims boot from.
#[derive(Default)]
pub struct Classes {
    /// With the file that each is from.
    all: Vec<(String, nodeclass::EC2NodeClass)>,
    /// Names of those that were refused.
    refused: BTreeSet<String>,
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
        let about_classes: Vec<Diagnostic> = problems
            .list
            .into_iter()
            .filter(|p| p.kind == "EC2NodeClass")
            .collect();
        let is_read = |name: &str| {
            let mut all = self.all.iter();
            all.any(|(_, class)| class.metadata.name.as_deref() == Some(name))
        };
        let refused = about_classes.iter().filter(|of| !is_read(&of.name));
        let refused: Vec<String> = refused.map(|of| of.name.clone()).collect();
        self.refused.extend(refused);
        self.problems.extend(about_classes);
    }

    /// Whether the manifests have an EC2NodeClass, if only one that was refused.
    pub fn has_some(&self) -> bool {
        !self.all.is_empty() || !self.refused.is_empty()
    }

    /// What is wrong with the EC2NodeClasses, where the catalogue is another provider's.
    pub fn problems(self) -> Vec<Diagnostic> {
        self.problems
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
        let (mut world, found, estimated) = match &aws.world {
            Some(file) => {
                let (world, found) = world(aws, file, types)?;
                (world, found, None)
            }
            None => {
                let places = Places::new(objects, self.all.iter().map(|(_, class)| class));
                let (world, found, estimated) = built_in(aws, &places, types)?;
                (world, found, Some(estimated))
            }
        };
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
            let source = aws.world.as_deref().map_or(MANIFESTS.to_owned(), shown);
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
                    .any(|(_, o)| o.metadata.name.as_deref() == Some(&name))
                    || self.refused.contains(&*name) => {}
                None => problems.push(Diagnostic {
                    what: match &aws.world {
                        Some(_) => "is named by a NodePool and is in neither manifests nor world",
                        None => "is named by a NodePool and is not in the manifests",
                    }
                    .into(),
                    hint: "add it: what its nodes have for pods depends on it".into(),
                    ..about(&source, &name)
                }),
            }
        }
        let catalogue = all.finish();
        let estimates = estimated.map(|of| Estimates {
            spot: true,
            on_demand: of.on_demand,
            words: Some(objects.names.intern(&of.words)),
        });
        objects.catalogue = catalogue.with_estimates(estimates.unwrap_or_default());
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
        hint: hint.into_owned(),
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
                file: aws.world.clone().unwrap_or_default(),
                reason: "has no cluster, and --bootstrap renders user data, which names it".into(),
                hint: "add `cluster` with name, endpoint, caBundle, cidr and kubeDNSIP".into(),
            });
        };
        Ok(Some(Boots {
            policy: load_bootstrap(entry)?,
            cluster,
            kubernetes,
            world: aws.world.clone().unwrap_or_default(),
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
        let notes = count_with(&mut self.policy, region, class, object, joins, nodes);
        notes.map_err(|fault| Failure::Input {
            file: self.world.clone(),
            reason: format!("{}: {fault}", class.class().name),
            hint: fault.hint.to_owned(),
        })
    }
}
