//! One round: plans a snapshot and creates the NodeClaims of the plan.

use std::sync::Arc;
use std::time::{Duration, Instant};

use std::collections::BTreeSet;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use kube::core::Request;
use kube::{Client, Resource as _};
use longshore_api::crd::NodeClaim;
use longshore_cloud::Launch;
use longshore_core::disrupt::methods::TerminateFirst;
use longshore_core::model::{ClusterObjects, Settings};
use longshore_core::plan::Plan;
use longshore_core::planner;
use longshore_core::snapshot::Snapshot;
use longshore_core::stop::Stop;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::claims::{NewNodeClaim, NominationPlan, PLANNED_PODS, ROUND};
use super::clock::Clock;
use super::connection::is_not_leading;
use super::context::Context;
use super::fail_points::fail_point;
use super::journal::{Decided, Journal};
use super::kinds::Kind;
use super::launch_groups;
use super::launch_request::launch_of;
use super::mutants::mutant;
use super::offers::Offers;
use super::overlays::{CatalogueOverlays, OverlaySet};
use super::policies::{ActivePolicies, PolicyReloader};
use super::refusals::{self, Refused};
use super::round_input::RoundInput;
use super::step_error::StepError;
use super::unavailable_offerings::UnavailableOfferings;
use crate::deadline::{self, Deadline, TIME_LIMIT};
use crate::explain::{self, ExplainInput};
use crate::explained::Explained;

pub struct RoundConfig {
    /// What can be bought.
    pub catalogue: Arc<dyn Offers>,
    /// Applies NodeOverlays to it; nothing where they are not watched (gate NodeOverlay).
    pub overlays: Option<Arc<CatalogueOverlays>>,
    /// Its offerings that are unavailable now.
    pub unavailable: Arc<UnavailableOfferings>,
    /// Settings of the environment; the configuration wins.
    pub settings: Settings,
    /// Who scores, and what the configuration says of planning.
    pub policies: PolicyReloader,
    /// Where all of it is written down.
    pub journal: Journal,
    /// Nodes are disrupted.
    pub disrupts: bool,
    /// Spot nodes may be replaced by spot nodes (gate SpotToSpotConsolidation).
    pub spot_to_spot: bool,
    /// Which nodes may be deleted before their replacement is there (gates TerminateFirstDrift and
    /// TerminateFirstRepair).
    pub terminate_first: TerminateFirst,
    /// Plans on the loop's own thread, so that nothing depends on the order of threads: for
    /// simulations.
    pub inline: bool,
    /// How long a look for disruption takes on the loop's own thread: the loop goes on meanwhile.
    pub look_takes: Duration,
    /// Whose threads compute; those of the loop's runtime if nothing.
    pub computing: Option<Handle>,
}

impl RoundConfig {
    /// Computes on a thread: rounds, looks for disruption and explanations, one of each at a time.
    pub fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        match &self.computing {
            Some(threads) => threads.spawn_blocking(work),
            None => tokio::task::spawn_blocking(work),
        }
    }
}

/// A round that has been decided.
pub struct Round {
    /// What was planned for.
    pub snapshot: Snapshot,
    /// The result, or the rules that even the first-fit plan breaks.
    pub plan: Result<Plan, String>,
    /// What is to be known of its pods besides.
    pub nomination_plan: NominationPlan,
    /// How long deciding took.
    pub took: Duration,
}

/// How long a round may plan before the answer of a lesser effort is taken.
pub fn time_limit(live: &ActivePolicies) -> Duration {
    live.planning().time_limit.unwrap_or(TIME_LIMIT)
}

/// A snapshot for the current policies, configuration and NodeOverlays, with planning options and
/// the time limit. The world's catalogue is what the cloud offers.
pub fn build_snapshot(
    how: &RoundConfig,
    live: &ActivePolicies,
    mut world: ClusterObjects,
    overlays: &OverlaySet,
) -> (Snapshot, planner::Options, Option<Duration>) {
    live.begin_round(world.now);
    let planning = live.planning();
    world.settings = how.settings.clone();
    world.settings.preferences = planning.preferences.unwrap_or(how.settings.preferences);
    world.settings.min_values = planning.min_values.unwrap_or(how.settings.min_values);
    world.settings.node_cost = planning.node_cost.unwrap_or(how.settings.node_cost);
    let options = planner::Options {
        effort: planning.improve.unwrap_or_default(),
        seed: planning.seed.unwrap_or(0),
    };
    // Nothing in a simulation depends on how long something takes.
    let limit = (!how.inline).then(|| time_limit(live));
    let offers = std::mem::take(&mut world.catalogue);
    let catalogue = match &how.overlays {
        None => offers,
        Some(known) => {
            let applied = known.apply(&offers, overlays, &world.pools, &mut world.names);
            applied.catalogue
        }
    };
    world.catalogue = how
        .unavailable
        .without_unavailable(&catalogue, &world.names, world.now);
    (Snapshot::new(Arc::new(world)), options, limit)
}

