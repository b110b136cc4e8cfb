//! HTTP without a socket.

/// A request of HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `POST`.
    pub method: String,
    /// The path, still percent-encoded, without the query.
    pub path: String,
    /// What follows the question mark.
    pub query: String,
    /// Names in any case, and values.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// The first header of a name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let named = |(own, _): &&(String, String)| own.eq_ignore_ascii_case(name);
        self.headers.iter().find(named).map(|(_, value)| &**value)
    }

    /// The body as text, with replacement characters for what is not UTF-8.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }
}

/// A reply of HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    /// A reply with a body of this type.
    pub fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Reply {
            status,
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            body: body.into(),
        }
    }

    /// The first header of a name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let named = |(own, _): &&(String, String)| own == name;
        self.headers.iter().find(named).map(|(_, value)| &**value)
    }

    /// The body as text.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}
