//! Bootstrap policies in force: what nodes of EC2 boot with, and what catalogues count with.
//!
//! All NodePools of an EC2NodeClass share its catalogue, so one policy is asked for all of them.
//! Where they have different ones, or would keep back different amounts, all of its nodes boot with
//! the built-in user data, and a notice says so. Where the policy fails, `on-failure` decides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use kube::ResourceExt as _;
use longshore_api::crd::{NodePool, Operator};
use longshore_aws::boot::{Bootstrap, Rendered};
use longshore_ec2::bootstrap::{Joins, Kept};
use longshore_ec2::catalogue::{ClassCatalogue, Region, Revisions};
use longshore_ec2::nodeclass::EC2NodeClass;
use longshore_ec2::userdata::{Boot, Taint};

use crate::bootstrap::{BootPolicy, BootedBy, CatalogueMachines, NodesOf, count_with};
use crate::live::policies::{BootSlot, Kind, PolicyReloader};
use crate::live::process::lock::lock;
use crate::managed::Managed;

/// Texts that are kept: one for each kind of node that is launched lately.
const MAX_CACHED_TEXTS: usize = 64;
/// How long a policy that failed is not asked the same again.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// The policies of the configuration that is in force.
pub struct LiveBootstrap {
    policies: PolicyReloader,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    slots: Arc<[BootSlot]>,
    version: u64,
    /// By name of the slot.
    asked: BTreeMap<String, BootPolicy>,
    /// What NodePools make of each EC2NodeClass: name of the class and nodes, by NodePool.
    pools: BTreeMap<String, (String, NodesOf)>,
    /// The policy that counts for a class; nothing where the built-in user data does.
    chosen: BTreeMap<String, Option<String>>,
    /// Classes whose catalogue counts with what answered instead of the policy.
    failed: BTreeSet<String>,
    rendered: Vec<Known>,
    /// What was said last of each class.
    said: BTreeMap<String, Vec<String>>,
}

/// What was rendered, or why nothing may be launched.
type Made = Result<Option<Arc<Rendered>>, String>;

/// A text that is kept.
struct Known {
    key: Key,
    made: Made,
    /// When the policy failed to answer.
    failed: Option<Instant>,
}

/// What an answer depends on.
#[derive(PartialEq)]
struct Key {
    version: u64,
    revisions: (u64, u64),
    class: EC2NodeClass,
    boot: String,
}

impl LiveBootstrap {
    /// The bootstrap policies of a reloader.
    pub fn new(policies: PolicyReloader) -> Self {
        LiveBootstrap {
            policies,
            inner: Mutex::default(),
        }
    }

    /// A NodePool as it stands now, or that it is gone.
    pub fn note_pool(&self, name: &str, json: Option<&str>) {
        let pool = json.and_then(|json| serde_json::from_str::<NodePool>(json).ok());
        let made = pool.as_ref().and_then(nodes_of);
        let mut inner = lock(&self.inner);
        if inner.pools.get(name) == made.as_ref() {
            return;
        }
        match made {
            Some(made) => drop(inner.pools.insert(name.to_owned(), made)),
            None => drop(inner.pools.remove(name)),
        }
        inner.version += 1;
    }

