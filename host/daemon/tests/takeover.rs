//! Take-over from Karpenter and the way back, walked as `host/docs/helm.md` and
//! `host/docs/migrate.md` say: their commands are run as they stand there, by both majors of Helm and
//! without Helm, on a real control plane. So is every command that the pages warn of.
//!
//! After each command all NodePools, EC2NodeClasses, NodeClaims, Nodes and definitions that Karpenter
//! left must be there: the same objects, none of them being deleted.
//!
//! Karpenter's charts are played by small ones of the same shape (`takeover/karpenter.rs`). No
//! controller runs: what commands do to objects is the question here, and what the daemon does with
//! them is that of `aws_takeover.rs`.

#[path = "takeover/argo.rs"]
mod argo;
#[path = "takeover/karpenter.rs"]
mod karpenter;
#[path = "takeover/pages.rs"]
mod pages;
#[path = "takeover/scene.rs"]
mod scene;

use anyhow::{Context as _, Result, ensure};
use longshore_xtask::control_plane;
use longshore_xtask::helm::{self, Helm};
use serde_json::{Value, json};

use crate::plane::{self, Suite, Test};
use pages::{HELM, MIGRATE, blocks};
use scene::{Said, Scene};

const TESTS: [Test; 9] = [
    (
        "helm_3_takes_over_what_helm_3_installed_and_goes_back",
        || by_helm(Helm::Three, Helm::Three, Definitions::OfMainChart),
    ),
    (
        "helm_4_takes_over_what_helm_3_installed_and_goes_back",
        || by_helm(Helm::Three, Helm::Four, Definitions::OfMainChart),
    ),
    (
        "helm_4_takes_over_what_helm_4_installed_and_goes_back",
        || by_helm(Helm::Four, Helm::Four, Definitions::OfMainChart),
    ),
    ("helm_3_takes_over_definitions_that_have_a_release", || {
        by_helm(Helm::Three, Helm::Three, Definitions::OfTheirOwn)
    }),
    ("helm_4_takes_over_definitions_that_have_a_release", || {
        by_helm(Helm::Three, Helm::Four, Definitions::OfTheirOwn)
    }),
    (
        "without_helm_one_deployment_follows_the_other_and_back",
        without_helm,
    ),
    ("argo_cd_prunes_nothing_when_the_chart_is_swapped", by_argo),
    (
        "files_of_the_pages_commands_say_what_the_server_says",
        from_files,
    ),
    (
        "values_are_judged_by_the_chart_and_by_the_server",
        values_are_judged,
    ),
];

pub fn suite() -> Suite {
    let ignored = control_plane::tests_are_ignored() || helm::tests_are_ignored();
    TESTS
        .into_iter()
        .fold(Suite::empty("takeover", Some(1)), |suite, (name, test)| {
            suite.test(name, ignored, test)
        })
}

/// Which chart of Karpenter's the definitions come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Definitions {
    /// The folder `crds` of the main chart: they belong to no release.
    OfMainChart,
    /// The chart of definitions: there is a release `karpenter-crd` already.
    OfTheirOwn,
}

const KEEP: &str = "deploy/keep-definitions.yaml";

