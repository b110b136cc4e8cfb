//! Bootstrap policies joined with EC2: what a policy gets about machines, and its answer held
//! against what `longshore-ec2` knows of user data. An answer that is wrong is replaced by the last
//! good version's, then by what `on-failure` says; a note says so.

mod catalogue;
mod last_texts;
mod node_class;

use std::collections::BTreeMap;
use std::sync::Arc;

use longshore_ec2::bootstrap::{Capacity, Kept, check_text, read_back};
use longshore_ec2::catalogue::class::Kubelet;
use longshore_ec2::userdata::Boot;
use longshore_policy::{
    BootFacts, BootSession, CallError, ClusterFacts, LoadedPolicy, Machines, NodeKind, OnFailure,
    Overheads, Taint, UserData,
};

pub use catalogue::CatalogueMachines;
pub use last_texts::LastTexts;
pub use node_class::{NodesOf, PoolAnswer, ask_about, count_together, count_with};

/// One machine of a [`Request`].
pub struct Machine {
    /// Its instance type; empty if it is not known.
    pub name: String,
    /// What the built-in user data of a node there is rendered from. Cluster, family and taints are
    /// the same for all machines of a request.
    pub boot: Boot,
    /// User data that the built-in renders for this machine.
    pub text: String,
    pub capacity: Capacity,
    /// What the built-in keeps back; `None` where it is not known.
    pub kept: Option<Kept>,
}

/// What the kubelet of a machine would keep back with settings that user data gives it; `None`
/// where it is not known.
pub type Booted<'a> = &'a dyn Fn(usize, &Kubelet) -> Option<Kept>;

/// Nodes to render user data for.
pub struct Request<'a> {
    /// What a policy gets beside the request.
    pub facts: Arc<BootFacts>,
    /// Family, labels and taints of the nodes, as policies see them.
    pub kind: NodeKind,
    /// A row for each of the facts' machines; at least one.
    pub machines: Vec<Machine>,
    /// What a machine keeps back once it has booted.
    pub booted: Booted<'a>,
}

/// What nodes boot with.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Texts of user data, each once.
    pub texts: Vec<String>,
    /// Index into `texts` for each machine: those with one text share a launch template.
    pub of: Vec<u32>,
    /// What the kubelet keeps back on each machine; `None` where it is not known.
    pub kept: Vec<Option<Kept>>,
    /// Why the policy did not answer, and what answered instead.
    pub notes: Vec<String>,
    /// Which version of the policy, or what instead of it, has answered.
    pub by: BootedBy,
}

/// Whose answer nodes boot with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BootedBy {
    /// The version in force.
    #[default]
    Current,
    /// The last good version.
    LastVersion,
    /// What the policy last answered to the same question.
    LastAnswer,
    /// The user data that Longshore renders without a policy.
    BuiltIn,
    /// No text: no node is launched.
    Hold,
}

/// A bootstrap policy in force.
pub struct BootPolicy {
    /// The version in force; none for one that could not be loaded.
    current: Option<LoadedPolicy>,
    last_good: Option<LoadedPolicy>,
    /// What counts where no version answers.
    on_failure: OnFailure,
    /// What it last answered, if that counts when it fails.
    last: Arc<LastTexts>,
}

impl BootPolicy {
    /// Puts a policy in force, with the built-in user data where it fails. Fails on one that does not
    /// say what nodes boot with.
    pub fn new(policy: LoadedPolicy) -> Result<Self, String> {
        Ok(BootPolicy {
            current: Some(of_bootstrap(policy)?),
            ..BootPolicy::configured(OnFailure::Price, Arc::default())
        })
    }

    /// A policy that is not loaded. `last` is what it answered in a process before this one.
    pub fn configured(on_failure: OnFailure, last: Arc<LastTexts>) -> Self {
        BootPolicy {
            current: None,
            last_good: None,
            on_failure,
            last,
        }
    }

    /// Puts another version in force. The one before answers if it fails, provided that it ever
    /// answered well.
    pub fn replace(&mut self, policy: LoadedPolicy) -> Result<(), String> {
        self.current = Some(of_bootstrap(policy)?);
        Ok(())
    }

    /// What counts from now on where no version answers.
    pub fn fails_with(&mut self, on_failure: OnFailure) {
        self.on_failure = on_failure;
    }

    /// What it last answered, another each time that this has changed.
    pub fn last_texts(&self) -> &Arc<LastTexts> {
        &self.last
    }

