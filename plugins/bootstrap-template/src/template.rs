//! Templates: text with variables in `{{ }}`.

/// A piece of a template.
#[derive(Debug, PartialEq)]
enum Piece {
    Text(String),
    Variable {
        name: String,
        /// What stands after `|`: the value if the variable has none.
        otherwise: Option<String>,
        line: usize,
    },
}

/// A template that was read.
#[derive(Debug, PartialEq)]
pub struct Template(Vec<Piece>);

impl Template {
    /// Reads a template. Fails on braces that are not closed and on names that are no variables.
    pub fn read(text: &str, known: impl Fn(&str) -> Result<(), String>) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find("{{") {
            let line = text[..text.len() - rest.len() + at].matches('\n').count() + 1;
            let (before, after) = (&rest[..at], &rest[at + 2..]);
            pieces.push(Piece::Text(before.to_owned()));
            let inside = after.trim_start();
            // Quoted, the braces stand for themselves.
            if let Some(after) = inside.strip_prefix("\"{{\"") {
                rest = after
                    .trim_start()
                    .strip_prefix("}}")
                    .ok_or_else(|| unclosed(line))?;
                pieces.push(Piece::Text("{{".to_owned()));
                continue;
            }
            let end = after.find("}}").ok_or_else(|| unclosed(line))?;
            let (name, otherwise) = match after[..end].split_once('|') {
                Some((name, otherwise)) => (name.trim(), Some(otherwise.trim().to_owned())),
                None => (after[..end].trim(), None),
            };
            known(name).map_err(|problem| format!("line {line}: {problem}"))?;
            pieces.push(Piece::Variable {
                name: name.to_owned(),
                otherwise,
                line,
            });
            rest = &after[end + 2..];
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Template(pieces))
    }

    /// The text with values in place of variables. Fails on a variable without value and without
    /// `| otherwise`.
    pub fn fill(&self, value: impl Fn(&str) -> Option<String>) -> Result<String, String> {
        let mut out = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Variable {
                    name,
                    otherwise,
                    line,
                } => match value(name).or_else(|| otherwise.clone()) {
                    Some(value) => out.push_str(&value),
                    None => {
                        return Err(format!(
                            "`template` line {line}: {{{{ {name} }}}} has no value here; write \
                             {{{{ {name} | VALUE }}}} for one that stands in"
                        ));
                    }
                },
            }
        }
        Ok(out)
    }
}

fn unclosed(line: usize) -> String {
    format!("line {line}: {{{{ is not closed; for the braces themselves write {{{{ \"{{{{\" }}}}")
}
