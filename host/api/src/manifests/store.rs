//! Objects of a cluster that change one at a time, as a watch reports them: a [`Reader`] that
//! forgets.
//!
//! Objects are identified by API group, kind, namespace and name. A new version replaces the old
//! one. An unreadable version of a pod or a PodDisruptionBudget counts as one that is unreadable. Of
//! other kinds it replaces nothing: the last good one stays. The problem is returned. The order of
//! arrival does not matter: [`Store::world`] is equal for equal objects. Unused shapes of pods and
//! unused strings are swept. The strings that a store began with stay, because others use them as
//! well.

use std::sync::Arc;

use longshore_core::model::{ClusterObjects, Records, Resources, Symbol, Symbols};
use rustc_hash::FxHashMap;

use super::builder::{ObjectsBuilder, PriorityClass};
use super::diagnostic::Diagnostic;
use super::normalize::renumber_shapes;
use super::{Reader, Source, TypeOf, identity};

/// The lists of a world that objects are in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Table {
    Pods,
    Nodes,
    Claims,
    Pools,
    Classes,
    Daemons,
    Workloads,
    Budgets,
    Namespaces,
    VolumeClaims,
    Volumes,
    StorageClasses,
    CsiNodes,
    CsiDrivers,
    StorageCapacities,
    Attachments,
    PriorityClasses,
    LimitRanges,
}

const TABLES: [Table; 18] = [
    Table::Pods,
    Table::Nodes,
    Table::Claims,
    Table::Pools,
    Table::Classes,
    Table::Daemons,
    Table::Workloads,
    Table::Budgets,
    Table::Namespaces,
    Table::VolumeClaims,
    Table::Volumes,
    Table::StorageClasses,
    Table::CsiNodes,
    Table::CsiDrivers,
    Table::StorageCapacities,
    Table::Attachments,
    Table::PriorityClasses,
    Table::LimitRanges,
];

/// Where an object is.
#[derive(Clone, Copy, Debug)]
struct Slot {
    table: Table,
    at: usize,
}

/// The objects of a cluster.
#[derive(Default)]
pub struct Store {
    reader: Reader,
    slots: FxHashMap<u64, Slot>,
    /// The object at each index, by table.
    owners: [Vec<u64>; TABLES.len()],
    /// What the priority of each pod is by, by its index.
    pod_priority: Records<PriorityBy>,
    /// The same of each DaemonSet's pods.
    daemon_priority: Records<PriorityBy>,
    /// How many names the table began with, which are never swept.
    lasting: usize,
    /// Names that others use beside the objects.
    kept: Vec<Symbol>,
    /// How many there were after they were last looked through.
    swept: usize,
}

/// What a pod's priority is by.
#[derive(Clone, Copy)]
enum PriorityBy {
    /// Its own field.
    Number,
    /// A class that it names, or the cluster's default.
    Class(Option<Symbol>),
}

/// Names that may be in vain before they are looked through: a megabyte of ordinary labels.
const MAX_UNUSED_NAMES: usize = 1 << 14;
/// Shapes that may be in vain: each may hold as much as one pod is allowed to.
const MAX_UNUSED_SHAPES: usize = 250;

impl Store {
    /// A store without objects.
    pub fn new() -> Self {
        Store::default()
    }

    /// A store whose strings are interned beside those of `names`, so that what was read with that
    /// table (a catalogue) can be put into its worlds.
    pub fn with_names(names: Symbols) -> Self {
        let mut store = Store::default();
        (store.lasting, store.swept) = (names.len(), names.len());
        store.reader.objects.world.names = names;
        store
    }

