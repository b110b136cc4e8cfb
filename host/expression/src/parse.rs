//! The grammar: which part of a text belongs to which operator, in the order in which it is read.

use crate::tokens::{Token, Word, tokens};
use crate::{MAX_BYTES, Refused};

/// Most levels of brackets, choices and signs within each other.
const MAX_LEVELS: usize = 48;

/// A value that the text itself has.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// A whole number, such as `7`.
    Int(i64),
    /// A number with a point or an exponent, such as `0.5`.
    Double(f64),
    /// `true` or `false`.
    Bool(bool),
    /// A text in quotes.
    Text(String),
}

/// An operator from numbers to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Remainder,
}

/// An operator that compares two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
}

/// An operator from conditions to a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logical {
    /// `&&`
    And,
    /// `||`
    Or,
}

/// What the parts of an expression mean. Each is asked for as soon as it is read, so that the first
/// fault of a text is the one that is reported. `at` is a byte of the text.
pub trait Language {
    /// A part of an expression, with its type.
    type Part;

    /// Whether a part may be followed by a key in brackets.
    const HAS_KEYS: bool = false;

    /// A value that the text itself has.
    ///
    /// # Errors
    /// It means nothing there.
    fn literal(&mut self, at: usize, literal: Literal) -> Result<Self::Part, Refused>;

    /// A name alone, such as `price`.
    ///
    /// # Errors
    /// Nothing is called so.
    fn name(&mut self, at: usize, name: &str) -> Result<Self::Part, Refused>;

    /// `name(arguments)`.
    fn function(
        &mut self,
        at: usize,
        name: &str,
        arguments: Vec<Self::Part>,
    ) -> Result<Self::Part, Refused>;

    /// `of.name(arguments)`; `at` is where the name begins.
    fn method(
        &mut self,
        at: usize,
        name: &str,
        of: Self::Part,
        arguments: Vec<Self::Part>,
    ) -> Result<Self::Part, Refused>;

    /// `of.name`; `at` is where the name begins.
    fn field(&mut self, at: usize, of: Self::Part, name: &str) -> Result<Self::Part, Refused>;

    /// `of[key]`, if there are keys; `at` is where the key begins.
    fn key(&mut self, at: usize, of: Self::Part, key: Self::Part) -> Result<Self::Part, Refused>;

    /// Takes what begins at `at` if it is a boolean.
    fn condition(&mut self, at: usize, part: Self::Part) -> Result<Self::Part, Refused>;

    /// `condition ? first : second`; `at` is where the second begins.
    fn choice(
        &mut self,
        at: usize,
        condition: Self::Part,
        first: Self::Part,
        second: Self::Part,
    ) -> Result<Self::Part, Refused>;

    /// Two conditions.
    fn logical(&mut self, operator: Logical, left: Self::Part, right: Self::Part) -> Self::Part;

    /// Not a condition.
    fn not(&mut self, operand: Self::Part) -> Self::Part;

    /// `-operand`; `at` is where the sign is.
    fn negate(&mut self, at: usize, operand: Self::Part) -> Result<Self::Part, Refused>;

    /// `at` is where the operator is.
    fn arithmetic(
        &mut self,
        at: usize,
        operator: Arithmetic,
        left: Self::Part,
        right: Self::Part,
    ) -> Result<Self::Part, Refused>;

    /// `at` is where the operator is.
    fn compare(
        &mut self,
        at: usize,
        comparison: Comparison,
        left: Self::Part,
        right: Self::Part,
    ) -> Result<Self::Part, Refused>;

    /// Takes an item, which begins at `at`, if it can be in a list that `member` is looked for in.
    fn item(
        &mut self,
        at: usize,
        member: &Self::Part,
        item: Self::Part,
    ) -> Result<Self::Part, Refused>;

    /// `member in [items]`; `at` is where `in` is.
    fn member(
        &mut self,
        at: usize,
        member: Self::Part,
        items: Vec<Self::Part>,
    ) -> Result<Self::Part, Refused>;
}

