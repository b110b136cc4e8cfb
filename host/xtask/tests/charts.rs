//! The charts in `deploy/charts`: rendered by Helm with the values that users of Karpenter's chart
//! have, and compared with what `deploy/` ships without Helm.
//!
//! Where there is no Helm, tests that need it are reported as ignored, by name; in CI they fail.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use longshore_xtask::guests::root;
use longshore_xtask::helm::{self, Helm};
use serde_json::{Value, json};

type Test = (&'static str, fn() -> Result<()>);

const ALONE: [Test; 4] = [
    (
        "rules_of_the_chart_are_those_of_deploy",
        rules_are_those_of_deploy,
    ),
    (
        "charts_have_the_version_of_the_workspace",
        versions_are_those_of_the_workspace,
    ),
    (
        "on_ec2_the_deployment_without_helm_is_karpenters_neighbour",
        neighbour_of_karpenter,
    ),
    (
        "gates_without_effect_are_those_that_the_documentation_names",
        gates_are_those_of_the_documentation,
    ),
];

const WITH_HELM: [Test; 14] = [
    (
        "without_the_name_of_the_cluster_there_is_a_sentence",
        cluster_name_is_asked_for,
    ),
    (
        "the_objects_have_the_names_of_karpenters_chart",
        objects_have_karpenters_names,
    ),
    (
        "rights_of_the_kwok_provider_are_those_of_deploy",
        rights_are_those_of_deploy,
    ),
    (
        "the_ec2_provider_may_do_what_the_kwok_provider_may_but_for_its_nodes",
        rights_of_ec2,
    ),
    ("pods_are_confined_as_in_deploy", pods_are_confined),
    (
        "every_value_of_karpenters_chart_is_found_again",
        every_value_counts,
    ),
    (
        "variables_are_those_that_the_daemon_reads",
        variables_are_known,
    ),
    (
        "values_of_users_render_and_what_has_no_effect_is_said",
        users_values_render,
    ),
    (
        "karpenters_image_is_known_by_path_tag_and_digest",
        karpenters_images_are_refused,
    ),
    (
        "settings_may_be_templates_and_empty_maps_are_left_out",
        values_mean_what_they_mean_to_karpenter,
    ),
    (
        "what_is_missing_or_cannot_be_is_said_in_a_sentence",
        wrong_values_are_refused,
    ),
    (
        "configuration_policies_and_journal_are_mounted",
        longshores_own_values,
    ),
    (
        "definitions_are_those_of_deploy_for_each_provider",
        definitions_are_those_of_deploy,
    ),
    (
        "both_charts_bring_the_definitions_and_nothing_deletes_them",
        definitions_stay,
    ),
];

/// Files of values in `tests/charts`.
const VALUES: [&str; 6] = [
    "copied-defaults",
    "every-value",
    "getting-started",
    "irsa",
    "left-over",
    "private-cluster",
];

fn main() {
    let arguments = Arguments::from_args();
    let ignored = helm::tests_are_ignored();
    let trial = |&(name, test): &Test| {
        Trial::test(name, move || {
            test().map_err(|error| Failed::from(format!("{error:#}")))
        })
    };
    let with_helm = WITH_HELM
        .iter()
        .map(|test| trial(test).with_ignored_flag(ignored));
    let trials = ALONE.iter().map(trial).chain(with_helm).collect();
    libtest_mimic::run(&arguments, trials).exit();
}

fn file(path: &str) -> Result<String> {
    let path = root().join(path);
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

fn yaml(text: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    Ok(documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect())
}

/// The only document of a file.
fn document(path: &str) -> Result<Value> {
    let mut documents = yaml(&file(path)?)?;
    ensure!(
        documents.len() == 1,
        "{path} has {} documents",
        documents.len()
    );
    Ok(documents.remove(0))
}

fn values(name: &str) -> PathBuf {
    root().join(format!("host/xtask/tests/charts/{name}.yaml"))
}

/// The objects of chart `longshore` with files of `tests/charts` and `--set` arguments.
fn render(files: &[&str], set: &[&str]) -> Result<Vec<Value>> {
    let files: Vec<_> = files.iter().map(|name| values(name)).collect();
    yaml(&helm::template(&helm::chart("longshore"), &files, set)?)
}

fn of_kind<'a>(objects: &'a [Value], kind: &str, name: &str) -> Result<&'a Value> {
    let found = objects
        .iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.with_context(|| format!("no {kind} {name} in {:?}", names(objects)))
}

/// `Kind/name` of objects, sorted.
fn names(objects: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut names: Vec<_> = objects
        .iter()
        .map(|object| {
            format!(
                "{}/{}",
                text(&object["kind"]),
                text(&object["metadata"]["name"])
            )
        })
        .collect();
    names.sort();
    names
}

fn texts(list: &Value) -> Vec<&str> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// What rules allow, `verb resource.group`.
fn rights(rules: &[Value]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for rule in rules {
        let named = texts(&rule["resourceNames"]).join(",");
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    all.insert(
                        format!("{verb} {resource}.{group} {named}")
                            .trim()
                            .to_owned(),
                    );
                }
            }
        }
    }
    all
}

