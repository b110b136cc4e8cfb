//! Why there is no user data, and how foreign text is shown in a fault.

/// Why there is no user data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {what}")]
pub struct Fault {
    /// The field of the input, such as `userData` or `cluster.cidr`.
    pub field: String,
    /// What is wrong with it.
    pub what: String,
    /// What can be done about it.
    pub hint: &'static str,
}

impl Fault {
    pub(super) fn new(field: &str, what: impl Into<String>, hint: &'static str) -> Self {
        Self {
            field: field.to_owned(),
            what: what.into(),
            hint,
        }
    }

    pub(super) fn user_data(what: impl Into<String>, hint: &'static str) -> Self {
        Self::new("userData", what, hint)
    }
}

/// Foreign text, shortened for a message and without control characters.
pub(super) fn quoted(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    let shown = text.chars().take(MAX_CHARS);
    let mut out: String = shown
        .flat_map(|c| match c.is_control() {
            true => c.escape_debug().collect::<Vec<char>>(),
            false => vec![c],
        })
        .collect();
    if text.chars().nth(MAX_CHARS).is_some() {
        out.push('…');
    }
    format!("`{out}`")
}
