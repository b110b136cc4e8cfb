//! Keeps the status of EC2NodeClasses, and cleans up after those that are deleted.
//!
//! A thin caller: [`nodeclass::status`](crate::nodeclass::status) decides. Classes are looked at
//! every few seconds, and each part of a class is observed at its own pace, at once when the class
//! changes.

mod events;
mod instance_profiles;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt as _;
use longshore_ec2::hash::migration::{Annotated, Claim, HASH, HASH_VERSION, migrate};
use longshore_ec2::hash::{self, nodeclass_hash};
use longshore_ec2::nodeclass::due::{CLASS_POLL_SECONDS, Due};
use longshore_ec2::nodeclass::{EC2NodeClass, EC2NodeClassStatus};
use longshore_ec2::tags;
use longshore_ec2::validation::{self, Verdict};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::discovery;
use crate::error::ApiError;
use crate::nodeclass::{
    Ending, FINALIZER, Observed, PACE, Part, Probe, ProfileFault, ending, status,
};
use crate::profiles;
use crate::provider::Ec2;
use crate::records::Filters;
use crate::store::ClassEvent;
use crate::wire;
use events::{events, transitions, troubles};

/// How often classes are looked at.
const CLASS_POLL: Duration = Duration::from_secs(CLASS_POLL_SECONDS);
/// How soon a part is observed again that failed, in seconds.
const PART_RETRY_SECONDS: i64 = 60;
/// How soon a profile is made again whose role does not exist, in seconds: IAM has no way to ask for
/// a role that costs less than to make a profile and delete it.
const ROLE_RETRY_SECONDS: i64 = 300;
/// How often instance profiles are looked for that nothing uses, in seconds.
const PROFILE_SWEEP_SECONDS: i64 = 1800;

/// How soon a launch is tried again that was refused, in seconds: somebody may be about to mend a
/// policy.
const REFUSED_LAUNCH_RETRY_SECONDS: i64 = 300;
/// How soon a launch is tried again that could not be tried, in seconds; doubled each time.
const LAUNCH_RETRY_SECONDS: i64 = 10;
/// Longest wait before a launch is tried again, in seconds.
const MAX_LAUNCH_RETRY_SECONDS: i64 = 300;
/// How soon a launch is tried again for a profile that EC2 does not see yet, in seconds. EC2 sees
/// most within 15 s, some within 30 s.
const NEW_PROFILE_RETRY_SECONDS: i64 = 2;
/// How often a launch is tried again so soon for such a profile.
const NEW_PROFILE_RETRIES: u32 = 16;
/// Classes that are looked at at a time.
const CLASSES_AT_ONCE: usize = 10;

/// The controller. Classes are looked at beside each other: one whose calls hang holds up no other.
pub struct Controller {
    steps: Steps,
    known: HashMap<String, KnownClass>,
    /// Looks that have not ended, and the classes by their tasks.
    looks: JoinSet<Look>,
    under_way: HashMap<tokio::task::Id, String>,
    swept: i64,
}

/// A look at a class that has ended.
struct Look {
    name: String,
    known: KnownClass,
    result: Result<(), String>,
}

/// What is known of a class.
#[derive(Default)]
struct KnownClass {
    /// UID of the class: one that was made again under its name is another one.
    uid: Option<String>,
    observed: Observed,
    due: Due,
    /// What the last dry runs were of.
    probed: Option<Probed>,
    /// How often a launch could not be tried, one time after the other.
    later: u32,
    /// When what a deleted class leaves behind may be cleaned up again, after a call failed.
    cleans: i64,
}

/// What a dry run depends on: generation, subnets, groups, images and profile.
type Probed = (Option<i64>, Vec<String>, Option<String>);

impl Controller {
    /// A controller of a provider's classes.
    pub fn new(provider: Ec2) -> Self {
        let turns = Arc::new(Semaphore::new(CLASSES_AT_ONCE));
        Controller {
            steps: Steps { provider, turns },
            known: HashMap::new(),
            looks: JoinSet::new(),
            under_way: HashMap::new(),
            swept: 0,
        }
    }

    /// Looks at classes for ever.
    pub async fn run(mut self) {
        loop {
            let classes = self.begin().await;
            if let Err(error) = &classes {
                tracing::warn!(error, "EC2NodeClasses cannot be listed");
            }
            let begun = Instant::now();
            loop {
                let next = begun + self.pause();
                tokio::select! {
                    biased;
                    Some(look) = self.looks.join_next_with_id() => self.ended(look),
                    () = tokio::time::sleep_until(next) => break,
                }
            }
            if let Ok(classes) = classes {
                self.sweep(&classes).await;
            }
        }
    }