/// Fails with what is in one set alone.
fn same(what: &str, one: &BTreeSet<String>, other: &BTreeSet<String>) -> Result<()> {
    ensure!(!one.is_empty(), "{what}: nothing to compare");
    let more: Vec<_> = one.difference(other).collect();
    let less: Vec<_> = other.difference(one).collect();
    ensure!(
        more.is_empty() && less.is_empty(),
        "{what}: only in the first {more:?}, only in the second {less:?}"
    );
    Ok(())
}

fn shipped_role(kind: &str) -> Result<Value> {
    Ok(of_kind(&yaml(&file("deploy/rbac.yaml")?)?, kind, "longshore")?.clone())
}

fn rules_are_those_of_deploy() -> Result<()> {
    let rules = document("deploy/charts/longshore/files/cluster-role-rules.yaml")?;
    let mut chart = rights(list(&rules["common"]));
    chart.extend(rights(list(&rules["aws"])));
    let shipped = rights(list(&shipped_role("ClusterRole")?["rules"]));
    same("rules of the chart, deploy/rbac.yaml", &chart, &shipped)?;
    let kwok = yaml(&file("deploy/rbac-kwok.yaml")?)?;
    let kwok = of_kind(&kwok, "ClusterRole", "longshore-kwok")?;
    let chart = rights(list(&rules["kwok"]));
    let shipped = rights(list(&kwok["rules"]));
    same(
        "rules of the chart, deploy/rbac-kwok.yaml",
        &chart,
        &shipped,
    )
}

fn versions_are_those_of_the_workspace() -> Result<()> {
    for chart in ["longshore", "longshore-crd"] {
        let chart = document(&format!("deploy/charts/{chart}/Chart.yaml"))?;
        ensure!(chart["version"] == env!("CARGO_PKG_VERSION"), "{chart}");
        ensure!(chart["appVersion"] == env!("CARGO_PKG_VERSION"), "{chart}");
        // Where it matches, versions of Karpenter and of Longshore cannot be told apart by their tags.
        let [major, minor, _] = env!("CARGO_PKG_VERSION")
            .split('.')
            .collect::<Vec<_>>()
            .try_into()
            .map_err(|parts| anyhow::anyhow!("{parts:?}"))?;
        let like_karpenter = major == "1" || major == "0" && minor.len() > 1;
        ensure!(!like_karpenter, "see longshore.karpenterTag in _values.tpl");
    }
    Ok(())
}

/// The table of host/docs/configuration.md says "none" where a gate does nothing.
fn gates_are_those_of_the_documentation() -> Result<()> {
    let page = file("host/docs/configuration.md")?;
    let table = page
        .split("## Feature gates")
        .nth(1)
        .and_then(|rest| rest.split("\n## ").next())
        .context("no table of feature gates")?;
    let mut documented = BTreeSet::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let gate = cells[1].trim_matches('`');
        let dead = cells[3].starts_with("none");
        documented.insert(format!("{gate} {}", if dead { "none" } else { "some" }));
    }
    let known = document("deploy/charts/longshore/files/known-values.yaml")?;
    let chart = list(&known["featureGates"])
        .iter()
        .map(|row| {
            let gate = row["gate"].as_str().unwrap_or_default();
            format!(
                "{gate} {}",
                if row["why"].is_null() { "some" } else { "none" }
            )
        })
        .collect();
    same("documented gates, gates of the chart", &documented, &chart)
}

fn cluster_name_is_asked_for() -> Result<()> {
    let error = render(&[], &[]).err().context("it renders")?.to_string();
    ensure!(
        error.contains("settings.clusterName is missing: give the name of the EKS cluster"),
        "{error}"
    );
    Ok(())
}

fn objects_have_karpenters_names() -> Result<()> {
    let objects = render(&[], &["settings.clusterName=shop"])?;
    let expected = [
        "ClusterRole/karpenter",
        "ClusterRole/karpenter-admin",
        "ClusterRoleBinding/karpenter",
        "Deployment/karpenter",
        "PodDisruptionBudget/karpenter",
        "Role/karpenter",
        "RoleBinding/karpenter",
        "Service/karpenter",
        "ServiceAccount/karpenter",
    ];
    ensure!(names(&objects) == expected, "{:?}", names(&objects));
    let labels = json!({
        "app.kubernetes.io/name": "karpenter",
        "app.kubernetes.io/instance": "karpenter",
    });
    let deployment = &of_kind(&objects, "Deployment", "karpenter")?["spec"];
    ensure!(
        deployment["selector"]["matchLabels"] == labels,
        "{deployment}"
    );
    ensure!(
        deployment["template"]["metadata"]["labels"] == labels,
        "{deployment}"
    );
    // Terms without a selector are about these pods.
    let pod = &deployment["template"]["spec"];
    let apart =
        &pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    ensure!(apart["labelSelector"]["matchLabels"] == labels, "{apart}");
    let spread = &pod["topologySpreadConstraints"][0];
    ensure!(spread["labelSelector"]["matchLabels"] == labels, "{spread}");
    for (kind, pointer) in [
        ("Service", "/spec/selector"),
        ("PodDisruptionBudget", "/spec/selector/matchLabels"),
    ] {
        let object = of_kind(&objects, kind, "karpenter")?;
        ensure!(object.pointer(pointer) == Some(&labels), "{object}");
    }
    // A release of another name.
    let objects = render(&[], &["settings.clusterName=shop", "nameOverride=scaler"])?;
    of_kind(&objects, "Deployment", "karpenter-scaler")?;
    Ok(())
}

