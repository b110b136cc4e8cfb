//! Resolves a pod's volumes to where they can be attached and which limits they count against.

use rustc_hash::FxHashMap;

use crate::model::storage::{StorageClass, Volume, VolumeClaim};
use crate::model::{ClusterObjects, Pod, Requirement, Symbol};

/// Volumes by name.
pub struct Volumes<'a> {
    claims: FxHashMap<(Symbol, Symbol), (u32, &'a VolumeClaim)>,
    volumes: FxHashMap<Symbol, &'a Volume>,
    classes: FxHashMap<Symbol, &'a StorageClass>,
    hostname: Option<Symbol>,
}

impl<'a> Volumes<'a> {
    /// Indexes storage objects.
    pub fn index(world: &'a ClusterObjects) -> Self {
        let claims = world.volume_claims.iter().enumerate();
        Volumes {
            claims: claims
                .map(|(at, c)| ((c.namespace, c.name), (at as u32, c)))
                .collect(),
            volumes: world.volumes.iter().map(|v| (v.name, v)).collect(),
            classes: world.storage_classes.iter().map(|c| (c.name, c)).collect(),
            hostname: world.names.get("kubernetes.io/hostname"),
        }
    }

    /// CSI volumes of a pod: driver and the number of the claim. Claims that cannot be resolved are
    /// left out.
    pub fn of(&self, world: &ClusterObjects, pod: &Pod) -> Vec<(Symbol, u32)> {
        let namespace = world.shapes.get(pod.shape).namespace;
        pod.claims
            .iter()
            .filter_map(|&name| self.driver(namespace, name))
            .collect()
    }

    fn driver(&self, namespace: Symbol, name: Symbol) -> Option<(Symbol, u32)> {
        let &(at, claim) = self.claims.get(&(namespace, name))?;
        let bound = claim.volume.and_then(|v| self.volumes.get(&v));
        let driver = match bound {
            Some(volume) => volume.driver?,
            None => self.classes.get(&claim.class?)?.provisioner,
        };
        Some((driver, at))
    }

    /// The alternatives that all volumes of a pod leave: one of them must hold; empty for no
    /// restriction.
    ///
    /// # Errors
    /// A sentence about the first unavailable volume.
    pub fn alternatives(
        &self,
        world: &ClusterObjects,
        pod: &Pod,
    ) -> Result<Vec<Vec<Requirement>>, String> {
        let namespace = world.shapes.get(pod.shape).namespace;
        let mut all: Vec<Vec<Requirement>> = Vec::new();
        for &name in &pod.claims {
            let more = self.topology(world, namespace, name)?;
            if more.is_empty() {
                continue;
            }
            all = if all.is_empty() {
                more
            } else {
                cross(&all, &more)
            };
        }
        Ok(all)
    }

    fn topology(
        &self,
        world: &ClusterObjects,
        namespace: Symbol,
        name: Symbol,
    ) -> Result<Vec<Vec<Requirement>>, String> {
        let text = |s: Symbol| world.names.text(s);
        let Some(&(_, claim)) = self.claims.get(&(namespace, name)) else {
            return Err(format!(
                "its PersistentVolumeClaim {} does not exist",
                text(name)
            ));
        };
        if claim.deleting {
            return Err(format!(
                "its PersistentVolumeClaim {} is being deleted",
                text(name)
            ));
        }
        if claim.lost {
            return Err(format!(
                "its PersistentVolumeClaim {} has lost its volume",
                text(name)
            ));
        }
        if let Some(volume) = claim.volume {
            let Some(volume) = self.volumes.get(&volume) else {
                return Err(format!(
                    "PersistentVolume {} of its claim {} does not exist",
                    text(volume),
                    text(name)
                ));
            };
            if volume.deleting {
                return Err(format!(
                    "PersistentVolume {} of its claim {} is being deleted",
                    text(volume.name),
                    text(name)
                ));
            }
            return Ok(self.without_hostname(volume));
        }
        let class = claim.class.filter(|&c| !text(c).is_empty());
        let Some(class) = class else {
            return Err(format!(
                "its PersistentVolumeClaim {} is not bound and names no StorageClass",
                text(name)
            ));
        };
        let Some(class) = self.classes.get(&class) else {
            return Err(format!(
                "StorageClass {} of its claim {} does not exist",
                text(class),
                text(name)
            ));
        };
        if !class.wait_for_consumer {
            let why = "is not bound yet, and its StorageClass binds immediately, not when a pod \
                is placed";
            return Err(format!("its PersistentVolumeClaim {} {why}", text(name)));
        }
        Ok(class.topologies.clone())
    }

    /// A local volume's node may be gone: only what else its affinity says restricts the pod.
    fn without_hostname(&self, volume: &Volume) -> Vec<Vec<Requirement>> {
        let mut terms = volume.node_affinity.clone();
        if volume.local {
            terms
                .iter_mut()
                .for_each(|t| t.retain(|r| Some(r.key) != self.hostname));
            if terms.iter().any(Vec::is_empty) {
                return Vec::new();
            }
        }
        terms
    }
}

/// Every compatible pair of alternatives, merged. If no pair is compatible, all pairs, so that the
/// contradiction is reported where it is evaluated.
fn cross(a: &[Vec<Requirement>], b: &[Vec<Requirement>]) -> Vec<Vec<Requirement>> {
    use crate::model::Op;
    let both = |x: &Vec<Requirement>, y: &Vec<Requirement>| [x.clone(), y.clone()].concat();
    let contradict = |x: &Vec<Requirement>, y: &Vec<Requirement>| {
        x.iter().any(|r| {
            y.iter()
                .filter(|s| s.key == r.key)
                .any(|s| match (&r.op, &s.op) {
                    (Op::In(p), Op::In(q)) => !p.iter().any(|v| q.contains(v)),
                    _ => false,
                })
        })
    };
    let pairs = || a.iter().flat_map(|x| b.iter().map(move |y| (x, y)));
    let fine: Vec<_> = pairs()
        .filter(|(x, y)| !contradict(x, y))
        .map(|(x, y)| both(x, y))
        .collect();
    if fine.is_empty() {
        pairs().map(|(x, y)| both(x, y)).collect()
    } else {
        fine
    }
}