/// Parses a whole text.
///
/// # Errors
/// The first fault, with its column: of the text's form, or of what the language makes of a part.
pub fn parse<L: Language>(text: &str, language: &mut L) -> Result<L::Part, Refused> {
    if text.len() > MAX_BYTES {
        let what = format!("has {} bytes", text.len());
        return Err(Refused::at(text, 0, what, "write at most 4096"));
    }
    let mut parser = Parser {
        text,
        tokens: tokens(text)?,
        next: 0,
        levels: 0,
        language,
    };
    let part = parser.choice()?;
    match parser.peek().word {
        Word::End => Ok(part),
        _ => Err(parser.refuse(
            "the expression ended before this",
            "join it with an operator",
        )),
    }
}

struct Parser<'a, L> {
    text: &'a str,
    tokens: Vec<Token>,
    next: usize,
    levels: usize,
    language: &'a mut L,
}

impl<L: Language> Parser<'_, L> {
    /// The next token. After the end there is the end again.
    fn peek(&self) -> &Token {
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    fn at_sign(&self, sign: &str) -> bool {
        matches!(self.peek().word, Word::Sign(found) if found == sign)
    }

    fn skip(&mut self, sign: &str) -> bool {
        let there = self.at_sign(sign);
        self.next += usize::from(there);
        there
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), Refused> {
        match self.skip(sign) {
            true => Ok(()),
            false => Err(self.refuse(format!("expected `{sign}`"), "add it")),
        }
    }

    fn refuse(&self, what: impl Into<String>, hint: &'static str) -> Refused {
        Refused::at(self.text, self.peek().at, what, hint)
    }

    fn refuse_at(&self, at: usize, what: impl Into<String>, hint: &'static str) -> Refused {
        Refused::at(self.text, at, what, hint)
    }

    /// Runs `part` one level deeper.
    fn deeper<T>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        if self.levels == MAX_LEVELS {
            return Err(self.refuse("is nested too deeply", "nest at most 48 levels"));
        }
        self.levels += 1;
        let result = part(self);
        self.levels -= 1;
        result
    }

    fn choice(&mut self) -> Result<L::Part, Refused> {
        self.deeper(|this| {
            let at = this.peek().at;
            let condition = this.or()?;
            if !this.skip("?") {
                return Ok(condition);
            }
            let condition = this.language.condition(at, condition)?;
            let first = this.or()?;
            this.expect(":")?;
            let at = this.peek().at;
            let second = this.choice()?;
            this.language.choice(at, condition, first, second)
        })
    }

    fn or(&mut self) -> Result<L::Part, Refused> {
        self.logical("||", Self::and, Logical::Or)
    }

    fn and(&mut self) -> Result<L::Part, Refused> {
        self.logical("&&", Self::comparison, Logical::And)
    }

    fn logical(
        &mut self,
        sign: &str,
        part: fn(&mut Self) -> Result<L::Part, Refused>,
        operator: Logical,
    ) -> Result<L::Part, Refused> {
        let at = self.peek().at;
        let mut left = part(self)?;
        while self.skip(sign) {
            let first = self.language.condition(at, left)?;
            let at = self.peek().at;
            let right = part(self)?;
            let second = self.language.condition(at, right)?;
            left = self.language.logical(operator, first, second);
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Result<L::Part, Refused> {
        let mut left = self.sum()?;
        loop {
            let at = self.peek().at;
            let comparison = match &self.peek().word {
                Word::Sign("<") => Comparison::Less,
                Word::Sign("<=") => Comparison::LessOrEqual,
                Word::Sign(">") => Comparison::Greater,
                Word::Sign(">=") => Comparison::GreaterOrEqual,
                Word::Sign("==") => Comparison::Equal,
                Word::Sign("!=") => Comparison::NotEqual,
                Word::Name(name) if name == "in" => {
                    self.next += 1;
                    left = self.list(at, left)?;
                    continue;
                }
                _ => return Ok(left),
            };
            self.next += 1;
            let right = self.sum()?;
            left = self.language.compare(at, comparison, left, right)?;
        }
    }

    /// The list after `in`.
    fn list(&mut self, at: usize, member: L::Part) -> Result<L::Part, Refused> {
        if !self.skip("[") {
            return Err(self.refuse(
                "expected a list",
                "write it like [\"m5.large\", \"c5.large\"]",
            ));
        }
        let mut items = Vec::new();
        while !self.skip("]") {
            if !items.is_empty() {
                self.expect(",")?;
                // A comma may be last.
                if self.skip("]") {
                    break;
                }
            }
            let at = self.peek().at;
            let item = self.choice()?;
            items.push(self.language.item(at, &member, item)?);
        }
        self.language.member(at, member, items)
    }

    fn sum(&mut self) -> Result<L::Part, Refused> {
        let signs = [("+", Arithmetic::Add), ("-", Arithmetic::Subtract)];
        self.arithmetic(&signs, Self::product)
    }

    fn product(&mut self) -> Result<L::Part, Refused> {
        let signs = [
            ("*", Arithmetic::Multiply),
            ("/", Arithmetic::Divide),
            ("%", Arithmetic::Remainder),
        ];
        self.arithmetic(&signs, Self::signed)
    }

    fn arithmetic(
        &mut self,
        signs: &[(&str, Arithmetic)],
        part: fn(&mut Self) -> Result<L::Part, Refused>,
    ) -> Result<L::Part, Refused> {
        let mut left = part(self)?;
        loop {
            let at = self.peek().at;
            let Some((_, operator)) = signs.iter().find(|(sign, _)| self.at_sign(sign)) else {
                return Ok(left);
            };
            self.next += 1;
            let right = part(self)?;
            left = self.language.arithmetic(at, *operator, left, right)?;
        }
    }

    fn signed(&mut self) -> Result<L::Part, Refused> {
        let at = self.peek().at;
        if self.skip("!") {
            let operand = self.deeper(Self::signed)?;
            let operand = self.language.condition(at, operand)?;
            return Ok(self.language.not(operand));
        }
        if !self.skip("-") {
            return self.member();
        }
        if let Word::Int(number) = self.peek().word {
            self.next += 1;
            return match 0_i64.checked_sub_unsigned(number) {
                Some(number) => self.language.literal(at, Literal::Int(number)),
                None => Err(self.refuse_at(at, "is beyond 64 bits", "write a smaller number")),
            };
        }
        let operand = self.deeper(Self::signed)?;
        self.language.negate(at, operand)
    }

    fn member(&mut self) -> Result<L::Part, Refused> {
        let mut value = self.primary()?;
        loop {
            if L::HAS_KEYS && self.skip("[") {
                let at = self.peek().at;
                let key = self.choice()?;
                self.expect("]")?;
                value = self.language.key(at, value, key)?;
                continue;
            }
            if !self.skip(".") {
                return Ok(value);
            }
            let token = self.take();
            let Word::Name(name) = &token.word else {
                return Err(self.refuse_at(token.at, "expected a name", "name a function"));
            };
            value = match self.skip("(") {
                false => self.language.field(token.at, value, name)?,
                true => {
                    let arguments = self.arguments()?;
                    self.language.method(token.at, name, value, arguments)?
                }
            };
        }
    }

    fn arguments(&mut self) -> Result<Vec<L::Part>, Refused> {
        let mut all = Vec::new();
        while !self.skip(")") {
            if !all.is_empty() {
                self.expect(",")?;
            }
            all.push(self.choice()?);
        }
        Ok(all)
    }

    fn primary(&mut self) -> Result<L::Part, Refused> {
        let Token { at, word } = self.take();
        match word {
            Word::Int(number) => match i64::try_from(number) {
                Ok(number) => self.language.literal(at, Literal::Int(number)),
                Err(_) => Err(self.refuse_at(at, "is beyond 64 bits", "write a smaller number")),
            },
            Word::Double(number) => self.language.literal(at, Literal::Double(number)),
            Word::Text(text) => self.language.literal(at, Literal::Text(text)),
            Word::Sign("(") => {
                let inner = self.choice()?;
                self.expect(")")?;
                Ok(inner)
            }
            Word::Name(name) if self.skip("(") => {
                let arguments = self.arguments()?;
                self.language.function(at, &name, arguments)
            }
            Word::Name(name) if name == "true" || name == "false" => {
                self.language.literal(at, Literal::Bool(name == "true"))
            }
            Word::Name(name) => self.language.name(at, &name),
            Word::End => Err(self.refuse_at(at, "the expression ends too early", "add a value")),
            Word::Sign(sign) => {
                let what = format!("expected a value and not `{sign}`");
                Err(self.refuse_at(at, what, "add a value before it"))
            }
        }
    }
}