fn rights_are_those_of_deploy() -> Result<()> {
    let objects = render(&[], &["longshore.provider=kwok"])?;
    for kind in ["ClusterRole", "Role"] {
        let chart = rights(list(&of_kind(&objects, kind, "karpenter")?["rules"]));
        let mut shipped = rights(list(&shipped_role(kind)?["rules"]));
        // `deploy/` is for both providers.
        shipped.retain(|right| !right.contains("karpenter.k8s.aws"));
        // What only KWOK needs is in a file of its own.
        if kind == "ClusterRole" {
            let kwok = yaml(&file("deploy/rbac-kwok.yaml")?)?;
            let kwok = of_kind(&kwok, kind, "longshore-kwok")?;
            shipped.extend(rights(list(&kwok["rules"])));
        }
        same(kind, &chart, &shipped)?;
    }
    for kind in ["ClusterRoleBinding", "RoleBinding"] {
        let chart = of_kind(&objects, kind, "karpenter")?;
        let shipped = shipped_role(kind)?;
        // Roles have names of their own beside Karpenter's; the account is Karpenter's.
        ensure!(chart["subjects"] == shipped["subjects"], "{kind}: {chart}");
        ensure!(shipped["roleRef"]["name"] == "longshore", "{shipped}");
        ensure!(
            chart["roleRef"]["kind"] == shipped["roleRef"]["kind"],
            "{kind}: {chart}"
        );
    }
    Ok(())
}

fn rights_of_ec2() -> Result<()> {
    let of = |provider: &str| -> Result<BTreeSet<String>> {
        let set = [
            format!("longshore.provider={provider}"),
            "settings.clusterName=shop".into(),
        ];
        let objects = render(&[], &[&set[0], &set[1]])?;
        Ok(rights(list(
            &of_kind(&objects, "ClusterRole", "karpenter")?["rules"],
        )))
    };
    let (aws, kwok) = (of("aws")?, of("kwok")?);
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let more = aws.difference(&kwok).cloned().collect();
    let expected: BTreeSet<String> = owned(&[
        "get ec2nodeclasses.karpenter.k8s.aws",
        "list ec2nodeclasses.karpenter.k8s.aws",
        "patch ec2nodeclasses.karpenter.k8s.aws",
        "update ec2nodeclasses/status.karpenter.k8s.aws",
        "watch ec2nodeclasses.karpenter.k8s.aws",
    ]);
    same("rights of aws alone", &more, &expected)?;
    let less = kwok.difference(&aws).cloned().collect();
    let expected: BTreeSet<String> = owned(&[
        "create nodes.",
        "get kwoknodeclasses.karpenter.kwok.sh",
        "list kwoknodeclasses.karpenter.kwok.sh",
        "patch nodes/status.",
        "watch kwoknodeclasses.karpenter.kwok.sh",
    ]);
    same("rights of kwok alone", &less, &expected)
}

fn pods_are_confined() -> Result<()> {
    let objects = render(&[], &["longshore.provider=kwok"])?;
    let chart = &of_kind(&objects, "Deployment", "karpenter")?["spec"]["template"]["spec"];
    let shipped = yaml(&file("deploy/deployment.yaml")?)?;
    let shipped = &of_kind(&shipped, "Deployment", "longshore")?["spec"]["template"]["spec"];
    let (ours, theirs) = (&chart["containers"][0], &shipped["containers"][0]);
    for (field, value) in theirs["securityContext"]
        .as_object()
        .context("no context")?
    {
        ensure!(ours["securityContext"][field] == *value, "{field}: {ours}");
    }
    // The chart has them on the container, because podSecurityContext is the user's.
    for field in ["runAsNonRoot", "runAsUser", "runAsGroup"] {
        let expected = &shipped["securityContext"][field];
        ensure!(
            ours["securityContext"][field] == *expected,
            "{field}: {ours}"
        );
    }
    let seccomp = &shipped["securityContext"]["seccompProfile"];
    ensure!(
        chart["securityContext"]["seccompProfile"] == *seccomp,
        "{chart}"
    );
    for field in [
        "automountServiceAccountToken",
        "enableServiceLinks",
        "serviceAccountName",
        "priorityClassName",
        "tolerations",
    ] {
        ensure!(chart[field] == shipped[field], "{field}: {chart}");
    }
    let port = |container: &Value| -> BTreeSet<String> {
        let ports = list(&container["ports"]).iter();
        ports
            .map(|port| format!("{} {}", port["name"], port["containerPort"]))
            .collect()
    };
    same("ports", &port(ours), &port(theirs))?;
    let cache = |pod: &Value| {
        let (mount, volume) = (&pod["containers"][0]["volumeMounts"], &pod["volumes"]);
        json!([mount[0]["mountPath"], volume[0]["emptyDir"]])
    };
    ensure!(cache(chart) == cache(shipped), "{chart}");
    for probe in ["livenessProbe", "readinessProbe"] {
        ensure!(
            ours[probe]["httpGet"] == theirs[probe]["httpGet"],
            "{probe}: {ours}"
        );
    }
    // What the command is started with.
    let mut command = texts(&ours["command"]);
    command.extend(texts(&ours["args"]));
    ensure!(command == texts(&theirs["command"]), "{command:?}");
    Ok(())
}