    /// How long after a look the next one begins.
    fn pause(&self) -> Duration {
        let now = self.steps.provider.now();
        // A try that is long due is not made: something else is missing.
        let is_due = |due: i64| {
            due <= now + NEW_PROFILE_RETRY_SECONDS && due > now - CLASS_POLL.as_secs() as i64
        };
        let awaits_profile = |known: &KnownClass| {
            matches!(known.observed.probe, Some(Probe::NoProfileYet(_)))
                && known.due.next(Part::Validation).is_some_and(is_due)
        };
        match self.known.values().any(awaits_profile) {
            true => Duration::from_secs(NEW_PROFILE_RETRY_SECONDS.unsigned_abs()),
            false => CLASS_POLL,
        }
    }

    /// Looks at every class once, and waits for all of them. One that fails does not hold up the
    /// others.
    ///
    /// # Errors
    /// Classes cannot be listed.
    pub async fn round(&mut self) -> Result<(), String> {
        let classes = self.begin().await?;
        while let Some(look) = self.looks.join_next_with_id().await {
            self.ended(look);
        }
        self.sweep(&classes).await;
        Ok(())
    }

    /// Begins to look at each class that is not being looked at. All classes.
    async fn begin(&mut self) -> Result<Vec<EC2NodeClass>, String> {
        let classes = self.steps.provider.inner().classes.list().await?;
        let names: BTreeSet<String> = classes.iter().map(|class| class.name_any()).collect();
        self.known.retain(|name, _| names.contains(name));
        for class in &classes {
            let name = class.name_any();
            if self.under_way.values().any(|own| *own == name) {
                continue;
            }
            let before = self.known.remove(&name);
            let uid = &class.metadata.uid;
            let mut known =
                before
                    .filter(|known| known.uid == *uid)
                    .unwrap_or_else(|| KnownClass {
                        uid: uid.clone(),
                        ..KnownClass::default()
                    });
            let (steps, class) = (self.steps.clone(), class.clone());
            let task = self.looks.spawn(async move {
                let _turn = steps.turns.acquire().await;
                let result = match class.metadata.deletion_timestamp {
                    Some(_) => steps.end(&class, &mut known).await,
                    None => steps.reconcile(&class, &mut known).await,
                };
                Look {
                    name: class.name_any(),
                    known,
                    result,
                }
            });
            self.under_way.insert(task.id(), name);
        }
        Ok(classes)
    }

    fn ended(&mut self, look: Result<(tokio::task::Id, Look), JoinError>) {
        match look {
            Ok((id, look)) => {
                self.under_way.remove(&id);
                let Look {
                    name,
                    known,
                    result,
                } = look;
                if let Err(error) = result {
                    tracing::info!(nodeclass = name, error, "reconcile failed; retrying");
                }
                self.known.insert(name, known);
            }
            // The next look begins with nothing known.
            Err(panicked) => {
                let name = self.under_way.remove(&panicked.id());
                tracing::error!(nodeclass = name, %panicked, "reconcile panicked; retrying");
            }
        }
    }

    /// Deletes instance profiles that nothing uses, now and then. A class that is being looked at may
    /// have made one that is not known here.
    async fn sweep(&mut self, classes: &[EC2NodeClass]) {
        let now = self.steps.provider.now();
        let isolated = self.steps.provider.inner().settings.isolated;
        if now - self.swept < PROFILE_SWEEP_SECONDS || isolated || !self.under_way.is_empty() {
            return;
        }
        self.swept = now;
        let observed = self.known.values();
        let observed = observed.filter_map(|known| known.observed.profile.as_ref());
        let known: BTreeSet<String> = observed.filter_map(|name| name.clone().ok()).collect();
        if let Err(error) = self.steps.sweep_profiles(classes, known).await {
            let error = error.with_hint();
            tracing::warn!(error, "deleting unused instance profiles failed");
        }
    }
}

/// What is done for one class.
#[derive(Clone)]
struct Steps {
    provider: Ec2,
    turns: Arc<Semaphore>,
}