    /// What is in force now.
    fn current(&self) -> MutexGuard<'_, Inner> {
        let slots = self.policies.boots();
        let mut inner = lock(&self.inner);
        if Arc::ptr_eq(&inner.slots, &slots) {
            return inner;
        }
        for slot in slots.iter() {
            let asked = inner.asked.entry(slot.name.clone()).or_insert_with(|| {
                BootPolicy::configured(slot.on_failure, self.policies.last_texts(&slot.name))
            });
            asked.fails_with(slot.on_failure);
            // Whatever is in a slot says what nodes boot with: the watcher has seen to it.
            if let Some(policy) = &slot.policy {
                _ = asked.replace(policy.clone());
            }
        }
        let names: BTreeSet<&String> = slots.iter().map(|slot| &slot.name).collect();
        inner.asked.retain(|name, _| names.contains(name));
        inner.slots = slots;
        inner.version += 1;
        inner.rendered.clear();
        inner
    }

    /// Has the status say whose answer counts, and keeps what was answered for a later process.
    fn note(&self, inner: &Inner, policy: &str, by: BootedBy, notes: &[String]) {
        let failing = (by != BootedBy::Current).then(|| notes.join("; "));
        self.policies.booted(policy, by, failing);
        if let Some(asked) = inner.asked.get(policy) {
            self.policies.keep_texts(policy, asked.last_texts());
        }
    }

    /// Says what was refused and what answers instead, each time that it is something else.
    fn tell(&self, inner: &mut Inner, class: &str, policy: &str, notes: Vec<String>) {
        if inner.said.get(class) == Some(&notes) {
            return;
        }
        let recovered = notes.is_empty() && inner.said.contains_key(class);
        for note in &notes {
            let message = format!("EC2NodeClass {class}: {note}");
            self.policies.report(Kind::PolicyFailing, policy, &message);
        }
        if recovered {
            let message = format!("EC2NodeClass {class}: it answers again");
            self.policies
                .report(Kind::PolicyRecovered, policy, &message);
        }
        match notes.is_empty() {
            true => drop(inner.said.remove(class)),
            false => drop(inner.said.insert(class.to_owned(), notes)),
        }
    }
}

impl Inner {
    /// The policy of a NodePool: the first of the configuration that is for it.
    fn slot_of(&self, pool: &str) -> Option<&BootSlot> {
        let is_for = |slot: &&BootSlot| {
            let pools = slot.nodepools.as_ref();
            pools.is_none_or(|pools| pools.iter().any(|name| name == pool))
        };
        self.slots.iter().find(is_for)
    }

