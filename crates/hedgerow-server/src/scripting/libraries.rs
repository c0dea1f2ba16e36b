//! Libraries of functions, and the first line of a script.

use mlua::{Function, MultiValue, Table, Value};

/// The flags of a script or a function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Flags(Vec<&'static str>);

const FLAGS: [&str; 5] = [
    "no-writes",
    "allow-oom",
    "allow-stale",
    "no-cluster",
    "allow-cross-slot-keys",
];

impl Flags {
    fn add(&mut self, name: &str) -> bool {
        let known = FLAGS.iter().find(|it| **it == name);
        self.0.extend(known);
        known.is_some()
    }

    pub(crate) fn only_reads(&self) -> bool {
        self.0.contains(&"no-writes")
    }

    pub(crate) fn names(&self) -> &[&'static str] {
        &self.0
    }
}

/// The first line of a script or a library: `#!lua name=NAME flags=FLAG,FLAG`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shebang {
    pub(crate) flags: Flags,
    name: Option<String>,
}

impl Shebang {
    /// The first line if it names a language, and the text without it.
    fn of(text: &[u8]) -> Option<(Vec<String>, Vec<u8>)> {
        if !text.starts_with(b"#!") {
            return None;
        }
        let end = text
            .iter()
            .position(|it| *it == b'\n')
            .unwrap_or(text.len());
        let line = String::from_utf8_lossy(&text[2..end]).into_owned();
        let mut words = vec![line.split(' ').next().unwrap_or("").to_owned()];
        let options = line[words[0].len()..].split_whitespace();
        words.extend(options.map(|it| it.replace(['"', '\''], "")));
        // The end of the line stays, so that lines count as before.
        Some((words, text[end..].to_vec()))
    }

    pub(super) fn of_script(text: &[u8]) -> Result<(Option<Shebang>, Vec<u8>), String> {
        let Some((words, body)) = Shebang::of(text) else {
            return Ok((None, text.to_vec()));
        };
        let mut shebang = Shebang::default();
        let (engine, options) = words
            .split_first()
            .map_or(("", &[][..]), |(first, rest)| (first, rest));
        if engine != "lua" {
            return Err(format!("ERR Unexpected engine in script shebang: {engine}"));
        }
        for option in options {
            let Some(flags) = option.strip_prefix("flags=") else {
                return Err(format!("ERR Unknown lua shebang option: {option}"));
            };
            for flag in flags.split(',').filter(|it| !it.is_empty()) {
                if !shebang.flags.add(flag) {
                    return Err(format!("ERR Unexpected flag in script shebang: {flag}"));
                }
            }
        }
        Ok((Some(shebang), body))
    }

    fn of_library(text: &[u8]) -> Result<(Shebang, Vec<u8>), String> {
        let (words, body) = Shebang::of(text).ok_or("ERR Missing library metadata")?;
        let mut shebang = Shebang::default();
        let (engine, options) = words
            .split_first()
            .map_or(("", &[][..]), |(first, rest)| (first, rest));
        if !engine.eq_ignore_ascii_case("lua") {
            return Err(format!("ERR Engine '{engine}' not found"));
        }
        for option in options {
            match option.split_once('=') {
                Some((key, name)) if key.eq_ignore_ascii_case("name") => {
                    if shebang.name.is_some() {
                        return Err(
                            "ERR Invalid metadata value, name argument was given multiple times"
                                .to_owned(),
                        );
                    }
                    shebang.name = Some(name.to_owned());
                }
                _ => return Err(format!("ERR Invalid metadata value given: {option}")),
            }
        }
        Ok((shebang, body))
    }
}

/// A library of functions.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) name: String,
    /// As it was loaded.
    pub(crate) source: Vec<u8>,
    /// Without the first line.
    pub(crate) text: Vec<u8>,
    pub(crate) functions: Vec<Registered>,
}

/// A function of a library.
#[derive(Debug, Clone)]
pub(crate) struct Registered {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) flags: Flags,
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || it == b'_')
}

impl Library {
    /// Reads the first line of a library. Its functions are not known yet.
    pub(crate) fn parse(source: &[u8]) -> Result<Library, String> {
        let (shebang, text) = Shebang::of_library(source)?;
        let name = shebang.name.ok_or("ERR Library name was not given")?;
        if !is_name(&name) {
            return Err("ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long".to_owned());
        }
        Ok(Library {
            name,
            source: source.to_vec(),
            text,
            functions: Vec::new(),
        })
    }
}

/// The arguments of `redis.register_function`: a name and a function, or a table of both and more.
pub(super) fn registered(args: &MultiValue) -> Result<(Registered, Function), String> {
    let (registered, run) = match args.iter().collect::<Vec<_>>()[..] {
        [Value::Table(table)] => of_table(table)?,
        [_] => {
            return Err("calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).".to_owned());
        }
        [name, run] => of_pair(name, run)?,
        _ => return Err("wrong number of arguments to redis.register_function".to_owned()),
    };
    if !is_name(&registered.name) {
        return Err("Library names can only contain letters, numbers, or underscores(_) and must be at least one character long".to_owned());
    }
    Ok((registered, run))
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.to_string_lossy().to_string()),
        _ => None,
    }
}

fn of_pair(name: &Value, run: &Value) -> Result<(Registered, Function), String> {
    let name = text(name).ok_or("first argument to redis.register_function must be a string")?;
    let Value::Function(run) = run else {
        return Err("second argument to redis.register_function must be a function".to_owned());
    };
    let registered = Registered {
        name,
        description: None,
        flags: Flags::default(),
    };
    Ok((registered, run.clone()))
}

fn of_table(table: &Table) -> Result<(Registered, Function), String> {
    let (mut name, mut run, mut description, mut flags) = (None, None, None, Flags::default());
    let mut wrong = None;
    let walked = table.for_each(|key: Value, value: Value| {
        match (text(&key).as_deref(), &value) {
            (Some("function_name"), Value::String(_)) => name = text(&value),
            (Some("function_name"), _) => {
                wrong = Some("function_name argument given to redis.register_function must be a string");
            }
            (Some("description"), Value::String(_)) => description = text(&value),
            (Some("description"), _) => {
                wrong = Some("description argument given to redis.register_function must be a string");
            }
            (Some("callback"), Value::Function(function)) => run = Some(function.clone()),
            (Some("callback"), _) => {
                wrong = Some("callback argument given to redis.register_function must be a function");
            }
            (Some("flags"), Value::Table(names)) => {
                for flag in names.sequence_values::<Value>() {
                    let flag = text(&flag?);
                    if !flag.is_some_and(|flag| flags.add(&flag)) {
                        wrong = Some("unknown flag given");
                    }
                }
            }
            (Some("flags"), _) => {
                wrong = Some("flags argument to redis.register_function must be a table representing function flags");
            }
            (Some(_), _) => wrong = Some("unknown argument given to redis.register_function"),
            (None, _) => {
                wrong = Some("named argument key given to redis.register_function is not a string");
            }
        }
        Ok(())
    });
    walked.map_err(|error| error.to_string())?;
    if let Some(wrong) = wrong {
        return Err(wrong.to_owned());
    }
    let registered = Registered {
        name: name.ok_or("redis.register_function must get a function name argument")?,
        description,
        flags,
    };
    let run = run.ok_or("redis.register_function must get a callback argument")?;
    Ok((registered, run))
}
