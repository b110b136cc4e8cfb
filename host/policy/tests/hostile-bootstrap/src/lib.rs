//! A bootstrap policy that misbehaves as configured, for tests of the host.

use longshore_sdk::bootstrap::{Kind, Overhead, Rendered, built_in, machines};
use longshore_sdk::{About, Bootstrap};
use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Hostile {
    mode: String,
}

impl Bootstrap for Hostile {
    const ABOUT: About = About {
        name: "hostile-bootstrap",
        version: "6.6.6",
        summary: "Misbehaves.",
        signals: &[],
        settings_schema: r#"{"type": "object", "properties": {"mode": {"type": "string"}}}"#,
    };
    type Settings = Hostile;

    fn new(settings: Hostile) -> Result<Self, String> {
        Ok(settings)
    }

    fn overheads(&mut self) -> Result<Overhead, String> {
        let mut all = Overhead::built_in();
        match self.mode.as_str() {
            "nan" => all.amounts[0][1] = f64::NAN,
            "negative" => all.amounts[1][1] = -1.0,
            "infinite" => all.amounts[6][1] = f64::INFINITY,
            "beyond-capacity" => all.amounts[1][1] = 1e15,
            "other-overhead" => all.amounts[0][1] += 0.5,
            "other-pods" => all.max_pods[1] += 1,
            "overheads-short" => drop(all.max_pods.pop()),
            "tells-disks" => {
                let (roots, disks) = (machines::root_bytes(), machines::local_disks());
                return Err(format!("{roots:?} {disks:?}"));
            }
            "overheads-error" => return Err("no idea".to_owned()),
            "loop" => loop {
                std::hint::black_box(());
            },
            _ => {}
        }
        Ok(all)
    }

    fn user_data(&mut self, _: &Kind, machines: &[u32]) -> Result<Rendered, String> {
        let (texts, of) = (built_in::texts(), built_in::text_of());
        let replaced = |from: &str, to: &str| {
            let replace =
                |text: &Vec<u8>| String::from_utf8_lossy(text).replace(from, to).into_bytes();
            texts.iter().map(replace).collect()
        };
        let texts = match self.mode.as_str() {
            "too-large" => vec![vec![b'#'; 16385]; texts.len()],
            "huge" => vec![vec![b'#'; 3 << 20]],
            "not-utf8" => vec![vec![0xff]; texts.len()],
            "nul" => replaced("Karpenter", "\0"),
            "broken-mime" => replaced("\n--//--", ""),
            "broken-yaml" => replaced("spec:", "spec: ["),
            "no-join" => replaced("apiServerEndpoint: ", "endpoint: "),
            "elsewhere" => replaced("https://demo.eks.example", "https://evil.example"),
            "no-cidr" => replaced("cidr: ", "cdir: "),
            "no-taint" => replaced("karpenter.sh/unregistered", "karpenter.sh/registered"),
            "other-reserved" => replaced("maxPods: ", "kubeReserved: {cpu: 3}\n      maxPods: "),
            "panic" => panic!("out of ideas"),
            _ => texts.clone(),
        };
        let of = match self.mode.as_str() {
            "other-row" => of.into_iter().rev().collect(),
            "row-missing" => of[1..].to_vec(),
            "row-wild" => vec![u32::MAX; machines.len()],
            _ => of,
        };
        Ok(Rendered { texts, of })
    }
}

longshore_sdk::export_bootstrap!(Hostile);