fn by_helm(first: Helm, then: Helm, definitions: Definitions) -> Result<()> {
    let mut scene = Scene::start("takeover-helm", first)?;
    if definitions == Definitions::OfTheirOwn {
        scene.run("helm install karpenter-crd $CHARTS/karpenter-crd --namespace kube-system")?;
    }
    scene.run(
        "helm install karpenter $CHARTS/karpenter --namespace kube-system --values karpenter.yaml",
    )?;
    scene.populate()?;
    let before = scene.controller()?;
    ensure!(before["image"] == karpenter::IMAGE, "{before}");
    scene.helm = then;

    // There, as the page says.
    let steps = blocks(HELM, "## Move over from Karpenter's chart")?;
    ensure!(steps.len() == 4, "{steps:#?}");
    for step in &steps {
        scene.run(step)?;
    }
    scene.checked(&[0])?;
    let taken = scene.controller()?;
    ensure!(
        taken["image"] == "registry.example/longshore:0.1.0",
        "{taken}"
    );
    ensure!(taken["command"] == json!(["longshore"]), "{taken}");
    ensure!(taken["args"][1] == "--provider=aws", "{taken}");
    for definition in scene.definitions()? {
        let kept = &definition["metadata"]["annotations"]["helm.sh/resource-policy"];
        ensure!(kept == "keep", "{}", definition["metadata"]);
    }

    // What the page warns of, with Longshore's charts in place.
    wrong_commands(&mut scene, definitions)?;

    // And back.
    let back = blocks(HELM, "### Go back")?;
    let [rollback, anew, definitions_back] = &back[..] else {
        anyhow::bail!("{back:#?}");
    };
    scene.run(rollback)?;
    scene.checked(&[0])?;
    ensure!(scene.controller()? == before, "{}", scene.controller()?);
    // The other ways of the page.
    scene.run(&steps[3])?;
    scene.run(anew)?;
    ensure!(scene.controller()? == before, "{}", scene.controller()?);
    scene.run(definitions_back)?;
    for definition in scene.definitions()? {
        let kept = &definition["metadata"]["annotations"]["helm.sh/resource-policy"];
        ensure!(kept.is_null(), "{}", definition["metadata"]);
    }

    // What the page warns of, with Karpenter's charts in place.
    // Helm does not say who refused it.
    let said = scene.try_run("helm uninstall karpenter-crd --namespace kube-system")?;
    let expected = "failed to delete release: karpenter-crd";
    ensure!(!said.done && said.text.contains(expected), "{said:?}");
    let history = "helm history karpenter-crd --namespace kube-system --output json";
    let history: Value = serde_json::from_str(&scene.run(history)?)?;
    let last = history
        .as_array()
        .and_then(|all| all.last())
        .context("a revision")?;
    ensure!(last["status"] == "uninstalling", "{last}");
    let revision = &last["revision"];
    scene.run(&format!(
        "helm rollback karpenter-crd {revision} --namespace kube-system"
    ))?;
    let said = scene.try_run("kubectl delete -f deploy/crds --wait=false")?;
    refused_by_the_policy(&said)?;
    scene.run("helm uninstall karpenter --namespace kube-system")?;
    Ok(())
}

/// Commands that the page warns of, while Longshore's charts are in place: after each of them nothing
/// is lost ([`Scene::try_run`] looks).
fn wrong_commands(scene: &mut Scene, definitions: Definitions) -> Result<()> {
    scene.guarded()?;
    let upgrade = blocks(HELM, "## Move over from Karpenter's chart")?[2].clone();
    let rollback = scene.try_run("helm rollback karpenter-crd --namespace kube-system")?;
    match definitions {
        Definitions::OfMainChart => {
            let expected = "release has no 0 version";
            ensure!(
                !rollback.done && rollback.text.contains(expected),
                "{rollback:?}"
            );
        }
        // Karpenter's own definitions are back, which nothing but the policy keeps.
        Definitions::OfTheirOwn => {
            ensure!(rollback.done, "{rollback:?}");
            scene.run(&upgrade)?;
        }
    }
    for command in [
        "kubectl delete -f deploy/crds --wait=false",
        "kubectl delete crd nodepools.karpenter.sh --wait=false",
        "kubectl delete crd --all --wait=false",
    ] {
        refused_by_the_policy(&scene.try_run(command)?)?;
    }
    // By itself the chart keeps them.
    scene.run(&format!("kubectl delete -f {KEEP}"))?;
    let said = scene.run("helm uninstall karpenter-crd --namespace kube-system")?;
    ensure!(said.contains("kept due to the resource policy"), "{said}");
    scene.run(&upgrade)?;
    scene.guard()
}

fn refused_by_the_policy(said: &Said) -> Result<()> {
    let refused = said.text.contains("keep-karpenter-definitions")
        && said.text.contains("longshore.dev/may-be-deleted=true");
    ensure!(!said.done && refused, "{said:?}");
    Ok(())
}