    /// The policy of all NodePools of a class, and their nodes.
    ///
    /// # Errors
    /// They have different ones: their names.
    fn policy_of(&self, class: &str) -> Result<Option<(String, Vec<NodesOf>)>, String> {
        let mine = self.pools.values().filter(|(of, _)| of == class);
        let nodes: Vec<NodesOf> = mine.map(|(_, nodes)| nodes.clone()).collect();
        let policies: BTreeSet<Option<&str>> = nodes
            .iter()
            .map(|nodes| self.slot_of(&nodes.node_pool).map(|slot| &*slot.name))
            .collect();
        let mut policies = policies.into_iter();
        match (policies.next(), policies.next()) {
            (Some(Some(only)), None) => Ok(Some((only.to_owned(), nodes))),
            (None | Some(None), None) => Ok(None),
            (one, other) => {
                let names = [one, other].into_iter().flatten().chain(policies);
                let names = names.map(|name| name.unwrap_or("none"));
                Err(names.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl Bootstrap for LiveBootstrap {
    fn version(&self) -> u64 {
        self.current().version
    }

    fn count(
        &self,
        region: &Region,
        catalogue: &mut ClassCatalogue,
        class: &EC2NodeClass,
        joins: &Joins<'_>,
    ) {
        let name = class.name_any();
        let mut inner = self.current();
        let (policy, nodes) = match inner.policy_of(&name) {
            Ok(Some(found)) => found,
            Ok(None) => {
                inner.chosen.insert(name, None);
                return;
            }
            Err(names) => {
                let note = format!(
                    "its NodePools have different bootstrap policies ({names}), so all nodes boot \
                     with the built-in user data"
                );
                inner.chosen.insert(name.clone(), None);
                self.tell(&mut inner, &name, "bootstrap", vec![note]);
                return;
            }
        };
        let Some(asked) = inner.asked.get_mut(&policy) else {
            return;
        };
        let counted = count_with(asked, region, catalogue, class, *joins, &nodes);
        let (is_used, notes) = match counted {
            Ok(counted) => {
                let by = counted.instead.last().copied().unwrap_or_default();
                self.note(&inner, &policy, by, &counted.notes);
                match by {
                    BootedBy::Current => inner.failed.remove(&name),
                    _ => inner.failed.insert(name.clone()),
                };
                (!counted.built_in, counted.notes)
            }
            // The class says so itself.
            Err(fault) => (false, vec![fault.to_string()]),
        };
        let chosen = is_used.then(|| policy.clone());
        inner.chosen.insert(name.clone(), chosen);
        self.tell(&mut inner, &name, &policy, notes);
    }

    fn render(
        &self,
        region: &Region,
        catalogue: &ClassCatalogue,
        class: &EC2NodeClass,
        joins: &Joins<'_>,
        boot: &Boot,
    ) -> Made {
        let mut inner = self.current();
        let name = class.name_any();
        let Some(policy) = inner.chosen.get(&name).cloned().flatten() else {
            return Ok(None);
        };
        let Revisions { types, memory, .. } = region.revisions();
        let key = Key {
            version: inner.version,
            revisions: (types, memory),
            class: class.clone(),
            boot: format!("{boot:?}"),
        };
        let waits = |failed: Instant| failed.elapsed() < ASK_AGAIN;
        inner
            .rendered
            .retain(|known| known.failed.is_none_or(waits));
        if let Some(known) = inner.rendered.iter().find(|known| known.key == key) {
            return known.made.clone();
        }
        let Some(asked) = inner.asked.get_mut(&policy) else {
            return Ok(None);
        };
        let Ok(machines) = CatalogueMachines::new(region, catalogue, class, joins.kubernetes, boot)
        else {
            return Ok(None);
        };
        let booted = |at: usize, said: &_| machines.booted(region, catalogue, at, said);
        let Some(request) = machines.request(&booted) else {
            return Ok(None);
        };
        let answer = asked.ask(&request);
        let (by, mut notes) = (answer.by, answer.notes);
        self.note(&inner, &policy, by, &notes);
        let counted = |at: usize| Some(Kept::of(catalogue.machine(at)));
        let as_counted = (0..answer.kept.len()).all(|at| answer.kept[at] == counted(at));
        let fails = by != BootedBy::Current || inner.failed.contains(&name);
        let made = match (by, as_counted, fails) {
            (BootedBy::Hold, ..) => Err(held(&policy, &notes)),
            (BootedBy::BuiltIn, ..) => Ok(None),
            (_, true, _) => Ok(Some(Arc::new(Rendered {
                texts: answer.texts,
                of: answer.of,
            }))),
            // The catalogue counts with another answer.
            (_, false, true) => {
                notes.push("nodes are counted with another answer".to_owned());
                // It is counted anew, now that the policy answers.
                inner.version += u64::from(by == BootedBy::Current);
                Err(held(&policy, &notes))
            }
            (_, false, false) => {
                notes.push(
                    "a node's labels or taints would have it keep back other amounts than are \
                     counted with, so it boots with the built-in user data"
                        .to_owned(),
                );
                Ok(None)
            }
        };
        self.tell(&mut inner, &name, &policy, notes);
        if inner.rendered.len() == MAX_CACHED_TEXTS {
            inner.rendered.remove(0);
        }
        inner.rendered.push(Known {
            key,
            made: made.clone(),
            failed: fails.then(Instant::now),
        });
        made
    }
}

/// Why no node is launched.
fn held(policy: &str, notes: &[String]) -> String {
    let notes = notes.join("; ");
    format!("bootstrap policy {policy} does not say what the node boots with: {notes}")
}

/// The class and the nodes of a NodePool of EC2.
fn nodes_of(pool: &NodePool) -> Option<(String, NodesOf)> {
    let template = &pool.spec.template;
    if !Managed::EC2.pool(pool) {
        return None;
    }
    let class = &template.spec.node_class_ref;
    let name = pool.name_any();
    let single = |one: &&longshore_api::crd::Requirement| {
        one.operator == Operator::In && one.values.len() == 1
    };
    let required = template.spec.requirements.iter().filter(single);
    let required = required.map(|one| (one.key.clone(), one.values[0].clone()));
    let own = template.metadata.labels.clone().unwrap_or_default();
    let taint = |one: &longshore_api::crd::Taint| Taint {
        key: one.key.clone(),
        value: one.value.clone(),
        effect: one.effect.as_str().to_owned(),
        time_added: None,
    };
    let (lasting, startup) = (&template.spec.taints, &template.spec.startup_taints);
    let taints = lasting.iter().flatten().chain(startup.iter().flatten());
    let nodes = NodesOf::new(name, required.chain(own), taints.map(taint));
    Some((class.name.clone(), nodes))
}