impl Steps {
    async fn reconcile(&self, class: &EC2NodeClass, known: &mut KnownClass) -> Result<(), String> {
        if self.write_metadata(class).await? {
            // Written: the next look has the new version.
            return Ok(());
        }
        let now = self.provider.now();
        known.due.look(class, self.provider.kubernetes());
        let mut failed = Vec::new();
        for (part, pace) in PACE {
            if part == Part::Validation || !known.due.is_due(part, now) {
                continue;
            }
            let own = self.provider.inner().settings.paces.get(&part);
            let pace = own.copied().unwrap_or(pace);
            let worked = self.observe(class, part, &mut known.observed).await;
            let no_role = matches!(&known.observed.profile, Some(Err(ProfileFault::NoRole(_))));
            let pace = match worked {
                true => pace,
                false if part == Part::Profile && no_role => ROLE_RETRY_SECONDS.min(pace),
                false => PART_RETRY_SECONDS.min(pace),
            };
            known.due.again(part, now + pace);
            if !worked {
                failed.push(part);
            }
        }
        let region = self.provider.region();
        let mut next = status(class, &known.observed, &region, now);
        // A condition may be about an older spec, so the class itself is asked.
        let valid = validation::nodeclass(class, &region) == Verdict::Valid;
        if may_be_tried(&next, valid, known, now) {
            let probe = match self.provider.inner().settings.without_dry_runs {
                true => Probe::Passed,
                false => {
                    let mut class = class.clone();
                    class.status = Some(next);
                    self.provider.probe(&class).await
                }
            };
            let again = now + next_probe(&probe, known);
            known.due.again(Part::Validation, again);
            known.observed.probe = Some(probe);
            next = status(class, &known.observed, &region, now);
        }
        let inner = self.provider.inner();
        let before = class.status.as_ref().map_or(&[][..], |s| &s.conditions);
        if class.status.as_ref() != Some(&next) {
            inner.classes.write_status(class, &next).await?;
            let observer = inner.clients.observer();
            for (old, new) in transitions(before, &next.conditions) {
                observer.condition_changed(old, new);
            }
        }
        let mut all = events(before, &next.conditions);
        all.extend(troubles(&known.observed, &failed, &next.conditions));
        for event in all {
            inner.classes.say(class, event).await;
        }
        Ok(())
    }

    /// The finalizer and the drift hash. Whether they had to be written.
    async fn write_metadata(&self, class: &EC2NodeClass) -> Result<bool, String> {
        let mut finalizers = class.metadata.finalizers.clone().unwrap_or_default();
        let mut annotations = BTreeMap::new();
        let own = class.metadata.annotations.clone().unwrap_or_default();
        let bundle = &self.provider.inner().settings.cluster.ca_bundle;
        let bundle = Some(&**bundle).filter(|bundle| !bundle.is_empty());
        let annotated = Annotated::read(&own);
        if let Ok(hash) = nodeclass_hash(class, bundle)
            && annotated != Annotated::of(&hash)
        {
            // NodeClaims of another version follow first: see `migration`.
            if annotated.version != Some(hash::VERSION) {
                self.migrate_claims(class, annotated, &hash).await?;
            }
            annotations.insert(HASH.to_owned(), hash);
            annotations.insert(HASH_VERSION.to_owned(), hash::VERSION.to_owned());
        }
        let held = finalizers.iter().any(|one| one == FINALIZER);
        if held && annotations.is_empty() {
            return Ok(false);
        }
        if !held {
            finalizers.push(FINALIZER.to_owned());
        }
        let classes = &self.provider.inner().classes;
        classes
            .write_metadata(class, &finalizers, &annotations)
            .await?;
        Ok(true)
    }

    /// Gives the NodeClaims of a class the version of the hash that the class is about to get.
    async fn migrate_claims(
        &self,
        class: &EC2NodeClass,
        old: Annotated<'_>,
        hash: &str,
    ) -> Result<(), String> {
        let classes = &self.provider.inner().classes;
        let claims = classes.claims_of(&class.name_any()).await?;
        let all = claims.iter().map(|claim| Claim {
            name: &claim.name,
            annotated: Annotated::read(&claim.annotations),
            drifted: claim.drifted,
        });
        let migration = migrate(old, hash, all);
        if !migration.claims.is_empty() {
            tracing::info!(
                nodeclass = class.name_any(),
                from = old.version,
                to = hash::VERSION,
                nodeclaims = migration.claims.len(),
                "hashes migrated"
            );
        }
        for (name, write) in migration.claims {
            let version = write.version.map(str::to_owned);
            let own = [(HASH, write.hash), (HASH_VERSION, version)];
            let own = own.into_iter();
            let own = own.filter_map(|(key, value)| Some((key.to_owned(), value?)));
            classes.annotate_claim(&name, &own.collect()).await?;
        }
        Ok(())
    }

