//! The launch of a NodeClaim, or of a group of them.
//!
//! One at a time for each claim or group. The request is kept until its reply is known: lost, it is
//! sent again as it was, with the same token, and EC2 answers with what it did the first time. Another
//! process cannot send the same request; its token then says that the first arrived, and the instances
//! are looked for by their tag.

mod dry_run;
mod groups;
mod templates;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use longshore_cloud::{CloudError, Instance, Launch};
use longshore_ec2::bootstrap::drift;
use longshore_ec2::catalogue::ClassCatalogue;
use longshore_ec2::hash::migration::{HASH, HASH_VERSION};
use longshore_ec2::nodeclass::EC2NodeClass;
use longshore_ec2::tags;

use super::state::{InFlight, ProviderState};
use super::{Ec2, MAX_DESCRIBE_DELAY_SECONDS, zone_id};
use crate::calls::Call;
use crate::clients::Turn;
use crate::error::{ApiError, Class, launch_reason};
use crate::launch::fleet::{
    self, Asking, Fleet, FleetOutcome, GROUP_TAG, Launched, Reply, UID_TAG,
};
use crate::launch::{self, Choice, choose};
use crate::lock::lock;
use crate::nodeclass;
use crate::records::{Filters, InstanceFacts, Tags};
use crate::subnets::Reserved;
use crate::wire;

/// Attempts of one call: templates that were deleted under it, a token that was used.
const LAUNCH_ATTEMPTS: u32 = 3;
/// How often a request is sent whose reply does not come.
const MAX_SENDINGS: u32 = 3;
/// Pause before the second sending of a launch; doubled for the third.
const RESEND_DELAY: Duration = Duration::from_millis(500);

impl Ec2 {
    /// Launches, or answers with the instance that is there.
    pub(super) async fn launch(&self, launch: &Launch) -> Result<Instance, CloudError> {
        if launch.uid.is_empty() {
            let what = format!("NodeClaim {} has no UID", launch.name);
            return Err(CloudError::Invalid(what));
        }
        // Read first: a NodeClaim that says an older hash than it was launched with is replaced once
        // too often, and one that says a newer hash never.
        let class = self.class(&launch.class_name).await.ok();
        let work = self.launch_in_turn(launch);
        let mut instance = self.in_turn(&launch.uid, work).await?;
        instance.annotations.extend(hashes(class.as_ref()));
        Ok(instance)
    }

    /// Does what is to be done with a token, one at a time.
    async fn in_turn<T>(&self, token: &str, work: impl Future<Output = T>) -> T {
        let turn = {
            let mut claims = lock(&self.inner.claims);
            claims.entry(token.to_owned()).or_default().clone()
        };
        let done = {
            let _turn = turn.lock().await;
            work.await
        };
        let mut claims = lock(&self.inner.claims);
        // The map holds one and this call the other: no other launch waits for the token.
        if Arc::strong_count(&turn) == 2 {
            claims.remove(token);
        }
        done
    }

    async fn launch_in_turn(&self, launch: &Launch) -> Result<Instance, CloudError> {
        let uid = &launch.uid;
        {
            let state = self.state();
            if let Some(facts) = state.of_claim(uid).cloned() {
                return Ok(state.instance(&facts));
            }
        }
        let (class, begun) = self.begin(launch).await?;
        for _ in 0..LAUNCH_ATTEMPTS {
            let (fleet, next) = self.attempt(launch, None, &class, begun).await?;
            match next {
                Next::Done(all, _) => {
                    let none = || CloudError::Other("the fleet has no instance".to_owned());
                    let one = all.first().ok_or_else(none)?;
                    return Ok(self.launched(launch, &class, &fleet, one));
                }
                Next::Find => match self.find_launched(UID_TAG, uid).await?.into_iter().next() {
                    Some(facts) => {
                        let mut state = self.state();
                        let instance = state.instance(&facts);
                        state.launches.remove(uid);
                        state.seen(facts);
                        return Ok(instance);
                    }
                    None => self.not_found_yet(uid)?,
                },
                Next::Again => {}
            }
        }
        Err(templates_gone(launch))
    }

