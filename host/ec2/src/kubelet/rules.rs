//! What a kubelet refuses, rule by rule.
//!
//! Sources: `ValidateKubeletConfiguration`, the defaults of v1beta1 and the feature gates of 1.26.15
//! to 1.37.2, and for what is refused later while the kubelet starts (`later`, `start`) the managers of
//! CPU, memory, topology, eviction, logs and Secrets, its server and its lists of sysctls of 1.36.4.

mod gates;
mod images;
mod kubelet;
mod logs;
mod managers;
mod others;
mod pods;
mod reserved;
mod start;
mod values;

use serde_json::{Map, Value};

use super::effective::{Base, effective};
use crate::validation::fault::Fault;
use kubelet::Kubelet;

/// All that a kubelet of a minor version refuses of `settings` on top of `base`. The fields are
/// those of `settings`; the kubelet's own file has no fault.
pub(super) fn broken(settings: &Map<String, Value>, base: Base, minor: u16) -> Vec<Fault> {
    let mut kubelet = Kubelet {
        all: effective(settings, base, minor),
        asked: settings,
        base,
        minor,
        faults: Vec::new(),
    };
    kubelet.gates();
    kubelet.numbers();
    kubelet.words();
    kubelet.images();
    kubelet.shutdown();
    kubelet.swap();
    kubelet.back_off();
    kubelet.enforcement();
    kubelet.reserved();
    kubelet.logs();
    kubelet.memory();
    kubelet.others();
    kubelet.later();
    kubelet.start();
    kubelet.faults
}