fn without_helm() -> Result<()> {
    let mut scene = Scene::start("takeover-plain", Helm::Four)?;
    let manifests = scene.rendered("karpenter", &["--values", "karpenter.yaml"])?;
    std::fs::write(scene.folder.join("karpenter-manifests.yaml"), manifests)?;
    scene.run("kubectl apply -f karpenter-manifests.yaml")?;
    scene.populate()?;
    let before = scene.karpenters_objects()?;
    ensure!(before.len() > 8, "{:?}", before.keys());

    let steps = blocks(MIGRATE, "## Take over")?;
    ensure!(steps.len() == 2, "{steps:#?}");
    for step in &steps {
        scene.run(step)?;
    }
    let replicas = |scene: &Scene, name: &str| -> Result<String> {
        let path = "jsonpath={.spec.replicas}";
        let get = ["-n", "kube-system", "get", "deployment", name, "-o", path];
        scene.plane.run(&get)
    };
    ensure!(replicas(&scene, "karpenter")? == "0" && replicas(&scene, "longshore")? == "2");
    let expected = |replicas: i64| {
        let mut expected = before.clone();
        if let Some(deployment) = expected.get_mut("Deployment/karpenter") {
            deployment["spec"]["replicas"] = json!(replicas);
        }
        expected
    };
    // Nothing of Karpenter's is another than before but for the scale.
    ensure!(
        scene.karpenters_objects()? == expected(0),
        "Karpenter's objects have changed"
    );
    scene.may_all("longshore")?;

    // The wrong manifest beside it: it waits for the Lease under a name of its own.
    scene.run("kubectl apply -f deploy/deployment.yaml")?;
    ensure!(
        scene.karpenters_objects()? == expected(0),
        "Karpenter's objects have changed"
    );
    scene.run(&steps[1])?;
    let said = scene.try_run("kubectl delete -f deploy/crds --wait=false")?;
    refused_by_the_policy(&said)?;

    let back = blocks(MIGRATE, "## Go back")?;
    ensure!(back.len() == 4, "{back:#?}");
    for step in &back {
        scene.run(step)?;
    }
    scene.checked(&[0])?;
    ensure!(
        scene.karpenters_objects()? == expected(2),
        "Karpenter's objects have changed"
    );
    let kinds = "deployments,pdb,networkpolicies,roles,clusterroles,clusterrolebindings";
    let left = scene.run(&format!("kubectl get {kinds} --namespace kube-system"))?;
    ensure!(!left.contains("longshore"), "{left}");
    Ok(())
}

fn by_argo() -> Result<()> {
    let mut scene = Scene::start("takeover-argo", Helm::Four)?;
    let karpenter = scene.rendered("karpenter", &["--values", "karpenter.yaml"])?;
    let karpenter_without = pages::without_definitions(&karpenter)?;
    let chart = helm::chart("longshore");
    let set = ["settings.clusterName=demo"];
    let longshore = helm::template_with_definitions(Helm::Four, &chart, &[], &set)?;
    let longshore_without = helm::template(&chart, &[], &set)?;
    argo::sync(&scene, &karpenter)?;
    scene.populate()?;

    // Karpenter's definitions do not say that they stay: the policy does.
    scene.guard()?;
    let pruned = argo::sync(&scene, &longshore_without);
    let refused = pruned.err().context("definitions were pruned")?.to_string();
    ensure!(refused.contains("keep-karpenter-definitions"), "{refused}");
    scene.intact("skipCrds at once")?;

    // The recipe of the page.
    let pruned = argo::sync(&scene, &longshore)?;
    ensure!(
        !pruned.iter().any(|one| one.starts_with("CustomResource")),
        "{pruned:?}"
    );
    ensure!(
        pruned.contains(&"ClusterRole/karpenter-core".to_owned()),
        "{pruned:?}"
    );
    scene.intact("the chart is swapped")?;
    // Longshore's say so themselves.
    scene.run(&format!("kubectl delete -f {KEEP}"))?;
    let pruned = argo::sync(&scene, &longshore_without)?;
    ensure!(
        !pruned.iter().any(|one| one.starts_with("CustomResource")),
        "{pruned:?}"
    );
    scene.intact("skipCrds later")?;

    // And back.
    scene.guard()?;
    argo::sync(&scene, &karpenter)?;
    scene.intact("Karpenter's chart again")?;
    let refused = argo::sync(&scene, &karpenter_without)
        .err()
        .context("pruned")?
        .to_string();
    ensure!(refused.contains("keep-karpenter-definitions"), "{refused}");
    scene.intact("Karpenter's chart without definitions")
}

