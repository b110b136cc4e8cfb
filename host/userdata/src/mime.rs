//! MIME archives: `multipart/mixed`, as cloud-init takes it.
//!
//! Read as Go's `mime/multipart` does: line ends with or without a carriage return, an optional
//! text before the first part and after the last. Written with the boundary `//`, or a longer one if
//! a part has such a line, and without carriage returns.

use super::fault::{Fault, quoted};

/// One part of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Headers in canonical spelling, sorted by name; a name may be there twice.
    headers: Vec<(String, String)>,
    body: String,
}

impl Part {
    /// Text that stands alone, as cloud-init would take it: its first words say what it is, and
    /// without them it is a shell script.
    pub(crate) fn plain(text: &str) -> Self {
        Self::new(marked(text).unwrap_or(SHELL), text)
    }

    /// A shell script.
    pub(crate) fn shell(text: &str) -> Self {
        Self::new(SHELL, text)
    }

    pub(crate) fn node_config(text: &str) -> Self {
        Self::new(NODE_CONFIG, text)
    }

    /// The part with a Content-Type, which is empty if it had none.
    pub(crate) fn with_content_type(mut self) -> Self {
        if self.content_type().is_none() {
            let empty = ("Content-Type".to_owned(), String::new());
            self.headers.push(empty);
            self.headers.sort_by(|a, b| a.0.cmp(&b.0));
        }
        self
    }

    /// The part with the same headers and another text.
    pub(crate) fn with_body(&self, text: &str) -> Self {
        Self {
            headers: self.headers.clone(),
            body: text.to_owned(),
        }
    }

    /// The part under a file name.
    pub(crate) fn named(mut self, name: &str) -> Self {
        let value = format!("attachment; filename=\"{name}\"");
        self.headers
            .insert(0, ("Content-Disposition".to_owned(), value));
        self
    }

    /// The file name that it gives itself: that of Content-Disposition, else that of Content-Type.
    pub fn file_name(&self) -> Option<String> {
        let of = |header: &str, name: &str| parameter(self.header(header)?, name);
        let name = of("Content-Disposition", "filename").or_else(|| of("Content-Type", "name"));
        name.filter(|name| !name.is_empty())
    }

    /// Its Content-Type, if it has one.
    pub fn content_type(&self) -> Option<&str> {
        self.header("Content-Type")
    }

    /// The value of a header, whose name is in canonical spelling: `Content-Type`.
    pub fn header(&self, name: &str) -> Option<&str> {
        let there = self.headers.iter().find(|header| header.0 == name);
        there.map(|(_, value)| value.as_str())
    }

    /// Its media type in lower case, without parameters. `None` without a Content-Type, and for one
    /// that cannot be read.
    pub fn kind(&self) -> Option<String> {
        media_type(self.content_type()?).map(|(kind, _)| kind)
    }

    /// What stands after its headers.
    pub fn body(&self) -> &str {
        &self.body
    }

    fn new(content_type: &str, text: &str) -> Self {
        Self {
            headers: vec![("Content-Type".to_owned(), content_type.to_owned())],
            body: text.to_owned(),
        }
    }
}

/// Content-Type of shell scripts.
const SHELL: &str = "text/x-shellscript; charset=\"us-ascii\"";

/// Media type of NodeConfigs.
pub const NODE_CONFIG: &str = "application/node.eks.aws";

/// First words by which cloud-init knows what a text is, and their media types. A word stands before
/// those that it begins with.
const MARKS: [(&str, &str); 9] = [
    ("#cloud-config-archive", "text/cloud-config-archive"),
    ("#cloud-config-jsonp", "text/cloud-config-jsonp"),
    ("#cloud-config", "text/cloud-config"),
    ("#cloud-boothook", "text/cloud-boothook"),
    ("#include-once", "text/x-include-once-url"),
    ("#include", "text/x-include-url"),
    ("#part-handler", "text/part-handler"),
    ("## template: jinja", "text/jinja2"),
    ("#!", SHELL),
];

/// The Content-Type of a text that says what it is, in its first words and in any case. `None` if it
/// does not.
pub fn marked(text: &str) -> Option<&'static str> {
    let text = text.trim_start();
    let begins = |mark: &str| {
        let start = text.get(..mark.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(mark))
    };
    let mark = MARKS.iter().find(|(mark, _)| begins(mark));
    mark.map(|(_, kind)| *kind)
}

/// Whether a text means to be an archive.
pub fn is_archive(text: &str) -> bool {
    let text = text.trim();
    text.starts_with("MIME-Version:") || text.starts_with("Content-Type:")
}

/// An archive with these parts.
pub(crate) fn write(parts: &[Part]) -> String {
    let boundary = boundary(parts);
    let mut out =
        format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{boundary}\"\n\n");
    for (at, part) in parts.iter().enumerate() {
        out.push_str(if at == 0 { "" } else { "\n" });
        out.push_str(&format!("--{boundary}\n"));
        for (name, value) in &part.headers {
            out.push_str(&format!("{name}: {value}\n"));
        }
        out.push('\n');
        out.push_str(&part.body);
    }
    out.push_str(&format!("\n--{boundary}--\n"));
    out.replace('\r', "")
}