/// Words of a text that begin with `mark-`, in small letters.
fn marks(text: &str) -> BTreeSet<String> {
    let text = text.to_lowercase().replace('_', "-");
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    words
        .filter(|word| word.starts_with("mark-"))
        .map(str::to_owned)
        .collect()
}

fn every_value_counts() -> Result<()> {
    let name = "every-value";
    let chart = helm::chart("longshore");
    let rendered = helm::template(&chart, &[values(name)], &[])?;
    let written = file("host/xtask/tests/charts/every-value.yaml")?;
    let lost: Vec<_> = marks(&written)
        .difference(&marks(&rendered))
        .cloned()
        .collect();
    ensure!(lost.is_empty(), "not in a manifest: {lost:?}");
    let objects = yaml(&rendered)?;
    let deployment = of_kind(&objects, "Deployment", "mark-fullname")?;
    let at = |pointer: &str| deployment.pointer(pointer).cloned().unwrap_or_default();
    let pod = "/spec/template/spec";
    let container = &format!("{pod}/containers/0");
    for (pointer, expected) in [
        ("/spec/replicas".to_owned(), json!(3)),
        ("/spec/revisionHistoryLimit".to_owned(), json!(7)),
        (
            "/spec/strategy/rollingUpdate/maxUnavailable".to_owned(),
            json!(2),
        ),
        (format!("{pod}/terminationGracePeriodSeconds"), json!(61)),
        (format!("{pod}/dnsPolicy"), json!("None")),
        (
            format!("{pod}/dnsConfig/nameservers/0"),
            json!("192.0.2.53"),
        ),
        (format!("{pod}/securityContext/fsGroup"), json!(65531)),
        (format!("{container}/imagePullPolicy"), json!("Always")),
        (
            format!("{container}/resources/requests/cpu"),
            json!("1700m"),
        ),
        (format!("{container}/ports/0/containerPort"), json!(8000)),
        (format!("{container}/ports/1/containerPort"), json!(8101)),
    ] {
        ensure!(at(&pointer) == expected, "{pointer}: {}", at(&pointer));
    }
    let monitor = &of_kind(&objects, "ServiceMonitor", "mark-fullname")?["spec"];
    ensure!(monitor["sampleLimit"] == json!(1_234_567), "{monitor}");
    ensure!(monitor["endpoints"][0]["interval"] == "17s", "{monitor}");
    let budget = &of_kind(&objects, "PodDisruptionBudget", "mark-budget")?["spec"];
    ensure!(budget["maxUnavailable"] == json!(2), "{budget}");
    let env = environment(deployment);
    let expected = [
        ("AMI_REFRESH_INTERVAL", "2m"),
        (
            "AWS_FEATURE_GATES",
            "NodeClassCEL=true,RebootForRepair=true",
        ),
        ("BATCH_IDLE_DURATION", "2s"),
        ("BATCH_MAX_DURATION", "11s"),
        ("CLUSTER_CA_BUNDLE", "bWFyay1jYQ=="),
        ("CLUSTER_ENDPOINT", "https://mark-endpoint.example"),
        ("CLUSTER_NAME", "mark-cluster"),
        ("DISABLE_CLUSTER_STATE_OBSERVABILITY", "true"),
        ("DISABLE_DRY_RUN", "true"),
        ("EKS_CONTROL_PLANE", "true"),
        ("ENABLE_ZONAL_SHIFT", "true"),
        ("HEALTH_PROBE_PORT", "8101"),
        ("INTERRUPTION_QUEUE", "mark-queue"),
        ("ISOLATED_VPC", "true"),
        ("LEGACY_NODE_REPAIR", "true"),
        ("LOG_LEVEL", "error"),
        ("METRICS_PORT", "8000"),
        ("MIN_VALUES_POLICY", "BestEffort"),
        ("PREFERENCE_POLICY", "Ignore"),
        ("RESERVED_ENIS", "3"),
        ("SECURITY_GROUP_REFRESH_INTERVAL", "4m"),
        ("SUBNET_REFRESH_INTERVAL", "3m"),
        ("VM_MEMORY_OVERHEAD_PERCENT", "0.031"),
    ];
    for (variable, value) in expected {
        let found = env.get(variable).map(String::as_str);
        ensure!(found == Some(value), "{variable} is {found:?}");
    }
    let gates: BTreeSet<&str> = env["FEATURE_GATES"].split(',').collect();
    for gate in [
        "NodeRepair=true",
        "ReservedCapacity=false",
        "SpotToSpotConsolidation=true",
        "StaticCapacity=true",
        "TerminateFirstDrift=true",
        "TerminateFirstRepair=false",
    ] {
        ensure!(gates.contains(gate), "{gates:?}");
    }
    // The Lease that a variable names may be written.
    let role = of_kind(&objects, "Role", "mark-fullname")?;
    ensure!(
        texts(&role["rules"][1]["resourceNames"]) == ["mark-lease"],
        "{role}"
    );
    ensure!(warnings(&objects, "mark-fullname")?.is_empty());
    Ok(())
}

/// Variables of the first container.
fn environment(deployment: &Value) -> BTreeMap<String, String> {
    let env = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    list(env)
        .iter()
        .map(|variable| (text(&variable["name"]), text(&variable["value"])))
        .collect()
}