/// Explains what would become of a pod, `namespace/name`, if a round were made now. `live` has no
/// other caller.
///
/// # Errors
/// Why there is nothing to explain.
pub fn explain(
    how: &RoundConfig,
    live: &ActivePolicies,
    input: RoundInput,
    pod: &str,
) -> Result<Explained, String> {
    let overlays = input.overlays();
    let (snapshot, options, limit) = build_snapshot(how, live, input.world(), &overlays);
    let deadline = Deadline::after(limit);
    let is_over = || deadline.is_over();
    let stop = Stop::when(&is_over);
    let plan = planner::plan_until(&snapshot, live, options, stop)
        .map_err(|rejected| format!("{:?}", rejected.violations))?;
    let case = ExplainInput {
        snapshot: &snapshot,
        policies: live,
        options,
        plan: &plan,
        stop,
    };
    explain::explain(&case, pod).map_err(|failure| failure.to_string())
}

/// Plans with the current policies and records the result. A careful round does
/// not improve its plan.
pub fn decide(
    how: &RoundConfig,
    clock: &Clock,
    number: u64,
    careful: bool,
    input: RoundInput,
) -> Round {
    fail_point("plan");
    let begun = Instant::now();
    let live = how.policies.take();
    let overlays = input.overlays();
    let (snapshot, mut options, limit) = build_snapshot(how, &live, input.world(), &overlays);
    if careful {
        options.effort = longshore_core::plan::Effort::None;
    }
    let deadline = Deadline::after(limit);
    let is_over = || deadline.is_over();
    let stop = Stop::when(&is_over);
    let plan = planner::plan_until(&snapshot, &*live, options, stop);
    if let (
        Ok(Plan {
            cut_short: Some(used),
            ..
        }),
        Some(limit),
    ) = (&plan, limit)
    {
        tracing::warn!(
            pods = snapshot.pending.len(),
            "{}",
            deadline::words(limit, *used)
        );
    }
    if let Ok(plan) = &plan {
        how.policies.finish(&live, &snapshot, plan);
    }
    let time = clock.now().as_millisecond();
    let violations = match &plan {
        Ok(plan) => plan.left_out.as_slice(),
        Err(rejected) => rejected.violations.as_slice(),
    };
    if !violations.is_empty() {
        how.journal.defect(time, number, &snapshot, violations);
    }
    let plan = plan.map_err(|rejected| format!("{:?}", rejected.violations));
    how.journal.decided(Decided {
        time,
        round: number,
        signals: live.signals(),
        answers: live.answered(),
        failed: live.failed(),
        snapshot: &snapshot,
        options,
        plan: plan.as_ref().map_err(String::as_str),
        took: begun.elapsed(),
    });
    let nomination_plan = plan
        .as_ref()
        .map(|plan| NominationPlan::of(&snapshot, plan))
        .unwrap_or_default();
    Round {
        snapshot,
        plan,
        nomination_plan,
        took: begun.elapsed(),
    }
}

/// A NodeClaim that was created.
pub struct Created {
    pub name: String,
    /// The pods that it is for, `namespace/name`.
    pub pods: Vec<String>,
}

/// Creates claims, several at a time, and reports each to the loop at once. Returns those created,
/// and how many failed.
pub async fn write_all(ctx: &Arc<Context>, mut wanted: Vec<NewNodeClaim>) -> (Vec<Created>, usize) {
    let total = wanted.len();
    launch_groups::divide(&mut wanted, ctx.provider.most_in_group());
    let one = |want: NewNodeClaim| async move {
        if mutant("launch-first")
            && let Ok(object) = serde_json::from_value::<NodeClaim>(want.object.clone())
        {
            let launch = Launch {
                uid: want.pods.join(","),
                ..launch_of(&object)
            };
            let _ = ctx.provider.create(&launch).await;
        }
        match create(ctx, &want).await {
            Ok(text) => {
                ctx.launches.made(&uid_of(&text), ctx.leadership.since());
                ctx.echo(Kind::NodeClaim, &want.name, &text);
                tracing::info!(
                    nodeclaim = want.name,
                    nodepool = want.pool,
                    pods = want.pods.len(),
                    want.summary,
                    "created NodeClaim"
                );
                ctx.refusals.done(Refused::Creation, &want.pool);
                ctx.metrics
                    .claim_created(&want.pool, want.min_values_relaxed);
                Some(Created {
                    name: want.name,
                    pods: want.pods,
                })
            }
            Err(error) => {
                creation_refused(ctx, &want, &error).await;
                None
            }
        }
    };
    let made: Vec<_> = futures::stream::iter(wanted)
        .map(one)
        .buffer_unordered(16)
        .collect()
        .await;
    let made: Vec<Created> = made.into_iter().flatten().collect();
    let failed = total - made.len();
    (made, failed)
}