/// `//`, unless a part has a line that begins with it: then as many slashes more as it takes.
fn boundary(parts: &[Part]) -> String {
    let mut boundary = String::from("//");
    let taken = |boundary: &str| {
        let line = format!("--{boundary}");
        let mut lines = parts.iter().flat_map(|part| part.body.split(['\n', '\r']));
        lines.any(|text| text.starts_with(&line))
    };
    while taken(&boundary) {
        boundary.push('/');
    }
    boundary
}

/// The parts of an archive. Fails where Go's reader does: no boundary, a part that does not end, a
/// header that is none.
pub fn read(text: &str) -> Result<Vec<Part>, Fault> {
    let (headers, body) = headers(text)?;
    let Some(content_type) = headers.iter().find(|(name, _)| name == "Content-Type") else {
        let what = "the MIME archive has no Content-Type";
        return Err(Fault::user_data(what, BOUNDARY));
    };
    let Some((kind, parameters)) = media_type(&content_type.1) else {
        let content_type = quoted(&content_type.1);
        let what = format!("the MIME archive's Content-Type {content_type} cannot be read");
        return Err(Fault::user_data(what, BOUNDARY));
    };
    if !kind.starts_with("multipart/") {
        let what = format!("the MIME text is not an archive of parts, but {kind}");
        return Err(Fault::user_data(what, BOUNDARY));
    }
    of_body(parameters, body)
}

/// The parts of a text that is an archive, whatever stands in its first lines. `None` if it is none,
/// as nodeadm sees it: it has no headers, or none that says that it has parts.
pub fn archive(text: &str) -> Option<Result<Vec<Part>, Fault>> {
    let (headers, body) = headers(text).ok()?;
    let content_type = headers.iter().find(|(name, _)| name == "Content-Type")?;
    let (kind, parameters) = media_type(&content_type.1)?;
    let parts = || of_body(parameters, body);
    kind.starts_with("multipart/").then(parts)
}

/// How an archive names its boundary.
const BOUNDARY: &str = "write `Content-Type: multipart/mixed; boundary=\"BOUNDARY\"` in one of its first lines, \
                        then an empty line";

fn of_body(parameters: Parameters, body: &str) -> Result<Vec<Part>, Fault> {
    let boundary = parameters.into_iter().find(|(name, _)| name == "boundary");
    let boundary = boundary.map(|(_, boundary)| boundary);
    match boundary.filter(|boundary| !boundary.is_empty()) {
        Some(boundary) => parts(body, &boundary),
        None => Err(Fault::user_data(
            "the MIME archive names no boundary",
            BOUNDARY,
        )),
    }
}

fn parts(body: &str, boundary: &str) -> Result<Vec<Part>, Fault> {
    let (dash, close) = (format!("--{boundary}"), format!("--{boundary}--"));
    let mut all: Vec<Part> = Vec::new();
    // The text of the part that is open, from its headers on.
    let mut open: Option<usize> = None;
    let mut at = 0;
    for line in body.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let end = line.trim_end_matches(['\n', '\r', ' ', '\t']);
        let closing = end == close;
        if !closing && end != dash {
            continue;
        }
        if let Some(from) = open.take() {
            all.push(part(&body[from..start], all.len())?);
        }
        if closing {
            return Ok(all);
        }
        open = Some(at);
    }
    match open {
        // Text without any boundary has no parts, and headers without content are none.
        None => Ok(all),
        Some(from) if !body[from..].contains("\n\n") && !body[from..].contains("\n\r\n") => Ok(all),
        Some(_) => Err(Fault::user_data(
            format!("the MIME archive ends inside part {}", all.len() + 1),
            "end it with a line `--BOUNDARY--`",
        )),
    }
}

fn part(text: &str, index: usize) -> Result<Part, Fault> {
    let (mut headers, body) = headers(text).map_err(|fault| {
        let what = format!("part {}: {}", index + 1, fault.what);
        Fault::user_data(what, fault.hint)
    })?;
    headers.sort_by(|a, b| a.0.cmp(&b.0));
    // The line end before the next boundary belongs to the boundary.
    let body = body.strip_suffix('\n').unwrap_or(body);
    let mut body = body.strip_suffix('\r').unwrap_or(body).to_owned();
    let encoded = |(name, value): &(String, String)| {
        name == "Content-Transfer-Encoding" && value.eq_ignore_ascii_case("quoted-printable")
    };
    // Go decodes this encoding, and no other.
    if headers.iter().any(encoded) {
        headers.retain(|(name, _)| name != "Content-Transfer-Encoding");
        body = quoted_printable(&body).ok_or_else(|| {
            let what = format!("part {} is not quoted-printable", index + 1);
            Fault::user_data(what, "write it without Content-Transfer-Encoding")
        })?;
    }
    Ok(Part { headers, body })
}