fn variables_are_known() -> Result<()> {
    let page = file("host/docs/configuration.md")?;
    let documented: BTreeSet<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .flat_map(|line| line.split('|').nth(1).unwrap_or_default().split('`'))
        .collect();
    for name in VALUES {
        let objects = render(&[name], &[])?;
        let own = document(&format!("host/xtask/tests/charts/{name}.yaml"))?;
        let own: BTreeSet<String> = list(&own["controller"]["env"])
            .iter()
            .filter_map(|variable| Some(variable["name"].as_str()?.to_owned()))
            .collect();
        let mut deployments = objects
            .iter()
            .filter(|object| object["kind"] == "Deployment");
        let deployment = deployments.next_back().context("no Deployment")?;
        let env = environment(deployment);
        let listed = list(&deployment["spec"]["template"]["spec"]["containers"][0]["env"]).len();
        ensure!(env.len() == listed, "{name}: a variable is there twice");
        for variable in env.keys().filter(|variable| !own.contains(*variable)) {
            ensure!(
                documented.contains(variable.as_str()),
                "{name}: {variable} is not in host/docs/configuration.md"
            );
        }
    }
    Ok(())
}

/// Sentences in the annotation of the Deployment.
fn warnings(objects: &[Value], name: &str) -> Result<Vec<String>> {
    let deployment = of_kind(objects, "Deployment", name)?;
    let said = &deployment["metadata"]["annotations"]["longshore.dev/values-without-effect"];
    Ok(said
        .as_str()
        .map(|said| said.split("; ").map(str::to_owned).collect())
        .unwrap_or_default())
}

fn users_values_render() -> Result<()> {
    for name in ["getting-started", "irsa", "private-cluster"] {
        let objects = render(&[name], &[])?;
        let said = warnings(&objects, "karpenter")?;
        ensure!(said.is_empty(), "{name}: {said:?}");
    }
    let objects = render(&["copied-defaults"], &[])?;
    let said = warnings(&objects, "karpenter")?;
    let expected = ["logOutputPaths", "logErrorOutputPaths"]
        .map(|name| format!("{name} has no effect: the log goes to standard error"));
    ensure!(said == expected, "{said:?}");
    let objects = render(&["irsa"], &[])?;
    let account = of_kind(&objects, "ServiceAccount", "karpenter-controller")?;
    ensure!(
        account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"]
            == "arn:aws:iam::111122223333:role/KarpenterController-20260301",
        "{account}"
    );
    let pod = &of_kind(&objects, "Deployment", "karpenter")?["spec"]["template"]["spec"];
    ensure!(pod["serviceAccountName"] == "karpenter-controller", "{pod}");
    let apart = &pod["affinity"]["podAntiAffinity"];
    let preferred = &apart["preferredDuringSchedulingIgnoredDuringExecution"][0];
    ensure!(
        preferred["podAffinityTerm"]["labelSelector"]["matchLabels"].is_object(),
        "{apart}"
    );
    let notes = helm::notes(&helm::chart("longshore"), &[values("irsa")], &[])?;
    ensure!(
        notes.contains("KarpenterController-20260301 (IRSA)"),
        "{notes}"
    );
    ensure!(!notes.contains("without effect"), "{notes}");

    let objects = render(&["private-cluster"], &[])?;
    let pod = &of_kind(&objects, "Deployment", "karpenter")?["spec"]["template"]["spec"];
    ensure!(pod["hostNetwork"] == true, "{pod}");
    let image = "registry.corp.example/longshore/controller:0.1.0@sha256:5f70bf18a086007016e948b04\
                 aed3b82103a36bea41755b6cddfaf10ace3c6ef";
    ensure!(pod["containers"][0]["image"] == image, "{pod}");

    let objects = render(&["left-over"], &[])?;
    let said = warnings(&objects, "karpenter")?;
    let expected = [
        "logOutputPaths has no effect: the log goes to standard error",
        "logErrorOutputPaths has no effect: the log goes to standard error",
        "logEncoding has no effect: the log is JSON",
        "logConfig has no effect: the log is JSON on standard error",
        "webhook has no effect: Longshore has no webhooks",
        "controller.outputPaths has no effect: the log goes to standard error",
        "settings.assumeRoleARN has no effect: annotate the ServiceAccount with a role instead",
        "settings.enableDRA has no effect: pods that ask for dynamic resources are not planned for",
        "settings.featureGates.capacityBuffer has no effect: there are no CapacityBuffers yet",
        "metrics has no effect: Longshore does not know it",
        "controller.batchMaxDuration has no effect: Longshore does not know it",
        "settings.aws has no effect: Longshore does not know it",
        "settings.featureGates.drift has no effect: Longshore does not know it",
    ];
    ensure!(said == expected, "{said:#?}");
    let notes = helm::notes(&helm::chart("longshore"), &[values("left-over")], &[])?;
    for sentence in expected {
        ensure!(
            notes.contains(&format!("- {sentence}")),
            "{sentence}: {notes}"
        );
    }
    // What is about EC2 is said where nodes come from elsewhere, and is not passed on.
    let objects = render(&["irsa"], &["longshore.provider=kwok"])?;
    let said = warnings(&objects, "karpenter")?;
    let expected = "settings.reservedENIs has no effect: it is about EC2, and longshore.provider is \
                    kwok";
    ensure!(
        said.iter().any(|sentence| sentence == expected),
        "{said:#?}"
    );
    let env = environment(of_kind(&objects, "Deployment", "karpenter")?);
    ensure!(!env.contains_key("RESERVED_ENIS"), "{env:?}");
    Ok(())
}