fn from_files() -> Result<()> {
    let mut scene = Scene::start("takeover-files", Helm::Four)?;
    // Karpenter in a namespace of its own, and a server that lacks a kind.
    scene
        .plane
        .apply("{apiVersion: v1, kind: Namespace, metadata: {name: karpenter}}")?;
    scene.run(
        "helm install karpenter $CHARTS/karpenter --namespace karpenter --values karpenter.yaml",
    )?;
    scene.run("kubectl wait --for=condition=Established crd --all --timeout=60s")?;
    scene.run("kubectl delete crd capacitybuffers.autoscaling.x-k8s.io --timeout=60s")?;
    scene.populate()?;
    scene.plane.apply(
        "{apiVersion: coordination.k8s.io/v1, kind: Lease, \
         metadata: {name: karpenter-leader-election, namespace: karpenter}, \
         spec: {holderIdentity: karpenter-1_a, leaseDurationSeconds: 15, \
         renewTime: '2026-11-26T08:00:08.000000Z'}}",
    )?;
    let looks = blocks(MIGRATE, "## Look first")?;
    ensure!(looks.len() == 2, "{looks:#?}");
    let live = scene.run("longshore migrate check")?;
    scene.checked(&[0])?;
    let offline = scene.run(&looks[1])?;
    scene.checked(&[0])?;
    // Objects of files have places, and the latest time of files is not that of the server.
    let plain = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.contains("renew"));
        let without_place = |line: &str| {
            line.split(" (")
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        lines.map(without_place).collect()
    };
    ensure!(plain(&live) == plain(&offline), "{live}\n---\n{offline}");
    ensure!(
        offline.contains("Lease karpenter/karpenter-leader-election"),
        "{offline}"
    );
    for file in ["cluster", "lease", "deployment", "ca"] {
        let text = std::fs::read_to_string(scene.folder.join(format!("{file}.json")))?;
        let read: Value = serde_json::from_str(&text).with_context(|| file.to_owned())?;
        let items = read["items"].as_array().map_or(1, Vec::len);
        ensure!(items > 0, "{file}.json is empty");
    }
    Ok(())
}

fn values_are_judged() -> Result<()> {
    let mut scene = Scene::start("takeover-values", Helm::Three)?;
    scene.run(
        "helm install karpenter $CHARTS/karpenter --namespace kube-system --values karpenter.yaml",
    )?;
    scene.populate()?;
    let values = |scene: &mut Scene, text: &str, more: &str| -> Result<(i32, String)> {
        std::fs::write(scene.folder.join("tried.yaml"), text)?;
        let said = scene.try_run(&format!(
            "longshore migrate check --values tried.yaml {more}"
        ))?;
        // Lines are wrapped.
        let text: Vec<&str> = said.text.split_whitespace().collect();
        Ok((
            scene.codes()?.pop().context("an exit code")?,
            text.join(" "),
        ))
    };
    let image = "--set controller.image.repository=registry.example/longshore";
    for helm in Helm::ALL {
        scene.helm = helm;
        let copied = include_str!("../../xtask/tests/charts/copied-defaults.yaml");
        let (code, said) = values(&mut scene, copied, image)?;
        ensure!(code == 0, "{said}");
        let cluster = "settings: {clusterName: demo}\n";
        let (code, said) = values(&mut scene, cluster, "--set controller.image.tag=1.15.1")?;
        ensure!(code == 3 && said.contains("BLOCKS"), "{said}");
        ensure!(said.contains("they belong to Karpenter's image"), "{said}");
        let (code, said) = values(&mut scene, "replicas: 2\n", "")?;
        ensure!(
            code == 3 && said.contains("settings.clusterName is missing"),
            "{said}"
        );
        // The chart takes it, and the API server does not.
        let wrong = format!(
            "{cluster}controller: {{env: [{{name: A B=C, value: x}}]}}\n\
             tolerations: [{{key: a, operator: Maybe}}]\n"
        );
        let (code, said) = values(&mut scene, &wrong, image)?;
        ensure!(code == 3 && said.contains("BLOCKS"), "{said}");
        ensure!(said.contains("tolerations[0].operator"), "{said}");
        // The whole of the values cannot be worked out.
        let braces = "settings: {clusterName: '{{ .Values.no.such }}'}\n";
        let (code, said) = values(&mut scene, braces, image)?;
        ensure!(code == 3 && said.contains("nil pointer"), "{said}");
        // Nothing of it was written.
        ensure!(scene.controller()?["image"] == karpenter::IMAGE);
    }
    // Without Helm it is not judged, which is said.
    std::fs::remove_file(scene.folder.join("bin/helm"))?;
    let said = scene.try_run("PATH=$PWD/bin longshore migrate check --values karpenter.yaml")?;
    ensure!(said.text.contains("was not rendered"), "{said:?}");
    ensure!(scene.codes()?.pop() == Some(3), "{said:?}");
    Ok(())
}
