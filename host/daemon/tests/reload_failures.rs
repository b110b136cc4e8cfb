//! A policy that excludes what must not be bought, and fails: across restarts, nothing of it is
//! bought, unless the operator's file says so.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::reload::bytes_read;
use crate::reload::guest::{Way, guest};
use crate::scene::{Scene, setup};
use longshore_core::plan::PlannedClaim;
use longshore_core::planner;
use longshore_core::policy::Policies as _;
use longshore_core::snapshot::Snapshot;
use longshore_live::policies::{Active, Setup};

const ONE: &str = "[[policy]]\nname = 'one'\npath = 'one.wasm'\n";

/// A process with a folder for what outlives it.
fn begin(folder: &Path) -> Scene {
    Scene::with(folder.to_owned(), |folder| Setup {
        copies: Some(folder.join("copies")),
        ..setup(folder)
    })
}

fn folder(name: &str, more: &str, way: Way) -> PathBuf {
    let folder =
        std::env::temp_dir().join(format!("longshore-failures-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("longshore.toml"), format!("{ONE}{more}")).unwrap();
    std::fs::write(folder.join("one.wasm"), guest("1.0.0", way)).unwrap();
    folder
}

/// The costs of a round, and what answered.
fn round(scene: &Scene) -> (Vec<f64>, Option<Active>) {
    let live = scene.manager.take();
    live.begin_round(1_700_000_000);
    let world = &scene.snapshot.world;
    let scores = live.score(&world.catalogue, &world.names, scene.pool());
    let active = scene.policy("one").active;
    (scores.cost.to_vec(), active)
}

/// Every other offering is excluded; then the component traps, and the process begins again twice.
fn after_two_restarts(name: &str, more: &str) -> (Vec<f64>, Option<Active>, Vec<f64>) {
    let folder = folder(name, more, Way::Alternates(1.0, f64::INFINITY));
    {
        let mut scene = begin(&folder);
        let (costs, active) = round(&scene);
        assert_eq!((costs[0], costs[1]), (1.0, f64::INFINITY));
        assert_eq!(active, Some(Active::Current));
        scene
            .watcher
            .step(SystemTime::now() + Duration::from_secs(120));
        std::fs::write(folder.join("one.wasm"), guest("1.0.1", Way::Traps)).unwrap();
        // The folder stays.
        scene.folder = folder.join("gone");
    }
    {
        let mut scene = begin(&folder);
        round(&scene);
        scene
            .watcher
            .step(SystemTime::now() + Duration::from_secs(240));
        scene.folder = folder.join("gone");
    }
    let scene = begin(&folder);
    let (costs, active) = round(&scene);
    let prices = scene.snapshot.world.catalogue.prices().to_vec();
    (costs, active, prices)
}

#[test]
fn exclusions_of_a_policy_that_traps_hold_across_restarts() {
    let (costs, active, _) = after_two_restarts("last", "");
    assert_eq!(active, Some(Active::LastAnswer));
    for (row, cost) in costs.iter().enumerate() {
        match row % 2 {
            0 => assert!((cost - 1.0).abs() < 1e-5, "row {row} costs {cost}"),
            _ => assert!(cost.is_infinite(), "row {row} costs {cost}"),
        }
    }
}

#[test]
fn a_policy_that_fails_to_hold_lets_nothing_be_bought() {
    let (costs, active, _) = after_two_restarts("hold", "on-failure = 'hold'\n");
    assert_eq!(active, Some(Active::Hold));
    assert!(costs.iter().all(|cost| cost.is_infinite()));
}

#[test]
fn a_policy_that_fails_to_the_price_is_as_if_it_were_not_there() {
    let (costs, active, prices) = after_two_restarts("price", "on-failure = 'price'\n");
    assert_eq!(active, Some(Active::Price));
    assert_eq!(costs, prices);
}

#[test]
fn answers_of_another_name_or_damaged_ones_count_for_nothing() {
    let folder = folder("other", "", Way::Alternates(1.0, f64::INFINITY));
    {
        let mut scene = begin(&folder);
        round(&scene);
        scene
            .watcher
            .step(SystemTime::now() + Duration::from_secs(120));
        scene.folder = folder.join("gone");
    }
    std::fs::write(folder.join("one.wasm"), guest("1.0.1", Way::Traps)).unwrap();
    let files = std::fs::read_dir(folder.join("copies")).unwrap();
    let answers: Vec<PathBuf> = files
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("answers-"))
        .collect();
    let [answers] = &answers[..] else {
        panic!("{answers:?}")
    };
    let text = std::fs::read_to_string(answers).unwrap();
    std::fs::write(answers, &text[..text.len() / 2]).unwrap();
    let scene = begin(&folder);
    assert_eq!(round(&scene).1, Some(Active::Price));
}

#[test]
fn a_policy_that_flips_its_answers_leaves_no_pod_without_a_node() {
    let hostile = longshore_xtask::guests::build_hostile().unwrap();
    let folder = folder("flips", "settings = { mode = 'flips' }\n", Way::Costs(1.0));
    std::fs::copy(hostile, folder.join("one.wasm")).unwrap();
    let scene = begin(&folder);
    let mut bought = std::collections::BTreeSet::new();
    for second in 0..20 {
        let live = scene.manager.take();
        live.begin_round(1_700_000_000 + second);
        let plan = planner::plan(&scene.snapshot, &*live, planner::PlanOptions::default()).unwrap();
        assert!(plan.unplaced.is_empty() && !plan.claims.is_empty());
        bought.insert(
            plan.claims
                .iter()
                .map(|claim| claim.offering.0 % 2)
                .collect::<Vec<_>>(),
        );
    }
    assert!(bought.len() > 1, "it does flip: {bought:?}");
    assert_eq!(scene.policy("one").failing, None);
}

#[test]
fn a_component_of_200_mib_is_refused_before_it_is_read() {
    let folder = folder("huge", "", Way::Costs(1.0));
    let mut scene = begin(&folder);
    let (costs, _) = round(&scene);
    assert_eq!(costs[0], 1.0);
    let huge = std::fs::File::create(folder.join("huge.wasm")).unwrap();
    huge.set_len(200 << 20).unwrap();
    std::fs::rename(folder.join("huge.wasm"), folder.join("one.wasm")).unwrap();
    let before = bytes_read();
    scene.settle();
    let read = bytes_read() - before;
    assert!(read < 1 << 20, "{read} bytes were read");
    let error = scene.error("one");
    assert!(error.contains("larger than 67108864 bytes"), "{error}");
    assert_eq!(round(&scene).0[0], 1.0, "the one before goes on");
}

/// A machine with a GPU that costs less than the one without, and pods of which one wants a GPU.
fn with_gpus() -> Snapshot {
    let offering = |price: f64| {
        serde_json::json!([{"Price": price, "Available": true, "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1a"]}]}])
    };
    let machine = |name: &str, price: f64, gpus: &str| {
        serde_json::json!({"name": name, "offerings": offering(price), "architecture": "amd64",
            "operatingSystems": ["linux"], "resources": {"cpu": "4", "memory": "16Gi", "pods": "29",
            "ephemeral-storage": "20Gi", "nvidia.com/gpu": gpus}})
    };
    let types = serde_json::json!([machine("a.plain", 0.2, "0"), machine("b.gpu", 0.1, "1")]);
    let pod = |name: &str, gpus: &str| {
        serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "resources": {
                "requests": {"cpu": "1", "nvidia.com/gpu": gpus}}}]},
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}})
    };
    let class =
        serde_json::json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "c"});
    let pool = serde_json::json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}}});
    let mut reader = longshore_api::manifests::Reader::new();
    for object in [pool, pod("web", "0"), pod("train", "1")] {
        reader.read("objects.json", object.to_string().as_bytes());
    }
    let (mut world, problems) = reader.finish();
    assert!(problems.list.is_empty(), "{problems}");
    let text = types.to_string();
    let read = longshore_kwok::catalogue::parse("t.json", text.as_bytes(), &mut world.names);
    world.catalogue = read.0;
    world.now = 1_700_000_000;
    Snapshot::new(world.into())
}

