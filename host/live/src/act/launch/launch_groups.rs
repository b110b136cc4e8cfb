//! Groups of NodeClaims that are launched together.
//!
//! The group is an annotation of each member, written with the create: a process that is killed
//! anywhere leaves it behind, and the next one asks with the same token. Steps of members meet
//! ([`launch`]), the first of them asks the cloud for all, and each takes its instance along. Which
//! is whose, the status of a NodeClaim says. Until it does, only this process knows
//! ([`members`]), and no other gives any away: it does not lead.

pub mod members;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use longshore_api::crd::NodeClaim;
use longshore_api::quantity::Quantity;
use longshore_cloud::{CloudError, GroupAnswer, GroupLaunch, Instance, Launch};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::launch_request::launch_of;
use super::launches::Pending;
use crate::act::claim_writes::patch_meta;
use crate::act::context::Context;
use crate::act::end::proof;
use crate::act::work_queue::MAX_LAUNCHES;
use crate::decide::claims::NewNodeClaim;
use crate::observe::node_claim;
use crate::observe::planned_pods::PLANNED_PODS;
use crate::process::leader::Leadership;
use crate::process::lock::lock;
use crate::process::step_error::StepError;
use longshore_report::hex::hex;
pub use members::{Came, GROUP, LaunchGroups, Member, member};
use members::{Present, Record, Records};

/// A group is launched once no member has come for so long.
const GROUP_IDLE_TIME: Duration = Duration::from_secs(1);
/// A group is launched after so long in all.
const MAX_GROUP_WAIT: Duration = Duration::from_secs(5);

/// How many steps of NodeClaims without an instance run at a time, where groups have up to `most`
/// members: all of them, for members wait for each other. [`LaunchGroups::turn`] bounds what they do
/// then.
pub fn slots(most: usize) -> usize {
    if most < 2 { MAX_LAUNCHES } else { usize::MAX }
}

/// Which instances NodeClaims name, listed once in each term of leadership.
async fn recall(ctx: &Context, since: Instant) -> Result<(), StepError> {
    let groups_known = &ctx.memory.launch.groups;
    let mut listed = groups_known.listed.lock().await;
    if *listed == Some(since) {
        return Ok(());
    }
    let claims = proof::claims(&ctx.client, "").await?;
    let mut groups: BTreeMap<String, Record> = BTreeMap::new();
    for claim in &claims {
        let id = node_claim::provider_id(claim);
        if let Some(own) = member(claim).filter(|_| !id.is_empty()) {
            let record = groups.entry(own.token.to_owned()).or_default();
            record.size = own.size;
            record.taken.insert(id.to_owned());
        }
    }
    *lock(&groups_known.records) = Records {
        since: Some(since),
        groups,
    };
    *listed = Some(since);
    Ok(())
}

/// Launches a member together with those of its group that are there.
pub async fn launch(ctx: &Context, claim: &NodeClaim, own: &Member<'_>) -> Came {
    let groups = &ctx.memory.launch.groups;
    let (answer, waits) = oneshot::channel();
    let present = Present {
        index: own.index,
        uid: claim.metadata.uid.clone().unwrap_or_default(),
        launch: launch_of(claim),
        answer,
    };
    let first = {
        let mut all = lock(&groups.gatherings);
        let gathering = all.entry(own.token.to_owned()).or_default();
        gathering.members.push(present);
        gathering.came.notify_one();
        (gathering.members.len() == 1).then(|| gathering.came.clone())
    };
    if let Some(came) = first {
        // One that asks again for what it was given waits for no others.
        let known = groups.given(claim, ctx.leadership.since()).is_some();
        let mut meeting = Meeting {
            groups,
            token: own.token,
            over: false,
        };
        meeting
            .gather(&ctx.leadership, if known { 1 } else { own.size }, &came)
            .await;
        let members = meeting.close();
        ask(ctx, own, members).await;
    }
    let lost = || {
        let why = "the launch of the group was broken off".to_owned();
        Came::Launched(Box::new(Err(CloudError::Other(why))))
    };
    waits.await.unwrap_or_else(|_| lost())
}

/// The first member waits in it. If its step panics, the others are answered all the same.
struct Meeting<'a> {
    groups: &'a LaunchGroups,
    token: &'a str,
    over: bool,
}