    /// Takes in an object, JSON as the API server writes it, in the place of an older version of
    /// it. What it does not say of its own type (items of lists do not) is `api_version` and
    /// `kind`. Kinds that planning has no use for are passed over.
    ///
    /// Returns what is wrong with a field that does not count.
    ///
    /// # Errors
    /// What is wrong with the object; an older version stays.
    pub fn apply(
        &mut self,
        api_version: &str,
        kind: &str,
        json: &str,
    ) -> Result<Option<Box<Diagnostic>>, Box<Diagnostic>> {
        let before = TABLES.map(|t| self.len(t));
        self.reader.seen.clear();
        let text = json.as_bytes();
        let mut source = Source {
            name: "watch",
            text,
            lines_before: 0,
            document: 1,
            counted: (0, 0),
        };
        self.reader.object(
            &mut source,
            0..text.len(),
            None,
            Some(&TypeOf { api_version, kind }),
        );
        let problem = self.reader.problems.list.pop().map(Box::new);
        self.reader.problems.list.clear();
        let Some(&identity) = self.reader.seen.iter().next() else {
            return problem.map_or(Ok(None), Err);
        };
        let grown = TABLES
            .iter()
            .zip(before)
            .find(|(t, before)| self.len(**t) > *before);
        let Some((&table, at)) = grown else {
            return Ok(problem);
        };
        let objects = &mut self.reader.objects;
        let by = |class: Option<(usize, _)>| {
            class.map_or(PriorityBy::Number, |(_, name)| PriorityBy::Class(name))
        };
        match table {
            Table::Pods => self.pod_priority.push(by(objects.pods_by_class.pop())),
            Table::Daemons => self
                .daemon_priority
                .push(by(objects.daemons_by_class.pop())),
            _ => {}
        }
        self.owners[table as usize].push(identity);
        if let Some(old) = self.slots.insert(identity, Slot { table, at }) {
            self.remove_slot(old);
        }
        self.sweep_names();
        Ok(problem)
    }

    /// Forgets an object; `namespace` is empty for kinds without. Says whether it was there.
    pub fn remove(&mut self, group: &str, kind: &str, namespace: &str, name: &str) -> bool {
        let identity = match namespace {
            "" => identity(group, kind, name),
            namespace => identity(group, kind, &format!("{namespace}/{name}")),
        };
        let slot = self.slots.remove(&identity);
        slot.inspect(|&slot| self.remove_slot(slot)).is_some()
    }