/// A NodeClaim could not be created: its pods and the NodePool say so, and the log, once in a while.
async fn creation_refused(ctx: &Context, want: &NewNodeClaim, error: &StepError) {
    if matches!(error, StepError::NotLeading) {
        return;
    }
    let (what, why) = (Refused::Creation, error.to_string());
    if !ctx.refusals.note(what, &want.pool, &why, ctx.now()) {
        tracing::debug!(
            nodeclaim = want.name,
            nodepool = want.pool,
            why,
            "creating NodeClaim failed"
        );
        return;
    }
    tracing::error!(
        nodeclaim = want.name,
        nodepool = want.pool,
        why,
        "creating NodeClaim failed"
    );
    let message = format!(
        "no NodeClaim can be created for NodePool {}: {why}",
        want.pool
    );
    let events = &ctx.events;
    events
        .pool_named(&want.pool, true, what.reason(), &message)
        .await;
    for pod in want.pods.iter().take(refusals::MAX_EVENT_PODS) {
        events.pod(pod, true, what.reason(), &message).await;
    }
}

/// How often a create without an answer is looked up.
const LOOK_UPS: u32 = 4;

/// Creates one claim. Its name is unique, so that it can be looked up when no answer comes. It is
/// never sent twice without that. Returns the claim as the server has it.
async fn create(ctx: &Context, want: &NewNodeClaim) -> Result<String, StepError> {
    ctx.may_write()?;
    let path = Request::new(NodeClaim::url_path(&(), None));
    let mut object = want.object.clone();
    if mutant("random-name") {
        object["metadata"]["name"] = serde_json::Value::Null;
        object["metadata"]["generateName"] = format!("{}-", want.pool).into();
    }
    let body = object.to_string().into_bytes();
    let sent = path
        .create(&PostParams::default(), body)
        .map_err(kube::Error::BuildRequest)?;
    let refused = match ctx.client.request_text(sent).await {
        Ok(text) => return Ok(text),
        Err(kube::Error::Api(status)) if !may_have_happened(status.code) => {
            return Err(StepError::Other(status.message));
        }
        Err(error) => error,
    };
    if is_not_leading(&refused) {
        return Err(StepError::NotLeading);
    }
    for attempt in 0..LOOK_UPS {
        let asked = path
            .get(&want.name, &kube::api::GetParams::default())
            .map_err(kube::Error::BuildRequest)?;
        match ctx.client.request_text(asked).await {
            Ok(text) if is_ours(&text, want) => return Ok(text),
            Ok(_) => {
                return Err(StepError::Other(format!(
                    "another NodeClaim is called {}",
                    want.name
                )));
            }
            Err(kube::Error::Api(status)) if status.code == 404 && attempt > 0 => break,
            Err(_) => tokio::time::sleep(Duration::from_secs(1 << attempt)).await,
        }
    }
    Err(refused.into())
}

/// Whether a request with this answer may have been carried out.
fn may_have_happened(code: u16) -> bool {
    code == 409 || code >= 500
}

/// The UID of a claim that the server has answered with; empty if it has none.
fn uid_of(text: &str) -> String {
    let claim = serde_json::from_str::<NodeClaim>(text).ok();
    claim
        .and_then(|claim| claim.metadata.uid)
        .unwrap_or_default()
}

/// Whether a claim is the one that was to be created: of the same round, for the same pods.
fn is_ours(text: &str, want: &NewNodeClaim) -> bool {
    let Ok(found) = serde_json::from_str::<NodeClaim>(text) else {
        return false;
    };
    let annotation = |name: &str| found.metadata.annotations.as_ref()?.get(name).cloned();
    let wanted = |name: &str| {
        want.object["metadata"]["annotations"][name]
            .as_str()
            .map(str::to_owned)
    };
    [ROUND, PLANNED_PODS]
        .iter()
        .all(|name| annotation(name) == wanted(name))
}