    /// The class of a launch, which can be launched into; whether its request was sent before.
    async fn begin(&self, launch: &Launch) -> Result<(EC2NodeClass, bool), CloudError> {
        let class = self.class(&launch.class_name).await?;
        let begun = (self.state().launches.get(&launch.uid)).is_some_and(|own| own.sent.is_some());
        if !begun {
            nodeclass::launchable(&class).map_err(CloudError::NodeClassNotReady)?;
        }
        Ok((class, begun))
    }

    /// Sends the request of a launch, and says what follows from its answer. `group` is how many
    /// instances of a group are wanted; `begun` whether the request was sent before.
    async fn attempt(
        &self,
        launch: &Launch,
        group: Option<usize>,
        class: &EC2NodeClass,
        begun: bool,
    ) -> Result<(Fleet, Next), CloudError> {
        // Without an offering there is nothing to wait for.
        if !begun {
            self.choice(&mut self.state(), launch, class)?;
        }
        let (fleet, turn) = self.request(launch, group, class).await?;
        let reserved = self.reserve(class, &fleet)?;
        let sent = self.send(&launch.uid, &fleet, turn).await;
        let next = self.answered(launch, &fleet, reserved, sent)?;
        Ok((fleet, next))
    }

    /// The request that was sent and not answered, or a new one, and its turn. Its launch templates
    /// exist. `group` is how many instances of a group are wanted.
    async fn request(
        &self,
        launch: &Launch,
        group: Option<usize>,
        class: &EC2NodeClass,
    ) -> Result<(Fleet, Turn<'_>), CloudError> {
        let clients = &self.inner.clients;
        // Before the offerings are chosen: what other launches have heard of capacity in the
        // meantime counts.
        let mut turn = clients.turn(Call::CreateFleet).await;
        if let Some(sent) = self
            .state()
            .launches
            .get(&launch.uid)
            .and_then(|own| own.sent.clone())
        {
            return Ok((sent, turn));
        }
        let (choice, templates) = loop {
            let (choice, templates) = {
                let mut state = self.state();
                let (catalogue, choice) = self.choice(&mut state, launch, class)?;
                let templates = self.templates(&state, &catalogue, class, launch, &choice)?;
                (choice, templates)
            };
            if templates.iter().all(|one| self.is_made(one)) {
                break (choice, templates);
            }
            // Other launches take the turn: EC2 counts a call when it comes, and the bucket would
            // fill while this one waits.
            drop(turn);
            self.make_templates(&templates).await?;
            turn = clients.turn(Call::CreateFleet).await;
        };
        if let Some(types) = launch::few_types(launch, &choice) {
            tracing::warn!(
                nodeclaim = launch.name,
                types,
                "spot has no capacity, and few instance types are left on demand; allow at least 5"
            );
        }
        let state = self.state();
        let attempt = state.launches.get(&launch.uid).map_or(0, |own| own.attempt);
        let asking = Asking {
            launch,
            count: group.unwrap_or(1),
            attempt,
            tags: match group {
                Some(_) => self.group_tags(class, launch),
                None => self.tags(class, launch),
            },
            context: class.spec.context.clone(),
        };
        let status = class.status.as_ref();
        let subnets = status.map_or(&[][..], |status| &status.subnets);
        let subnet = |zone: usize| {
            let zone = &*state.region.zones()[zone].name;
            let here = subnets
                .iter()
                .filter(|one| one.zone == zone)
                .map(|one| &*one.id);
            let open: Vec<&str> = here
                .filter(|id| !state.region.unavailable().is_full(id))
                .collect();
            state.addresses.widest(open.into_iter()).map(str::to_owned)
        };
        let fleet = fleet::request(&asking, &state.region, &choice, &templates, subnet);
        let fleet = fleet.ok_or_else(|| {
            let what = format!(
                "NodeClaim {}: no offering has an image and a subnet with free addresses",
                launch.name
            );
            CloudError::InsufficientCapacity(what.into())
        })?;
        Ok((fleet, turn))
    }

