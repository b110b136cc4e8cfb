//! A bootstrap policy asked about a NodeClass, so that its catalogue counts with what nodes keep
//! back.

use std::collections::BTreeMap;

use longshore_api::labels::NODEPOOL;
use longshore_ec2::bootstrap::{Joins, Kept};
use longshore_ec2::catalogue::{ClassCatalogue, Region};
use longshore_ec2::launch::boot;
use longshore_ec2::nodeclass::EC2NodeClass;
use longshore_ec2::userdata::{Fault, Taint};

use super::{Answer, BootPolicy, BootedBy, CatalogueMachines};

/// Nodes of one NodePool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodesOf {
    /// The NodePool's name; empty for none.
    pub node_pool: String,
    pub labels: BTreeMap<String, String>,
    /// Their taints, startup taints last.
    pub taints: Vec<Taint>,
}

impl NodesOf {
    /// Nodes of a NodePool with its labels, those first that a requirement with one value gives them.
    pub fn new(
        node_pool: String,
        labels: impl Iterator<Item = (String, String)>,
        taints: impl Iterator<Item = Taint>,
    ) -> Self {
        let name = (NODEPOOL.to_owned(), node_pool.clone());
        NodesOf {
            labels: labels.chain([name]).collect(),
            taints: taints.collect(),
            node_pool,
        }
    }
}

/// What a policy has to say of the nodes of a NodePool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolAnswer {
    /// What was refused and what answers instead.
    pub notes: Vec<String>,
    /// Which version of the policy, or what instead of it, answers for these nodes.
    pub by: BootedBy,
    /// What they keep back on each instance type; nothing where no node is launched, or nothing known.
    pub kept: Option<Vec<Kept>>,
}

/// Asks `policy` what the nodes of a NodePool boot with; nothing where there is no instance type.
/// `node_class` is the object of `class`.
///
/// # Errors
/// The built-in user data cannot be rendered.
pub fn ask_about(
    policy: &mut BootPolicy,
    region: &Region,
    class: &ClassCatalogue,
    node_class: &EC2NodeClass,
    joins: Joins<'_>,
    of: &NodesOf,
) -> Result<Option<PoolAnswer>, Fault> {
    let boot = boot(
        node_class,
        joins.cluster,
        of.labels.clone(),
        of.taints.clone(),
    );
    let made = CatalogueMachines::new(region, class, node_class, joins.kubernetes, &boot)?;
    let booted = |at: usize, said: &_| made.booted(region, class, at, said);
    let Some(request) = made.request(&booted) else {
        return Ok(None);
    };
    let Answer {
        kept, notes, by, ..
    } = policy.ask(&request);
    let about = |note: String| match of.node_pool.as_str() {
        "" => note,
        pool => format!("NodePool {pool}: {note}"),
    };
    // Nothing is launched that could keep anything back.
    let is_launched = by != BootedBy::Hold;
    let kept: Option<Vec<Kept>> = kept.into_iter().collect();
    Ok(Some(PoolAnswer {
        notes: notes.into_iter().map(about).collect(),
        by,
        kept: kept.filter(|_| is_launched),
    }))
}

/// Has a catalogue count with what nodes keep back by answers about each NodePool of its class;
/// nothing for one that boots with the built-in user data. Returns why an answer may not count.
///
/// All NodePools share the catalogue. So unless the nodes of all keep back the same, it counts with
/// what the built-in keeps back.
pub fn count_together(
    catalogue: &mut ClassCatalogue,
    region: &Region,
    answers: &[Option<PoolAnswer>],
) -> Vec<Option<String>> {
    let types = 0..region.types().len();
    let built_in: Vec<Kept> = types.map(|at| Kept::of(catalogue.machine(at))).collect();
    let rows = |answer: &Option<PoolAnswer>| match answer {
        Some(answer) => answer.kept.clone(),
        None => Some(built_in.clone()),
    };
    let mut all: Vec<Vec<Kept>> = answers.iter().filter_map(rows).collect();
    all.dedup();
    let why = match all.as_slice() {
        [] => return vec![None; answers.len()],
        [one] if *one == built_in => return vec![None; answers.len()],
        [one] => match catalogue.keep(one) {
            Ok(()) => return vec![None; answers.len()],
            Err(problem) => problem,
        },
        _ => "its nodes would keep back other amounts than are counted with: NodePools of one \
              EC2NodeClass share what is counted, give it an EC2NodeClass of its own"
            .to_owned(),
    };
    let is_other = |answer: &Option<PoolAnswer>| {
        let kept = answer.as_ref().and_then(|answer| answer.kept.as_ref());
        kept.is_some_and(|kept| *kept != built_in)
    };
    let answers = answers.iter();
    answers
        .map(|answer| is_other(answer).then(|| why.clone()))
        .collect()
}

/// Asks `policy` what nodes of `class`, whose object is `node_class`, boot with, once for each of
/// `nodes`. Then the catalogue counts with what they keep back. Returns what was refused and what
/// answers instead.
///
/// # Errors
/// The built-in user data cannot be rendered.
pub fn count_with(
    policy: &mut BootPolicy,
    region: &Region,
    class: &mut ClassCatalogue,
    node_class: &EC2NodeClass,
    joins: Joins<'_>,
    nodes: &[NodesOf],
) -> Result<Vec<String>, Fault> {
    let (mut notes, mut answers) = (Vec::new(), Vec::new());
    for of in nodes {
        if let Some(answer) = ask_about(policy, region, class, node_class, joins, of)? {
            notes.extend(answer.notes.iter().cloned());
            answers.push((of, Some(answer)));
        }
    }
    let (nodes, answers): (Vec<&NodesOf>, Vec<Option<PoolAnswer>>) = answers.into_iter().unzip();
    let refused = count_together(class, region, &answers);
    for (of, why) in nodes.iter().zip(refused) {
        if let Some(why) = why {
            let pool = &of.node_pool;
            notes.push(format!(
                "NodePool {pool}: {why}; they boot with the built-in user data"
            ));
        }
    }
    Ok(notes)
}
