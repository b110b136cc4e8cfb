//! What a bootstrap policy last answered, by question, for when it answers no more. As text it
//! outlives the process.
//!
//! A question is the same where all is the same that tells two kinds of node apart: NodePool, labels
//! and taints of the node, the NodeClass without its status, the cluster with its version, and for
//! each machine its instance type and image. Other instance types, prices and what is learnt of
//! machines do not matter. What was answered is checked anew, so that it never boots a node that
//! would not join, or that keeps back more than it has.

use std::collections::BTreeMap;

use longshore_policy::{LoadedPolicy, Overheads, Taint, UserData};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Request;
use longshore_report::hex::hex;

/// Questions that are remembered: the one that was answered anew longest ago goes first.
const QUESTIONS: usize = 32;

/// The last good answers of a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastTexts {
    /// The policy, by its name in the configuration.
    pub policy: String,
    /// SHA-256 of the component that answered last.
    pub digest: String,
    /// Its settings, a JSON object.
    pub settings: String,
    /// Answered questions, the newest last.
    questions: Vec<Answered>,
}

/// What was answered to one question.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Answered {
    /// Digest of all but the machines.
    question: String,
    texts: Vec<String>,
    machines: BTreeMap<String, Row>,
}

/// What was answered about a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Row {
    /// Position of the machine's text among those of the answer.
    text: usize,
    max_pods: u32,
    /// In the order of [`Overheads::amounts`].
    amounts: [f64; 8],
}

impl LastTexts {
    /// Text for [`LastTexts::of_text`].
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What a text says; none if it is damaged or of another policy.
    pub fn of_text(text: &str, policy: &str) -> Option<Self> {
        let read: LastTexts = serde_json::from_str(text).ok()?;
        let is_whole = |one: &Answered| one.machines.values().all(|row| row.text < one.texts.len());
        (read.policy == policy && read.questions.iter().all(is_whole)).then_some(read)
    }

    /// With another answer; nothing if that is known already.
    pub(super) fn with(
        &self,
        policy: &LoadedPolicy,
        request: &Request,
        overheads: &Overheads,
        data: &UserData,
    ) -> Option<Self> {
        let new = Answered::of(request, overheads, data)?;
        let whose = (policy.name(), policy.digest(), policy.settings());
        if (&*self.policy, &*self.digest, &*self.settings) == whose && self.questions.contains(&new)
        {
            return None;
        }
        Some(self.joined(whose, new))
    }

    fn joined(&self, (policy, digest, settings): (&str, &str, &str), new: Answered) -> Self {
        let others = self.questions.iter();
        let others = others.filter(|known| known.question != new.question);
        let mut questions: Vec<Answered> = others.cloned().chain([new.clone()]).collect();
        questions.drain(..questions.len().saturating_sub(QUESTIONS));
        LastTexts {
            policy: policy.to_owned(),
            digest: digest.to_owned(),
            settings: settings.to_owned(),
            questions,
        }
    }

    /// What was answered to this question; nothing if it never was, for all machines.
    pub(super) fn answer(&self, request: &Request) -> Option<(Overheads, UserData)> {
        let question = question(request)?;
        let known = self
            .questions
            .iter()
            .find(|known| known.question == question)?;
        let (mut overheads, mut of) = (Overheads::default(), Vec::new());
        for row in 0..request.machines.len() {
            let row = known.machines.get(&machine(request, row)?)?;
            of.push(u32::try_from(row.text).ok()?);
            overheads.max_pods.push(row.max_pods);
            let columns = columns(&mut overheads).into_iter();
            columns
                .zip(row.amounts)
                .for_each(|(column, amount)| column.push(amount));
        }
        // Each text once, and none that no machine boots with.
        let mut used: Vec<u32> = of.clone();
        used.sort_unstable();
        used.dedup();
        let texts = used.iter().map(|&at| known.texts.get(at as usize));
        let texts = texts.map(|text| Some(text?.clone().into_bytes()));
        let texts = texts.collect::<Option<_>>()?;
        let place = |at: &u32| u32::try_from(used.binary_search(at).ok()?).ok();
        let of = of.iter().map(place).collect::<Option<_>>()?;
        Some((overheads, UserData { texts, of }))
    }
}

impl Answered {
    /// Nothing for texts that are none.
    fn of(request: &Request, overheads: &Overheads, data: &UserData) -> Option<Self> {
        let texts = data.texts.iter();
        let texts = texts.map(|text| String::from_utf8(text.clone()).ok());
        let mut machines = BTreeMap::new();
        for row in 0..request.machines.len() {
            let said = Row {
                text: *data.of.get(row)? as usize,
                max_pods: *overheads.max_pods.get(row)?,
                amounts: overheads.amounts().map(|(_, column)| column[row]),
            };
            machines.insert(machine(request, row)?, said);
        }
        Some(Answered {
            question: question(request)?,
            texts: texts.collect::<Option<_>>()?,
            machines,
        })
    }
}

