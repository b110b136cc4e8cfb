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

/// What a policy had to say of a NodeClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// What was refused and what answers instead.
    pub notes: Vec<String>,
    /// All nodes boot with the built-in user data, whatever the policy says.
    pub built_in: bool,
    /// What answered instead of the version in force, for each NodePool that it gave no answer about.
    pub instead: Vec<BootedBy>,
}

/// Asks `policy` what nodes of `class`, whose object is `node_class`, boot with, once for each of
/// `nodes`. Then the catalogue counts with what they keep back.
///
/// All NodePools of a NodeClass share its catalogue. So unless all nodes keep back the same, all
/// boot with the built-in user data.
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
) -> Result<Counted, Fault> {
    let (mut notes, mut instead) = (Vec::new(), Vec::new());
    let mut kept: Option<Vec<Option<Kept>>> = None;
    let mut differ = false;
    for of in nodes {
        let boot = boot(
            node_class,
            joins.cluster,
            of.labels.clone(),
            of.taints.clone(),
        );
        let made = CatalogueMachines::new(region, class, node_class, joins.kubernetes, &boot)?;
        let booted = |at: usize, said: &_| made.booted(region, class, at, said);
        let Some(request) = made.request(&booted) else {
            continue;
        };
        let Answer {
            kept: rows,
            notes: said,
            by,
            ..
        } = policy.ask(&request);
        let about = |note: String| match of.node_pool.as_str() {
            "" => note,
            pool => format!("NodePool {pool}: {note}"),
        };
        notes.extend(said.into_iter().map(about));
        if by != BootedBy::Current {
            instead.push(by);
        }
        // Nothing is launched that could keep anything back.
        if by == BootedBy::Hold {
            continue;
        }
        differ |= kept.as_ref().is_some_and(|kept| *kept != rows);
        kept.get_or_insert(rows);
    }
    if differ {
        let note = "nodes of its NodePools would keep back different amounts, so all boot with the \
                    built-in user data";
        notes.push(note.to_owned());
        return Ok(Counted {
            notes,
            built_in: true,
            instead,
        });
    }
    let rows: Option<Vec<Kept>> = kept.into_iter().flatten().collect();
    if let Some(rows) = rows.filter(|rows| !rows.is_empty())
        && let Err(problem) = class.keep(&rows)
    {
        notes.push(problem);
        return Ok(Counted {
            notes,
            built_in: true,
            instead,
        });
    }
    Ok(Counted {
        notes,
        built_in: false,
        instead,
    })
}