impl Meeting<'_> {
    /// Waits until `size` members are there, or none comes any more.
    async fn gather(&self, leadership: &Leadership, size: usize, came: &Notify) {
        let last = Instant::now() + MAX_GROUP_WAIT;
        let there = || {
            lock(&self.groups.gatherings)
                .get(self.token)
                .map_or(0, |all| all.members.len())
        };
        let over = || leadership.is_retiring() || Instant::now() >= last;
        while there() < size && !over() {
            let until = last.min(Instant::now() + GROUP_IDLE_TIME);
            tokio::select! {
                // In this order, so that two runs of a simulation are equal.
                biased;
                () = came.notified() => {}
                () = leadership.retires() => return,
                () = tokio::time::sleep_until(until) => return,
            }
        }
    }

    /// A member that comes from now on meets anew.
    fn close(&mut self) -> Vec<Present> {
        self.over = true;
        let gathering = lock(&self.groups.gatherings).remove(self.token);
        gathering.unwrap_or_default().members
    }
}

impl Drop for Meeting<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.close();
        }
    }
}

/// Asks the cloud for the instances of all members that are there, and answers each.
async fn ask(ctx: &Context, own: &Member<'_>, mut members: Vec<Present>) {
    let since = ctx.leadership.since();
    members.sort_by_key(|one| one.index);
    let whole = |error: CloudError| move |_: &Present| Came::Launched(Box::new(Err(error.clone())));
    if ctx.leadership.is_retiring() || !ctx.leadership.is_leader() {
        return answer(members, |_| Came::Later);
    }
    if let Err(error) = recall(ctx, since).await {
        let error = CloudError::Other(format!("NodeClaims cannot be listed: {error}"));
        return answer(members, whole(error));
    }
    let pending: Vec<Pending> = members
        .iter()
        .map(|one| ctx.memory.launch.launches.ask(&one.uid, since))
        .collect();
    let group = GroupLaunch {
        token: own.token.to_owned(),
        count: members.len(),
        size: own.size.max(members.len()),
        launch: together(&members),
    };
    let made = match ctx.provider.create_group(&group).await {
        Ok(made) => made,
        Err(error) => {
            for (one, pending) in members.iter().zip(pending) {
                ctx.memory.launch.launches.failed(&one.uid, pending, &error);
            }
            return answer(members, whole(error));
        }
    };
    let named: Vec<(usize, &str)> = members.iter().map(|one| (one.index, &*one.uid)).collect();
    let ids: Vec<&str> = made.instances.iter().map(|one| &*one.provider_id).collect();
    let groups = &ctx.memory.launch.groups;
    let Some(given) = groups.give(since, (own.token, own.size), &named, &ids) else {
        return answer(members, |_| Came::Later);
    };
    for ((one, pending), given) in members.iter().zip(pending).zip(&given) {
        if given.is_none() && made.settled {
            ctx.memory.launch.launches.none_made(&one.uid, pending);
        }
    }
    let mut given = given.into_iter();
    answer(members, |_| came(own.token, given.next().flatten(), &made));
}

fn answer(members: Vec<Present>, mut with: impl FnMut(&Present) -> Came) {
    for one in members {
        let came = with(&one);
        // Its step may have been broken off.
        _ = one.answer.send(came);
    }
}

/// What a member comes back with that was given this instance, or none.
fn came(token: &str, given: Option<String>, made: &GroupAnswer) -> Came {
    let launched = |result| Came::Launched(Box::new(result));
    let of = |id: String| made.instances.iter().find(|one| one.provider_id == id);
    if let Some(instance) = given.and_then(of) {
        return launched(Ok(instance.clone()));
    }
    match &made.short {
        _ if !made.settled => launched(Err(CloudError::Other(format!(
            "launch group {token} was launched by another process, and its instances do not all show \
             yet"
        )))),
        Some(short @ CloudError::InsufficientCapacity(_)) => launched(Err(short.clone())),
        _ => Came::Leaves,
    }
}

/// What is asked for: the first member with the largest request of each resource. Every instance type
/// of the group has room for each member.
fn together(members: &[Present]) -> Launch {
    let Some((first, others)) = members.split_first() else {
        return Launch::default();
    };
    let mut launch = first.launch.clone();
    for (resource, amount) in others.iter().flat_map(|one| &one.launch.requests) {
        let most = launch.requests.entry(resource.clone()).or_default();
        let parsed = |text: &str| Quantity::parse(text).ok();
        // What is no quantity is refused where it is read.
        if parsed(amount) > parsed(most) || parsed(amount).is_none() {
            most.clone_from(amount);
        }
    }
    if !others.is_empty() {
        launch.name = format!("{} and {} others", launch.name, others.len());
    }
    launch
}

