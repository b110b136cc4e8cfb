//! XML replies as a tree.

use std::borrow::Cow;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};

/// An element.
#[derive(Clone, Debug, PartialEq)]
pub struct Xml {
    name: Cow<'static, str>,
    content: Content,
}

#[derive(Clone, Debug, PartialEq)]
enum Content {
    Text(String),
    Elements(Vec<Xml>),
}

/// An element with elements in it.
pub fn element(name: impl Into<Cow<'static, str>>, inside: impl IntoIterator<Item = Xml>) -> Xml {
    Xml {
        name: name.into(),
        content: Content::Elements(inside.into_iter().collect()),
    }
}

/// An element with text in it.
pub fn text(name: impl Into<Cow<'static, str>>, value: impl ToString) -> Xml {
    Xml {
        name: name.into(),
        content: Content::Text(value.to_string()),
    }
}

/// An element with `true` or `false`.
pub fn flag(name: &'static str, value: bool) -> Xml {
    text(name, value)
}

/// A list of EC2: an element with an `item` for each entry.
pub fn items(
    name: impl Into<Cow<'static, str>>,
    entries: impl IntoIterator<Item = Vec<Xml>>,
) -> Xml {
    element(
        name,
        entries.into_iter().map(|entry| element("item", entry)),
    )
}

/// A document with one element on top, in a namespace unless that is empty.
pub fn document(root: &Xml, namespace: &str) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    // Writing into memory does not fail.
    let _ = writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)));
    let _ = writer.write_event(Event::Text(BytesText::from_escaped("\n")));
    let _ = write(
        &mut writer,
        root,
        Some(namespace).filter(|name| !name.is_empty()),
    );
    writer.into_inner()
}

fn write(writer: &mut Writer<Vec<u8>>, xml: &Xml, namespace: Option<&str>) -> std::io::Result<()> {
    let mut start = BytesStart::new(&*xml.name);
    start.extend_attributes(namespace.map(|namespace| ("xmlns", namespace)));
    match &xml.content {
        Content::Elements(inside) if inside.is_empty() => {
            return writer.write_event(Event::Empty(start));
        }
        Content::Elements(inside) => {
            writer.write_event(Event::Start(start))?;
            for one in inside {
                write(writer, one, None)?;
            }
        }
        Content::Text(value) => {
            writer.write_event(Event::Start(start))?;
            let value: String = value.chars().filter(|c| allowed(*c)).collect();
            writer.write_event(Event::Text(BytesText::new(&value)))?;
        }
    }
    writer.write_event(Event::End(BytesEnd::new(&*xml.name)))
}

/// XML 1.0 has no place for most control characters, escaped or not.
fn allowed(c: char) -> bool {
    !c.is_control() || matches!(c, '\t' | '\n' | '\r') || c >= '\u{7f}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_empty_elements_are_short() {
        let list = items("tagSet", [vec![text("key", "a<b>&\"c\"\u{1}")], vec![]]);
        let root = element("Answer", [flag("return", true), list, element("none", [])]);
        assert_eq!(
            String::from_utf8(document(&root, "http://x/")).unwrap(),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Answer xmlns=\"http://x/\">\
             <return>true</return><tagSet><item><key>a&lt;b&gt;&amp;&quot;c&quot;</key></item>\
             <item/></tagSet><none/></Answer>"
        );
    }
}
