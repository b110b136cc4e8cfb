//! Prometheus' text format, as far as gauges need it.

use std::fmt::Write as _;

/// What precedes a family.
pub fn head(page: &mut String, name: &str, help: &str) {
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} gauge");
}

/// Lines of one family.
pub struct Lines<'p> {
    pub page: &'p mut String,
    pub name: &'static str,
}

impl Lines<'_> {
    /// A line; labels without a value are left out.
    pub fn put<'l>(&mut self, labels: impl IntoIterator<Item = (&'l str, &'l str)>, value: f64) {
        self.page.push_str(self.name);
        let mut open = '{';
        for (label, text) in labels.into_iter().filter(|(_, text)| !text.is_empty()) {
            self.page.push(open);
            self.page.push_str(label);
            self.page.push_str("=\"");
            escape(self.page, text);
            self.page.push('"');
            open = ',';
        }
        if open == ',' {
            self.page.push('}');
        }
        let _ = writeln!(self.page, " {value}");
    }
}

fn escape(page: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\\' => page.push_str("\\\\"),
            '"' => page.push_str("\\\""),
            '\n' => page.push_str("\\n"),
            c => page.push(c),
        }
    }
}
