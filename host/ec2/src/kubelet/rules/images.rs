//! Images: when they are removed, and which pods may use one that was pulled.

use longshore_api::manifests::quoted;
use longshore_userdata::duration;
use serde_json::Value;

use super::kubelet::{Kubelet, SECOND};

/// Whether a text is an image without tag and digest, or a registry's folder and `/*`.
fn is_image_pattern(text: &str) -> bool {
    let folder = text.strip_suffix("/*");
    let image = folder.unwrap_or(text);
    let name = image.rsplit('/').next().unwrap_or_default();
    let tagged = folder.is_none() && (name.contains(':') || image.contains('@'));
    let part = |part: &str| !part.is_empty() && !part.contains(['*', ' ', '\t', '\n']);
    image.split('/').all(part) && !tagged
}

impl Kubelet<'_> {
    pub(super) fn images(&mut self) {
        let (high, low) = ("imageGCHighThresholdPercent", "imageGCLowThresholdPercent");
        let (above, below) = (self.number(high, 85), self.number(low, 80));
        if above <= below {
            let field = self.blamed(&[high, low]);
            let own = |name: &str| match self.asked.contains_key(name) {
                true => "",
                false => " (the default)",
            };
            let what = match field == high {
                true => format!("is {above}, not above {low}, which is {below}{}", own(low)),
                false => format!(
                    "is {below}, not below {high}, which is {above}{}",
                    own(high)
                ),
            };
            let hint = "images are removed from the one to the other: set both";
            self.refuse(field, what, hint);
        }
        let (oldest, youngest) = ("imageMaximumGCAge", "imageMinimumGCAge");
        let least = self.time(youngest).unwrap_or(120 * SECOND);
        if self.minor >= 36 {
            self.unless(least >= 0, youngest, "is negative", "write 0s or more");
        }
        if self.minor >= 29
            && let Some(most) = self.time(oldest)
        {
            let what = "needs the feature gate ImageMaximumGCAge";
            let hint = "remove it, or turn the gate on";
            self.unless(self.gate("ImageMaximumGCAge"), oldest, what, hint);
            self.unless(most >= 0, oldest, "is negative", "write 0s or more");
            let what = format!(
                "is not above {youngest}, which is {}",
                duration::write(least)
            );
            let hint = "write a longer time";
            self.unless(most < 0 || most > least, oldest, what, hint);
        }
        let pulls = "maxParallelImagePulls";
        if self.minor >= 27 && self.number(pulls, 0) > 1 {
            // Without the setting, several pulls at once mean that they are not in series.
            let series = self.truth("serializeImagePulls", false);
            let what = "is above 1, and serializeImagePulls is true";
            self.unless(!series, pulls, what, "set serializeImagePulls to false");
        }
        if self.minor >= 33 {
            self.pull_credentials();
        }
    }

    fn pull_credentials(&mut self) {
        let (policy, list) = (
            "imagePullCredentialsVerificationPolicy",
            "preloadedImagesVerificationAllowlist",
        );
        let gate = "KubeletEnsureSecretPulledImages";
        if self.gate(gate) {
            let words = [
                "",
                "NeverVerify",
                "NeverVerifyPreloadedImages",
                "NeverVerifyAllowlistedImages",
                "AlwaysVerify",
            ];
            self.word(policy, &words);
            let right = !self.has(list) || self.text(policy) == "NeverVerifyAllowlistedImages";
            let what = format!("stands beside another {policy} than NeverVerifyAllowlistedImages");
            self.unless(right, list, what, "change the one, or remove the other");
            let patterns = self.all.get(list).and_then(Value::as_array).cloned();
            let patterns = patterns.unwrap_or_default();
            for (at, pattern) in patterns.iter().enumerate() {
                let pattern = pattern.as_str().unwrap_or_default();
                let what = format!("is {}", quoted(pattern));
                let hint = "write it like registry.example.com/team/app or registry.example.com/*";
                let right = !right || is_image_pattern(pattern);
                self.unless(right, &format!("{list}[{at}]"), what, hint);
            }
            return;
        }
        for field in [policy, list] {
            if !self.has(field) {
                continue;
            }
            if self.asked.contains_key(field) {
                let what = format!("stands without the feature gate {gate}");
                self.refuse(field, what, "remove it, or turn the gate on");
            } else {
                let what = format!("is false, and the kubelet's defaults have set {field} before");
                let hint = format!("leave the gate on, or set {field} to \"\"");
                self.refuse(&format!("featureGates[{gate}]"), what, &hint);
            }
        }
    }
}