    /// Observes a part. Whether that worked.
    async fn observe(&self, class: &EC2NodeClass, part: Part, observed: &mut Observed) -> bool {
        let inner = self.provider.inner();
        let (finder, spec) = (&inner.finder, &class.spec);
        match part {
            Part::Images => {
                let now = self.provider.system_time();
                let version = self.provider.kubernetes();
                let found = finder.images(spec, version, &inner.account, now).await;
                let worked = found.as_ref().is_ok_and(|found| !found.amis.is_empty());
                observed.images = Some(found);
                worked
            }
            Part::Reservations => {
                if !inner.settings.reserved_capacity {
                    observed.reservations = None;
                    return true;
                }
                let found = finder
                    .reservations(spec.capacity_reservation_selector_terms())
                    .await;
                if let Ok(found) = &found {
                    let mut state = self.provider.state();
                    for one in found {
                        let free = u32::try_from(one.available).unwrap_or(0);
                        state.region.set_free(&one.id, free);
                        state.reservations.insert(one.id.clone());
                    }
                }
                let worked = found.is_ok();
                observed.reservations = Some(found);
                worked
            }
            Part::Placement => {
                let Some(selector) = &spec.placement_group_selector else {
                    observed.placement = None;
                    return true;
                };
                let found = finder.placement(selector).await;
                if let Ok(Some(group)) = &found {
                    discovery::set_group(&mut self.provider.state().region, group);
                }
                let worked = matches!(found, Ok(Some(_)));
                observed.placement = Some(found);
                worked
            }
            Part::Subnets => {
                let found = finder.subnets(&spec.subnet_selector_terms).await;
                if let Ok(found) = &found {
                    self.provider.state().describe_subnets(found);
                }
                let worked = found.is_ok();
                observed.subnets = Some(found);
                worked
            }
            Part::Groups => {
                let found = finder.groups(&spec.security_group_selector_terms).await;
                let worked = found.as_ref().is_ok_and(|found| !found.is_empty());
                observed.groups = Some(found);
                worked
            }
            Part::Profile => {
                let found = self.profile(class).await;
                let worked = found.is_ok();
                observed.profile = Some(found);
                worked
            }
            Part::Validation => true,
        }
    }

    /// A class that is being deleted.
    async fn end(&self, class: &EC2NodeClass, known: &mut KnownClass) -> Result<(), String> {
        let held = class.metadata.finalizers.clone().unwrap_or_default();
        let now = self.provider.now();
        if !held.iter().any(|one| one == FINALIZER) || known.cleans > now {
            return Ok(());
        }
        let inner = self.provider.inner();
        let name = class.name_any();
        let claims = inner.classes.claims_of(&name).await?;
        let claims: Vec<String> = claims.into_iter().map(|claim| claim.name).collect();
        if let Ending::Waits(message) = ending(&claims) {
            const REASON: &str = "WaitingOnNodeClaimTermination";
            tracing::info!(nodeclass = name, message, "kept");
            let event = ClassEvent {
                warning: false,
                reason: REASON.to_owned(),
                message,
            };
            inner.classes.say(class, event).await;
            return Ok(());
        }
        if let Err(error) = self.clean_up(class).await {
            known.cleans = now + PART_RETRY_SECONDS;
            let event = ClassEvent {
                warning: true,
                reason: "CleanupFailed".to_owned(),
                message: format!("it cannot be deleted: {}", error.lasting()),
            };
            inner.classes.say(class, event).await;
            return Err(error.with_hint());
        }
        let left: Vec<String> = held.into_iter().filter(|one| one != FINALIZER).collect();
        let classes = &inner.classes;
        classes
            .write_metadata(class, &left, &BTreeMap::new())
            .await?;
        if let Some(asked) = &class.metadata.deletion_timestamp {
            let after = self.provider.now().saturating_sub(asked.0.as_second());
            let after = Duration::from_secs(u64::try_from(after).unwrap_or(0));
            inner.clients.observer().class_ended(after);
        }
        Ok(())
    }