    /// Keeps these names, and no longer those of the last call, as if an object used them: what is
    /// made with the names of one world can be put into the next. A sweep may give a name, as any
    /// other, another symbol.
    pub fn keep_names<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        let table = &mut self.reader.objects.world.names;
        self.kept = names.into_iter().map(|name| table.intern(name)).collect();
    }

    /// Makes something with the table of names. A name that is new in it stays until the next sweep,
    /// and longer if an object uses it or [`Store::keep_names`] names it. How many names are never
    /// swept comes with it: those that the table began with.
    pub fn make_with_names<T>(&mut self, make: impl FnOnce(&mut Symbols) -> T) -> (T, usize) {
        (make(&mut self.reader.objects.world.names), self.lasting)
    }

    /// How many objects there are.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// The objects as they came, in no order, and not put in relation to each other: enough to
    /// count and to add up, and nothing to plan on.
    pub fn unsorted(&self) -> &ClusterObjects {
        &self.reader.objects.world
    }

    /// What the containers of a pod of [`Store::unsorted`] may use at most, by its index.
    pub fn limits(&self, pod: usize) -> &Resources {
        self.reader.objects.limits.get(pod)
    }

    /// Everything as it is now. The expensive part is in [`Frozen::world`], so that the folding
    /// thread continues at once.
    pub fn freeze(&self) -> Frozen {
        let objects = &self.reader.objects;
        let classes = objects.priority_classes.iter();
        let mut frozen = Frozen {
            builder: ObjectsBuilder {
                world: objects.world.clone(),
                priority_classes: classes.map(|c| PriorityClass { ..*c }).collect(),
                ..ObjectsBuilder::default()
            },
            pod_priority: self.pod_priority.clone(),
            daemon_priority: self.daemon_priority.clone(),
        };
        if !objects.limit_ranges.is_empty() {
            let builder = &mut frozen.builder;
            builder.limit_ranges.clone_from(&objects.limit_ranges);
            builder.daemon_needs.clone_from(&objects.daemon_needs);
        }
        frozen
    }

    /// Everything as a world of its own: [`Store::freeze`] and [`Frozen::world`] at once.
    pub fn world(&self) -> ClusterObjects {
        self.freeze().world()
    }

    /// Removes the object in a slot; the last one of its table moves there.
    fn remove_slot(&mut self, slot: Slot) {
        let Slot { table, at } = slot;
        let objects = &mut self.reader.objects;
        let world = &mut objects.world;
        match table {
            Table::Pods => {
                world.pods.swap_remove(at);
                objects.limits.swap_remove(at);
                self.pod_priority.swap_remove(at);
            }
            Table::Nodes => drop(world.nodes.swap_remove(at)),
            Table::Claims => drop(world.claims.swap_remove(at)),
            Table::Pools => drop(world.pools.swap_remove(at)),
            Table::Classes => drop(world.classes.swap_remove(at)),
            Table::Daemons => {
                world.daemons.swap_remove(at);
                objects.daemon_needs.swap_remove(at);
                self.daemon_priority.swap_remove(at);
            }
            Table::Workloads => drop(world.workloads.swap_remove(at)),
            Table::Budgets => drop(world.budgets.swap_remove(at)),
            Table::Namespaces => drop(world.namespaces.swap_remove(at)),
            Table::VolumeClaims => drop(world.volume_claims.swap_remove(at)),
            Table::Volumes => drop(world.volumes.swap_remove(at)),
            Table::StorageClasses => drop(world.storage_classes.swap_remove(at)),
            Table::CsiNodes => drop(world.csi_nodes.swap_remove(at)),
            Table::CsiDrivers => drop(world.csi_drivers.swap_remove(at)),
            Table::StorageCapacities => drop(world.storage_capacities.swap_remove(at)),
            Table::Attachments => drop(world.attachments.swap_remove(at)),
            Table::PriorityClasses => drop(objects.priority_classes.swap_remove(at)),
            Table::LimitRanges => drop(objects.limit_ranges.swap_remove(at)),
        }
        let owners = &mut self.owners[table as usize];
        owners.swap_remove(at);
        if let Some(moved) = owners.get(at).and_then(|owner| self.slots.get_mut(owner)) {
            moved.at = at;
        }
        let world = &mut self.reader.objects.world;
        if world.shapes.len() > 2 * (world.pods.len() + world.daemons.len()) + MAX_UNUSED_SHAPES {
            renumber_shapes(world);
        }
    }

    /// Sweeps unused names once their number has doubled since the last sweep.
    fn sweep_names(&mut self) {
        let objects = &mut self.reader.objects;
        if objects.world.names.len() < 2 * self.swept + MAX_UNUSED_NAMES {
            return;
        }
        renumber_shapes(&mut objects.world);
        let (needs, ranges) = (&mut objects.daemon_needs, &mut objects.limit_ranges);
        let (classes, limits) = (&mut objects.priority_classes, &mut objects.limits);
        let (pods, daemons) = (&mut self.pod_priority, &mut self.daemon_priority);
        let kept = &mut self.kept;
        let mut others = |visit: &mut dyn FnMut(&mut Symbol)| {
            classes.iter_mut().for_each(|class| visit(&mut class.name));
            for by in pods.iter_mut().chain(daemons.iter_mut()) {
                if let PriorityBy::Class(Some(name)) = by {
                    visit(name);
                }
            }
            limits.each(visit);
            kept.iter_mut().for_each(&mut *visit);
            needs
                .iter_mut()
                .for_each(|needs| Arc::make_mut(needs).each(visit));
            for range in &mut *ranges {
                visit(&mut range.namespace);
                range.requests.each(visit);
            }
        };
        self.swept = objects.world.sweep_names(self.lasting, &mut others);
    }

    fn len(&self, table: Table) -> usize {
        let world = &self.reader.objects.world;
        match table {
            Table::Pods => world.pods.len(),
            Table::Nodes => world.nodes.len(),
            Table::Claims => world.claims.len(),
            Table::Pools => world.pools.len(),
            Table::Classes => world.classes.len(),
            Table::Daemons => world.daemons.len(),
            Table::Workloads => world.workloads.len(),
            Table::Budgets => world.budgets.len(),
            Table::Namespaces => world.namespaces.len(),
            Table::VolumeClaims => world.volume_claims.len(),
            Table::Volumes => world.volumes.len(),
            Table::StorageClasses => world.storage_classes.len(),
            Table::CsiNodes => world.csi_nodes.len(),
            Table::CsiDrivers => world.csi_drivers.len(),
            Table::StorageCapacities => world.storage_capacities.len(),
            Table::Attachments => world.attachments.len(),
            Table::PriorityClasses => self.reader.objects.priority_classes.len(),
            Table::LimitRanges => self.reader.objects.limit_ranges.len(),
        }
    }
}

/// The objects of a [`Store`] at a moment, which the store goes on from. Copies share them.
pub struct Frozen {
    builder: ObjectsBuilder,
    pod_priority: Records<PriorityBy>,
    daemon_priority: Records<PriorityBy>,
}

