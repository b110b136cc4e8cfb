//! The benchmark's clusters, catalogues and goals.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::commands;

/// One line of a table.
pub struct Case {
    /// `cost`, `speed` or `policy`.
    pub part: &'static str,
    pub name: &'static str,
    /// Arguments of `make_cluster.py`.
    pub cluster: &'static str,
    /// The catalogue: `ec2-us-east-1.json` (1 334 types) or `ec2-us-east-1-cmr.json` (908).
    pub types: &'static str,
    /// `--improve`.
    pub effort: &'static str,
    /// What is to be reached.
    pub goal: Goal,
    /// Whether Karpenter's answer can be waited for.
    pub karpenter_baseline: bool,
    /// A first-party policy to plan with as well.
    pub scorer: Option<&'static str>,
    /// How often ours runs; the fastest counts.
    pub repeats: usize,
}

/// What is to be reached.
#[derive(Clone, Copy)]
pub enum Goal {
    /// At most so many USD per hour.
    Cost(f64),
    /// So many times faster than Karpenter.
    Ratio(f64),
    /// Decided within so many seconds.
    Seconds(f64),
    /// Decided within so many seconds, parsed within 2 s, in 300 MB.
    Large(f64),
    /// With the policy at most this share slower.
    Share(f64),
}

const ALL: &str = "ec2-us-east-1.json";
/// The catalogue that a usual NodePool admits.
pub const USUAL: &str = "ec2-us-east-1-cmr.json";

const fn cost(name: &'static str, cluster: &'static str, goal: f64) -> Case {
    let goal = Goal::Cost(goal);
    Case {
        part: "cost",
        name,
        cluster,
        types: USUAL,
        effort: "normal",
        goal,
        karpenter_baseline: true,
        scorer: None,
        repeats: 1,
    }
}

const fn speed(name: &'static str, cluster: &'static str, types: &'static str, goal: Goal) -> Case {
    Case {
        part: "speed",
        name,
        cluster,
        types,
        effort: "normal",
        goal,
        karpenter_baseline: true,
        scorer: None,
        repeats: 3,
    }
}

/// A hundred times faster than Karpenter.
const fn hundredfold(name: &'static str, cluster: &'static str, types: &'static str) -> Case {
    speed(name, cluster, types, Goal::Ratio(100.0))
}

/// All cases that the inputs allow.
pub fn all(inputs: &Inputs) -> Vec<Case> {
    if inputs.data.is_none() {
        let shipped = |part, effort, goal, scorer| Case {
            part,
            name: "web-shop (shipped example)",
            cluster: "",
            types: "",
            effort,
            goal,
            karpenter_baseline: true,
            scorer,
            repeats: 3,
        };
        return vec![
            shipped("cost", "normal", Goal::Ratio(1.0), None),
            shipped("speed", "normal", Goal::Ratio(100.0), None),
            shipped("policy", "normal", Goal::Share(0.1), Some("price")),
        ];
    }
    const NODES_1000: &str = "--profile services --nodes 1000 --pods 30000 --pending 1000";
    const NODES_10000: &str = "--profile services --nodes 10000 --pods 100000 --pending 1000";
    vec![
        cost("services 1 000", "--profile services --pending 1000", 5.7),
        cost("services 5 000", "--profile services --pending 5000", 44.0),
        cost(
            "services 1 000, on-demand",
            "--profile services --pending 1000 --capacity-types on-demand",
            17.6,
        ),
        cost(
            "services 5 000, on-demand",
            "--profile services --pending 5000 --capacity-types on-demand",
            131.0,
        ),
        cost("diverse 1 000", "--profile diverse --pending 1000", 10.0),
        hundredfold("diverse 1 000", "--profile diverse --pending 1000", ALL),
        hundredfold("services 5 000", "--profile services --pending 5000", USUAL),
        Case {
            karpenter_baseline: false,
            ..speed(
                "diverse 10 000",
                "--profile diverse --pending 10000",
                ALL,
                Goal::Seconds(0.5),
            )
        },
        hundredfold("diverse 300", "--profile diverse --pending 300", ALL),
        hundredfold("services 300", "--profile services --pending 300", USUAL),
        hundredfold("services 2 000", "--profile services --pending 2000", USUAL),
        hundredfold(
            "500 on 300 nodes",
            "--profile services --nodes 300 --pods 9000 --pending 500",
            USUAL,
        ),
        Case {
            effort: "quick",
            ..hundredfold("1 000 on 1 000 nodes", NODES_1000, USUAL)
        },
        Case {
            effort: "quick",
            karpenter_baseline: false,
            ..speed(
                "1 000 on 10 000 nodes",
                NODES_10000,
                USUAL,
                Goal::Large(0.05),
            )
        },
        Case {
            part: "policy",
            karpenter_baseline: false,
            scorer: Some("price"),
            repeats: 7,
            ..speed(
                "services 5 000",
                "--profile services --pending 5000",
                USUAL,
                Goal::Share(0.1),
            )
        },
    ]
}

/// Where clusters and catalogues come from.
pub struct Inputs {
    /// The folder with `make_cluster.py` and the catalogues; `None` for the shipped example.
    pub data: Option<PathBuf>,
    /// Where clusters are kept once made.
    kept: PathBuf,
}

impl Inputs {
    /// `$LONGSHORE_DATA`, or `../shared/data` beside the repository.
    pub fn find() -> anyhow::Result<Inputs> {
        let named = std::env::var_os("LONGSHORE_DATA").map(PathBuf::from);
        let folder =
            named.unwrap_or_else(|| longshore_xtask::guests::root().join("../shared/data"));
        let data = (folder.join("make_cluster.py").exists() && commands::found("python3"))
            .then_some(folder);
        match &data {
            Some(folder) => println!("    {}", folder.display()),
            None => println!(
                "    no make_cluster.py (LONGSHORE_DATA) or no python3: the shipped example alone"
            ),
        }
        let kept = crate::commands::target().join("bench");
        std::fs::create_dir_all(&kept)
            .with_context(|| format!("cannot make {}", kept.display()))?;
        Ok(Inputs { data, kept })
    }

    /// The manifests of a case.
    pub fn cluster(&self, case: &Case) -> anyhow::Result<PathBuf> {
        match &self.data {
            Some(data) => self.made(data, case.cluster, &self.types(case)),
            None => Ok(longshore_xtask::guests::root().join("examples/clusters/web-shop.json")),
        }
    }

    /// Where a file is kept.
    pub fn kept(&self, name: &str) -> PathBuf {
        self.kept.join(name)
    }

    /// What `make_cluster.py` makes of these arguments; made once.
    pub fn made(&self, data: &Path, arguments: &str, types: &Path) -> anyhow::Result<PathBuf> {
        let file = self.kept.join(format!(
            "{}.json",
            arguments.replace("--", "").replace(' ', "-")
        ));
        if !file.exists() {
            let mut command = Command::new("python3");
            command
                .arg(data.join("make_cluster.py"))
                .args(arguments.split(' '));
            if arguments.contains("--nodes") {
                command.arg("--types").arg(types);
            }
            std::fs::write(&file, commands::output(command)?)?;
        }
        Ok(file)
    }

    /// The catalogue of a case.
    pub fn types(&self, case: &Case) -> PathBuf {
        match &self.data {
            Some(data) => data.join(case.types),
            None => longshore_xtask::guests::root().join("examples/catalogues/ec2-us-east-1.json"),
        }
    }
}
