//! Manifests that the API server answered otherwise than a reader would guess: each is taken or
//! refused as there, with a word where that says something.

use super::super::Reader;

const POOL: &str = "apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: METADATA}
spec:
  disruption: {DISRUPTION}
  limits: {LIMITS}
  template:
    metadata: {labels: {LABELS}}
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: [REQUIREMENTS]
      taints: [TAINTS]
";

/// A NodePool with a part of it as given, and the others left out.
fn pool(part: &str, text: &str) -> String {
    let mut all = POOL.replace(part, text);
    if part != "METADATA" {
        all = all.replace("METADATA", "main");
    }
    let parts = ["DISRUPTION", "LIMITS", "LABELS", "REQUIREMENTS", "TAINTS"];
    parts.iter().fold(all, |all, part| all.replace(part, ""))
}

/// A NodePool with such a second budget.
fn budget(schedule: &str) -> String {
    let budgets =
        format!("budgets: [{{nodes: '1'}}, {{nodes: '0', schedule: '{schedule}', duration: 8h}}]");
    pool("DISRUPTION", &budgets)
}

fn pod(spec: &str) -> String {
    format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec: {spec}\n")
}

fn container(resources: &str) -> String {
    pod(&format!(
        "{{containers: [{{name: c, resources: {{{resources}}}}}]}}"
    ))
}

/// How many NodePools, NodeClaims and pods that can be planned are in a manifest, and what is said.
fn read(text: &str) -> (usize, String) {
    let mut reader = Reader::of_manifests();
    reader.read("m.yaml", text.as_bytes());
    let (world, problems) = reader.finish();
    let pods = world.pods.iter().filter(|pod| pod.invalid.is_none());
    let found = world.pools.len() + world.claims.len() + pods.count();
    let unplanned = world.pods.iter().filter_map(|pod| pod.invalid.as_deref());
    let said: Vec<String> = [problems.to_string()]
        .into_iter()
        .chain(unplanned.map(str::to_owned))
        .filter(|said| !said.is_empty())
        .collect();
    (found, said.join("\n"))
}