    /// What nodes boot with: the policy's answer, else its last good version's, else what
    /// `on-failure` says.
    pub fn ask(&mut self, request: &Request) -> Answer {
        let mut notes = Vec::new();
        let name = LoadedPolicy::called;
        match self.current.clone() {
            None => notes.push("it is not loaded".to_owned()),
            Some(policy) => match self.ask_version(&policy, request) {
                Ok(answer) => {
                    self.last_good = Some(policy);
                    return answer;
                }
                Err(problem) => notes.push(format!("{}: {problem}", name(&policy))),
            },
        }
        let identity =
            |policy: &LoadedPolicy| (policy.digest().to_owned(), policy.settings().to_owned());
        let current = self.current.as_ref().map(identity);
        let other = self.last_good.clone();
        if let Some(policy) = other.filter(|policy| Some(identity(policy)) != current) {
            match self.ask_version(&policy, request) {
                Ok(answer) => {
                    notes.push(format!("the last good version, {}, answers", name(&policy)));
                    return Answer {
                        notes,
                        by: BootedBy::LastVersion,
                        ..answer
                    };
                }
                Err(problem) => notes.push(format!("{}, the last good: {problem}", name(&policy))),
            }
        }
        self.instead(request, notes)
    }

    /// The answer of a version. It is remembered if it counts when the policy fails.
    fn ask_version(&mut self, policy: &LoadedPolicy, request: &Request) -> Result<Answer, String> {
        let (overheads, data) = answer(policy, request)?;
        let keeps = self.on_failure == OnFailure::LastAnswer;
        let kept = keeps.then(|| self.last.with(policy, request, &overheads, &data));
        let answer = checked(&overheads, data, request)?;
        if let Some(kept) = kept.flatten() {
            self.last = Arc::new(kept);
        }
        Ok(answer)
    }

    /// What counts where no version answers.
    fn instead(&self, request: &Request, mut notes: Vec<String>) -> Answer {
        if self.on_failure == OnFailure::LastAnswer {
            let known = self.last.answer(request);
            match known.map(|(overheads, data)| checked(&overheads, data, request)) {
                Some(Ok(answer)) => {
                    notes.push("nodes boot with what it last answered".to_owned());
                    return Answer {
                        notes,
                        by: BootedBy::LastAnswer,
                        ..answer
                    };
                }
                Some(Err(problem)) => notes.push(format!("its last answer: {problem}")),
                None => notes.push("it never answered this question".to_owned()),
            }
        }
        let (note, by) = match self.on_failure {
            OnFailure::Price => ("nodes boot with the built-in user data", BootedBy::BuiltIn),
            OnFailure::LastAnswer | OnFailure::Hold => ("no node is launched", BootedBy::Hold),
        };
        notes.push(note.to_owned());
        let built_in = built_in(request);
        let texts = built_in.texts.into_iter();
        let kept = request.machines.iter().map(|machine| machine.kept);
        Answer {
            texts: texts
                .map(|text| String::from_utf8_lossy(&text).into_owned())
                .collect(),
            of: built_in.of,
            kept: kept.collect(),
            notes,
            by,
        }
    }
}

fn of_bootstrap(policy: LoadedPolicy) -> Result<LoadedPolicy, String> {
    match policy.is_bootstrap() {
        true => Ok(policy),
        false => Err(format!("`{}` does not export `bootstrap`", policy.name())),
    }
}

/// The built-in user data, each text once.
fn built_in(request: &Request) -> UserData {
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    let mut all = UserData::default();
    for machine in &request.machines {
        let at = *seen.entry(&machine.text).or_insert_with(|| {
            all.texts.push(machine.text.clone().into_bytes());
            all.texts.len() as u32 - 1
        });
        all.of.push(at);
    }
    all
}

/// What nodes boot with by one version: nothing answers in its place.
///
/// # Errors
/// It gives no answer, or one that nodes cannot boot with: why.
pub fn ask_alone(policy: &LoadedPolicy, request: &Request) -> Result<Answer, String> {
    let (overheads, data) = answer(policy, request)?;
    checked(&overheads, data, request)
}

/// What a version answers, before it is held against what is known of user data.
fn answer(policy: &LoadedPolicy, request: &Request) -> Result<(Overheads, UserData), String> {
    let said = |error: CallError| error.to_string();
    let mut session = BootSession::new(policy, request.facts.clone()).map_err(said)?;
    let overheads = session.overheads().map_err(said)?;
    let rows: Vec<u32> = (0..request.machines.len() as u32).collect();
    let built_in = Arc::new(built_in(request));
    let user_data = session
        .user_data(&request.kind, &rows, built_in)
        .map_err(said)?;
    Ok((overheads, user_data))
}