/// A machine of a question: its instance type and its image.
fn machine(request: &Request, row: usize) -> Option<String> {
    let machines = &request.facts.machines;
    let image = *machines.images.get(row)? as usize;
    let image = machines.image_names.get(image).map_or("", String::as_str);
    Some(format!("{}/{image}", machines.instance_types.get(row)?))
}

/// A digest of all that tells two questions apart beside the machines.
fn question(request: &Request) -> Option<String> {
    let (cluster, kind) = (&request.facts.cluster, &request.kind);
    let taints = |taints: &[Taint]| -> Vec<Value> {
        let one = |taint: &Taint| json!([taint.key, taint.value, taint.effect, taint.time_added]);
        taints.iter().map(one).collect()
    };
    let class: Value = serde_json::from_str(&request.facts.machines.node_class).unwrap_or_default();
    let meta = &class["metadata"];
    let all = json!([
        [
            cluster.name,
            cluster.endpoint,
            cluster.certificate_authority,
            cluster.version
        ],
        cluster.service_ranges,
        cluster.dns_addresses,
        [
            meta["name"],
            meta["labels"],
            meta["annotations"],
            class["spec"]
        ],
        kind.node_pool,
        kind.labels,
        kind.known_labels,
        taints(&kind.taints),
        taints(&kind.startup_taints),
    ]);
    let text = serde_json::to_vec(&all).ok()?;
    Some(hex(&Sha256::digest(text)))
}

