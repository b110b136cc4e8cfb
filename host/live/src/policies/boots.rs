//! Bootstrap policies in force: what nodes of EC2 boot with, and what catalogues count with.
//!
//! Each NodePool has the first policy of the configuration that is for it. All NodePools of an
//! EC2NodeClass share its catalogue, which counts with one amount that a node keeps back. Where they
//! agree, each NodePool's nodes boot with its own policy's text. Where they do not, the catalogue
//! counts with what the built-in user data keeps back: a policy that says otherwise is taken for one
//! that failed.
//!
//! Where a policy fails, `on-failure` decides. While no node of a NodePool may be launched, nothing is
//! bought for it either, so that its pods find other NodePools.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use kube::ResourceExt as _;
use longshore_api::crd::{NodePool, Operator};
use longshore_api::labels::NODEPOOL;
use longshore_ec2::bootstrap::{Joins, Kept};
use longshore_ec2::catalogue::{ClassCatalogue, Region, Revisions};
use longshore_ec2::launch::{BootTexts, DRY_RUN_NODEPOOL};
use longshore_ec2::nodeclass::EC2NodeClass;
use longshore_ec2::userdata::{Boot, taint};
use longshore_policy::{LoadedPolicy, OnFailure};

use super::next_version::{BOOTS, Sighting};
use super::notice::NoticeKind;
use super::reloader::PolicyReloader;
use super::serve::BootSlot;
use crate::bootstrap::{
    BootPolicy, BootedBy, CatalogueMachines, NodesOf, PoolAnswer, ask_about, ask_alone,
    count_together,
};
use crate::canary::{Facts, Fault};
use crate::managed::Managed;
use crate::process::lock::lock;

/// Texts that are kept: one for each kind of node that is launched lately.
const MAX_CACHED_TEXTS: usize = 64;
/// How long a policy that failed is not asked the same again.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// The policies of the configuration that is in force.
pub struct LiveBootstrap {
    policies: PolicyReloader,
    asks_again: Duration,
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
    /// What counts for the nodes of each NodePool, once its class was counted.
    chosen: BTreeMap<String, Chosen>,
    /// When a class was counted last of which a NodePool's nodes may not be launched.
    held: Option<Instant>,
    rendered: Vec<KeptText>,
    /// What was said last of each class by each policy.
    said: BTreeMap<(String, String), Vec<String>>,
}

/// What counts for the nodes of a NodePool.
#[derive(Clone, Debug, PartialEq)]
enum Chosen {
    BuiltIn,
    /// The answer of a policy.
    Policy {
        name: String,
        /// The catalogue counts with what answered instead of it.
        failed: bool,
    },
    /// Nothing may answer instead of the policy, so no node is launched.
    Held {
        policy: String,
        why: String,
    },
}

/// What was rendered, or why nothing may be launched.
type Made = Result<Option<Arc<BootTexts>>, String>;

/// A text that is kept.
struct KeptText {
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
    /// The next version of a policy, if that is asked.
    next: Option<String>,
}

impl LiveBootstrap {
    /// The bootstrap policies of a reloader.
    pub fn new(policies: PolicyReloader) -> Self {
        LiveBootstrap::asking_again(policies, ASK_AGAIN)
    }