/// Without Helm: names of its own, the token, and the environment of EC2.
fn neighbour_of_karpenter() -> Result<()> {
    let labels = json!({
        "app.kubernetes.io/name": "longshore",
        "app.kubernetes.io/instance": "longshore",
    });
    let kwok = document("deploy/deployment.yaml")?;
    let mut aws = document("deploy/deployment-aws.yaml")?;
    for deployment in [&kwok, &aws] {
        ensure!(
            deployment["metadata"]["name"] == "longshore",
            "{deployment}"
        );
        ensure!(
            deployment["spec"]["selector"]["matchLabels"] == labels,
            "{deployment}"
        );
        let pod = &deployment["spec"]["template"]["spec"];
        ensure!(pod["automountServiceAccountToken"] == true, "{pod}");
        ensure!(pod["serviceAccountName"] == "karpenter", "{pod}");
    }
    let container = &mut aws["spec"]["template"]["spec"]["containers"][0];
    let command = ["longshore", "run", "--provider=aws", "--log=json"];
    ensure!(texts(&container["command"]) == command, "{container}");
    // But for the provider and its environment it is the other one.
    container["command"][2] = json!("--provider=kwok");
    let own = ["CLUSTER_NAME", "INTERRUPTION_QUEUE"];
    let env = container["env"].as_array_mut().context("no env")?;
    let before = env.len();
    env.retain(|variable| !own.iter().any(|name| variable["name"] == *name));
    ensure!(before - env.len() == own.len(), "{env:?}");
    ensure!(aws == kwok, "{aws}");
    // Nothing that is applied beside Karpenter has the name of one of its objects.
    for path in [
        "rbac",
        "pod-disruption-budget",
        "network-policy",
        "keep-definitions",
    ] {
        for object in yaml(&file(&format!("deploy/{path}.yaml"))?)? {
            let name = &object["metadata"]["name"];
            ensure!(
                name == "longshore" || name == "keep-karpenter-definitions",
                "{object}"
            );
        }
    }
    Ok(())
}

fn karpenters_images_are_refused() -> Result<()> {
    let digest = format!("sha256:{}", "5f".repeat(32));
    let ours = "controller.image.repository=r.example/longshore";
    let with = |set: &[String]| {
        let mut all = vec!["settings.clusterName=shop".to_owned()];
        all.extend_from_slice(set);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        render(&[], &all)
    };
    let repository = |path: &str| format!("controller.image.repository={path}");
    for path in [
        "public.ecr.aws/karpenter/controller",
        "registry.corp.example/mirror/karpenter-controller",
        "111122223333.dkr.ecr.eu-west-1.amazonaws.com/ecr-public/karpenter/controller",
        "localhost:5000/Karpenter",
        "karpenter/controller",
    ] {
        let error = with(&[repository(path)])
            .err()
            .with_context(|| path.to_owned())?;
        ensure!(
            error.to_string().contains("which is Karpenter's image"),
            "{error}"
        );
    }
    // The repository is given anew, the rest is left over.
    for tag in ["1.15.1", "v1.8.0", "1.12.3-amd64", "0.37.7"] {
        let set = [ours.to_owned(), format!("controller.image.tag={tag}")];
        let error = with(&set).err().with_context(|| tag.to_owned())?;
        ensure!(
            error.to_string().contains("a version of Karpenter"),
            "{error}"
        );
    }
    let set = [ours.to_owned(), format!("controller.image.digest={digest}")];
    let error = with(&set).err().context("a digest without a tag")?;
    ensure!(
        error.to_string().contains("does not say whose image it is"),
        "{error}"
    );
    for (path, tag) in [
        ("karpenter.corp.example/longshore", "0.1.0"),
        ("registry.example/karpenter/longshore", "v0.1.0-corp.2"),
        ("registry.example/autoscaling/controller", "2026-11-26"),
    ] {
        let tag = format!("controller.image.tag={tag}");
        let digest = format!("controller.image.digest={digest}");
        with(&[repository(path), tag, digest]).with_context(|| path.to_owned())?;
    }
    // One that slips through has no such program.
    let objects = with(&[])?;
    let pod = &of_kind(&objects, "Deployment", "karpenter")?["spec"]["template"]["spec"];
    ensure!(
        texts(&pod["containers"][0]["command"]) == ["longshore"],
        "{pod}"
    );
    Ok(())
}

