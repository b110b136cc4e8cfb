//! Logs of containers, of the system and of the kubelet itself.

use longshore_api::manifests::quoted;
use longshore_api::quantity::Quantity;
use longshore_userdata::duration;
use serde_json::Value;

use super::super::effective::Base;
use super::kubelet::{Kubelet, SECOND};

impl Kubelet<'_> {
    pub(super) fn logs(&mut self) {
        if self.minor >= 30 {
            let (field, least) = ("containerLogMonitorInterval", 3 * SECOND);
            let time = self.all.get(field).and_then(Value::as_str);
            let time = time.and_then(duration::parse).unwrap_or(10 * SECOND);
            let what = format!("is {}", duration::write(time));
            self.unless(time >= least, field, what, "write 3s or more");
            let field = "podLogsDir";
            let path = self.text(field).to_owned();
            if !path.is_empty() {
                let hint = "write it like /var/log/pods";
                let what = format!("{} is not an absolute path", quoted(&path));
                // In the kubelet's own file a path begins at the file's folder.
                let begins = path.starts_with('/') || self.base == Base::Bare;
                self.unless(begins, field, what, hint);
                let parts = || path.split('/').skip(1);
                let clean = path == "/" || !parts().any(|of| matches!(of, "" | "." | ".."));
                let what = format!("{} is not a plain path", quoted(&path));
                self.unless(!path.starts_with('/') || clean, field, what, hint);
                let what = "has characters beyond ASCII";
                self.unless(path.is_ascii(), field, what, hint);
            }
        }
        let field = "containerLogMaxSize";
        let size = self.text(field).to_owned();
        let right = size.is_empty() || Quantity::parse(&size).is_ok_and(|of| of.whole().is_ok());
        let what = format!("{} is not an amount", quoted(&size));
        self.unless(right, field, what, "write it like 10Mi");
        self.logging();
        if self.minor >= 27 && self.truth("enableSystemLogQuery", false) {
            let field = "enableSystemLogQuery";
            let what = "needs the feature gate NodeLogQuery";
            let hint = "remove it, or turn the gate on";
            self.unless(self.gate("NodeLogQuery"), field, what, hint);
            let handler = self.truth("enableSystemLogHandler", true);
            let what = "needs enableSystemLogHandler";
            self.unless(handler, field, what, "set both");
        }
    }

    fn logging(&mut self) {
        let logging = self.all.get("logging").cloned().unwrap_or_default();
        let format = logging["format"].as_str().unwrap_or_default();
        let right = ["", "text", "json"].contains(&format);
        let what = format!("is {}", quoted(format));
        self.unless(right, "logging.format", what, "write text or json");
        let loud = |value: &Value| value.as_i64().is_some_and(|of| of > i32::MAX.into());
        let loudness = "write 0 to 10";
        let verbosity = &logging["verbosity"];
        let what = "is beyond 31 bits";
        self.unless(!loud(verbosity), "logging.verbosity", what, loudness);
        let flush = match &logging["flushFrequency"] {
            Value::String(text) => duration::parse(text),
            other => other.as_i64(),
        };
        let right = flush.is_none_or(|time| time >= 0);
        let field = "logging.flushFrequency";
        self.unless(right, field, "is negative", "write it like 5s");
        let modules = logging["vmodule"].as_array().cloned().unwrap_or_default();
        let plain = ["", "text"].contains(&format);
        let what = "stands beside a format other than text";
        let hint = "remove one of the two";
        self.unless(modules.is_empty() || plain, "logging.vmodule", what, hint);
        for (at, module) in modules.iter().enumerate() {
            let field = format!("logging.vmodule[{at}].filePattern");
            let pattern = module["filePattern"].as_str().unwrap_or_default();
            let right = !pattern.is_empty() && !pattern.contains(['=', ',']);
            let what = format!("is {}", quoted(pattern));
            self.unless(right, &field, what, "write a pattern without = and ,");
            let field = format!("logging.vmodule[{at}].verbosity");
            let right = !loud(&module["verbosity"]);
            self.unless(right, &field, "is beyond 31 bits", loudness);
        }
        let off = |name: &str| !self.gate(name);
        let alpha = off("LoggingAlphaOptions");
        for of in ["text", "json"] {
            let options = &logging["options"][of];
            let split = options["splitStream"] == true;
            let buffer = match &options["infoBufferSize"] {
                Value::Null => false,
                Value::String(text) => !matches!(text.as_str(), "" | "0"),
                other => other.as_f64() != Some(0.0),
            };
            for (set, name) in [(split, "splitStream"), (buffer, "infoBufferSize")] {
                let field = format!("logging.options.{of}.{name}");
                let what = "needs the feature gate LoggingAlphaOptions";
                let hint = "remove it, or turn the gate on";
                self.unless(!(set && alpha), &field, what, hint);
            }
        }
    }
}