    /// The catalogue of a class, and the offerings that can be launched into now.
    fn choice(
        &self,
        state: &mut ProviderState,
        launch: &Launch,
        class: &EC2NodeClass,
    ) -> Result<(Arc<ClassCatalogue>, Choice), CloudError> {
        let now = self.now();
        state.region.change_unavailable(|all| all.expire(now));
        let catalogue = state.catalogue(class, &self.joins())?;
        let configured = state.min_values.as_ref().and_then(|ask| ask());
        let policy = configured.unwrap_or(self.inner.settings.min_values);
        let choice = choose(&state.region, &catalogue, launch, policy)?;
        Ok((catalogue, choice))
    }

    fn tags(&self, class: &EC2NodeClass, launch: &Launch) -> Tags {
        let pool = launch.nodepool.clone().unwrap_or_default();
        let mut tags = tags::of_class(class, &self.inner.settings.cluster.name);
        tags.extend([
            (tags::NODEPOOL.to_owned(), pool),
            (tags::NODE_CLAIM.to_owned(), launch.name.clone()),
            (UID_TAG.to_owned(), launch.uid.clone()),
        ]);
        tags
    }

    /// Instances of a group are not told apart at the launch: they get the names of their NodeClaims
    /// once their nodes have joined.
    fn group_tags(&self, class: &EC2NodeClass, launch: &Launch) -> Tags {
        let mut tags = self.tags(class, launch);
        for own in [tags::NODE_CLAIM, UID_TAG] {
            tags.remove(own);
        }
        tags.insert(GROUP_TAG.to_owned(), launch.uid.clone());
        tags
    }

    /// Takes off the addresses that the launch may need, in each subnet that it names.
    fn reserve(&self, class: &EC2NodeClass, fleet: &Fleet) -> Result<Reserved, CloudError> {
        let mut state = self.state();
        let catalogue = state.catalogue(class, &self.joins())?;
        let mut needed: BTreeMap<String, i64> = BTreeMap::new();
        for one in fleet.configs.iter().flat_map(|config| &config.overrides) {
            let Some(at) = state.region.find(&one.instance_type) else {
                continue;
            };
            let pods = catalogue.machine(at).pods();
            let least = needed.entry(one.subnet.clone()).or_insert(pods);
            *least = pods.min(*least);
        }
        let needed = needed.into_iter();
        Ok(state.addresses.reserve(fleet.count, needed))
    }

