//! Whether an address could have been made from a template (RFC 6570), so that one knows whom to ask for it.
//!
//! A template becomes a little program, and an address is read once, byte by byte, while all places of the program
//! where it might be are kept. So the time is the product of both lengths at most, whatever a server lists.

/// Longer templates match nothing but themselves.
const LONGEST: usize = 1024;
/// Longer addresses match nothing.
const LONGEST_ADDRESS: usize = 32 * 1024;

/// A template that was read.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    /// What every match begins with.
    start: Box<[u8]>,
    program: Box<[Step]>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// This byte.
    Byte(u8),
    /// Any byte of a value.
    Value(Value),
    /// Goes on here and there.
    Both(usize, usize),
    Go(usize),
    End,
}

/// The bytes that a value may have. Servers are not strict about what has to be encoded, and so this is not either.
#[derive(Clone, Copy, Debug)]
enum Value {
    All,
    Segment,
    Query,
}

impl Value {
    fn has(self, byte: u8) -> bool {
        match self {
            Self::All => true,
            Self::Segment => byte != b'/',
            Self::Query => !matches!(byte, b'&' | b'#'),
        }
    }
}

impl Template {
    /// Reads a template. One that is not well-formed matches what it says, to the letter.
    pub(crate) fn parse(text: &str) -> Self {
        let mut maker = Maker::default();
        if text.len() > LONGEST || maker.template(text).is_none() {
            maker = Maker::default();
            maker.literal(text);
        }
        let is_byte = |step: &&Step| matches!(step, Step::Byte(_));
        let start = maker.program.iter().take_while(is_byte).filter_map(|step| match step {
            Step::Byte(byte) => Some(*byte),
            _ => None,
        });
        let start = start.collect();
        maker.program.push(Step::End);
        Self { start, program: maker.program.into() }
    }

    /// How many bytes every match begins with: the more, the more specific it is.
    pub(crate) fn literal(&self) -> usize {
        self.start.len()
    }

    /// Whether all matches have one scheme (`file:`), which the template says.
    pub(crate) fn has_scheme(&self) -> bool {
        let end = self.start.iter().position(|byte| *byte == b':');
        let scheme = end.and_then(|end| self.start.get(..end)).unwrap_or_default();
        let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        scheme.first().is_some_and(u8::is_ascii_alphabetic) && scheme.iter().all(fits)
    }

    /// Whether some values make this address of the template.
    pub(crate) fn matches(&self, address: &str) -> bool {
        let address = address.as_bytes();
        let Some(rest) = address.strip_prefix(&*self.start) else { return false };
        if address.len() > LONGEST_ADDRESS {
            return false;
        }
        let mut places = Places::new(&self.program);
        let mut next = Places::new(&self.program);
        places.add(self.start.len());
        for byte in rest {
            for &place in &places.list {
                let is_taken = match self.program.get(place) {
                    Some(Step::Byte(wanted)) => wanted == byte,
                    Some(Step::Value(value)) => value.has(*byte),
                    _ => false,
                };
                if is_taken {
                    next.add(place + 1);
                }
            }
            std::mem::swap(&mut places, &mut next);
            next.clear();
            if places.list.is_empty() {
                return false;
            }
        }
        places.list.iter().any(|place| matches!(self.program.get(*place), Some(Step::End)))
    }
}

/// Places of a program, each once.
struct Places<'a> {
    program: &'a [Step],
    list: Vec<usize>,
    is_in: Vec<bool>,
    /// Visited on the way, so that they can be forgotten.
    seen: Vec<usize>,
    ahead: Vec<usize>,
}

impl<'a> Places<'a> {
    fn new(program: &'a [Step]) -> Self {
        let is_in = vec![false; program.len()];
        Self { program, list: Vec::new(), is_in, seen: Vec::new(), ahead: Vec::new() }
    }

    /// Adds a place, or those that it leads to without a byte.
    fn add(&mut self, place: usize) {
        self.ahead.push(place);
        while let Some(place) = self.ahead.pop() {
            let (Some(step), Some(is_in)) = (self.program.get(place), self.is_in.get_mut(place))
            else {
                continue;
            };
            if std::mem::replace(is_in, true) {
                continue;
            }
            self.seen.push(place);
            match *step {
                Step::Both(one, other) => self.ahead.extend([other, one]),
                Step::Go(to) => self.ahead.push(to),
                Step::Byte(_) | Step::Value(_) | Step::End => self.list.push(place),
            }
        }
    }

    fn clear(&mut self) {
        self.list.clear();
        for place in self.seen.drain(..) {
            if let Some(is_in) = self.is_in.get_mut(place) {
                *is_in = false;
            }
        }
    }
}

/// Makes the program of a template.
#[derive(Default)]
struct Maker {
    program: Vec<Step>,
}

