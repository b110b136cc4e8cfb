//! Pages: `MaxResults` and `NextToken`.
//!
//! A token names the last entry of its page, so that changes between two pages move nothing.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::wire::{Refusal, Scope, Xml, items, text};

/// How a list is cut into pages.
pub struct Page {
    most: usize,
    after: Option<String>,
}

impl Page {
    /// Reads the page that a request wants; `usual` entries if it does not say.
    pub fn read(scope: &Scope, usual: usize, least: usize, most: usize) -> Result<Page, Refusal> {
        let wanted: Option<usize> = scope.parse("MaxResults")?;
        if let Some(wrong) = wanted.filter(|wanted| !(least..=most).contains(wanted)) {
            let message = format!(
                "Value ( {wrong} ) for parameter maxResults is invalid. Expecting a value from \
                 {least} to {most}."
            );
            return Err(Refusal::new("InvalidParameterValue", message));
        }
        let token = scope.get("NextToken").filter(|token| !token.is_empty());
        let after = token.map(|token| {
            let key = URL_SAFE_NO_PAD.decode(token).ok();
            let key = key.and_then(|bytes| String::from_utf8(bytes).ok());
            let message = format!("The token '{token}' is invalid");
            key.ok_or_else(|| Refusal::new("InvalidNextToken", message))
        });
        Ok(Page {
            most: wanted.unwrap_or(usual),
            after: after.transpose()?,
        })
    }

    /// The page of a list that is ordered by its keys, as elements.
    pub fn cut<'k, T>(
        self,
        name: &'static str,
        rows: impl Iterator<Item = (&'k str, T)>,
        show: impl Fn(T) -> Vec<Xml>,
    ) -> Vec<Xml> {
        let after = self.after;
        let mut rows = rows.filter(|(key, _)| after.as_deref().is_none_or(|after| *key > after));
        let (mut entries, mut last) = (Vec::new(), "");
        for (key, row) in rows.by_ref().take(self.most) {
            last = key;
            entries.push(show(row));
        }
        let more = rows.next().is_some();
        let mut answer = vec![items(name, entries)];
        if more {
            answer.push(text("nextToken", URL_SAFE_NO_PAD.encode(last)));
        }
        answer
    }
}