/// Asks which of the pods that wait have no node, as the server has it now: a read that no cache
/// answers. Where it does not say, the doubtful ones among them stay unread.
pub async fn unbound(client: &Client, waiting: &[String], doubtful: &[String]) -> Asked {
    let params = ListParams::default().fields("spec.nodeName=");
    let stays = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_none();
    let there = pods_of(client, params, stays).await;
    Asked::of(if there.is_ok() { waiting } else { doubtful }, there)
}

/// As many pods are asked for one by one; more are listed.
const ONE_BY_ONE: usize = 100;

/// What the server said of pods.
#[derive(Default)]
pub struct Asked {
    /// They do not exist, or have a node by now.
    pub gone: BTreeSet<String>,
    pub unread: BTreeSet<String>,
}

impl Asked {
    fn of(pods: &[String], there: Result<BTreeSet<String>, kube::Error>) -> Asked {
        match there {
            Ok(there) => {
                let gone = pods.iter().filter(|pod| !there.contains(*pod));
                Asked {
                    gone: gone.cloned().collect(),
                    ..Asked::default()
                }
            }
            Err(error) => {
                tracing::warn!(%error, pods = pods.len(), "pods could not be listed; nothing is \
                    bought for them in this round");
                Asked {
                    unread: pods.iter().cloned().collect(),
                    ..Asked::default()
                }
            }
        }
    }

    pub fn extend(&mut self, other: Asked) {
        self.gone.extend(other.gone);
        self.unread.extend(other.unread);
    }
}

/// Asks which of these pods exist.
pub async fn existing(client: &Client, pods: &[String]) -> Asked {
    if pods.len() > ONE_BY_ONE {
        let there = pods_of(client, ListParams::default(), |_| true).await;
        return Asked::of(pods, there);
    }
    let asked = pods.iter().map(|pod| async move {
        let (namespace, name) = pod.split_once('/').unwrap_or(("default", pod));
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        (pod.clone(), api.get_metadata_opt(name).await)
    });
    let asked: Vec<_> = asked.collect();
    let answers = futures::stream::iter(asked).buffered(READS_AT_ONCE);
    answers
        .fold(Asked::default(), |mut asked, (pod, found)| async move {
            match found {
                Ok(Some(_)) => {}
                Ok(None) => drop(asked.gone.insert(pod)),
                Err(error) => {
                    tracing::warn!(pod, %error, "a pod of a terminating node could not be read; \
                        nothing is bought for it in this round");
                    asked.unread.insert(pod);
                }
            }
            asked
        })
        .await
}

/// Pods that are read at a time.
const READS_AT_ONCE: usize = 16;

/// Leaves out the claims that are for one of these pods; says how many those are.
pub fn leave_out(wanted: &mut Vec<NewNodeClaim>, pods: &BTreeSet<String>) -> usize {
    let before = wanted.len();
    wanted.retain(|want| want.pods.iter().all(|pod| !pods.contains(pod)));
    before - wanted.len()
}

async fn pods_of(
    client: &Client,
    params: ListParams,
    counts: impl Fn(&ObjectMeta) -> bool,
) -> Result<BTreeSet<String>, kube::Error> {
    let api: Api<Pod> = Api::all(client.clone());
    let mut params = params.limit(500);
    let mut found = BTreeSet::new();
    loop {
        let page = api.list_metadata(&params).await?;
        found.extend(
            page.items
                .into_iter()
                .filter(|pod| counts(&pod.metadata))
                .filter_map(|pod| {
                    Some(format!(
                        "{}/{}",
                        pod.metadata.namespace?, pod.metadata.name?
                    ))
                }),
        );
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_that_has_vanished_costs_its_own_nodeclaim_and_no_other() {
        let wanted = |name: &str, pods: &[&str]| NewNodeClaim {
            name: name.to_owned(),
            pool: "web".to_owned(),
            pods: pods.iter().map(|pod| (*pod).to_owned()).collect(),
            object: json!({}),
            summary: String::new(),
            min_values_relaxed: false,
        };
        let mut all = vec![
            wanted("1", &["shop/a", "shop/b"]),
            wanted("2", &["shop/c"]),
            wanted("3", &["shop/d"]),
        ];
        let gone = BTreeSet::from(["shop/b".to_owned(), "shop/x".to_owned()]);
        assert_eq!(leave_out(&mut all, &gone), 1);
        let left: Vec<&str> = all.iter().map(|want| &*want.name).collect();
        assert_eq!(left, ["2", "3"]);
    }
}