/// The columns, in the order of [`Overheads::amounts`].
fn columns(overheads: &mut Overheads) -> [&mut Vec<f64>; 8] {
    [
        &mut overheads.kube_reserved_cpu,
        &mut overheads.kube_reserved_memory,
        &mut overheads.kube_reserved_storage,
        &mut overheads.system_reserved_cpu,
        &mut overheads.system_reserved_memory,
        &mut overheads.system_reserved_storage,
        &mut overheads.eviction_memory,
        &mut overheads.eviction_storage,
    ]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use longshore_ec2::bootstrap::Capacity;
    use longshore_ec2::launch::boot;
    use longshore_ec2::userdata::Cluster;
    use longshore_policy::{BootFacts, Machines, NodeKind};

    use super::super::{Machine, kind};
    use super::*;

    const CLASS: &str = r#"{"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": "c"}, "spec": {"role": "r", "amiSelectorTerms": [{"id": "ami-1"}],
        "subnetSelectorTerms": [{"id": "s"}], "securityGroupSelectorTerms": [{"id": "g"}]}}"#;
    const WHOSE: (&str, &str, &str) = ("hardened", "d", "{}");

    /// A question about machines by type and image, for nodes with a label.
    fn ask<T>(
        machines: &[(&str, &str)],
        label: &str,
        with: impl FnOnce(&mut BootFacts, &mut NodeKind),
        ask: impl FnOnce(&Request) -> T,
    ) -> T {
        let mut facts = BootFacts {
            machines: Machines {
                node_class: CLASS.to_owned(),
                instance_types: machines
                    .iter()
                    .map(|(name, _)| (*name).to_owned())
                    .collect(),
                image_names: machines
                    .iter()
                    .map(|(_, image)| (*image).to_owned())
                    .collect(),
                images: (0..machines.len() as u32).collect(),
                ..Machines::default()
            },
            ..BootFacts::default()
        };
        let labels = [("team".to_owned(), label.to_owned())].into();
        let class = serde_json::from_str(&facts.machines.node_class).unwrap();
        let boot = boot(&class, &Cluster::default(), BTreeMap::new(), Vec::new());
        let mut kind = kind(&boot, 0, &labels);
        with(&mut facts, &mut kind);
        let machine = |(name, _): &(&str, &str)| Machine {
            name: (*name).to_owned(),
            boot: boot.clone(),
            text: String::new(),
            capacity: Capacity::default(),
            kept: None,
        };
        ask(&Request {
            facts: Arc::new(facts),
            kind,
            machines: machines.iter().map(machine).collect(),
            booted: &|_, _| None,
        })
    }

    fn as_it_is(_: &mut BootFacts, _: &mut NodeKind) {}

    /// Answers with `<text> of <type>`, and as many pods as its row.
    fn answered(last: &LastTexts, machines: &[(&str, &str)], label: &str, text: &str) -> LastTexts {
        let of_row = |rows: u32| (0..rows).collect::<Vec<_>>();
        let rows = machines.len();
        let mut overheads = Overheads::default();
        for (at, column) in columns(&mut overheads).into_iter().enumerate() {
            *column = (0..rows).map(|row| (10 * row + at) as f64).collect();
        }
        overheads.max_pods = of_row(rows as u32);
        let texts = machines
            .iter()
            .map(|(name, _)| format!("{text} of {name}").into_bytes());
        let data = UserData {
            texts: texts.collect(),
            of: of_row(rows as u32),
        };
        let new = ask(machines, label, as_it_is, |request| {
            Answered::of(request, &overheads, &data).unwrap()
        });
        last.joined(WHOSE, new)
    }

    const TWO: [(&str, &str); 2] = [("m5.large", "ami-1"), ("m6g.large", "ami-2")];

    #[test]
    fn the_same_question_has_its_last_answer_after_a_restart_whatever_the_order_of_machines() {
        let last = answered(&LastTexts::default(), &TWO, "a", "old");
        let last = answered(&last, &TWO, "a", "new");
        let last = LastTexts::of_text(&last.text(), "hardened").unwrap();
        let turned = [TWO[1], TWO[0]];
        let (overheads, data) = ask(&turned, "a", as_it_is, |one| last.answer(one).unwrap());
        let text =
            |row: usize| String::from_utf8(data.texts[data.of[row] as usize].clone()).unwrap();
        assert_eq!([text(0), text(1)], ["new of m6g.large", "new of m5.large"]);
        assert_eq!(overheads.max_pods, [1, 0]);
        assert_eq!(overheads.eviction_storage, [17.0, 7.0]);
        let (overheads, data) = ask(&TWO[1..], "a", as_it_is, |one| last.answer(one).unwrap());
        assert_eq!(
            (data.texts, data.of),
            (vec![b"new of m6g.large".to_vec()], vec![0])
        );
        assert_eq!(overheads.kube_reserved_memory, [11.0]);
    }

    #[test]
    fn another_question_has_none() {
        let last = answered(&LastTexts::default(), &TWO, "a", "x");
        let known = |with: &dyn Fn(&mut BootFacts, &mut NodeKind)| {
            ask(&TWO, "a", with, |request| last.answer(request).is_some())
        };
        assert!(known(&as_it_is));
        let newer = "\"name\": \"c\", \"resourceVersion\": \"7\"";
        let status = CLASS.replace("\"name\": \"c\"", newer);
        assert!(known(&|facts, _| facts
            .machines
            .node_class
            .clone_from(&status)));
        assert!(known(&|facts, _| facts.machines.local_bytes = vec![1.0; 2]));
        assert!(!known(
            &|facts, _| facts.machines.node_class = status.replace("\"r\"", "\"s\"")
        ));
        assert!(!known(&|facts, _| facts.cluster.version = "1.36".to_owned()));
        assert!(!known(
            &|facts, _| facts.cluster.endpoint = "https://b".to_owned()
        ));
        assert!(!known(&|_, kind| kind.node_pool = "other".to_owned()));
        assert!(!known(&|_, kind| kind.taints.push(Taint::default())));
        assert!(!known(&|_, kind| kind
            .startup_taints
            .push(Taint::default())));
        assert!(!known(
            &|facts, _| facts.machines.image_names[0] = "ami-3".to_owned()
        ));
        let asked = |machines: &[(&str, &str)], label| {
            ask(machines, label, as_it_is, |request| {
                last.answer(request).is_some()
            })
        };
        assert!(!asked(&TWO, "b"), "another label");
        assert!(
            !asked(&[TWO[0], ("p5.48xlarge", "ami-1")], "a"),
            "another machine"
        );
    }

    #[test]
    fn the_newest_questions_are_remembered() {
        let mut last = LastTexts::default();
        for at in 0..QUESTIONS {
            last = answered(&last, &TWO, &at.to_string(), "x");
        }
        last = answered(&last, &TWO, "0", "again");
        last = answered(&last, &TWO, "more", "x");
        let knows = |label: &str| ask(&TWO, label, as_it_is, |one| last.answer(one).is_some());
        assert!(knows("0") && knows("2") && knows("more"));
        assert!(!knows("1"));
        assert_eq!(last.questions.len(), QUESTIONS);
    }

    #[test]
    fn what_is_damaged_or_of_another_policy_is_not_read() {
        let text = answered(&LastTexts::default(), &TWO, "a", "x").text();
        assert!(LastTexts::of_text(&text, "hardened").is_some());
        assert!(LastTexts::of_text(&text, "other").is_none());
        assert!(LastTexts::of_text(&text[1..], "hardened").is_none());
        let beyond = text.replace("\"text\":1", "\"text\":2");
        assert!(LastTexts::of_text(&beyond, "hardened").is_none());
    }
}