impl Frozen {
    /// Everything as a world, in an order that does not depend on how it came. `now`, settings and
    /// the catalogue are left to the caller.
    pub fn world(self) -> ClusterObjects {
        let by_class = |all: &Records<PriorityBy>| {
            let classes = all.iter().enumerate().filter_map(|(at, by)| match by {
                PriorityBy::Number => None,
                PriorityBy::Class(name) => Some((at, *name)),
            });
            classes.collect()
        };
        let mut builder = self.builder;
        builder.pods_by_class = by_class(&self.pod_priority);
        builder.daemons_by_class = by_class(&self.daemon_priority);
        builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use longshore_core::model::ResourceId;

    use super::*;

    fn pod(name: &str, cpu: &str) -> String {
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"shop"}},"spec":{{"containers":
            [{{"name":"c","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]}},"status":{{"phase":"Pending"}}}}"#
        )
    }

    fn names(store: &Store) -> Vec<(String, i64)> {
        let world = store.world();
        let cpu = |p: &longshore_core::model::Pod| {
            world
                .shapes
                .get(p.shape)
                .requests
                .get(longshore_core::model::ResourceId::Cpu)
        };
        world
            .pods
            .iter()
            .map(|p| (p.name.to_string(), cpu(p)))
            .collect()
    }

    #[test]
    fn a_new_version_takes_the_place_of_the_old_one() {
        let mut store = Store::new();
        for (name, cpu) in [("b", "1"), ("a", "2"), ("c", "3"), ("a", "4")] {
            store.apply("v1", "Pod", &pod(name, cpu)).unwrap();
        }
        assert_eq!(
            names(&store),
            [("a".into(), 4000), ("b".into(), 1000), ("c".into(), 3000)]
        );
        assert!(store.remove("", "Pod", "shop", "b"));
        assert!(!store.remove("", "Pod", "shop", "b"));
        assert_eq!(names(&store), [("a".into(), 4000), ("c".into(), 3000)]);
        assert!(store.remove("", "Pod", "shop", "a"));
        assert!(store.remove("", "Pod", "shop", "c"));
        assert_eq!(store.count(), 0);
    }

    #[test]
    fn a_version_of_a_pod_that_cannot_be_read_takes_its_place_all_the_same() {
        let mut store = Store::new();
        store.apply("v1", "Pod", &pod("a", "1")).unwrap();
        let problem = store.apply("v1", "Pod", &pod("a", "-1")).unwrap();
        let problem = problem
            .map(|problem| problem.to_string())
            .unwrap_or_default();
        assert!(problem.contains("shop/a"), "{problem}");
        assert_eq!(
            names(&store),
            [("a".into(), i64::MAX)],
            "what it asks for is unknown, so its node is full"
        );
        assert!(store.world().pods[0].unreadable);
        store.apply("v1", "Pod", &pod("a", "2")).unwrap();
        assert_eq!(names(&store), [("a".into(), 2000)]);
        assert!(store.remove("", "Pod", "shop", "a"));
        assert_eq!(store.count(), 0);
    }

    #[test]
    fn a_version_of_anything_else_that_cannot_be_read_leaves_the_last_good_one() {
        let class = |provisioner: &str| {
            format!(r#"{{"metadata":{{"name":"fast"}},"provisioner":{provisioner}}}"#)
        };
        let mut store = Store::new();
        let apply =
            |store: &mut Store, text: &str| store.apply("storage.k8s.io/v1", "StorageClass", text);
        apply(&mut store, &class(r#""ebs.csi.aws.com""#)).unwrap();
        assert!(apply(&mut store, &class("null")).is_err());
        assert_eq!(store.world().storage_classes.len(), 1);
    }

    #[test]
    fn a_field_that_cannot_be_read_is_reported_and_the_object_counts() {
        let pool = |cost: &str| {
            let class = r#"{"group":"g.io","kind":"KWOKNodeClass","name":"default"}"#;
            format!(
                r#"{{"metadata":{{"name":"main","annotations":{{"longshore.dev/move-cost":"{cost}"}}}},
                "spec":{{"template":{{"spec":{{"nodeClassRef":{class}}}}}}}}}"#
            )
        };
        let mut store = Store::new();
        let mut costs = Vec::new();
        for cost in ["25%", "ten", "50%"] {
            let note = store
                .apply("karpenter.sh/v1", "NodePool", &pool(cost))
                .unwrap();
            costs.push((store.world().pools[0].move_cost, note.is_some()));
        }
        let share = |share| Some(longshore_core::model::MoveCost::Share(share));
        assert_eq!(
            costs,
            [(share(0.25), false), (None, true), (share(0.5), false)]
        );
        assert_eq!(store.count(), 1);
    }

    #[test]
    fn limits_stay_with_their_pod() {
        let mut store = Store::new();
        let pod = |name: &str, limits: &str, init: &str| {
            format!(
                r#"{{"metadata":{{"name":"{name}"}},"spec":{{"containers":[{{"name":"c","resources":{{"limits":{{{limits}}}}}}},
                {{"name":"d","resources":{{"requests":{{"memory":"1Gi"}}}}}}],"initContainers":[{{"name":"i",
                "resources":{{"limits":{{{init}}}}}}}],"overhead":{{"cpu":"10m","memory":"1Mi"}}}}}}"#
            )
        };
        for (name, limits, init) in [
            ("a", r#""cpu":"1""#, r#""cpu":"2""#),
            ("b", "", ""),
            ("c", r#""cpu":"3""#, ""),
        ] {
            store.apply("v1", "Pod", &pod(name, limits, init)).unwrap();
        }
        store.remove("", "Pod", "default", "a");
        for round in 1..3_000 {
            store
                .apply("v1", "Pod", &pod("d", &format!(r#""cpu":"{round}m""#), ""))
                .unwrap();
        }
        let cpu = |at: usize| store.limits(at).get(longshore_core::model::ResourceId::Cpu);
        let mut all: Vec<(&str, i64)> = store
            .unsorted()
            .pods
            .iter()
            .enumerate()
            .map(|(at, pod)| (&*pod.name, cpu(at)))
            .collect();
        all.sort_unstable();
        assert_eq!(all, [("b", 0), ("c", 3010), ("d", 3009)]);
    }

    #[test]
    fn defaults_of_a_limit_range_come_and_go_with_it() {
        let mut store = Store::new();
        let daemon = |namespace: &str| {
            let name = format!(r#""name":"log","namespace":"{namespace}""#);
            let resources = r#"{"requests":{"cpu":"0"}}"#;
            format!(
                r#"{{"metadata":{{{name}}},"spec":{{"template":{{"spec":{{"containers":[{{"name":"c"}},
                {{"name":"d","resources":{resources}}}]}}}}}}}}"#
            )
        };
        let range = |cpu: &str| {
            format!(
                r#"{{"metadata":{{"name":"r","namespace":"shop"}},"spec":{{"limits":[{{"type":"Container",
                "default":{{"cpu":"{cpu}"}}}}]}}}}"#
            )
        };
        let cpu = |store: &Store| {
            let world = store.world();
            let of = |d: &longshore_core::model::DaemonSet| {
                world.shapes.get(d.template).requests.get(ResourceId::Cpu)
            };
            world.daemons.iter().map(of).collect::<Vec<_>>()
        };
        // Before the DaemonSets, changed after them, beside others that are gone by then.
        store.apply("v1", "LimitRange", &range("1")).unwrap();
        for namespace in ["other", "shop", "third"] {
            store
                .apply("apps/v1", "DaemonSet", &daemon(namespace))
                .unwrap();
        }
        assert_eq!(cpu(&store), [0, 1000, 0]);
        store.apply("v1", "LimitRange", &range("2")).unwrap();
        assert_eq!(cpu(&store), [0, 2000, 0]);
        assert!(store.remove("apps", "DaemonSet", "other", "log"));
        assert_eq!(cpu(&store), [2000, 0]);
        assert!(store.remove("", "LimitRange", "shop", "r"));
        assert_eq!(cpu(&store), [0, 0]);
    }

    #[test]
    fn shapes_that_nobody_has_are_swept() {
        let mut store = Store::new();
        for cpu in 1..5_000 {
            store
                .apply("v1", "Pod", &pod("a", &format!("{cpu}m")))
                .unwrap();
        }
        assert!(store.reader.objects.world.shapes.len() < 1_100);
        assert_eq!(names(&store), [("a".into(), 4_999)]);
    }

    /// Pods with labels of their own come and go; what stays is what is used, whatever number it
    /// has.
    #[test]
    fn names_that_nobody_uses_are_swept() {
        let mut names = Symbols::default();
        let lasting = names.intern("of the catalogue");
        let mut store = Store::with_names(names);
        let class = r#"{"metadata":{"name":"urgent"},"value":7}"#;
        store
            .apply("scheduling.k8s.io/v1", "PriorityClass", class)
            .unwrap();
        let stays = r#"{"metadata":{"name":"stays","labels":{"zz":"9","aa":"1","team":"shop"}},"spec":{"priorityClassName":
            "urgent","nodeSelector":{"zone":"a","arch":"arm64"},"containers":[{"name":"c","resources":{"limits":
            {"example.com/gpu":"1"},"requests":{"example.com/gpu":"1","cpu":"2"}}}]}}"#;
        for number in 0..500 {
            if number == 250 {
                store.apply("v1", "Pod", stays).unwrap();
            }
            let labels: Vec<String> = (0..200)
                .map(|at| format!(r#""label-{number}-{at}":"{at}""#))
                .collect();
            let pod = format!(
                r#"{{"metadata":{{"name":"p","labels":{{{}}}}},"spec":{{}}}}"#,
                labels.join(",")
            );
            store.apply("v1", "Pod", &pod).unwrap();
        }
        let world = store.world();
        assert!(
            world.names.len() < 50_000,
            "{} of 100 000 names are there",
            world.names.len()
        );
        assert_eq!(world.names.text(lasting), "of the catalogue");
        assert_eq!(world.names.get("label-1-1"), None, "swept");
        let mut other = Store::new();
        other.apply("v1", "Pod", stays).unwrap();
        other
            .apply("scheduling.k8s.io/v1", "PriorityClass", class)
            .unwrap();
        let shape = |world: &ClusterObjects| {
            let pod = world.pods.iter().find(|pod| &*pod.name == "stays").unwrap();
            let shape = world.shapes.get(pod.shape);
            let text = |sym| world.names.text(sym).to_owned();
            let mut labels: Vec<_> = shape
                .labels
                .iter()
                .map(|(key, value)| (text(key), text(value)))
                .collect();
            labels.sort();
            let mut selector: Vec<_> = shape.node_selector.iter().map(|r| text(r.key)).collect();
            selector.sort();
            let mut asks: Vec<_> = shape
                .requests
                .iter()
                .map(|(r, n)| (r.name(&world.names).to_owned(), n))
                .collect();
            asks.sort();
            (
                text(shape.namespace),
                labels,
                selector,
                asks,
                shape.priority,
            )
        };
        assert_eq!(shape(&world), shape(&other.world()));
        assert_eq!(shape(&world).4, 7);
        let at = store
            .unsorted()
            .pods
            .iter()
            .position(|pod| &*pod.name == "stays")
            .unwrap();
        let gpu = store.unsorted().names.get("example.com/gpu").unwrap();
        assert_eq!(
            store
                .limits(at)
                .get(longshore_core::model::ResourceId::Other(gpu)),
            1
        );
        let labels = &store
            .unsorted()
            .shapes
            .get(store.unsorted().pods[at].shape)
            .labels;
        let team = store.unsorted().names.get("team").unwrap();
        assert_eq!(
            labels
                .get(team)
                .map(|value| store.unsorted().names.text(value)),
            Some("shop")
        );
    }

    #[test]
    fn names_that_others_use_are_not_swept() {
        let mut store = Store::new();
        store.keep_names(["example.com/fuse", "gone"]);
        store.keep_names(["example.com/fuse"]);
        for number in 0..500 {
            let labels: Vec<String> = (0..200)
                .map(|at| format!(r#""label-{number}-{at}":"{at}""#))
                .collect();
            let labels = labels.join(",");
            let pod = format!(r#"{{"metadata":{{"name":"p","labels":{{{labels}}}}},"spec":{{}}}}"#);
            store.apply("v1", "Pod", &pod).unwrap();
        }
        let names = store.world().names;
        assert!(names.len() < 50_000, "{} names are there", names.len());
        assert!(names.get("example.com/fuse").is_some());
        assert_eq!(names.get("gone"), None, "swept");
    }

    #[test]
    fn kinds_without_use_are_passed_over() {
        let mut store = Store::new();
        store
            .apply("v1", "ConfigMap", r#"{"metadata":{"name":"x"}}"#)
            .unwrap();
        assert_eq!(store.count(), 0);
    }
}