/// The instance of a group that a member takes that is being deleted, so that it ends. `instances` are
/// all that the cloud lists.
///
/// # Errors
/// What the server says.
pub async fn take(
    ctx: &Context,
    claim: &NodeClaim,
    instances: &[Arc<Instance>],
) -> Result<Option<String>, StepError> {
    let (Some(own), Some(uid)) = (member(claim), &claim.metadata.uid) else {
        return Ok(None);
    };
    let since = ctx.leadership.since();
    recall(ctx, since).await?;
    let of_group = instances
        .iter()
        .filter(|one| one.group.as_deref() == Some(own.token));
    let ids: Vec<&str> = of_group.map(|one| &*one.provider_id).collect();
    let named = [(own.index, &**uid)];
    let given = ctx
        .memory
        .launch
        .groups
        .give(since, (own.token, own.size), &named, &ids);
    Ok(given.and_then(|mut given| given.pop()).flatten())
}

/// Takes a member out of its group. Only a NodeClaim that is seen without one is launched by its UID.
///
/// # Errors
/// What the server says.
pub async fn leave(ctx: &Context, claim: &NodeClaim) -> Result<(), StepError> {
    tracing::info!(
        nodeclaim = claim.metadata.name,
        "leaves its launch group, which has no instance for it"
    );
    patch_meta(ctx, claim, json!({"annotations": {GROUP: null}})).await?;
    ctx.memory.launch.groups.done(claim);
    Ok(())
}

/// Writes groups of up to `most` members into NodeClaims that will be created. Those are in a group
/// that differ by name, planned pods and amounts requested alone.
pub fn divide(wanted: &mut [NewNodeClaim], most: usize) {
    if most < 2 {
        return;
    }
    let mut alike: BTreeMap<[u8; 32], Vec<usize>> = BTreeMap::new();
    for (at, want) in wanted.iter().enumerate() {
        alike.entry(kind(&want.object)).or_default().push(at);
    }
    for group in alike.values().flat_map(|all| all.chunks(most)) {
        if group.len() < 2 {
            continue;
        }
        let mut names: Vec<&str> = group.iter().map(|&at| &*wanted[at].name).collect();
        names.sort_unstable();
        let token = token(&names);
        for (index, &at) in group.iter().enumerate() {
            let text = format!("{token}/{index}/{}", group.len());
            wanted[at].object["metadata"]["annotations"][GROUP] = text.into();
        }
    }
}

/// A token of 40 letters, of names of NodeClaims. Names follow from their round, so no other set has
/// the same.
fn token(names: &[&str]) -> String {
    let mut digest = Sha256::new();
    for name in names {
        digest.update(name.as_bytes());
        digest.update([0]);
    }
    hex(&digest.finalize()[..20])
}