/// Whether each is taken, and what is said of it; nothing is to be said if that is empty.
fn check(cases: &[(String, bool, &str)]) {
    let mut wrong = String::new();
    for (text, is_taken, said) in cases {
        let (found, problems) = read(text);
        let is_said = problems.contains(said) && said.is_empty() == problems.is_empty();
        if (found == 1) != *is_taken || !is_said {
            wrong += &format!("{text}expected {is_taken} {said:?}, found {found} {problems:?}\n\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_schedule_that_cannot_be_read_keeps_no_nodepool_out() {
    let closes = "until then no node of this NodePool is disrupted";
    let five = |schedule: &str| (budget(schedule), true, closes);
    check(&[
        (budget("15 8 * * 1-5"), true, ""),
        (budget("@weekly"), true, ""),
        five("15 8 * * 7"),
        five("15 8 * * 1-7"),
        five("15 8 * * fri-7"),
        five("15 24 * * *"),
        five("0 15 8 * * 1-5"),
        five("TZ=Asia/Tokyo 15 8 * * *"),
        five("@weekly x"),
        (budget("noon"), false, "schedule"),
    ]);
}

#[test]
fn what_a_file_says_of_a_status_is_no_reason_to_refuse_an_object() {
    let status =
        "status:\n  conditions:\n  - {type: Ready, status: 'True'}\n  resources: {cpu: '3'}\n";
    check(&[(format!("{}{status}", pool("METADATA", "main")), true, "")]);
}

#[test]
fn a_preference_for_fields_of_a_node_is_passed_over_with_a_word() {
    let spec = "{containers: [{name: c}], affinity: {nodeAffinity: \
        {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchFields: \
        [{key: metadata.name, operator: In, values: [n1]}]}}]}}}";
    check(&[(pod(spec), true, "matchFields")]);
}

#[test]
fn nodepools_are_taken_and_refused_as_the_api_server_and_karpenter_do() {
    let long = "n".repeat(64);
    let one = "{key: a, operator: In, values: [b]}";
    check(&[
        (pool("REQUIREMENTS", one), true, ""),
        (pool("METADATA", &"n".repeat(63)), true, ""),
        (pool("METADATA", &long), false, "has 64 characters"),
        (pool("METADATA", "Main"), false, "is not a name"),
        (
            pool("LIMITS", "cpu: 2.5"),
            false,
            "must be of type integer,string",
        ),
        (pool("LIMITS", "cpu: '2.5'"), true, ""),
        (pool("LIMITS", "cpu: '-3'"), true, ""),
        (pool("LIMITS", "cpu: 9E, memory: 99Ei"), true, ""),
        (pool("LIMITS", "cpu: null"), true, ""),
        (pool("LABELS", "team: null"), true, ""),
        (
            pool("TAINTS", "{key: a, effect: NoSchedule, value: ''}"),
            false,
            "should match",
        ),
        (
            pool("TAINTS", "{key: a, effect: NoSchedule, value: '-a'}"),
            false,
            "is not a taint value",
        ),
        (
            pool(
                "TAINTS",
                &format!("{{key: a, effect: NoSchedule, value: {long}}}"),
            ),
            false,
            "is not a taint value",
        ),
        (
            pool(
                "TAINTS",
                "{key: a, effect: NoExecute}, {key: a, effect: NoExecute}",
            ),
            false,
            "is there twice",
        ),
        (
            pool(
                "DISRUPTION",
                "budgets: [{nodes: '1', reasons: [Empty, Empty]}]",
            ),
            false,
            "Duplicate value",
        ),
        (
            pool("DISRUPTION", "consolidateAfterr: 1h"),
            false,
            "is not a known field",
        ),
        (
            pool("REQUIREMENTS", "{key: a, operator: Gt, values: ['+1']}"),
            false,
            "is not a label value",
        ),
        (
            pool("LIMITS", "").replace("requirements: []", "startupTaints: []"),
            false,
            "requirements: Required value",
        ),
        (
            pool("LIMITS", "").replace("  limits:", "  replicas: 2147483648\n  limits:"),
            false,
            "too large",
        ),
    ]);
}

#[test]
fn node_claims_and_node_classes_are_held_against_their_definitions() {
    let claim = |spec: &str| {
        format!(
            "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {{name: a}}\nspec: {spec}\n"
        )
    };
    let class = "nodeClassRef: {group: g.io, kind: C, name: default}";
    check(&[
        (claim(&format!("{{{class}, requirements: []}}")), true, ""),
        (claim(&format!("{{{class}}}")), false, "Required value"),
        (claim("{requirements: []}"), false, "nodeClassRef"),
        (
            claim(&format!(
                "{{{class}, requirements: [], resources: {{requests: {{cpu: '-1'}}}}}}"
            )),
            true,
            "is negative",
        ),
    ]);
    let kwok = |delay: &str| {
        let (_, problems) = read(&format!(
            "apiVersion: karpenter.kwok.sh/v1alpha1\nkind: KWOKNodeClass\nmetadata: {{name: d}}\n\
            spec: {{nodeRegistrationDelay: {delay}}}\n"
        ));
        problems
    };
    assert_eq!(kwok("90s"), "");
    assert!(kwok("0.5h").contains("should match"), "{}", kwok("0.5h"));
}

#[test]
fn pods_are_taken_and_refused_as_the_api_server_does() {
    let tolerates = |toleration: &str| {
        pod(&format!(
            "{{containers: [{{name: c}}], tolerations: [{toleration}]}}"
        ))
    };
    let prefers = |operator: &str, value: &str| {
        pod(&format!(
            "{{containers: [{{name: c}}], affinity: {{nodeAffinity: \
            {{preferredDuringSchedulingIgnoredDuringExecution: [{{weight: 1, preference: \
            {{matchExpressions: [{{key: a, operator: {operator}, values: [{value}]}}]}}}}]}}}}}}"
        ))
    };
    let pages = |size: &str, request: &str, limit: &str| {
        container(&format!(
            "requests: {{cpu: 1, hugepages-{size}: {request}}}, limits: {{hugepages-{size}: {limit}}}"
        ))
    };
    let scratch = |storage: &str| {
        pod(&format!(
            "{{containers: [{{name: c}}], volumes: [{{name: v, ephemeral: {{volumeClaimTemplate: \
            {{spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: \
            {storage}}}}}}}}}}}}}]}}"
        ))
    };
    check(&[
        (container("requests: {cpu: 2}, limits: {cpu: 3}"), true, ""),
        (
            container("requests: {cpu: 3}, limits: {cpu: 2}"),
            false,
            "is above the limit",
        ),
        (
            container("requests: {example.com/gpu: 1}"),
            false,
            "has no limit",
        ),
        (
            container("requests: {example.com/gpu: 1}, limits: {example.com/gpu: 2}"),
            false,
            "is not its limit",
        ),
        (
            container("limits: {example.com/gpu: 500m}"),
            false,
            "whole number",
        ),
        (container("limits: {gpu: 1}"), false, "is not a resource"),
        (pages("2Mi", "4Mi", "4Mi"), true, ""),
        (pages("2Mi", "Gi", "Mi"), true, ""),
        (pages("2Mi", "Gi", "4Mi"), false, "is not its limit"),
        (pages("2Mi", "4Mi", "Gi"), false, "is above the limit"),
        (
            pages("2Mi", "3Mi", "3Mi"),
            false,
            "`3Mi` is no multiple of 2Mi",
        ),
        (pages("x", "4Mi", "4Mi"), false, "is not the size of a page"),
        (scratch("\"1Gi\\n\""), false, "has an unknown suffix"),
        (scratch("Gi"), false, "is not above 0"),
        (scratch("' 1Gi '"), true, ""),
        (
            container("requests: {memory: 1Gi}, limits: {memory: 32Ei}"),
            true,
            "",
        ),
        (tolerates("{key: a, operator: Exists}"), true, ""),
        (
            tolerates("{key: a, operator: Exists, value: b}"),
            false,
            "beside the operator Exists",
        ),
        (
            tolerates("{key: a, value: b, tolerationSeconds: 5}"),
            false,
            "NoExecute",
        ),
        (
            tolerates("{key: a, operator: Gt, value: '5'}"),
            false,
            "unknown operator",
        ),
        (prefers("Gt", "'5'"), true, ""),
        (prefers("Gt", "much"), true, "is not an integer"),
        (prefers("Is", "much"), false, "unknown operator"),
    ]);
}