    /// Sends a request until there is a reply, three times at most. It is kept before it is sent.
    ///
    /// # Errors
    /// The call failed. With [`Class::Unknown`] there may be an instance: a reply was lost, and what
    /// was answered since does not say what became of the first request.
    async fn send(&self, uid: &str, fleet: &Fleet, mut turn: Turn<'_>) -> Result<Reply, ApiError> {
        let mut lost = {
            let now = self.now();
            let mut state = self.state();
            let own = state.launches.entry(uid.to_owned()).or_default();
            own.touched = now;
            own.sent.replace(fleet.clone()).is_some()
        };
        let mut pause = RESEND_DELAY;
        let clients = &self.inner.clients;
        let mut left = MAX_SENDINGS;
        loop {
            left -= 1;
            match wire::fleet::create(clients, fleet, turn).await {
                Err(error) if error.class == Class::Unknown && left > 0 => lost = true,
                // EC2 has looked at the token before it answers with one of these.
                Err(error) if error.class == Class::TokenReused || error.class.is_shortage() => {
                    return Err(error);
                }
                Err(mut error) if lost => {
                    error.class = Class::Unknown;
                    return Err(error);
                }
                result => return result,
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
            turn = clients.turn(Call::CreateFleet).await;
        }
    }

    /// What follows from an answer. Without a known outcome the request stays kept.
    fn answered(
        &self,
        launch: &Launch,
        fleet: &Fleet,
        reserved: Reserved,
        sent: Result<Reply, ApiError>,
    ) -> Result<Next, CloudError> {
        let now = self.now();
        let mut state = self.state();
        let used = sent.iter().flat_map(|reply| &reply.instances);
        let used: Vec<String> = used.map(|one| one.subnet.clone()).collect();
        state.addresses.release(reserved, &used);
        // A request that is refused as a whole leaves the token as good as new. Another one would let a
        // process that starts anew buy again with the first.
        let used_up = sent.is_ok();
        let reply = match sent {
            Ok(reply) => reply,
            Err(error) => match error.class {
                Class::Unknown => return Err(failed(error)),
                Class::TokenReused => return Ok(Next::Find),
                class if class.is_shortage() => fleet::whole(fleet, &error.code, &error.message),
                Class::TemplateGone => {
                    state.forget_templates(fleet);
                    state.no_instance(&launch.uid, used_up);
                    return Ok(Next::Again);
                }
                _ => {
                    state.no_instance(&launch.uid, used_up);
                    return Err(failed(error));
                }
            },
        };
        for one in &reply.errors {
            tracing::info!(
                nodeclaim = launch.name,
                instance_type = one.instance_type,
                zone = one.zone,
                capacity_type = fleet.capacity_type.as_str(),
                code = one.code,
                "launch failed"
            );
            let zone_id = zone_id(&state.region, &one.zone);
            let kind = fleet.capacity_type.as_str();
            let observer = self.inner.clients.observer();
            observer.launch_failed(&one.zone, zone_id, kind, &one.code);
        }
        fleet::remember(fleet, &reply, &mut state.region, now);
        for one in &reply.errors {
            if crate::error::classify(&one.code, &one.message) == Class::SubnetFull {
                state.addresses.exhausted(&one.subnet);
            }
        }
        match fleet::outcome(fleet, &reply) {
            FleetOutcome::Launched(all, short) => Ok(Next::Done(all, short)),
            FleetOutcome::TemplateGone(names) => {
                names.iter().for_each(|name| state.templates.forget(name));
                state.no_instance(&launch.uid, used_up);
                Ok(Next::Again)
            }
            FleetOutcome::Failed(error) => {
                state.no_instance(&launch.uid, used_up);
                Err(error)
            }
        }
    }

    fn launched(
        &self,
        launch: &Launch,
        class: &EC2NodeClass,
        fleet: &Fleet,
        one: &Launched,
    ) -> Instance {
        let facts = self.facts_of(launch, class, fleet, one);
        let now = self.now();
        let mut state = self.state();
        state.launched(&launch.uid, facts.clone(), now);
        tracing::info!(
            nodeclaim = launch.name,
            instance = facts.id,
            instance_type = facts.instance_type,
            zone = facts.zone,
            capacity_type = fleet.capacity_type.as_str(),
            "launched"
        );
        let mut instance = state.instance(&facts);
        instance.annotations.extend(digest(fleet, one));
        instance
    }

    /// An instance of a reply as EC2 will describe it.
    fn facts_of(
        &self,
        launch: &Launch,
        class: &EC2NodeClass,
        fleet: &Fleet,
        one: &Launched,
    ) -> InstanceFacts {
        let now = self.now();
        let mut state = self.state();
        let status = class.status.as_ref();
        let groups = status.map_or(&[][..], |status| &status.security_groups);
        let zones = status.map_or(&[][..], |status| &status.subnets);
        let zone = zones.iter().find(|subnet| subnet.zone == one.zone);
        let asked = fleet.configs.iter().flat_map(|config| &config.overrides);
        let mut asked = asked.filter(|own| own.instance_type == one.instance_type);
        let reservation = asked.find(|own| own.zone == one.zone);
        let reservation = reservation.and_then(|own| own.reservation.as_deref());
        let group = state
            .catalogue(class, &self.joins())
            .ok()
            .and_then(|all| all.group().cloned());
        InstanceFacts {
            id: one.id.clone(),
            state: "pending".to_owned(),
            instance_type: one.instance_type.clone(),
            zone: one.zone.clone(),
            zone_id: zone
                .and_then(|zone| zone.zone_id.clone())
                .unwrap_or_default(),
            image: one.image.clone(),
            subnet: one.subnet.clone(),
            groups: groups.iter().map(|group| group.id.clone()).collect(),
            tags: fleet.tags.clone(),
            spot: fleet.market == fleet::Market::Spot,
            reservation: reservation.map(str::to_owned),
            lifecycle: match fleet.market {
                fleet::Market::CapacityBlock => "capacity-block",
                fleet::Market::Interruptible => "interruptible-capacity-reservation",
                fleet::Market::Spot => "spot",
                fleet::Market::OnDemand => "",
            }
            .to_owned(),
            tenancy: self.tenancy(launch).to_owned(),
            placement_group: group.map(|group| group.id.to_string()).unwrap_or_default(),
            partition: 0,
            profile: status
                .and_then(|own| own.instance_profile.clone())
                .unwrap_or_default(),
            launched: now,
        }
    }

    fn tenancy(&self, launch: &Launch) -> &'static str {
        match launch.admits(crate::launch::TENANCY, Some("default")) {
            true => "default",
            false => "dedicated",
        }
    }