    async fn clean_up(&self, class: &EC2NodeClass) -> Result<(), ApiError> {
        let inner = self.provider.inner();
        let (clients, cluster) = (&inner.clients, &inner.settings.cluster.name);
        if !inner.settings.isolated {
            let uid = class.metadata.uid.clone().unwrap_or_default();
            let path = profiles::path(clients.region(), cluster, &uid);
            for profile in wire::profiles::list(clients, &path).await? {
                self.delete_profile(&profile).await?;
            }
        }
        let query: Filters = vec![
            (format!("tag:{}", tags::CLUSTER), vec![cluster.clone()]),
            (format!("tag:{}", tags::NODE_CLASS), vec![class.name_any()]),
        ];
        for template in wire::templates::find(clients, &query).await? {
            wire::templates::delete(clients, &template.name).await?;
            self.provider.state().templates.forget(&template.name);
        }
        Ok(())
    }
}

/// How long until a launch is tried again, in seconds.
fn next_probe(probe: &Probe, known: &mut KnownClass) -> i64 {
    let pace = PACE.iter().find(|(part, _)| *part == Part::Validation);
    match probe {
        Probe::NoProfileYet(_) if known.later < NEW_PROFILE_RETRIES => {
            known.later += 1;
            return NEW_PROFILE_RETRY_SECONDS;
        }
        Probe::Later(_) | Probe::NoProfileYet(_) => {
            let quick = match probe {
                Probe::NoProfileYet(_) => NEW_PROFILE_RETRIES,
                _ => 0,
            };
            let wait = LAUNCH_RETRY_SECONDS << known.later.saturating_sub(quick).min(5);
            known.later = known.later.saturating_add(1);
            return wait.min(MAX_LAUNCH_RETRY_SECONDS);
        }
        _ => known.later = 0,
    }
    match probe {
        Probe::Failed(..) => REFUSED_LAUNCH_RETRY_SECONDS,
        _ => pace.map_or(PART_RETRY_SECONDS, |(_, pace)| *pace),
    }
}

/// Whether a launch should be tried: all that it needs is there, and the last try was long ago or
/// of something else.
fn may_be_tried(next: &EC2NodeClassStatus, valid: bool, known: &mut KnownClass, now: i64) -> bool {
    use longshore_api::crd::{ConditionStatus, condition};
    let needed = [
        "AMIsReady",
        "SubnetsReady",
        "SecurityGroupsReady",
        "InstanceProfileReady",
    ];
    let ready = needed.iter().all(|type_| {
        condition(&next.conditions, type_).is_some_and(|own| own.status == ConditionStatus::True)
    });
    if !ready || !valid {
        return false;
    }
    let mut of: Vec<String> = next.subnets.iter().map(|one| one.id.clone()).collect();
    of.sort();
    of.extend(next.security_groups.iter().map(|one| one.id.clone()));
    of.extend(next.amis.iter().map(|one| one.id.clone()));
    let probed = Some((known.due.generation(), of, next.instance_profile.clone()));
    let due = known.due.is_due(Part::Validation, now);
    let changed = known.probed != probed;
    known.probed = probed;
    due || changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_that_ec2_does_not_see_yet_is_tried_again_soon() {
        let mut known = KnownClass::default();
        let mut wait = |probe: Probe| next_probe(&probe, &mut known);
        let not_yet = || Probe::NoProfileYet(String::new());
        let soon: Vec<i64> = (0..NEW_PROFILE_RETRIES).map(|_| wait(not_yet())).collect();
        assert_eq!(
            soon,
            [NEW_PROFILE_RETRY_SECONDS; NEW_PROFILE_RETRIES as usize]
        );
        assert_eq!(
            wait(not_yet()),
            LAUNCH_RETRY_SECONDS,
            "the class may name a wrong profile"
        );
        assert_eq!(wait(not_yet()), 2 * LAUNCH_RETRY_SECONDS);
        assert_eq!(wait(Probe::Passed), 1800);
        let later: Vec<i64> = (0..6).map(|_| wait(Probe::Later(String::new()))).collect();
        assert_eq!(later, [10, 20, 40, 80, 160, 300]);
        assert_eq!(
            wait(Probe::Failed("A", String::new())),
            REFUSED_LAUNCH_RETRY_SECONDS
        );
        assert_eq!(wait(not_yet()), NEW_PROFILE_RETRY_SECONDS);
    }
}
