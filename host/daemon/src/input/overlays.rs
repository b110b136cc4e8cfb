//! NodeOverlays of the manifests, applied to the catalogue.

use longshore_api::manifests::{Diagnostic, Diagnostics, Location, overlays};
use longshore_core::model::{ClusterObjects, NodeOverlay};
use longshore_core::overlay;
use longshore_ec2::catalogue::machine::OWN_RESOURCES;

/// Texts that may have NodeOverlays: name and content.
#[derive(Default)]
pub struct Texts(Vec<(String, Vec<u8>)>);

/// NodeOverlays, and the text that each is from.
pub struct Overlays {
    all: Vec<NodeOverlay>,
    sources: Vec<String>,
}

impl Texts {
    /// Keeps a text until the names of the cluster's objects are known.
    pub fn hold(&mut self, source: String, bytes: Vec<u8>) {
        self.0.push((source, bytes));
    }

    /// The NodeOverlays of all texts. One that cannot be used is a problem. EC2 fills in more
    /// resources itself than KWOK does.
    pub fn read(
        self,
        world: &mut ClusterObjects,
        ec2: bool,
        problems: &mut Diagnostics,
    ) -> Overlays {
        let known: &[&str] = if ec2 { &OWN_RESOURCES } else { &[] };
        let (mut all, mut sources) = (Vec::<NodeOverlay>::new(), Vec::new());
        for (source, bytes) in &self.0 {
            let (found, faults) = overlays(source, bytes, known, &mut world.names);
            faults
                .list
                .into_iter()
                .for_each(|problem| problems.push(problem));
            for overlay in found {
                match all.iter().any(|other| other.name == overlay.name) {
                    true => problems.push(Diagnostic {
                        what: "is there twice".into(),
                        hint: "remove one; the first is used".into(),
                        ..about(source, &overlay, world)
                    }),
                    false => {
                        all.push(overlay);
                        sources.push(source.clone());
                    }
                }
            }
        }
        Overlays { all, sources }
    }
}

impl Overlays {
    pub fn list(&self) -> &[NodeOverlay] {
        &self.all
    }

    /// Applies them to the catalogue. One that is in conflict with another is a problem.
    pub fn apply(&self, world: &mut ClusterObjects, problems: &mut Diagnostics) {
        if self.all.is_empty() {
            return;
        }
        let pools = world.pools.iter();
        let applied = overlay::apply(&world.catalogue, &self.all, pools, &mut world.names);
        for name in applied.conflicts {
            let mut with_sources = self.all.iter().zip(&self.sources);
            let Some((overlay, source)) = with_sources.find(|(overlay, _)| overlay.name == name)
            else {
                continue;
            };
            problems.push(Diagnostic {
                field: "spec.weight".into(),
                what: "is in conflict with another overlay of the same weight: both change one \
                       price or resource; nothing of this one is applied"
                    .into(),
                hint: "give one of them a greater weight, or other requirements".into(),
                ..about(source, overlay, world)
            });
        }
        world.catalogue = applied.catalogue;
    }
}

fn about(source: &str, overlay: &NodeOverlay, world: &ClusterObjects) -> Diagnostic {
    Diagnostic {
        location: Location {
            source: source.to_owned(),
            ..Location::default()
        },
        kind: "NodeOverlay".into(),
        name: world.names.text(overlay.name).to_owned(),
        ..Diagnostic::default()
    }
}