/// A variable of an expression.
#[derive(Clone, Copy)]
struct Variable<'a> {
    name: &'a str,
    /// `*`: a list, or names with values.
    is_many: bool,
}

impl Maker {
    fn template(&mut self, text: &str) -> Option<()> {
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (expression, after) = after.split_once('}')?;
            self.outside(before)?;
            self.expression(expression)?;
            rest = after;
        }
        self.outside(rest)
    }

    fn outside(&mut self, text: &str) -> Option<()> {
        self.literal(text);
        (!text.contains('}')).then_some(())
    }

    fn literal(&mut self, text: &str) {
        self.program.extend(text.bytes().map(Step::Byte));
    }

    fn expression(&mut self, text: &str) -> Option<()> {
        let operator = text.chars().next().filter(|c| "+#./;?&".contains(*c));
        let names = text.get(operator.map_or(0, char::len_utf8)..)?;
        let variables: Vec<_> = names.split(',').map(variable).collect::<Option<_>>()?;
        let is_many = variables.iter().any(|variable| variable.is_many);
        match operator {
            // Some servers take `{path*}` for all that is left of a path.
            None => self.at_least_once(if is_many { Value::All } else { Value::Segment }),
            Some('+') => self.any_number(Value::All),
            Some('#') => self.perhaps(|maker| {
                maker.literal("#");
                maker.any_number(Value::All);
            }),
            Some('.') => self.perhaps(|maker| {
                maker.literal(".");
                maker.any_number(Value::Segment);
            }),
            Some('/') if is_many => self.again_and_again(Self::segment),
            Some('/') => variables.iter().for_each(|_| self.perhaps(Self::segment)),
            Some(';') => self.again_and_again(|maker| {
                maker.literal(";");
                maker.pair(&variables, Value::Segment);
            }),
            Some('&') => self.again_and_again(|maker| {
                maker.literal("&");
                maker.pair(&variables, Value::Query);
            }),
            Some(_) => self.perhaps(|maker| {
                maker.literal("?");
                maker.pair(&variables, Value::Query);
                maker.again_and_again(|maker| {
                    maker.literal("&");
                    maker.pair(&variables, Value::Query);
                });
            }),
        }
        Some(())
    }

    fn segment(&mut self) {
        self.literal("/");
        self.any_number(Value::Segment);
    }

    /// The name of one of the variables, and perhaps a value. Those of a list have names of their own.
    fn pair(&mut self, variables: &[Variable<'_>], value: Value) {
        if variables.iter().any(|variable| variable.is_many) {
            return self.any_number(value);
        }
        let mut ends = Vec::new();
        for variable in variables {
            let fork = self.hold();
            self.literal(variable.name);
            ends.push(self.hold());
            self.put(fork, Step::Both(fork + 1, self.program.len()));
        }
        // None of the names: nothing goes on from here.
        let dead = self.hold();
        self.put(dead, Step::Go(dead));
        let after = self.program.len();
        for end in ends {
            self.put(end, Step::Go(after));
        }
        self.perhaps(|maker| {
            maker.literal("=");
            maker.any_number(value);
        });
    }

    fn at_least_once(&mut self, value: Value) {
        self.program.push(Step::Value(value));
        self.any_number(value);
    }

    fn any_number(&mut self, value: Value) {
        self.again_and_again(|maker| maker.program.push(Step::Value(value)));
    }

    fn again_and_again(&mut self, what: impl FnOnce(&mut Self)) {
        let fork = self.hold();
        what(self);
        self.program.push(Step::Go(fork));
        self.put(fork, Step::Both(fork + 1, self.program.len()));
    }

    fn perhaps(&mut self, what: impl FnOnce(&mut Self)) {
        let fork = self.hold();
        what(self);
        self.put(fork, Step::Both(fork + 1, self.program.len()));
    }

    /// A place for a step that is not known yet.
    fn hold(&mut self) -> usize {
        self.program.push(Step::End);
        self.program.len() - 1
    }

    fn put(&mut self, place: usize, step: Step) {
        if let Some(held) = self.program.get_mut(place) {
            *held = step;
        }
    }
}

/// `name`, `name*` or `name:3`.
fn variable(text: &str) -> Option<Variable<'_>> {
    let (name, is_many) = match text.strip_suffix('*') {
        Some(name) => (name, true),
        None => (text, false),
    };
    // How long a value may be is its server's business.
    let name = match name.split_once(':') {
        Some((name, length)) if !is_many => {
            let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then_some(name)?
        }
        _ => name,
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.%-".contains(&byte);
    let is_name = !name.is_empty() && name.bytes().all(is_plain);
    is_name.then_some(Variable { name, is_many })
}

#[cfg(test)]
mod tests;