fn values_mean_what_they_mean_to_karpenter() -> Result<()> {
    let objects = render(&["copied-defaults"], &[])?;
    let deployment = of_kind(&objects, "Deployment", "karpenter")?;
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0]["securityContext"];
    for field in ["appArmorProfile", "seLinuxOptions", "seccompProfile"] {
        ensure!(container[field].is_null(), "{container}");
    }
    ensure!(container["runAsNonRoot"] == true, "{container}");
    ensure!(pod["securityContext"]["fsGroup"] == 65532, "{pod}");
    let env = environment(deployment);
    ensure!(env["CLUSTER_NAME"] == "shop-eu", "{env:?}");
    ensure!(
        env["CLUSTER_ENDPOINT"] == "https://shop-eu.example",
        "{env:?}"
    );
    ensure!(env["RESERVED_ENIS"] == "2", "{env:?}");
    // What cannot be worked out is no setting.
    let set = [
        "settings.clusterName=shop",
        "settings.clusterEndpoint=https://{{ .Values.global.no.such }}",
    ];
    let error = render(&[], &set).err().context("it renders")?.to_string();
    ensure!(error.contains("nil pointer"), "{error}");
    let set = ["settings.clusterName=\\{{ print \"\" }}"];
    let error = render(&[], &set).err().context("it renders")?.to_string();
    ensure!(error.contains("settings.clusterName is missing"), "{error}");
    Ok(())
}

fn wrong_values_are_refused() -> Result<()> {
    let digest = format!("controller.image.digest=sha256:{}", "0".repeat(64));
    for (set, sentence) in [
        (
            "longshore.provider=gcp",
            "longshore.provider is \"gcp\": nodes come from aws",
        ),
        (
            "settings.clusterEndpoint=shop.example",
            "settings.clusterEndpoint is \"shop.example\": give a URL with a host",
        ),
        (
            "logLevel=trace",
            "logLevel is \"trace\": it is one of debug, info, warn, error",
        ),
        (
            "settings.preferencePolicy=respect",
            "settings.preferencePolicy is \"respect\": it is one of Respect, Ignore",
        ),
        (
            "settings.minValuesPolicy=Lax",
            "settings.minValuesPolicy is \"Lax\": it is one of Strict, BestEffort",
        ),
        (
            "controller.image.repository=public.ecr.aws/karpenter/controller",
            "which is Karpenter's image: name one of Longshore",
        ),
        (digest.as_str(), "they belong to Karpenter's image"),
        (
            "settings.enableDRA=true,settings.ignoreDRARequests=false",
            "settings.enableDRA stands for settings.ignoreDRARequests: set one of them only",
        ),
        (
            "settings.enableDRA=true,settings.awsFeatureGates.draEFA=true",
            "settings.enableDRA stands for settings.awsFeatureGates.draEFA: set one of them only",
        ),
        (
            "settings.legacyNodeRepair=true,settings.featureGates.terminateFirstRepair=true",
            "settings.legacyNodeRepair replaces no node first",
        ),
        (
            "longshore.polices.x=y",
            "longshore.polices is not known: longshore has cache, config, configFrom",
        ),
        (
            "longshore.journal.dir=/x",
            "longshore.journal.dir is not known: longshore.journal has enabled, volume",
        ),
        (
            "longshore.config=x,longshore.configFrom.configMap.name=y",
            "longshore.config and longshore.configFrom are both set",
        ),
        (
            "longshore.policies.carbon.configMap.name=carbon",
            "longshore.policies has volumes and no longshore.toml names what is in them",
        ),
        (
            "longshore.config=x,longshore.policies.Carbon.configMap.name=carbon",
            "longshore.policies.Carbon: the name of a volume",
        ),
        (
            "longshore.config=x,longshore.policies.carbon=carbon",
            "longshore.policies.carbon is one volume of Kubernetes",
        ),
    ] {
        let error = render(&[], &["settings.clusterName=shop", set])
            .err()
            .with_context(|| format!("{set} renders"))?
            .to_string();
        ensure!(error.contains(sentence), "{set}: {error}");
    }
    // All of them at once.
    let error = render(&[], &["logLevel=trace"])
        .err()
        .context("it renders")?
        .to_string();
    ensure!(
        error.contains("clusterName is missing") && error.contains("logLevel is"),
        "{error}"
    );
    Ok(())
}

