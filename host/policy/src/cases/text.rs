//! A case as TOML, as people write it: what is usual is left out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::{Case, CasePool, CaseRow};

impl Case {
    /// This case as text, which [`Case::read`] reads.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Some(expected) = &self.expected {
            text += &self.expected_text(expected);
        }
        if let Some(error) = &self.error {
            _ = writeln!(text, "error = {}", quoted(error));
        }
        if let Some(tolerance) = self.tolerance {
            _ = writeln!(text, "tolerance = {}", number(tolerance));
        }
        if self.now != 0.0 {
            _ = writeln!(text, "now = {}", number(self.now));
        }
        if !self.settings.is_empty() {
            text += "\n[settings]\n";
            for (key, value) in &self.settings {
                _ = writeln!(text, "{} = {}", quoted(key), toml_value(value));
            }
        }
        if self.node_pool != CasePool::default() {
            text += &self.node_pool.text();
        }
        for (name, rows) in &self.signals {
            _ = writeln!(text, "\n[signals.{}]", quoted(name));
            for (key, value) in rows {
                _ = writeln!(text, "{} = {}", quoted(key), number(*value));
            }
        }
        self.offerings.iter().for_each(|row| text += &row.text());
        text.trim_start().to_owned()
    }

    /// The lines with what is expected.
    pub fn expected_text(&self, expected: &[f64]) -> String {
        let mut text = "expected = [\n".to_owned();
        for (row, &cost) in self.offerings.iter().zip(expected) {
            let shown = row.shown().replace(['\n', '\r'], " ");
            _ = writeln!(text, "    {}, # {shown}", number(cost));
        }
        text + "]\n"
    }
}

impl CasePool {
    fn text(&self) -> String {
        let mut text = format!("\n[node-pool]\nname = {}\n", quoted(&self.name));
        for (key, pairs) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            if !pairs.is_empty() {
                _ = writeln!(text, "{key} = {}", table(pairs, |value| quoted(value)));
            }
        }
        if self.weight != 0 {
            _ = writeln!(text, "weight = {}", self.weight);
        }
        text
    }
}

impl CaseRow {
    fn text(&self) -> String {
        let mut text = "\n[[offerings]]\n".to_owned();
        let mut line = |key: &str, value: String| _ = writeln!(text, "{key} = {value}");
        line("instance-type", quoted(&self.instance_type));
        let texts = [
            ("zone", &self.zone),
            ("capacity-type", &self.capacity_type),
            ("architecture", &self.architecture),
            ("reservation", &self.reservation),
        ];
        for (key, value) in texts.into_iter().filter(|(_, value)| !value.is_empty()) {
            line(key, quoted(value));
        }
        if self.reservation_count != 0 {
            line("reservation-count", self.reservation_count.to_string());
        }
        for (key, amount) in [("cpu", self.cpu), ("memory-gib", self.memory_gib)] {
            if amount != 0.0 {
                line(key, number(amount));
            }
        }
        if !self.resources.is_empty() {
            line("resources", table(&self.resources, i64::to_string));
        }
        if !self.labels.is_empty() {
            line("labels", table(&self.labels, |value| quoted(value)));
        }
        line("price", number(self.price));
        if let Some(cost) = self.cost_before {
            line("cost-before", number(cost));
        }
        if !self.available {
            line("available", "false".to_owned());
        }
        text
    }
}

/// A number as TOML has it.
fn number(of: f64) -> String {
    match of.is_finite() && of.fract() == 0.0 && of.abs() < 1e15 {
        true => format!("{of:.0}"),
        false if of.is_nan() => "nan".to_owned(),
        false => format!("{of:?}"),
    }
}

/// A text of JSON is a basic string of TOML.
pub fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn table<T>(of: &BTreeMap<String, T>, shown: impl Fn(&T) -> String) -> String {
    let pairs = of
        .iter()
        .map(|(key, value)| format!("{} = {}", quoted(key), shown(value)));
    format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
}

/// A value of JSON as TOML has it in one line. Null, which TOML has not, is left out.
pub fn toml_value(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items = items.iter().filter(|item| !item.is_null());
            let items: Vec<String> = items.map(toml_value).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            let fields =
                fields.map(|(key, value)| format!("{} = {}", quoted(key), toml_value(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        // Strings of JSON are basic strings of TOML; numbers and booleans are written alike.
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = r#"expected = [
    0.1, # m7g.large us-east-1a spot
    inf, # g6.xlarge  
]
tolerance = 1e-6
now = 1700000000

[settings]
"percent" = 7.5
"zones" = {"a" = [1, true]}

[node-pool]
name = "batch"
labels = { "team" = "ml" }
weight = 3

[signals."carbon"]
"us-east-1a" = 420.5

[[offerings]]
instance-type = "m7g.large"
zone = "us-east-1a"
capacity-type = "spot"
architecture = "arm64"
cpu = 2
memory-gib = 8
price = 0.0816
cost-before = inf

[[offerings]]
instance-type = "g6.xlarge"
resources = { "nvidia.com/gpu" = 1 }
labels = { "karpenter.k8s.aws/instance-generation" = "6" }
price = 0.8048
available = false
"#;

    #[test]
    fn a_case_is_written_as_it_is_read() {
        let case = Case::read(ALL).unwrap();
        assert_eq!(Case::read(&case.text()).unwrap(), case);
        assert_eq!(
            case.text()
                .replace("{ \"a\"", "{\"a\"")
                .replace("] }", "]}"),
            ALL
        );
    }

    #[test]
    fn a_fault_is_named() {
        let said = Case::read("expected = [1.0]\nofferings = []\n").unwrap_err();
        assert_eq!(said, "`expected` has 1 costs for 0 offerings");
        assert!(
            Case::read("ofering = 1")
                .unwrap_err()
                .contains("unknown field `ofering`")
        );
    }
}
