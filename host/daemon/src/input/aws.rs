//! EC2's instance types for plans: a region from a file, EC2NodeClasses from the manifests.

use std::path::Path;

use longshore_api::manifests::{Diagnostic, Diagnostics, Location};
use longshore_core::model::{ClusterObjects, Labels};
use longshore_ec2::catalogue::class::{Class, ClassFault};
use longshore_ec2::catalogue::world::{self, World, every_zone};
use longshore_ec2::catalogue::{ClassCatalogue, CoreCatalogues, NODE_CLASS};
use longshore_ec2::nodeclass;

use super::{shown, unpacked};
use crate::error::Failure;
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

/// EC2NodeClasses of the manifests.
#[derive(Default)]
pub struct Classes {
    /// With the file that each is from.
    all: Vec<(String, nodeclass::EC2NodeClass)>,
    problems: Vec<Diagnostic>,
}

impl Classes {
    /// Takes the EC2NodeClasses of a text in. Whatever else is wrong with the text, the reader of
    /// the other manifests reports.
    pub fn read(&mut self, source: &str, bytes: &[u8]) {
        let (classes, problems) = nodeclass::read(source, bytes);
        self.all
            .extend(classes.into_iter().map(|class| (source.to_owned(), class)));
        let about_classes = problems
            .list
            .into_iter()
            .filter(|p| p.kind == "EC2NodeClass");
        self.problems.extend(about_classes);
    }

    /// Gives `objects` the catalogue of every EC2NodeClass that a NodePool names. A NodeClass that
    /// cannot be used, or is nowhere, is a problem; its NodePools meet no instance type.
    pub fn catalogue(
        self,
        objects: &mut ClusterObjects,
        aws: &Aws,
        types: Option<&Path>,
        problems: &mut Diagnostics,
    ) -> Result<(), Failure> {
        let (world, found) = world(aws, types)?;
        found
            .list
            .into_iter()
            .chain(self.problems)
            .for_each(|problem| problems.push(problem));
        let mut classes: Vec<Class> = Vec::new();
        for (source, object) in &self.all {
            match Class::of(object) {
                Ok(mut class) => {
                    if class.subnets.is_empty() {
                        class.subnets = every_zone(&world.region);
                    }
                    classes.push(class);
                }
                Err(fault) => {
                    let name = object.metadata.name.as_deref().unwrap_or_default();
                    problems.push(refused(source, name, fault));
                }
            }
        }
        classes.extend(world.class);
        let wanted = tie_pools(objects);
        let region = &world.region;
        let mut all = CoreCatalogues::new(region, &mut objects.names);
        for name in wanted {
            match classes.iter().find(|class| *class.name == *name) {
                Some(class) => all.add(&ClassCatalogue::new(region, class.clone(), &|_| None)),
                None if self
                    .all
                    .iter()
                    .any(|(_, o)| o.metadata.name.as_deref() == Some(&name)) => {}
                None => problems.push(Diagnostic {
                    location: Location {
                        source: shown(&aws.world),
                        ..Location::default()
                    },
                    kind: "EC2NodeClass".into(),
                    name,
                    what: "is named by a NodePool and is in neither manifests nor world".into(),
                    hint: "add it: what its nodes have for pods depends on it".into(),
                    ..Diagnostic::default()
                }),
            }
        }
        objects.catalogue = all.finish();
        Ok(())
    }
}

fn refused(source: &str, name: &str, fault: ClassFault) -> Diagnostic {
    Diagnostic {
        location: Location {
            source: source.to_owned(),
            ..Location::default()
        },
        kind: "EC2NodeClass".into(),
        name: name.to_owned(),
        field: fault.field,
        what: fault.what,
        hint: fault.hint.into(),
    }
}

/// Labels the NodePools of EC2NodeClasses with them, as their nodes are labelled, so that each
/// meets the instance types of its own. Names of the NodeClasses, ordered.
fn tie_pools(objects: &mut ClusterObjects) -> Vec<String> {
    let key = objects.names.intern(NODE_CLASS);
    let mut names = Vec::new();
    for pool in objects.pools.iter_mut() {
        let class = pool.class;
        if objects.names.text(class.group) != nodeclass::GROUP {
            continue;
        }
        names.push(objects.names.text(class.name).to_owned());
        pool.labels = Labels::new(pool.labels.iter().chain([(key, class.name)]).collect());
    }
    names.sort_unstable();
    names.dedup();
    names
}
