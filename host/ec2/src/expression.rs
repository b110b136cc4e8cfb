//! Expressions in `spec.kubelet` (gate NodeClassCEL): how many pods a node takes and what it
//! reserves, by instance type.
//!
//! The language is the part of CEL that computes a number: integers, doubles, texts and booleans
//! with their operators, `? :`, `in` with a list, `int`, `double`, `min`, `max`, `size`,
//! `startsWith`, `endsWith` and `contains`. Types are checked when an expression is compiled, as
//! cel-go checks them: integers and doubles mix in `min` and `max` alone.
//!
//! Words and grammar are those of `longshore-expression`. Parts of CEL that are missing are refused by
//! name: macros, maps, unsigned integers, bytes, times and `matches`.

mod evaluate;
mod parse;

pub use evaluate::Failed;
pub use longshore_expression::Refused;

use parse::Node;

/// A compiled expression: a number for each instance type.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    text: Box<str>,
    node: Node,
}

/// What an expression may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variables<'a> {
    /// `vcpus`: the default number of vCPUs.
    pub vcpus: i64,
    /// `memory_mib`: memory as EC2 describes it.
    pub memory_mib: i64,
    /// `default_enis`: most network interfaces on the default card.
    pub default_enis: i64,
    /// `ips_per_eni`: IPv4 addresses of an interface.
    pub ips_per_eni: i64,
    /// `max_pods`: in `maxPods` what the node would take by default, elsewhere what it takes.
    pub max_pods: i64,
    /// `instance_type`: the type's name.
    pub instance_type: &'a str,
}

impl Expression {
    /// Compiles a text: its form, its names and its types are right, and it gives a number.
    ///
    /// # Errors
    /// The first fault, with its column.
    pub fn compile(text: &str) -> Result<Self, Refused> {
        Ok(Self {
            node: parse::parse(text)?,
            text: text.into(),
        })
    }

    /// The number for an instance type. What is behind the point of a double is cut off.
    ///
    /// # Errors
    /// A division by zero, a number beyond 64 bits, or a double that is no number.
    pub fn evaluate(&self, variables: &Variables<'_>) -> Result<i64, Failed> {
        evaluate::number(&self.node, variables)
    }

    /// The text that was compiled.
    pub fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests;