/// What an hour buys in which a policy traps that excluded GPUs, with two restarts: rounds with a GPU, and
/// what counted in the last round. The last refusal of the pod that wants one.
fn an_hour_of_traps(name: &str, more: &str) -> (usize, Option<Active>, String) {
    let folder = folder(name, more, Way::Alternates(1.0, f64::INFINITY));
    let (mut rounds, mut active, mut refusal) = (0, None, String::new());
    let mut now = SystemTime::now();
    for process in 0..3 {
        let mut scene = begin(&folder);
        scene.snapshot = with_gpus();
        let world = scene.snapshot.world.clone();
        for minute in 0..20 {
            now += Duration::from_secs(60);
            let live = scene.manager.take();
            live.begin_round(1_700_000_000 + 60 * (20 * process + minute));
            let plan = planner::plan(&scene.snapshot, &*live, planner::PlanOptions::default());
            let plan = plan.unwrap();
            let is_gpu = |claim: &PlannedClaim| {
                let offering = world.catalogue.offering(claim.offering);
                let kind = world.catalogue.instance_type(offering.instance_type);
                world.names.text(kind.name) == "b.gpu"
            };
            let gpus = plan.claims.iter().filter(|claim| is_gpu(claim)).count();
            rounds += usize::from(gpus > 0);
            if (process, minute) == (0, 0) {
                assert_eq!((plan.claims.len(), gpus), (1, 0), "the policy answers");
                scene.watcher.step(now);
                let traps = guest("1.0.1", Way::Traps);
                std::fs::write(folder.join("one.wasm"), traps).unwrap();
            }
            active = scene.policy("one").active;
            refusal = format!("{:?}", plan.unplaced);
            scene.watcher.step(now);
        }
        // The folder stays for the next process.
        scene.folder = folder.join("gone");
    }
    (rounds, active, refusal)
}

#[test]
fn what_a_policy_excluded_is_not_bought_in_an_hour_in_which_it_traps() {
    let (rounds, active, refusal) = an_hour_of_traps("gpu-last", "");
    assert_eq!((rounds, active), (0, Some(Active::LastAnswer)));
    let excluded = "excluded_by: [\"one (it gives no answer: `on-failure` counts)\"]";
    assert!(refusal.contains(excluded), "{refusal}");
    let (rounds, active, _) = an_hour_of_traps("gpu-hold", "on-failure = 'hold'\n");
    assert_eq!((rounds, active), (0, Some(Active::Hold)));
    // As if it were not there; status and metric say so.
    let (rounds, active, _) = an_hour_of_traps("gpu-price", "on-failure = 'price'\n");
    assert!(rounds >= 40, "{rounds} of 60 rounds bought one");
    assert_eq!(active.map(Active::label), Some("price"));
}
