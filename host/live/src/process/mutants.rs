//! Defects that a test can switch on, one at a time, to check that the simulation notices them.
//!
//! Compiled with the feature `mutants` only; without it every [`mutant`] is a constant `false` and
//! the code vanishes. A switch applies to the calling thread, so that parallel simulations do not
//! affect each other.

#[cfg(feature = "mutants")]
use std::cell::Cell;

/// Every mutant, and what it does wrong.
pub const ALL: [(&str, &str); 54] = [
    (
        "no-finalizer",
        "claims are written, and left, without our finalizer",
    ),
    (
        "launch-first",
        "the instance is launched before its claim is written",
    ),
    (
        "random-token",
        "a launch that is tried again has another idempotency token",
    ),
    (
        "trusts-cache",
        "after a start it acts before everything has been listed",
    ),
    ("ignores-budgets", "pods are deleted instead of evicted"),
    (
        "forgets-planned",
        "pods that a claim was made for are planned for again",
    ),
    (
        "ignores-awaited",
        "what was written counts for pods and limits only when the watch has brought it",
    ),
    (
        "leaks-instance",
        "the finalizer of a claim goes before its instance",
    ),
    (
        "ignores-tiers",
        "daemons and critical pods are drained together with all others",
    ),
    (
        "ignores-lease",
        "a replica writes although its leadership has run out",
    ),
    (
        "keeps-gone",
        "a new list does not take away what it does not name",
    ),
    (
        "waits-for-ever",
        "a claim whose node never joins is not given up",
    ),
    (
        "skips-drain",
        "an instance is ended before its pods have left",
    ),
    (
        "no-breaker",
        "unhealthy nodes are replaced however many there are",
    ),
    (
        "drops-taints",
        "a node that registers loses the taints that others have put there",
    ),
    (
        "lease-at-first-sight",
        "the Lease is taken from a holder that is seen for the first time",
    ),
    (
        "no-precondition",
        "lists of a claim are written over whatever others have written since",
    ),
    (
        "ignores-do-not-disrupt",
        "pods that must not be disrupted are evicted",
    ),
    (
        "evicted-is-gone",
        "a pod that was evicted is not waited for",
    ),
    (
        "wrong-grace",
        "pods whose node's time is over get a second, not what is left of it",
    ),
    (
        "no-drain-time",
        "an instance may end before kube-scheduler has heard of the taint",
    ),
    ("node-first", "a Node goes before its instance"),
    (
        "garbage-partial-list",
        "claims that one list of the cloud leaves out are deleted",
    ),
    (
        "garbage-trusts-cache",
        "instances are ended at first sight, by the claims that the watch has brought",
    ),
    (
        "garbage-by-uid",
        "instances whose claim was restored under another UID are taken for lost",
    ),
    (
        "retries-without-leadership",
        "a write is sent again although the leadership has run out meanwhile",
    ),
    (
        "random-name",
        "a claim's name is drawn by the server, so that a lost answer cannot be looked up",
    ),
    (
        "limits-from-cache",
        "limits count a claim only once its capacity was seen",
    ),
    (
        "deletes-before-replacement",
        "nodes are disrupted before their replacements are initialized",
    ),
    (
        "keeps-taint",
        "a disruption that is taken back leaves the taint on its nodes",
    ),
    (
        "ignores-node-budgets",
        "more nodes are disrupted than the budgets of their NodePool allow",
    ),
    (
        "disrupts-open",
        "nodes are disrupted without the taint that keeps pods away",
    ),
    (
        "forgets-under-way",
        "disruptions that are under way take no share of the budgets",
    ),
    (
        "forgets-command",
        "a disruption that cannot be carried out is not taken back",
    ),
    (
        "disrupts-held",
        "nodes are disrupted although a pod of theirs must not be",
    ),
    (
        "replaces-first",
        "replacements are created before their candidates are marked",
    ),
    (
        "keeps-planned",
        "nodes that are not to go any more keep the taint of later waves",
    ),
    (
        "takes-foreign",
        "NodePools and NodeClaims of other providers are taken for its own",
    ),
    (
        "keeps-replacements",
        "what a command has bought that is taken back stays",
    ),
    (
        "deletes-used-replacements",
        "what a command has bought that is taken back goes though pods use it",
    ),
    (
        "no-disruption-backoff",
        "after a command has failed the next look buys again",
    ),
    (
        "forgets-disruption-backoff",
        "that commands have failed is known to one process only",
    ),
    (
        "forgets-coming-nodes",
        "looks do not know of nodes that are not initialized yet",
    ),
    (
        "keeps-late-replacements",
        "what is created after its command was taken back stays",
    ),
    (
        "begins-at-first-try",
        "a command is taken back if one write meets another one",
    ),
    (
        "rounds-void-looks",
        "what a look has found is dropped if a round has planned meanwhile",
    ),
    (
        "begins-uncounted",
        "a round does not count what a command is buying",
    ),
    (
        "forgets-useless",
        "that a purchase did not help its pods is not written down",
    ),
    (
        "forgets-unjoined",
        "that nodes of a NodePool never join is not written down",
    ),
    (
        "static-pools-never-wait",
        "static NodePools buy on though their nodes never join",
    ),
    (
        "canary-beyond-step",
        "the next version of a policy is obeyed for all NodePools from its first step on",
    ),
    (
        "canary-stays",
        "what the next version of a policy does wrong is passed over",
    ),
    (
        "canary-launches-unseen",
        "launches that the next version of a policy decided count for the old one",
    ),
    (
        "canary-boots-all",
        "every node boots with the user data of a next version, before the first one is ready",
    ),
];

#[cfg(feature = "mutants")]
thread_local! {
    static ON: Cell<&'static str> = const { Cell::new("") };
}

/// Whether a defect is switched on.
#[cfg(feature = "mutants")]
pub(crate) fn mutant(name: &str) -> bool {
    debug_assert!(
        ALL.iter().any(|known| known.0 == name),
        "{name} is not in the table"
    );
    ON.get() == name
}

/// Whether a defect is switched on: never here.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub(crate) const fn mutant(_: &str) -> bool {
    false
}

/// Switches one defect on for this thread, and all others off; nothing for none. Says whether that
/// is possible: the name is known and the feature `mutants` is compiled in.
pub fn switch(name: Option<&str>) -> bool {
    let known = name.map(|name| ALL.iter().find(|known| known.0 == name));
    let on = match known {
        None => "",
        Some(Some((name, _))) => *name,
        Some(None) => return false,
    };
    #[cfg(feature = "mutants")]
    ON.set(on);
    cfg!(feature = "mutants") || on.is_empty()
}
