//! The members of launch groups: what a NodeClaim says of its group, the members that wait for each
//! other, and the instances that they were given.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use longshore_api::crd::NodeClaim;
use longshore_cloud::{CloudError, Instance, Launch};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, oneshot};
use tokio::time::Instant;

use crate::act::work_queue::MAX_LAUNCHES;
use crate::process::lock::lock;

/// Annotation of the members of a group: `TOKEN/INDEX/SIZE`.
pub const GROUP: &str = "longshore.dev/launch-group";

/// What a NodeClaim says of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// The idempotency token of the launch.
    pub token: &'a str,
    /// Its number, from 0.
    pub index: usize,
    /// How many members there were to be.
    pub size: usize,
}

/// The group of a NodeClaim; nothing if it is in none, or if what it says cannot be read.
pub fn member(claim: &NodeClaim) -> Option<Member<'_>> {
    let text = claim.metadata.annotations.as_ref()?.get(GROUP)?;
    let mut parts = text.split('/');
    let (token, index, size) = (parts.next()?, parts.next()?, parts.next()?);
    let (index, size) = (index.parse().ok()?, size.parse().ok()?);
    let fits = !token.is_empty() && index < size && parts.next().is_none();
    fits.then_some(Member { token, index, size })
}

/// Members that wait for each other, and the instance of each.
pub struct LaunchGroups {
    /// Groups that members are waiting for, by token.
    pub(super) gatherings: Mutex<BTreeMap<String, Gathering>>,
    pub(super) records: Mutex<Records>,
    /// The term of leadership whose NodeClaims were listed. Held while they are.
    pub(super) listed: tokio::sync::Mutex<Option<Instant>>,
    pub(super) turns: Semaphore,
}

impl Default for LaunchGroups {
    fn default() -> Self {
        LaunchGroups {
            gatherings: Mutex::default(),
            records: Mutex::default(),
            listed: tokio::sync::Mutex::default(),
            turns: Semaphore::new(MAX_LAUNCHES),
        }
    }
}

/// Members of a group that have come so far.
#[derive(Default)]
pub(super) struct Gathering {
    pub(super) members: Vec<Present>,
    pub(super) came: Arc<Notify>,
}

/// A member that waits for its instance.
pub(super) struct Present {
    pub(super) index: usize,
    pub(super) uid: String,
    pub(super) launch: Launch,
    pub(super) answer: oneshot::Sender<Came>,
}

/// What a member comes back with.
pub enum Came {
    /// An instance, or why there is none.
    Launched(Box<Result<Instance, CloudError>>),
    /// The group is settled and has nothing for it: it leaves the group.
    Leaves,
    /// This process ends, or leads no more.
    Later,
}

/// The instances that NodeClaims have, in a term of leadership.
#[derive(Default)]
pub(super) struct Records {
    pub(super) since: Option<Instant>,
    /// Instances of each group, by the client token of its launch.
    pub(super) groups: BTreeMap<String, Record>,
}

/// The instances of a group that NodeClaims have.
#[derive(Default)]
pub(super) struct Record {
    /// Provider IDs that some NodeClaim has, or has had.
    pub(super) taken: BTreeSet<String>,
    /// Those that were given out in this term, by UID.
    pub(super) given: BTreeMap<String, String>,
    /// Members that are gone, or have left the group, by UID.
    pub(super) done: BTreeSet<String>,
    pub(super) size: usize,
}

impl Record {
    /// Gives each of these members (index and UID) an instance that no other has. The order is fixed,
    /// so that another process would give the same.
    pub(super) fn give(
        &mut self,
        members: &[(usize, &str)],
        instances: &[&str],
    ) -> Vec<Option<String>> {
        let mut sorted: Vec<&str> = instances.to_vec();
        sorted.sort_unstable();
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_unstable_by_key(|&at| members[at]);
        let mut all = vec![None; members.len()];
        for at in order {
            let (index, uid) = members[at];
            if let Some(own) = self.given.get(uid) {
                // One that is gone stays taken, and this member has none.
                all[at] = sorted.contains(&&**own).then(|| own.clone());
                if all[at].is_none() {
                    self.given.remove(uid);
                }
                continue;
            }
            let free = |id: &&&str| !self.taken.contains(**id);
            let own = sorted.get(index).filter(free);
            let Some(own) = own.or_else(|| sorted.iter().find(free)) else {
                continue;
            };
            let own = (*own).to_owned();
            self.taken.insert(own.clone());
            self.given.insert(uid.to_owned(), own.clone());
            all[at] = Some(own);
        }
        all
    }
}

impl LaunchGroups {
    /// The turn of a launch to write what has become of it. So many have one at a time.
    pub async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.turns.acquire().await.ok()
    }

    /// The instance that a member was given in this term, if its status does not name it yet.
    pub fn given(&self, claim: &NodeClaim, since: Instant) -> Option<String> {
        let (own, uid) = (member(claim)?, claim.metadata.uid.as_deref()?);
        let records = lock(&self.records);
        let records = (records.since == Some(since)).then_some(records)?;
        records.groups.get(own.token)?.given.get(uid).cloned()
    }

    /// A member is gone, or has left its group. What is known of a group goes with its last member.
    pub fn done(&self, claim: &NodeClaim) {
        let (Some(own), Some(uid)) = (member(claim), &claim.metadata.uid) else {
            return;
        };
        let mut records = lock(&self.records);
        if let Some(record) = records.groups.get_mut(own.token) {
            record.given.remove(uid);
            record.done.insert(uid.clone());
            if record.done.len() >= record.size {
                records.groups.remove(own.token);
            }
        }
    }

    /// Gives instances of a group to members (index and UID); nothing if the term has ended.
    pub(super) fn give(
        &self,
        since: Instant,
        (token, size): (&str, usize),
        members: &[(usize, &str)],
        instances: &[&str],
    ) -> Option<Vec<Option<String>>> {
        let mut records = lock(&self.records);
        if records.since != Some(since) {
            return None;
        }
        let record = records.groups.entry(token.to_owned()).or_default();
        record.size = size;
        Some(record.give(members, instances))
    }
}
