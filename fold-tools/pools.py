import sys
P=sys.argv[1]+'/host/daemon/src/live/act/pools.rs'
t=open(P).read()
a=t.index('/// Brings a NodePool\'s status and hash up to date.')
b=t.index('/// The merge patch that makes one status of another.')
new='''/// Brings a NodePool's status and hash up to date. `fault` is why its spec cannot be read, if so.
/// `class` is what its class says of itself, with its generation; `claims` and `nodes` are its own.
pub async fn step(
    ctx: &Context,
    pool: &NodePool,
    fault: Option<String>,
    (class, class_generation): (Class, Option<i64>),
    claims: &[Arc<NodeClaim>],
    nodes: &[Arc<NodeView>],
) -> Outcome {
    if !ctx.managed.pool(pool) {
        return Ok(None);
    }
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let hashed = hash::nodepool_hash(pool);
    if let Ok(value) = &hashed {
        write_hash(ctx, pool, value).await?;
        adopt(ctx, claims, value).await?;
    }
    let fault = invalid(pool).or(fault);
    let fault = fault.or(hashed.err().map(|error| error.to_string()));
    let mut status = pool.status.clone().unwrap_or_default();
    count(&mut status, claims, nodes);
    let outdated = is_outdated(pool, &status, class_generation);
    if outdated {
        ctx.health.forget(name);
    }
    let unknown = outdated || condition(&status.conditions, REGISTRATION_HEALTHY).is_none();
    status.node_class_observed_generation =
        class_generation.or(status.node_class_observed_generation);
    let valid = validation(fault);
    let usable = class_readiness(&class);
    let ready = readiness(&valid, &usable);
    let healthy = registration_health(ctx.health.of(name), unknown);
    for wanted in [valid, usable, ready].into_iter().chain(healthy) {
        wanted.set(&mut status, pool.metadata.generation, ctx.now());
    }
    hold(ctx, &mut status, pool.metadata.generation);
    write_status(ctx, pool, &status).await?;
    let (limits, used) = (&pool.spec.limits, &status.resources);
    ctx.metrics.pool(name, &amounts(limits), &amounts(used));
    Ok(None)
}

/// Writes the hash that the NodePool's nodes are compared with, unless it is there.
async fn write_hash(ctx: &Context, pool: &NodePool, value: &str) -> Result<(), StepError> {
    let own = |key: &str| pool.metadata.annotations.as_ref()?.get(key);
    let (hash, version) = (own(HASH), own(HASH_VERSION));
    if hash.is_some_and(|own| own == value) && version.is_some_and(|own| own == hash::VERSION) {
        return Ok(());
    }
    ctx.may_write()?;
    let api: Api<NodePool> = Api::all(ctx.client.clone());
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let patch = json!({"metadata": {"annotations": {HASH: value, HASH_VERSION: hash::VERSION}}});
    api.patch_metadata(name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

/// Whether what is known of registrations is of another spec, of the NodePool or of its class.
fn is_outdated(pool: &NodePool, status: &NodePoolStatus, class_generation: Option<i64>) -> bool {
    let other_class =
        class_generation.is_some() && status.node_class_observed_generation != class_generation;
    let healthy = condition(&status.conditions, REGISTRATION_HEALTHY);
    other_class || healthy.is_some_and(|c| c.observed_generation != pool.metadata.generation)
}

/// A condition of a NodePool as it should be.
struct Wanted {
    what: &'static str,
    to: ConditionStatus,
    reason: &'static str,
    message: String,
}

impl Wanted {
    /// One that holds says so in its reason, and nothing else.
    fn holds(what: &'static str) -> Wanted {
        Wanted {
            what,
            to: ConditionStatus::True,
            reason: what,
            message: String::new(),
        }
    }

    fn set(self, status: &mut NodePoolStatus, generation: Option<i64>, now: Timestamp) {
        let Wanted {
            what,
            to,
            reason,
            message,
        } = self;
        set_condition(&mut status.conditions, what, to, reason, &message, Time(now));
        if let Some(c) = status.conditions.iter_mut().find(|c| c.type_ == what) {
            c.observed_generation = generation;
        }
    }
}

/// Whether the spec can be used.
fn validation(fault: Option<String>) -> Wanted {
    match fault {
        None => Wanted::holds(VALIDATION_SUCCEEDED),
        Some(message) => Wanted {
            what: VALIDATION_SUCCEEDED,
            to: ConditionStatus::False,
            reason: "NodePoolValidationFailed",
            message,
        },
    }
}

/// Whether the NodePool's class can be used.
fn class_readiness(class: &Class) -> Wanted {
    use ConditionStatus::{False, Unknown};
    let (to, reason, message) = match class {
        Class::Ready => return Wanted::holds(NODE_CLASS_READY),
        Class::Missing => (False, "NodeClassNotFound", "the node class does not exist"),
        Class::Leaving => (
            False,
            "NodeClassTerminating",
            "the node class is being deleted",
        ),
        Class::Unknown => (
            Unknown,
            "NodeClassReadinessUnknown",
            "the class does not say yet",
        ),
        Class::NotReady(why) => (False, "NodeClassNotReady", why.as_str()),
    };
    Wanted {
        what: NODE_CLASS_READY,
        to,
        reason,
        message: message.to_owned(),
    }
}

/// Whether nodes can be bought for the NodePool, from the two conditions that this depends on.
fn readiness(valid: &Wanted, usable: &Wanted) -> Wanted {
    let part = match valid.to {
        ConditionStatus::True => usable,
        _ => valid,
    };
    let (to, reason) = match part.to {
        ConditionStatus::True => return Wanted::holds("Ready"),
        ConditionStatus::Unknown => (ConditionStatus::Unknown, "ReconcilingDependents"),
        ConditionStatus::False => (ConditionStatus::False, "UnhealthyDependents"),
    };
    Wanted {
        what: "Ready",
        to,
        reason,
        message: format!("{}={to:?}", part.what),
    }
}

/// Whether the last nodes launched and registered; nothing where what stands there stays.
fn registration_health(known: Option<bool>, unknown: bool) -> Option<Wanted> {
    let (to, reason, message) = match known {
        Some(true) => return Some(Wanted::holds(REGISTRATION_HEALTHY)),
        Some(false) => (
            ConditionStatus::False,
            "RegistrationFailed",
            "two or more of the last four nodes did not launch or register",
        ),
        None if unknown => (
            ConditionStatus::Unknown,
            "AwaitingReconciliation",
            "no node was launched yet",
        ),
        None => return None,
    };
    Some(Wanted {
        what: REGISTRATION_HEALTHY,
        to,
        reason,
        message: message.to_owned(),
    })
}

/// Writes the status, if it is another, and says which conditions have changed.
async fn write_status(
    ctx: &Context,
    pool: &NodePool,
    status: &NodePoolStatus,
) -> Result<(), StepError> {
    if pool.status.as_ref() == Some(status) {
        return Ok(());
    }
    ctx.may_write()?;
    let api: Api<NodePool> = Api::all(ctx.client.clone());
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let patch = Patch::Merge(change(pool.status.as_ref(), status));
    api.patch_status(name, &PatchParams::default(), &patch)
        .await?;
    announce(ctx, pool, status).await;
    Ok(())
}

/// Amounts as metrics have them.
fn amounts(all: &BTreeMap<String, Quantity>) -> BTreeMap<String, f64> {
    let amount = |text: &Quantity| {
        let read = quantity::Quantity::parse(&text.0).and_then(|q| q.milli());
        read.unwrap_or(0) as f64 / 1000.0
    };
    all.iter()
        .map(|(resource, text)| (resource.clone(), amount(text)))
        .collect()
}

'''
t=t[:a]+'''const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
const NODE_CLASS_READY: &str = "NodeClassReady";
const REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";

'''+new+t[b:]
open(P,'w').write(t)