    /// As [`LiveBootstrap::new`], with another pause before one that failed is asked again.
    pub fn asking_again(policies: PolicyReloader, after: Duration) -> Self {
        LiveBootstrap {
            policies,
            asks_again: after,
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
        inner.chosen.remove(name);
        match made {
            Some(made) => drop(inner.pools.insert(name.to_owned(), made)),
            None => drop(inner.pools.remove(name)),
        }
        inner.version += 1;
    }

    /// Tells one state of it from the next. While nodes may not be launched, it is another one now and
    /// then, so that the policies are asked again.
    pub fn version(&self) -> u64 {
        let mut inner = self.current();
        let is_due = |at: &mut Instant| at.elapsed() >= self.asks_again;
        if inner.held.take_if(is_due).is_some() {
            inner.version += 1;
        }
        inner.version
    }

    /// Has the catalogue of a class count with what its nodes keep back.
    pub fn count(
        &self,
        region: &Region,
        catalogue: &mut ClassCatalogue,
        class: &EC2NodeClass,
        joins: &Joins<'_>,
    ) {
        let name = class.name_any();
        let mut inner = self.current();
        let pools = inner.pools.values().filter(|(of, _)| *of == name);
        let pools: Vec<NodesOf> = pools.map(|(_, nodes)| nodes.clone()).collect();
        let mut answers: Vec<Option<PoolAnswer>> = Vec::new();
        let mut policies: Vec<Option<String>> = Vec::new();
        for nodes in &pools {
            let policy = inner.slot_of(&nodes.node_pool);
            let policy = policy.map(|slot| slot.name.clone());
            let asked = policy.as_ref().and_then(|name| inner.asked.get_mut(name));
            // Of a class whose user data cannot be rendered the class says so itself.
            let answer =
                asked.map(|asked| ask_about(asked, region, catalogue, class, *joins, nodes));
            answers.push(answer.and_then(Result::ok).flatten());
            policies.push(policy);
        }
        let refused = count_together(catalogue, region, &answers);
        let mut notes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (((nodes, policy), answer), refused) in
            pools.iter().zip(policies).zip(answers).zip(refused)
        {
            let (Some(policy), Some(answer)) = (policy, answer) else {
                inner
                    .chosen
                    .insert(nodes.node_pool.clone(), Chosen::BuiltIn);
                continue;
            };
            let said = notes.entry(policy.clone()).or_default();
            let own = said.len();
            said.extend(answer.notes);
            let (mut by, is_refused) = (answer.by, refused.is_some());
            if let Some(why) = refused {
                let (instead, words) = inner.instead_of(&policy);
                said.push(format!("NodePool {}: {why}; {words}", nodes.node_pool));
                by = instead;
            }
            self.note(&inner, &policy, by, &said[own..]);
            let chosen = match by {
                BootedBy::Hold => Chosen::Held {
                    why: held(&policy, &said[own..]),
                    policy,
                },
                BootedBy::BuiltIn if is_refused => Chosen::BuiltIn,
                _ => Chosen::Policy {
                    name: policy,
                    failed: by != BootedBy::Current,
                },
            };
            inner.chosen.insert(nodes.node_pool.clone(), chosen);
        }
        self.hold(&mut inner);
        self.tell_all(&mut inner, &name, notes);
    }

    /// User data for nodes of a class; nothing for the built-in. `boot` is the node to come before the
    /// DNS address and the number of pods are added. `annotations` are the NodeClaim's: one that is
    /// marked for it boots with the next version of a policy.
    ///
    /// # Errors
    /// No node may be launched now: why.
    pub fn render(
        &self,
        region: &Region,
        catalogue: &ClassCatalogue,
        class: &EC2NodeClass,
        joins: &Joins<'_>,
        boot: &Boot,
        annotations: &BTreeMap<String, String>,
    ) -> Made {
        let mut inner = self.current();
        let name = class.name_any();
        let mut pool = boot.labels.get(NODEPOOL).cloned().unwrap_or_default();
        if pool == DRY_RUN_NODEPOOL && !inner.pools.contains_key(&pool) {
            // It tries what the nodes of the class boot with.
            let mut pools = inner.pools.iter();
            match pools.find(|(_, (of, _))| *of == name) {
                Some((first, _)) => pool.clone_from(first),
                None => return Ok(None),
            }
        }
        let waits = |failed: Instant| failed.elapsed() < self.asks_again;
        let next = inner.next_of(&pool, annotations);
        let Revisions { types, memory, .. } = region.revisions();
        let key = Key {
            version: inner.version,
            revisions: (types, memory),
            class: class.clone(),
            boot: format!("{boot:?}"),
            next: next.as_ref().map(|next| next.mark.clone()),
        };
        inner
            .rendered
            .retain(|known| known.failed.is_none_or(waits));
        if let Some(next) = next {
            if let Some(known) = inner.rendered.iter().find(|known| known.key == key) {
                return known.made.clone();
            }
            let made = next.render(region, catalogue, class, joins, boot);
            let failed = made.is_err().then(Instant::now);
            if let Err(Some(fault)) = &made {
                self.policies.sight(vec![next.sighting(fault.clone())]);
            }
            let made = made.map_err(|fault| next.held(fault));
            inner.keep(KeptText {
                key,
                made: made.clone(),
                failed,
            });
            return made;
        }
        let mut was_held = None;
        let (policy, has_failed) = match inner.chosen.get(&pool) {
            Some(Chosen::Policy { name, failed }) => (name.clone(), *failed),
            Some(Chosen::Held { why, .. }) if inner.held.is_some_and(waits) => {
                return Err(why.clone());
            }
            // Where nothing is planned it is asked here.
            Some(Chosen::Held { policy, why }) => {
                was_held = Some(why.clone());
                (policy.clone(), true)
            }
            Some(Chosen::BuiltIn) => return Ok(None),
            None => match inner.slot_of(&pool) {
                Some(slot) => {
                    let why = ["its NodePool is new or has changed".to_owned()];
                    return Err(held(&slot.name, &why));
                }
                None => return Ok(None),
            },
        };
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
        let counted = |at: usize| Some(Kept::of(catalogue.machine(at)));
        let as_counted = (0..answer.kept.len()).all(|at| answer.kept[at] == counted(at));
        if let Some(why) = was_held.filter(|_| by == BootedBy::Current && !as_counted) {
            // It is counted anew: whether the class can count with this answer is found there.
            inner.version += 1;
            return Err(why);
        }
        self.note(&inner, &policy, by, &notes);
        let fails = by != BootedBy::Current || has_failed;
        let made = match (by, as_counted, fails) {
            (BootedBy::Hold, ..) => Err(held(&policy, &notes)),
            (BootedBy::BuiltIn, ..) => Ok(None),
            (_, true, _) => Ok(Some(Arc::new(BootTexts {
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
                let (instead, words) = inner.instead_of(&policy);
                notes.push(format!(
                    "a node's labels or taints would have it keep back other amounts than are \
                     counted with; {words}"
                ));
                match instead {
                    BootedBy::Hold => Err(held(&policy, &notes)),
                    _ => Ok(None),
                }
            }
        };
        self.tell(&mut inner, &name, &policy, notes);
        inner.keep(KeptText {
            key,
            made: made.clone(),
            failed: (fails || made.is_err()).then(Instant::now),
        });
        made
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

    /// Has nothing bought for NodePools whose nodes may not be launched.
    fn hold(&self, inner: &mut Inner) {
        let held = inner
            .chosen
            .iter()
            .filter_map(|(pool, chosen)| match chosen {
                Chosen::Held { policy, .. } => Some((pool.clone(), policy.as_str().into())),
                Chosen::BuiltIn | Chosen::Policy { .. } => None,
            });
        let held: BTreeMap<String, Arc<str>> = held.collect();
        inner.held = (!held.is_empty()).then(Instant::now);
        self.policies.hold(held);
    }

    /// Has the status say whose answer counts, and keeps what was answered for a later process.
    fn note(&self, inner: &Inner, policy: &str, by: BootedBy, notes: &[String]) {
        let failing = (by != BootedBy::Current).then(|| notes.join("; "));
        self.policies.booted(policy, by, failing);
        if let Some(asked) = inner.asked.get(policy) {
            self.policies.keep_texts(policy, asked.last_texts());
        }
    }

    /// Says what each policy had to say of a class. One that is not asked about it any more is
    /// forgotten.
    fn tell_all(&self, inner: &mut Inner, class: &str, notes: BTreeMap<String, Vec<String>>) {
        let is_asked = |of: &str, policy: &String| of != class || notes.contains_key(policy);
        inner.said.retain(|(of, policy), _| is_asked(of, policy));
        for (policy, notes) in notes {
            self.tell(inner, class, &policy, notes);
        }
    }

    /// Says what was refused and what answers instead, each time that it is something else.
    fn tell(&self, inner: &mut Inner, class: &str, policy: &str, notes: Vec<String>) {
        let key = (class.to_owned(), policy.to_owned());
        if inner.said.get(&key) == Some(&notes) {
            return;
        }
        let recovered = notes.is_empty() && inner.said.contains_key(&key);
        for note in &notes {
            let message = format!("EC2NodeClass {class}: {note}");
            self.policies
                .report(NoticeKind::PolicyFailing, policy, &message);
        }
        if recovered {
            let message = format!("EC2NodeClass {class}: it answers again");
            self.policies
                .report(NoticeKind::PolicyRecovered, policy, &message);
        }
        match notes.is_empty() {
            true => drop(inner.said.remove(&key)),
            false => drop(inner.said.insert(key, notes)),
        }
    }
}

impl Inner {
    /// The policy of a NodePool: the first of the configuration that is for it.
    fn slot_of(&self, pool: &str) -> Option<&BootSlot> {
        self.slots.iter().find(|slot| slot.serves(pool))
    }

    /// The next version that a NodeClaim is marked for.
    fn next_of(&self, pool: &str, annotations: &BTreeMap<String, String>) -> Option<Next> {
        let marked = annotations.get(BOOTS)?;
        let slot = self.slot_of(pool)?;
        let (mark, policy) = slot.next.as_ref().filter(|(mark, _)| mark == marked)?;
        Some(Next {
            of: slot.name.clone(),
            mark: mark.clone(),
            policy: policy.clone(),
        })
    }

    /// Keeps a text, and lets go of the oldest one where there are too many.
    fn keep(&mut self, known: KeptText) {
        if self.rendered.len() == MAX_CACHED_TEXTS {
            self.rendered.remove(0);
        }
        self.rendered.push(known);
    }

    /// What counts where an answer of a policy cannot, and that in words.
    fn instead_of(&self, policy: &str) -> (BootedBy, &'static str) {
        let slot = self.slots.iter().find(|slot| slot.name == policy);
        match slot.map(|slot| slot.on_failure) {
            Some(OnFailure::Price) => (BootedBy::BuiltIn, "they boot with the built-in user data"),
            _ => (BootedBy::Hold, "no node is launched"),
        }
    }
}

/// The next version of a policy.
struct Next {
    /// The policy's name in the configuration.
    of: String,
    mark: String,
    policy: LoadedPolicy,
}

impl Next {
    /// What nodes boot with by it; asked twice.
    fn render(
        &self,
        region: &Region,
        catalogue: &ClassCatalogue,
        class: &EC2NodeClass,
        joins: &Joins<'_>,
        boot: &Boot,
    ) -> Result<Option<Arc<BootTexts>>, Option<Fault>> {
        let machines = CatalogueMachines::new(region, catalogue, class, joins.kubernetes, boot);
        let Ok(machines) = machines else {
            // Its NodeClass is the reason, and says so.
            return Err(None);
        };
        let booted = |at: usize, said: &_| machines.booted(region, catalogue, at, said);
        let Some(request) = machines.request(&booted) else {
            return Err(None);
        };
        let ask = || ask_alone(&self.policy, &request).map_err(|why| Some(Fault::NoAnswer(why)));
        let (answer, again) = (ask()?, ask()?);
        if (&answer.texts, &answer.of) != (&again.texts, &again.of) {
            let pool = boot.labels.get(NODEPOOL).cloned().unwrap_or_default();
            return Err(Some(Fault::TwoAnswers(pool)));
        }
        let counted = |at: usize| Some(Kept::of(catalogue.machine(at)));
        let mut rows = 0..answer.kept.len();
        if !rows.all(|at| answer.kept[at] == counted(at)) {
            let why = "its nodes would keep back other amounts than are counted with; put a version \
                       with another overhead into the policy's own entry";
            return Err(Some(Fault::NoAnswer(why.to_owned())));
        }
        Ok(Some(Arc::new(BootTexts {
            texts: answer.texts,
            of: answer.of,
        })))
    }

    /// Why no node is launched with it.
    fn held(&self, fault: Option<Fault>) -> String {
        let why = match fault {
            Some(fault) => fault.to_string(),
            None => "the built-in user data of the NodeClass cannot be rendered".to_owned(),
        };
        let policy = &self.of;
        format!(
            "next version of bootstrap policy {policy} does not say what the node boots with: {why}"
        )
    }

    /// What it did wrong, for its canary.
    fn sighting(&self, fault: Fault) -> Sighting {
        let version = self.mark.strip_prefix(&*self.of).unwrap_or_default();
        let version = version.trim_start_matches('@').to_owned();
        let facts = Facts {
            fault: Some(fault),
            ..Facts::default()
        };
        (self.of.clone(), version, facts)
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
    let (lasting, startup) = (&template.spec.taints, &template.spec.startup_taints);
    let taints = lasting.iter().flatten().chain(startup.iter().flatten());
    let nodes = NodesOf::new(name, required.chain(own), taints.map(taint));
    Some((class.name.clone(), nodes))
}