    /// The instances with a tag.
    async fn find_launched(
        &self,
        tag: &str,
        value: &str,
    ) -> Result<Vec<InstanceFacts>, CloudError> {
        let states = ["pending", "running"].map(str::to_owned).to_vec();
        let query: Filters = vec![
            (format!("tag:{tag}"), vec![value.to_owned()]),
            ("instance-state-name".to_owned(), states),
        ];
        Ok(wire::instances::find(&self.inner.clients, &query).await?)
    }

    /// The token was used, and no instance shows. EC2 may describe it later: until that time is over
    /// nothing is bought. Then there was none: another attempt is made.
    fn not_found_yet(&self, uid: &str) -> Result<(), CloudError> {
        let now = self.now();
        let mut state = self.state();
        let own = state.launches.entry(uid.to_owned()).or_default();
        own.sent = None;
        let since = *own.reused.get_or_insert(now);
        if now - since <= MAX_DESCRIBE_DELAY_SECONDS {
            return Err(CloudError::Other(format!(
                "claim {uid} was launched by another process, and its instance does not show yet"
            )));
        }
        state.no_instance(uid, true);
        Ok(())
    }
}

/// A call that failed, with the reason that users of Karpenter know.
fn failed(error: ApiError) -> CloudError {
    let reason = launch_reason(&error.code, &error.message);
    let say = |text: String| format!("{reason}: {text}");
    match CloudError::from(error) {
        CloudError::Throttled(text) => CloudError::Throttled(say(text)),
        CloudError::Unauthorized(text) => CloudError::Unauthorized(say(text)),
        CloudError::Invalid(text) => CloudError::Invalid(say(text)),
        CloudError::NotFound(text) | CloudError::Other(text) => CloudError::Other(say(text)),
        other => other,
    }
}

/// Every attempt found launch templates gone.
fn templates_gone(launch: &Launch) -> CloudError {
    CloudError::Other(format!(
        "LaunchTemplateNotFound: NodeClaim {}: {LAUNCH_ATTEMPTS} attempts found launch templates gone; it is \
         tried again",
        launch.name
    ))
}

/// What a claim is annotated with of its class.
fn hashes(class: Option<&EC2NodeClass>) -> BTreeMap<String, String> {
    let own = class.and_then(|class| class.metadata.annotations.as_ref());
    let own = own.into_iter().flatten();
    let own = own.filter(|(key, _)| [HASH, HASH_VERSION].contains(&key.as_str()));
    own.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// What the claim of an instance is annotated with of its user data.
fn digest(fleet: &Fleet, one: &Launched) -> Option<(String, String)> {
    let of_type = |own: &fleet::Override| own.instance_type == one.instance_type;
    let mut configs = fleet.configs.iter();
    let config = configs.find(|config| config.overrides.iter().any(of_type))?;
    Some((drift::DIGEST.to_owned(), config.digest.clone()))
}

/// What follows from an answer.
enum Next {
    /// There are instances; why they are fewer than were wanted, if so.
    Done(Vec<Launched>, Option<CloudError>),
    /// Another request has the token: its instances are looked for.
    Find,
    /// Another attempt.
    Again,
}

impl super::ProviderState {
    /// EC2 does not have the launch templates of a request.
    fn forget_templates(&mut self, fleet: &Fleet) {
        for config in &fleet.configs {
            self.templates.forget(&config.template);
        }
    }

    /// A request is over without an instance. If it has used its token up, the next one has another.
    fn no_instance(&mut self, uid: &str, used_up: bool) {
        let own: &mut InFlight = self.launches.entry(uid.to_owned()).or_default();
        own.sent = None;
        if used_up {
            own.attempt += 1;
            own.reused = None;
        }
    }
}

#[cfg(test)]
mod tests;