/// What members of a group have in common. Of requests only the resources are: each of the instance
/// types has room for any member.
fn kind(object: &Value) -> [u8; 32] {
    let mut own = object.clone();
    if let Some(metadata) = own["metadata"].as_object_mut() {
        metadata.remove("name");
    }
    if let Some(annotations) = own["metadata"]["annotations"].as_object_mut() {
        annotations.remove(PLANNED_PODS);
    }
    let requests = &mut own["spec"]["resources"]["requests"];
    if let Some(requests) = requests.as_object_mut() {
        requests
            .values_mut()
            .for_each(|amount| *amount = json!(null));
    }
    Sha256::digest(own.to_string().as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::test_cluster::{TestCluster, fresh};

    fn new(name: &str, cpu: &str, kind: &str) -> NewNodeClaim {
        NewNodeClaim {
            name: name.to_owned(),
            pool: "default".to_owned(),
            object: json!({
                "metadata": {"name": name, "annotations": {PLANNED_PODS: format!("default/{name}")}},
                "spec": {
                    "requirements": [{"key": "t", "operator": "In", "values": [kind]}],
                    "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
                    "resources": {"requests": {"cpu": cpu}},
                },
            }),
            pods: Vec::new(),
            summary: String::new(),
            min_values_relaxed: false,
            discouraged_by: None,
        }
    }

    fn groups(wanted: &[NewNodeClaim]) -> Vec<Option<(String, usize, usize)>> {
        let of = |want: &NewNodeClaim| {
            let claim: NodeClaim = serde_json::from_value(want.object.clone()).unwrap();
            member(&claim).map(|own| (own.token.to_owned(), own.index, own.size))
        };
        wanted.iter().map(of).collect()
    }

    #[test]
    fn nodeclaims_that_are_alike_are_in_groups_of_a_size() {
        let mut wanted: Vec<NewNodeClaim> =
            [("a", "1"), ("b", "2"), ("c", "1"), ("d", "1"), ("e", "1")]
                .map(|(name, cpu)| new(name, cpu, "m5.large"))
                .into();
        wanted.insert(2, new("x", "1", "r5.large"));
        let mut none = wanted.clone();
        divide(&mut none, 1);
        assert_eq!(none, wanted, "a cloud that makes instances one by one");
        divide(&mut wanted, 2);
        let all = groups(&wanted);
        let places: Vec<_> = all
            .iter()
            .map(|own| own.as_ref().map(|own| (own.1, own.2)))
            .collect();
        let (first, second) = (Some((0, 2)), Some((1, 2)));
        assert_eq!(places, [first, second, None, first, second, None]);
        let tokens: Vec<&str> = all.iter().flatten().map(|own| &*own.0).collect();
        assert_eq!((tokens[0], tokens[2]), (tokens[1], tokens[3]));
        assert_ne!(tokens[0], tokens[2]);
        assert_eq!(tokens[0].len(), 40);
    }

    fn given(record: &mut Record, members: &[(usize, &str)], there: &[&str]) -> String {
        let all = record.give(members, there);
        let all = all.iter().map(|own| own.as_deref().unwrap_or("none"));
        all.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_member_gets_an_instance_of_its_own_in_a_fixed_order_and_keeps_it() {
        let mut record = Record::default();
        let both = [(2, "w"), (0, "u")];
        assert_eq!(given(&mut record, &both, &["c", "b", "a"]), "c a");
        assert_eq!(given(&mut record, &both, &["c", "b", "a"]), "c a", "again");
        assert_eq!(given(&mut record, &[(1, "v")], &["a", "b", "c"]), "b");
        assert_eq!(given(&mut record, &[(3, "x")], &["a", "b", "c"]), "none");
        assert_eq!(given(&mut record, &[(3, "x")], &["a", "b", "c", "d"]), "d");
        // What has gone is given to no other, and another is given for it if there is one.
        assert_eq!(given(&mut record, &[(0, "u")], &["b", "c", "d"]), "none");
        assert_eq!(
            given(&mut record, &[(0, "u")], &["a", "b", "c", "d"]),
            "none"
        );
        assert_eq!(given(&mut record, &[(0, "u")], &["b", "c", "d", "e"]), "e");
        // Two claims that say the same index, as after a copy of the annotation.
        let mut record = Record::default();
        assert_eq!(
            given(&mut record, &[(0, "u"), (0, "v")], &["a", "b"]),
            "a b"
        );
    }

    #[test]
    fn what_nodeclaims_name_is_given_to_no_other() {
        let mut record = Record::default();
        record.taken.extend(["a", "b"].map(str::to_owned));
        assert_eq!(given(&mut record, &[(0, "u")], &["a", "b", "c"]), "c");
    }

    #[test]
    fn what_is_asked_for_has_room_for_each_member() {
        let present = |name: &str, requests: &[(&str, &str)]| {
            let pair = |(key, amount): &(&str, &str)| ((*key).to_owned(), (*amount).to_owned());
            Present {
                index: 0,
                uid: name.to_owned(),
                launch: Launch {
                    name: name.to_owned(),
                    requests: requests.iter().map(pair).collect(),
                    ..Launch::default()
                },
                answer: oneshot::channel().0,
            }
        };
        let all = [
            present("a", &[("cpu", "1500m"), ("memory", "1Gi")]),
            present("b", &[("cpu", "2"), ("memory", "512Mi"), ("pods", "3")]),
            present("c", &[("cpu", "900m"), ("memory", "1025Mi")]),
        ];
        let launch = together(&all);
        let amounts = ["cpu", "memory", "pods"].map(|key| &*launch.requests[key]);
        assert_eq!(amounts, ["2", "1025Mi", "3"]);
        assert_eq!(launch.name, "a and 2 others");
        assert_eq!(together(&all[..1]).name, "a");
    }

    /// A cloud that makes as many instances as there is room for, and counts its calls.
    struct Cloud {
        room: usize,
        settled: bool,
        calls: Mutex<Vec<usize>>,
    }

    #[async_trait::async_trait]
    impl longshore_cloud::CloudProvider for Cloud {
        fn name(&self) -> &'static str {
            "test"
        }
        fn most_in_group(&self) -> usize {
            500
        }
        async fn create(&self, _: &Launch) -> Result<Instance, CloudError> {
            Err(CloudError::Other("not asked".into()))
        }
        async fn create_group(&self, group: &GroupLaunch) -> Result<GroupAnswer, CloudError> {
            lock(&self.calls).push(group.count);
            let instance = |number: usize| Instance {
                provider_id: format!("test://{number}"),
                group: Some(group.token.clone()),
                ..Instance::default()
            };
            Ok(GroupAnswer {
                instances: (0..self.room).map(instance).collect(),
                settled: self.settled,
                short: None,
            })
        }
        async fn delete(&self, _: &str) -> Result<(), CloudError> {
            Ok(())
        }
        async fn get(&self, id: &str) -> Result<Instance, CloudError> {
            Err(CloudError::NotFound(id.to_owned()))
        }
        async fn list(&self) -> Result<Vec<Arc<Instance>>, CloudError> {
            Ok(Vec::new())
        }
    }

    fn context(room: usize, settled: bool) -> (Context, Arc<Cloud>) {
        let cloud = Arc::new(Cloud {
            room,
            settled,
            calls: Mutex::default(),
        });
        let ctx = TestCluster::empty().context_with(cloud.clone());
        // As if the NodeClaims had been listed.
        let since = ctx.leadership.since();
        lock(&ctx.memory.launch.groups.records).since = Some(since);
        *ctx.memory.launch.groups.listed.try_lock().unwrap() = Some(since);
        (ctx, cloud)
    }

    fn claim(index: usize, size: usize) -> NodeClaim {
        let mut claim = fresh().1;
        claim.metadata.uid = Some(format!("uid-{index}"));
        let annotations = claim.metadata.annotations.get_or_insert_default();
        annotations.insert(GROUP.to_owned(), format!("t/{index}/{size}"));
        claim
    }

    /// What members come back with that come at these milliseconds.
    async fn come(ctx: &Context, size: usize, at: &[u64]) -> Vec<String> {
        let members = at.iter().enumerate().map(|(index, at)| async move {
            tokio::time::sleep(Duration::from_millis(*at)).await;
            let claim = claim(index, size);
            let own = member(&claim).unwrap();
            match launch(ctx, &claim, &own).await {
                Came::Launched(made) => match *made {
                    Ok(instance) => instance.provider_id,
                    Err(error) => error.reason().to_owned(),
                },
                Came::Leaves => "leaves".to_owned(),
                Came::Later => "later".to_owned(),
            }
        });
        futures::future::join_all(members).await
    }

    #[tokio::test(start_paused = true)]
    async fn members_meet_and_are_asked_for_once() {
        let begun = Instant::now();
        let (ctx, cloud) = context(3, true);
        let all = come(&ctx, 3, &[300, 0, 900]).await;
        assert_eq!(all, ["test://0", "test://1", "test://2"]);
        assert_eq!(*lock(&cloud.calls), [3]);
        assert_eq!(begun.elapsed().as_millis(), 900, "nothing to wait for");
        let given = |index| {
            ctx.memory
                .launch
                .groups
                .given(&claim(index, 3), ctx.leadership.since())
        };
        assert_eq!(given(1).as_deref(), Some("test://1"));
        // One whose status could not be written asks again, alone and at once.
        let again = come(&ctx, 3, &[0]).await;
        assert_eq!(
            (again, begun.elapsed().as_millis()),
            (vec!["test://0".into()], 900)
        );
        (0..3).for_each(|index| ctx.memory.launch.groups.done(&claim(index, 3)));
        assert!(lock(&ctx.memory.launch.groups.records).groups.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_member_is_not_waited_for_and_leaves_if_nothing_is_left() {
        let (ctx, cloud) = context(2, true);
        let all = come(&ctx, 3, &[0, 500, 1600]).await;
        assert_eq!(all, ["test://0", "test://1", "leaves"]);
        assert_eq!(*lock(&cloud.calls), [2, 1]);
        // One after the other, five seconds at most.
        let begun = Instant::now();
        let (ctx, cloud) = context(20, true);
        let at: Vec<u64> = (0..20).map(|number| number * 400).collect();
        come(&ctx, 20, &at).await;
        assert_eq!(lock(&cloud.calls)[0], 13);
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    #[tokio::test(start_paused = true)]
    async fn while_instances_may_show_no_member_leaves() {
        let (ctx, _) = context(1, false);
        let all = come(&ctx, 2, &[0, 0]).await;
        assert_eq!(all, ["test://0", "LaunchFailed"]);
    }

    #[test]
    fn what_is_no_group_is_none() {
        for text in [
            "", "t", "t/1", "t/2/2", "t/0/1/2", "/0/1", "t/x/1", "t/-1/2",
        ] {
            let mut own = new("a", "1", "m5.large");
            own.object["metadata"]["annotations"][GROUP] = text.into();
            assert_eq!(groups(&[own]), [None], "{text:?}");
        }
    }
}