fn longshores_own_values() -> Result<()> {
    let set = [
        "settings.clusterName=shop",
        "longshore.config=[planning]\nseed = 7\n",
        "longshore.policies.carbon.configMap.name=carbon",
        "longshore.policies.prices.secret.secretName=prices",
        "longshore.journal.enabled=true",
        "longshore.garbageLimit=9",
        "longshore.extraArgs[0]=--disable-leader-election",
        "longshore.networkPolicy.enabled=true",
    ];
    let objects = render(&[], &set)?;
    let config = of_kind(&objects, "ConfigMap", "karpenter-config")?;
    ensure!(
        config["data"]["longshore.toml"] == "[planning]\nseed = 7\n",
        "{config}"
    );
    let deployment = of_kind(&objects, "Deployment", "karpenter")?;
    let pod = &deployment["spec"]["template"]["spec"];
    let volumes = json!([
        {"name": "longshore-config", "configMap": {"name": "karpenter-config"}},
        {"name": "policy-carbon", "configMap": {"name": "carbon"}},
        {"name": "policy-prices", "secret": {"secretName": "prices"}},
        {"name": "longshore-journal", "emptyDir": {"sizeLimit": "2Gi"}},
        {"name": "longshore-cache", "emptyDir": {"sizeLimit": "512Mi"}},
    ]);
    ensure!(pod["volumes"] == volumes, "{}", pod["volumes"]);
    let container = &pod["containers"][0];
    let mounts = json!([
        {"name": "longshore-config", "mountPath": "/etc/longshore/config", "readOnly": true},
        {"name": "policy-carbon", "mountPath": "/etc/longshore/policies/carbon", "readOnly": true},
        {"name": "policy-prices", "mountPath": "/etc/longshore/policies/prices", "readOnly": true},
        {"name": "longshore-journal", "mountPath": "/var/lib/longshore/journal"},
        {"name": "longshore-cache", "mountPath": "/var/lib/longshore/cache"},
    ]);
    ensure!(
        container["volumeMounts"] == mounts,
        "{}",
        container["volumeMounts"]
    );
    let args = [
        "run",
        "--provider=aws",
        "--log=json",
        "--config=/etc/longshore/config/longshore.toml",
        "--journal=/var/lib/longshore/journal",
        "--disable-leader-election",
    ];
    ensure!(texts(&container["args"]) == args, "{}", container["args"]);
    ensure!(environment(deployment)["GARBAGE_LIMIT"] == "9");
    let shipped = yaml(&file("deploy/network-policy.yaml")?)?;
    let policy = &of_kind(&objects, "NetworkPolicy", "karpenter")?["spec"];
    ensure!(
        policy["ingress"] == shipped[0]["spec"]["ingress"],
        "{policy}"
    );
    let more = list(&policy["egress"]).len() - list(&shipped[0]["spec"]["egress"]).len();
    ensure!(more == 1, "{policy}");

    let set = [
        "settings.clusterName=shop",
        "longshore.configFrom.secret.secretName=own",
    ];
    let objects = render(&[], &set)?;
    let pod = &of_kind(&objects, "Deployment", "karpenter")?["spec"]["template"]["spec"];
    let volumes = json!([
        {"name": "longshore-config", "secret": {"secretName": "own"}},
        {"name": "longshore-cache", "emptyDir": {"sizeLimit": "512Mi"}},
    ]);
    ensure!(pod["volumes"] == volumes, "{}", pod["volumes"]);
    Ok(())
}

/// Definitions in a folder of `deploy/`, by name.
fn definitions(folder: &str) -> Result<BTreeMap<String, Value>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(root().join("deploy").join(folder))? {
        for object in yaml(&std::fs::read_to_string(entry?.path())?)? {
            all.insert(names(std::slice::from_ref(&object)).remove(0), object);
        }
    }
    Ok(all)
}

fn definitions_are_those_of_deploy() -> Result<()> {
    let chart = helm::chart("longshore-crd");
    let rendered = |set: &[&str]| -> Result<BTreeMap<String, Value>> {
        let objects = yaml(&helm::template(&chart, &[], set)?)?;
        let named = |object: Value| (names(std::slice::from_ref(&object)).remove(0), object);
        Ok(objects.into_iter().map(named).collect())
    };
    let every = definitions("crds")?;
    ensure!(rendered(&["longshore.provider=kwok"])? == every, "kwok");
    // As the chart of Karpenter's definitions: five.
    let mut aws = every;
    aws.remove("CustomResourceDefinition/kwoknodeclasses.karpenter.kwok.sh");
    aws.extend(definitions("crds-aws")?);
    let found = rendered(&[])?;
    ensure!(found.len() == 5 && found == aws, "aws: {:?}", found.keys());
    // Annotations are added, and nothing else changes. Those that keep the definition stay.
    let set = [
        "additionalAnnotations.argocd\\.argoproj\\.io/sync-options=Replace=true",
        "additionalAnnotations.helm\\.sh/resource-policy=delete",
        "additionalAnnotations.team=$1",
    ];
    for (name, definition) in rendered(&set)? {
        let mut expected = aws[&name].clone();
        let annotations = &mut expected["metadata"]["annotations"];
        annotations["argocd.argoproj.io/sync-options"] =
            json!("Prune=false,Delete=false,Replace=true");
        annotations["team"] = json!("$1");
        ensure!(definition == expected, "{name}: {}", definition["metadata"]);
    }
    Ok(())
}

/// Argo CD renders both charts with their definitions. Helm, Argo CD and Flux read these annotations.
fn definitions_stay() -> Result<()> {
    let kept = json!({
        "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
        "helm.sh/resource-policy": "keep",
        "kustomize.toolkit.fluxcd.io/prune": "disabled",
    });
    let names_of = |helm: Helm, chart: &str| -> Result<Vec<String>> {
        let set = ["settings.clusterName=shop"];
        let set = if chart == "longshore" { &set[..] } else { &[] };
        let text = helm::template_with_definitions(helm, &helm::chart(chart), &[], set)?;
        let mut objects = yaml(&text)?;
        objects.retain(|object| object["kind"] == "CustomResourceDefinition");
        for object in &objects {
            ensure!(
                object["metadata"]["annotations"] == kept,
                "{}",
                object["metadata"]
            );
        }
        Ok(names(&objects))
    };
    let expected = [
        "capacitybuffers.autoscaling.x-k8s.io",
        "ec2nodeclasses.karpenter.k8s.aws",
        "nodeclaims.karpenter.sh",
        "nodeoverlays.karpenter.sh",
        "nodepools.karpenter.sh",
    ];
    let expected = expected.map(|name| format!("CustomResourceDefinition/{name}"));
    for helm in Helm::ALL {
        for chart in ["longshore", "longshore-crd"] {
            let found = names_of(helm, chart)?;
            ensure!(found == expected, "{chart} by {helm:?}: {found:?}");
        }
    }
    Ok(())
}
