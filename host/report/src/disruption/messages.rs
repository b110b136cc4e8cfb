//! Why nodes go or stay, in words.

use longshore_core::cron::Schedule;
use longshore_core::disrupt::methods::{Act, FirstWhy, Trouble};
use longshore_core::disrupt::proposals::{Proposal, SPOT_FLEXIBILITY, Why};
use longshore_core::disrupt::verdicts::{Method, Stays};
use longshore_core::ids::{NodeIx, PodIx};
use longshore_core::model::{Labels, Symbol};
use longshore_core::snapshot::Snapshot;

use crate::count;
use crate::decision::pod_name;
use crate::messages::rfc3339;

/// What a consolidation policy says.
fn policy(by: &str, why: &str, until: Option<i64>) -> String {
    let why = match why {
        "" => "no reason given",
        why => why,
    };
    match until.map(rfc3339) {
        Some(until) => format!("policy {by}: {why}; not before {until}"),
        None => format!("policy {by}: {why}"),
    }
}

/// `8 h`, `1 h 30 min`.
fn duration(seconds: i64) -> String {
    let (hours, minutes) = (seconds / 3600, seconds % 3600 / 60);
    match (hours, minutes) {
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

fn backs_off(pool: &str, until: i64) -> String {
    format!(
        "the last replacements for nodes of {pool} did not become ready; nothing is bought to \
        replace its nodes before {}",
        rfc3339(until)
    )
}

fn one_at_a_time(pool: &str) -> String {
    format!(
        "the last replacements for nodes of {pool} did not become ready; one node at a time is \
        replaced until that succeeds"
    )
}

/// What sentences are made with.
pub struct Messages<'s> {
    /// The names.
    pub snapshot: &'s Snapshot,
}

impl Messages<'_> {
    /// A node's name.
    pub fn node(&self, node: NodeIx) -> String {
        self.text(self.snapshot.nodes[node.0 as usize].name)
    }

    fn usd(&self, amount: f64) -> String {
        let estimates = self.snapshot.world.catalogue.estimates();
        crate::messages::usd(amount, 4, estimates.any())
    }

    fn text(&self, symbol: Symbol) -> String {
        self.snapshot.world.names.text(symbol).to_owned()
    }

    fn pod(&self, pod: PodIx) -> String {
        pod_name(&self.snapshot.world, pod)
    }

    /// A code for why a node stays.
    pub fn code(why: &Stays) -> &'static str {
        match why {
            Stays::NotManaged => "NotManaged",
            Stays::NotInitialized => "NotInitialized",
            Stays::NodePoolMissing => "NodePoolMissing",
            Stays::Static => "Static",
            Stays::NotStatic => "NotStatic",
            Stays::StaticScales => "StaticScales",
            Stays::StaticAtLimit => "StaticAtLimit",
            Stays::Nominated(_) => "Nominated",
            Stays::Disrupting => "Disrupting",
            Stays::Rebooting => "Rebooting",
            Stays::Healthy => "Healthy",
            Stays::Tolerated(_) => "Tolerated",
            Stays::DoNotRepair => "DoNotRepair",
            Stays::TooManyUnhealthy(..) => "TooManyUnhealthy",
            Stays::Replaces => "Replaces",
            Stays::DoNotDisrupt => "DoNotDisrupt",
            Stays::PodDoNotDisrupt(..) => "PodDoNotDisrupt",
            Stays::PodBudget(..) => "PodDisruptionBudget",
            Stays::SeveralPodBudgets(_) => "SeveralPodDisruptionBudgets",
            Stays::NodePoolBudget(_) => "NodePoolBudget",
            Stays::BacksOff(_) | Stays::OneAtATime => "BacksOff",
            Stays::Awaits(_) => "Awaits",
            Stays::ConsolidationOff => "ConsolidationOff",
            Stays::NotConsolidatable => "NotConsolidatable",
            Stays::OnlyWhenEmpty => "OnlyWhenEmpty",
            Stays::NotEmpty(_) => "NotEmpty",
            Stays::IsEmpty => "IsEmpty",
            Stays::NotDrifted => "NotDrifted",
            Stays::UnknownOffering => "UnknownOffering",
            Stays::NotModelled(_) => "NotModelled",
            Stays::Unschedulable(..) => "PodUnschedulable",
            Stays::Leaving(_) => "PodLeaving",
            Stays::NoPlace(_) | Stays::NoPlaceTogether(..) => "NoPlace",
            Stays::Needed => "Needed",
            Stays::NotNow => "NotNow",
            Stays::NotWorthIt(_) => "NotWorthIt",
            Stays::BreaksRule(_) => "BreaksRule",
            Stays::SeveralClaims => "SeveralNodeClaims",
            Stays::OthersNotReady => "OthersNotReady",
            Stays::Policy { .. } => "Policy",
        }
    }

    /// What is in the way of a node's disruption, and what would have to change.
    pub fn stays(&self, node: NodeIx, why: &Stays) -> String {
        let world = &self.snapshot.world;
        match why {
            Stays::NotManaged => "it belongs to no NodePool, or has no NodeClaim".into(),
            Stays::NotInitialized => "it is not initialised; wait until it is ready for pods".into(),
            Stays::NodePoolMissing => "its NodePool does not exist".into(),
            Stays::Static => "its NodePool keeps a fixed number of nodes (spec.replicas)".into(),
            Stays::NotStatic => "its NodePool has no fixed number of nodes".into(),
            Stays::StaticScales => {
                "its NodePool has more or fewer NodeClaims than replicas, or is being deleted; that comes first".into()
            }
            Stays::StaticAtLimit => {
                "limits.nodes of its NodePool leaves no room for a replacement; set it above replicas".into()
            }
            Stays::Nominated(pod) => format!("pod {} is expected on it", self.pod(*pod)),
            Stays::Disrupting => "it is being disrupted already".into(),
            Stays::Rebooting => "its machine is being rebooted".into(),
            Stays::Healthy => "it has no condition that its cloud repairs".into(),
            Stays::Tolerated(condition) => format!(
                "condition {} is still tolerated",
                self.text(*condition)
            ),
            Stays::DoNotRepair => "annotation karpenter.sh/do-not-repair is true".into(),
            Stays::TooManyUnhealthy(unhealthy, nodes) => format!(
                "{unhealthy} of {nodes} nodes of its NodePool are unhealthy (more than 20 %): the \
                cause is probably elsewhere"
            ),
            Stays::Replaces => "it was bought for pods of nodes that are still there".into(),
            Stays::DoNotDisrupt => self.forbidden(node),
            Stays::PodDoNotDisrupt(pod, None) if world.pods[pod.0 as usize].unreadable => {
                let why = world.pods[pod.0 as usize].invalid.as_deref().unwrap_or_default();
                format!("pod {} cannot be read, so its needs are unknown: {why}", self.pod(*pod))
            }
            Stays::PodDoNotDisrupt(pod, None) => {
                format!("annotation karpenter.sh/do-not-disrupt of pod {}; remove it", self.pod(*pod))
            }
            Stays::PodDoNotDisrupt(pod, Some(until)) => {
                let left = (until - world.now).max(0);
                format!("annotation karpenter.sh/do-not-disrupt of pod {} for {left} s more", self.pod(*pod))
            }
            Stays::PodBudget(pod, budget) => {
                let budget = &world.budgets[*budget];
                format!(
                    "PodDisruptionBudget {}/{} allows no eviction of pod {}; it has to allow one",
                    self.text(budget.namespace),
                    self.text(budget.name),
                    self.pod(*pod)
                )
            }
            Stays::SeveralPodBudgets(pod) => {
                format!("several PodDisruptionBudgets select pod {}, so the API server does not evict it", self.pod(*pod))
            }
            Stays::NodePoolBudget(at) => self.budget(node, *at),
            Stays::BacksOff(until) => backs_off("its NodePool", *until),
            Stays::OneAtATime => one_at_a_time("its NodePool"),
            Stays::Awaits(node) => self.awaits(*node),
            Stays::ConsolidationOff => "consolidateAfter of its NodePool is Never".into(),
            Stays::NotConsolidatable => {
                "condition Consolidatable is not True: consolidateAfter has not passed since pods changed".into()
            }
            Stays::OnlyWhenEmpty => "consolidationPolicy of its NodePool is WhenEmpty, and it has pods".into(),
            Stays::NotEmpty(pods) => format!("{} would have to move", count(*pods as usize, "pod")),
            Stays::IsEmpty => "it is empty; the method emptiness takes it".into(),
            Stays::NotDrifted => "it has not drifted from its NodePool".into(),
            Stays::UnknownOffering => {
                "no offering has its instance type, zone and capacity type, so its price is not known".into()
            }
            Stays::BreaksRule(why) => format!(
                "the check refuses what was planned for it: {why}; this is a defect of Longshore, please report it"
            ),
            Stays::SeveralClaims => {
                "several NodeClaims have its provider ID; delete those that are copies".into()
            }
            Stays::OthersNotReady => {
                "it would go before it is replaced, and other nodes of its NodePool are not initialised yet".into()
            }
            Stays::NotModelled(pod) => {
                format!(
                    "pod {} could not be scheduled anew: its place no longer meets its affinity or anti-affinity, or affinity holds it on its host",
                    self.pod(*pod)
                )
            }
            Stays::Unschedulable(pod, why) => {
                let sentences = crate::messages::Messages {
                    world,
                    shape: None,
                    pool: None,
                };
                let (pod, why) = (self.pod(*pod), sentences.sentence(why));
                format!("pod {pod} could not be scheduled anew: {why}")
            }
            Stays::Leaving(pod) => format!(
                "pod {} of a StatefulSet is ending on it and will come back; wait until it is gone",
                self.pod(*pod)
            ),
            Stays::NoPlace(pod) => format!("pod {} has no other place", self.pod(*pod)),
            Stays::NoPlaceTogether(pod, others) => format!(
                "pod {} and {} that must be on its host have no other place",
                self.pod(*pod),
                count(*others as usize, "pod")
            ),
            Stays::Needed => {
                "it could go alone, but it is worth more as a place for pods of nodes that go".into()
            }
            Stays::NotNow => "it could go alone, but what goes now saves more; the next look tests it again".into(),
            Stays::NotWorthIt(missing) => format!(
                "removing it would save {} USD per hour too little for the pods that move{}",
                self.usd(*missing),
                self.apart(node)
            ),
            Stays::Policy { by, why, until } => policy(by, why, *until),
        }
    }

    /// The budget of a node's NodePool at a position, which lets no more nodes go.
    fn budget(&self, node: NodeIx, at: usize) -> String {
        let pool = self.snapshot.nodes[node.0 as usize].pool;
        match pool.and_then(|pool| self.written_budget(pool, at)) {
            Some(budget) => format!("{budget} allows no more nodes now"),
            None => "a disruption budget of its NodePool allows no more nodes now".to_owned(),
        }
    }

    /// The budget of a NodePool at a position, as it is written, and until when it counts.
    fn written_budget(&self, pool: Symbol, at: usize) -> Option<String> {
        let world = &self.snapshot.world;
        let pool = world.pools.iter().find(|known| known.name == pool)?;
        let budget = pool.budgets.get(at)?;
        let mut says = format!("nodes {:?}", budget.nodes);
        if let Some(reasons) = &budget.reasons {
            let reasons: Vec<String> = reasons.iter().map(|reason| self.text(*reason)).collect();
            says += &format!(" for {}", reasons.join(" and "));
        }
        match &budget.schedule {
            None => says += ", at all times",
            Some(text) => {
                let seconds = budget.duration.unwrap_or(0);
                says += &format!(", schedule {text:?} for {}", duration(seconds));
                match Schedule::parse(text).map(|of| of.ends(world.now, seconds)) {
                    Ok(Some(end)) => says += &format!(", now until {}", rfc3339(end)),
                    Ok(None) => says += ", which never opens and so counts always",
                    Err(why) => {
                        says += &format!(", which cannot be read and so allows none: {why}");
                    }
                }
            }
        }
        Some(format!(
            "disruption budget {at} of NodePool {} ({says})",
            self.text(pool.name)
        ))
    }

    /// Why a node is left alone that an annotation, its own or its NodeClaim's, protects. One stands
    /// for what cannot be read of them.
    fn forbidden(&self, node: NodeIx) -> String {
        let world = &self.snapshot.world;
        let name = self.snapshot.nodes[node.0 as usize].name;
        let unreadable = |of: &Labels| {
            let key = world.names.get(longshore_api::labels::UNREADABLE)?;
            of.get(key).map(|why| self.text(why))
        };
        let nodes = world.nodes.iter().filter(|node| node.name == name);
        let claims = (world.claims.iter())
            .filter(|claim| claim.node_name == Some(name) || claim.name == name);
        let of_node = nodes.filter_map(|node| Some(("Node", unreadable(&node.annotations)?)));
        let of_claim = claims.filter_map(|of| Some(("NodeClaim", unreadable(&of.annotations)?)));
        match of_node.chain(of_claim).next() {
            Some((kind, why)) => {
                format!("a part of its {kind} cannot be read, so it is left alone: {why}")
            }
            None => {
                "annotation karpenter.sh/do-not-disrupt of the node or its NodeClaim; remove it"
                    .to_owned()
            }
        }
    }

    /// The rule that keeps a pod of a node apart from others, if one of them has any.
    fn apart(&self, node: NodeIx) -> String {
        let world = &self.snapshot.world;
        let host = world.names.get(longshore_api::labels::HOSTNAME);
        let pods = self.snapshot.nodes[node.0 as usize].pods.iter();
        let rule = |pod: &PodIx| {
            let shape = world.shapes.get(world.pods[pod.0 as usize].shape);
            let on_hosts = |key: Symbol| Some(key) == host;
            if shape.anti_affinity.iter().any(|term| on_hosts(term.key)) {
                return Some("has required anti-affinity between hosts");
            }
            if shape
                .spread
                .iter()
                .any(|rule| rule.required && on_hosts(rule.key))
            {
                return Some("must be spread over hosts");
            }
            (!shape.ports.is_empty()).then_some("binds a port of its host")
        };
        let mut found = pods.filter_map(|pod| Some((self.pod(*pod), rule(pod)?)));
        found.next().map_or_else(String::new, |(pod, rule)| {
            format!("; pod {pod} {rule}, which may leave it no place but a new node")
        })
    }

    /// What is done with a node for whose pods no place is needed.
    pub fn act(act: Act) -> &'static str {
        match act {
            Act::ReplaceStatic => "a new node of its NodePool takes its place",
            Act::Reboot => "its machine is started anew; it keeps its place",
            Act::TerminateFirst(FirstWhy::NoReservedCapacity) => {
                "it goes first: its pods need the capacity reservation that it holds a slot of"
            }
            Act::TerminateFirst(FirstWhy::StaticAtLimit) => {
                "it goes first: its static NodePool is at limits.nodes"
            }
        }
    }

    fn awaits(&self, node: NodeIx) -> String {
        format!(
            "its pods have room on node {}, which is not initialised yet; nothing is bought for them \
            before it is",
            self.node(node)
        )
    }

    /// Why a proposal waits for its NodePool.
    pub fn backs_off(&self, pool: Symbol, trouble: Trouble) -> String {
        let pool = format!("NodePool {}", self.text(pool));
        match trouble {
            Trouble::Until(until) => backs_off(&pool, until),
            Trouble::OneAtATime => one_at_a_time(&pool),
        }
    }

    /// Why a part of an outcome was dropped.
    pub fn dropped(&self, why: &Why) -> String {
        match why {
            Why::Awaits(node) => self.awaits(*node),
            Why::NotWorthIt(missing) => {
                format!(
                    "removing it would save {} USD per hour too little for the pods that move",
                    self.usd(*missing)
                )
            }
            Why::Limits => "its replacement would be beyond the limits of its NodePool".into(),
            Why::NotCheaper => "its replacement would not be cheaper".into(),
            Why::SpotToSpot => {
                "spot nodes are not replaced by spot nodes without the gate SpotToSpotConsolidation"
                    .into()
            }
            Why::FewSpotTypes(types) => format!(
                "a spot node is replaced by a spot node only where at least {SPOT_FLEXIBILITY} cheaper types \
                will do, and here {types} will"
            ),
            Why::Replacement(error) => format!("its replacement cannot be had: {error}"),
        }
    }

    /// What a consolidation policy has against a proposal.
    pub fn kept(&self, proposal: &Proposal, is_deferred: bool) -> String {
        let Some(decision) = &proposal.decision else {
            return String::new();
        };
        let until = is_deferred.then_some(decision.not_before as i64);
        let by = decision.by.as_deref().unwrap_or_default();
        policy(by, &decision.reason, until)
    }

    /// Why a proposal is worth it, and what a policy that lets it go says of it.
    pub fn worth(&self, proposal: &Proposal) -> String {
        if proposal.method == Method::StaticDrift {
            return Messages::act(Act::ReplaceStatic).into();
        }
        let saves = self.saves(proposal);
        match &proposal.decision {
            Some(decision) if !decision.reason.is_empty() => {
                let by = decision.by.as_deref().unwrap_or_default();
                format!("{saves}; {}", policy(by, &decision.reason, None))
            }
            _ => saves,
        }
    }

    fn saves(&self, proposal: &Proposal) -> String {
        let saves = format!("saves {} USD per hour", self.usd(proposal.savings));
        match proposal.moves.len() {
            0 => saves,
            pods => format!(
                "{saves}, {} for each of {}",
                self.usd(proposal.savings / pods as f64),
                count(pods, "pod")
            ),
        }
    }

    /// What the budget at a position leaves a proposal.
    pub fn budget_left(
        &self,
        pool: Symbol,
        budget: Option<usize>,
        proposal: &Proposal,
        left: u32,
    ) -> String {
        let budget = budget.and_then(|at| self.written_budget(pool, at));
        let left = match left {
            0 => "no more nodes".to_owned(),
            1 => "1 more node".to_owned(),
            left => format!("{left} more nodes"),
        };
        format!(
            "{} allows {left} for {} now, and {} would go",
            budget
                .unwrap_or_else(|| format!("a disruption budget of NodePool {}", self.text(pool))),
            proposal.reason.name(),
            count(proposal.nodes.len(), "node")
        )
    }
}
