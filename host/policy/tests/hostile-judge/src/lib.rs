//! A consolidation policy that misbehaves as configured, for tests of the host.

use longshore_sdk::{About, Consolidation, Decision, node_pools, nodes, owners, proposals};
use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Judge {
    mode: String,
    #[serde(skip)]
    asked: f64,
}

impl Consolidation for Judge {
    const ABOUT: About = About {
        name: "judge",
        version: "6.6.6",
        summary: "Misbehaves.",
        signals: &[],
        settings_schema: r#"{"type": "object", "properties": {"mode": {"type": "string"}}}"#,
    };
    type Settings = Judge;

    fn new(settings: Judge) -> Result<Self, String> {
        Ok(settings)
    }

    fn weigh(&mut self) -> Result<Vec<f64>, String> {
        let nodes = nodes::count() as usize;
        match self.mode.as_str() {
            "weigh-traps" => panic!("too heavy"),
            "weigh-nan" => Ok(vec![f64::NAN; nodes]),
            "weigh-negative" => Ok(vec![-1.0; nodes]),
            "weigh-short" => Ok(vec![0.0; nodes - 1]),
            "weigh-loops" => loop {
                std::hint::black_box(());
            },
            "weigh-never" => Ok(vec![f64::INFINITY; nodes]),
            // Another answer each time that it is asked.
            "weigh-two-ways" => {
                self.asked += 1.0;
                Ok(vec![self.asked; nodes])
            }
            "weigh-dear" => Ok(vec![1e6; nodes]),
            _ => Ok(vec![0.0; nodes]),
        }
    }

    fn decide(&mut self) -> Result<Vec<Decision>, String> {
        let all = proposals::count() as usize;
        let yes = || Decision::yes(1.0, "fine");
        let with = |decision: Decision| Ok(vec![decision; all]);
        match self.mode.as_str() {
            "rejects" => with(Decision::no("I like none of them")),
            "later" => with(Decision {
                not_before: longshore_sdk::request::now() + 60.0,
                ..yes()
            }),
            "approves-twice" => Ok([vec![yes(); all], vec![yes(); all]].concat()),
            "traps" => panic!("out of ideas"),
            "nan" => with(Decision {
                priority: f64::NAN,
                ..yes()
            }),
            "minus-infinity" => with(Decision {
                priority: f64::NEG_INFINITY,
                ..yes()
            }),
            "far" => with(Decision {
                not_before: longshore_sdk::request::now() + 2.0 * 86_400.0,
                ..yes()
            }),
            "none" => Ok(Vec::new()),
            "error" => Err("no idea".to_owned()),
            "loops" => loop {
                std::hint::black_box(());
            },
            "escape-codes" => with(Decision::no("\u{1b}[2Jgone\nagain")),
            "tells-unknown" => with(Decision::no(format!(
                "grace {:?}; disrupted {:?} {:?} {:?}",
                nodes::longest_grace(),
                node_pools::disrupted_hour(),
                node_pools::disrupted_day(),
                node_pools::since_disruption()
            ))),
            // Says what it sees.
            "tells" => with(Decision::no(described())),
            _ => with(yes()),
        }
    }
}

fn described() -> String {
    let text = |of: &[f64]| format!("{of:?}");
    [
        format!("{:?} in {:?}", nodes::names(), nodes::node_pool_names()),
        format!(
            "cpu {} of {}",
            text(&nodes::requested("cpu")),
            text(&nodes::allocatable("cpu"))
        ),
        format!("pods {:?} single {:?}", nodes::pods(), nodes::single_pods()),
        format!(
            "{:?} {:?} {:?}",
            owners::names(),
            owners::pods(),
            owners::young_pods()
        ),
        format!(
            "saves {:?} moves {:?}",
            proposals::savings(),
            proposals::moved_pods()
        ),
        format!(
            "zone {:?}",
            nodes::label_values("topology.kubernetes.io/zone")
        ),
    ]
    .join("; ")
}

longshore_sdk::export_consolidation!(Judge);