/// Decodes `=3D`; an `=` at the end of a line joins it with the next.
fn quoted_printable(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (content, end) = match line.strip_suffix('\n') {
            Some(content) => (content.trim_end_matches([' ', '\t', '\r']), "\n"),
            None => (line, ""),
        };
        let (mut rest, mut joined) = (content, false);
        while let Some(at) = rest.find('=') {
            out.extend_from_slice(&rest.as_bytes()[..at]);
            rest = &rest[at + 1..];
            if rest.is_empty() {
                joined = true;
                break;
            }
            let digits = rest.get(..2).filter(|two| !two.starts_with('+'));
            match digits.map(|two| u8::from_str_radix(two, 16)) {
                Some(Ok(byte)) => {
                    out.push(byte);
                    rest = &rest[2..];
                }
                // As Go does: an `=` that encodes nothing is itself.
                _ => out.push(b'='),
            }
        }
        out.extend_from_slice(rest.as_bytes());
        if !joined {
            out.extend_from_slice(end.as_bytes());
        }
    }
    String::from_utf8(out).ok()
}

/// Headers up to an empty line, and the rest. A line that starts with a space goes on with the one
/// before.
fn headers(text: &str) -> Result<(Vec<(String, String)>, &str), Fault> {
    let mut all: Vec<(String, String)> = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        at += line.len();
        let line = line.trim_end_matches(['\n', '\r']);
        if line.is_empty() {
            break;
        }
        if line.starts_with([' ', '\t']) {
            let Some((_, value)) = all.last_mut() else {
                return Err(header_fault(line));
            };
            *value = format!("{value} {}", line.trim()).trim().to_owned();
            continue;
        }
        let Some((name, value)) = line.split_once(':') else {
            return Err(header_fault(line));
        };
        // Go takes spaces in names, and leaves the spelling of such a name alone.
        let part = |c: char| c.is_ascii_alphanumeric() || " !#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(part) {
            return Err(header_fault(line));
        }
        all.push((canonical(name), value.trim().to_owned()));
    }
    Ok((all, &text[at..]))
}

fn header_fault(line: &str) -> Fault {
    let what = format!("{} is not a MIME header", quoted(line));
    Fault::user_data(
        what,
        "write `Name: value`, and an empty line before the content",
    )
}

/// A header's name with capital letters after hyphens: `content-type` is `Content-Type`.
fn canonical(name: &str) -> String {
    if name.contains(' ') {
        return name.to_owned();
    }
    let mut upper = true;
    name.chars()
        .map(|c| {
            let c = if upper {
                c.to_ascii_uppercase()
            } else {
                c.to_ascii_lowercase()
            };
            upper = c == '-';
            c
        })
        .collect()
}

/// A parameter of a header's value.
fn parameter(value: &str, name: &str) -> Option<String> {
    let (_, parameters) = media_type(value)?;
    let found = parameters.into_iter().find(|(own, _)| own == name);
    found.map(|(_, value)| value)
}

/// Names, in lower case, and values.
type Parameters = Vec<(String, String)>;

/// The media type in lower case, and its parameters. `None` if a parameter has another form than
/// `name=value` or `name="value"`.
fn media_type(value: &str) -> Option<(String, Parameters)> {
    let end = value.find(';').unwrap_or(value.len());
    let (kind, mut rest) = value.split_at(end);
    let (first, second) = kind.trim().split_once('/').unwrap_or((kind.trim(), "x"));
    if [first, second]
        .iter()
        .any(|part| part.is_empty() || token(part).0 != *part)
    {
        return None;
    }
    let mut parameters = Parameters::new();
    while !rest.trim().is_empty() && rest.trim() != ";" {
        let (name, after) = token(rest.trim_start().strip_prefix(';')?.trim_start());
        let name = name.to_ascii_lowercase();
        let value = after.trim_start().strip_prefix('=')?.trim_start();
        let (text, after) = match value.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let (text, after) = token(value);
                (
                    Some(text.to_owned()).filter(|text| !text.is_empty())?,
                    after,
                )
            }
        };
        if name.is_empty() || parameters.iter().any(|(seen, _)| *seen == name) {
            return None;
        }
        parameters.push((name, text));
        rest = after;
    }
    Some((kind.trim().to_ascii_lowercase(), parameters))
}

fn token(text: &str) -> (&str, &str) {
    let part = |c: char| c.is_ascii_graphic() && !"()<>@,;:\\\"/[]?=".contains(c);
    text.split_at(text.find(|c: char| !part(c)).unwrap_or(text.len()))
}

/// A text up to its closing quote, and the rest.
fn unquote(text: &str) -> Option<(String, &str)> {
    let (mut out, mut escaped) = (String::new(), false);
    for (at, c) in text.char_indices() {
        match c {
            '"' if !escaped => return Some((out, &text[at + 1..])),
            '\\' if !escaped => escaped = true,
            c => {
                out.push(c);
                escaped = false;
            }
        }
    }
    None
}