/// The answer, if nodes can boot with it and the scheduler counts with what they will have.
fn checked(overheads: &Overheads, data: UserData, request: &Request) -> Result<Answer, String> {
    let mut settings = Vec::with_capacity(data.texts.len());
    let same = |at: usize, row: usize| data.texts[at] == request.machines[row].text.as_bytes();
    for (at, text) in data.texts.iter().enumerate() {
        let row = data.of.iter().position(|&of| of as usize == at);
        let machine = row.and_then(|row| request.machines.get(row));
        let machine = machine.ok_or("a text without a machine")?;
        // The built-in boots a node whatever we read in it: what users merge in is theirs.
        if row.is_some_and(|row| same(at, row)) {
            let said = read_back(machine.boot.family, &machine.text);
            settings.push(said.unwrap_or_default().kubelet);
            continue;
        }
        let said = check_text(&machine.boot, text).map_err(|problem| {
            format!("user-data: text {at} ({}): {problem}", shown(machine, row))
        });
        settings.push(said?.kubelet);
    }
    let mut kept = Vec::with_capacity(request.machines.len());
    for (row, machine) in request.machines.iter().enumerate() {
        let at = data.of[row] as usize;
        let one = of_row(overheads, row);
        let problem =
            |problem: String| format!("overheads: {}: {problem}", shown(machine, Some(row)));
        let usual = machine.kept.unwrap_or_default();
        one.fits(&machine.capacity, &usual).map_err(problem)?;
        // What the built-in says and keeps back is right together, whatever it says.
        let unchanged = same(at, row) && machine.kept == Some(one);
        if !unchanged {
            let by_agent = (request.booted)(row, &settings[at]);
            one.agrees(&settings[at], &machine.capacity, by_agent.as_ref())
                .map_err(problem)?;
        }
        kept.push(machine.kept.map(|_| one));
    }
    let texts = data.texts.into_iter().map(String::from_utf8);
    Ok(Answer {
        texts: texts
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?,
        of: data.of,
        kept,
        notes: Vec::new(),
        by: BootedBy::Current,
    })
}

fn shown(machine: &Machine, row: Option<usize>) -> String {
    match (machine.name.as_str(), row) {
        ("", Some(row)) => format!("machine {row}"),
        ("", None) => "a machine".to_owned(),
        (name, _) => name.to_owned(),
    }
}

/// A row of the columns, whose lengths the policy host has checked.
fn of_row(all: &Overheads, row: usize) -> Kept {
    let [a, b, c, d, e, f, g, h] = all.amounts().map(|(_, column)| column[row]);
    Kept {
        max_pods: all.max_pods[row].into(),
        kube: [a, b, c],
        system: [d, e, f],
        eviction: [g, h],
    }
}

/// The cluster as policies see it. `dns` says whether nodes are given the cluster's DNS
/// address where their NodeClass names none.
pub fn cluster(boot: &Boot, dns: bool) -> ClusterFacts {
    let cluster = &boot.cluster;
    let list = |text: &String| {
        let known = Some(text.clone()).filter(|text| !text.is_empty());
        known.into_iter().collect()
    };
    ClusterFacts {
        name: cluster.name.clone(),
        endpoint: cluster.endpoint.clone(),
        certificate_authority: cluster.ca_bundle.clone(),
        version: String::new(),
        service_ranges: list(&cluster.cidr),
        dns_addresses: match dns {
            true => list(&cluster.kube_dns_ip),
            false => Vec::new(),
        },
    }
}

/// The kind of node that `boot` describes; its first `lasting` taints are no startup taints.
/// `labels` are all labels of the node.
pub fn kind(boot: &Boot, lasting: usize, labels: &BTreeMap<String, String>) -> NodeKind {
    let taint = |taint: &longshore_ec2::userdata::Taint| Taint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: taint.effect.clone(),
        time_added: taint.time_added.clone().unwrap_or_default(),
    };
    let (taints, startup) = boot.taints.split_at(lasting.min(boot.taints.len()));
    let pair = |(key, value): (&String, &String)| (key.clone(), value.clone());
    let others = labels
        .iter()
        .filter(|(key, _)| !boot.labels.contains_key(*key));
    NodeKind {
        node_pool: labels
            .get("karpenter.sh/nodepool")
            .cloned()
            .unwrap_or_default(),
        labels: boot.labels.iter().map(pair).collect(),
        known_labels: others.map(pair).collect(),
        taints: taints.iter().map(taint).collect(),
        startup_taints: startup.iter().map(taint).collect(),
    }
}

/// Columns of the built-in overhead, by the names of the contract.
pub fn overhead_columns(kept: impl Iterator<Item = Kept>) -> BTreeMap<String, Vec<f64>> {
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for one in kept {
        let pods = ("max-pods", one.max_pods as f64);
        for (name, amount) in one.amounts().into_iter().chain([pods]) {
            all.entry(name.to_owned()).or_default().push(amount);
        }
    }
    all
}

/// A machine of which nothing is known but its NodeClass and how many pods it takes.
pub fn unknown_machine(node_class: String, pods: Option<i64>) -> Machines {
    Machines {
        node_class,
        instance_types: vec![String::new()],
        capacity: [(
            "pods".to_owned(),
            vec![pods.map_or(-1.0, |pods| pods as f64)],
        )]
        .into(),
        network_interfaces: vec![0],
        addresses_per_interface: vec![0],
        local_bytes: vec![0.0],
        local_disks: vec![u32::MAX],
        root_bytes: vec![-1.0],
        images: vec![u32::MAX],
        ..Machines::default()
    }
}
