//! Reads as much of a `Cargo.toml` as the checks need, into a flat list of `path = value`.
//!
//! Tables, sub-tables, arrays of tables, dotted and quoted keys, inline tables, arrays over several
//! lines and comments are understood; multi-line strings are not, as no manifest here has one. A TOML
//! crate would do more, and be the only thing `xtask` waits for when it builds.

/// The table of a dependency, whichever target it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Build,
    Dev,
}

/// A dependency as its own manifest declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) kind: Kind,
    /// The name on the left of `=`.
    pub(crate) name: String,
    /// The package's name where `package = "…"` says another one.
    pub(crate) renamed_from: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Manifest {
    entries: Vec<Entry>,
}

/// `[a.b]` with `c.d = 1` in it is `(["a", "b", "c", "d"], "1")`.
#[derive(Debug)]
struct Entry {
    path: Vec<String>,
    value: String,
}

impl Manifest {
    pub(crate) fn parse(text: &str) -> Self {
        let mut entries = Vec::new();
        let mut table = Vec::new();
        for statement in statements(text) {
            if let Some(header) = statement.strip_prefix('[') {
                table = keys(header.trim_start_matches('[').trim_end_matches(']'));
            } else if let Some((key, value)) = split_outside(&statement, '=') {
                insert(&mut entries, &table, key, value);
            }
        }
        Self { entries }
    }

    /// The string at `path`, without its quotes; or `true`, `1`, `[…]` as it is written.
    pub(crate) fn value(&self, path: &[&str]) -> Option<&str> {
        self.values(path).next()
    }

    /// As `value`, for what may occur more than once: keys of an array of tables.
    pub(crate) fn values(&self, path: &[&str]) -> impl Iterator<Item = &str> {
        self.entries
            .iter()
            .filter(move |entry| entry.path == path)
            .map(|entry| unquoted(&entry.value))
    }

    /// The strings of the array at `path`.
    pub(crate) fn strings(&self, path: &[&str]) -> Vec<&str> {
        let array = self.value(path).unwrap_or_default();
        let inner = array.trim_start_matches('[').trim_end_matches(']');
        pieces(inner, ',').into_iter().map(unquoted).collect()
    }

    /// The keys in a table.
    pub(crate) fn keys<'a>(&'a self, table: &'a str) -> impl Iterator<Item = &'a str> {
        self.entries
            .iter()
            .filter_map(move |entry| match &entry.path[..] {
                [in_table, key] if in_table == table => Some(key.as_str()),
                _ => None,
            })
    }

    /// All dependencies, optional ones and those of one target included.
    pub(crate) fn dependencies(&self) -> Vec<Dependency> {
        let mut found: Vec<Dependency> = Vec::new();
        for entry in &self.entries {
            let mut path = entry.path.iter().map(String::as_str);
            let mut table = path.next();
            if table == Some("target") {
                table = path.nth(1); // behind the target's name
            }
            let kind = match table {
                Some("dependencies") => Kind::Normal,
                Some("build-dependencies") => Kind::Build,
                Some("dev-dependencies") => Kind::Dev,
                _ => continue,
            };
            let Some(name) = path.next() else { continue };
            let package =
                (path.next() == Some("package")).then(|| unquoted(&entry.value).to_owned());
            match found
                .iter_mut()
                .find(|known| known.kind == kind && known.name == name)
            {
                Some(known) => known.renamed_from = known.renamed_from.take().or(package),
                None => found.push(Dependency {
                    kind,
                    name: name.to_owned(),
                    renamed_from: package,
                }),
            }
        }
        found
    }
}

/// Adds `key = value`, an inline table as the entries it stands for.
fn insert(entries: &mut Vec<Entry>, table: &[String], key: &str, value: &str) {
    let mut path = table.to_vec();
    path.extend(keys(key));
    let value = value.trim();
    let Some(inner) = value
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
    else {
        entries.push(Entry {
            path,
            value: value.to_owned(),
        });
        return;
    };
    for piece in pieces(inner, ',') {
        if let Some((key, value)) = split_outside(piece, '=') {
            insert(entries, &path, key, value);
        }
    }
}

/// Headers and `key = value`, each in one piece: without comments, and on one line where brackets
/// went over several.
fn statements(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut statement = String::new();
    for line in text.lines() {
        let code = split_outside_any_depth(line, '#').map_or(line, |(code, _comment)| code);
        statement.push_str(code.trim());
        if depth(&statement) == 0 {
            if !statement.is_empty() {
                found.push(std::mem::take(&mut statement));
            }
        } else {
            statement.push(' ');
        }
    }
    found
}

/// `a."b c".d` as its three names.
fn keys(dotted: &str) -> Vec<String> {
    pieces(dotted, '.')
        .into_iter()
        .map(|key| unquoted(key).to_owned())
        .collect()
}

/// The non-empty pieces between separators that are not in a string or in brackets.
fn pieces(mut text: &str, separator: char) -> Vec<&str> {
    let mut found = Vec::new();
    while let Some((piece, rest)) = split_outside(text, separator) {
        found.push(piece);
        text = rest;
    }
    found.push(text);
    found
        .into_iter()
        .map(str::trim)
        .filter(|piece| !piece.is_empty())
        .collect()
}

fn split_outside(text: &str, separator: char) -> Option<(&str, &str)> {
    let found = scan(text).find(|at| at.character == separator && at.depth == 0)?;
    Some((
        &text[..found.offset],
        &text[found.offset + separator.len_utf8()..],
    ))
}

fn split_outside_any_depth(text: &str, separator: char) -> Option<(&str, &str)> {
    let found = scan(text).find(|at| at.character == separator)?;
    Some((
        &text[..found.offset],
        &text[found.offset + separator.len_utf8()..],
    ))
}

/// How many brackets are open at the end of `text`.
fn depth(text: &str) -> usize {
    scan(text).last().map_or(0, |at| match at.character {
        '[' | '{' => at.depth + 1,
        _ => at.depth,
    })
}

struct At {
    offset: usize,
    character: char,
    /// Brackets around this character; one that opens or closes is outside of itself.
    depth: usize,
}

/// The characters of `text` that are not in a string.
fn scan(text: &str) -> impl Iterator<Item = At> {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut escaped = false;
    text.char_indices().filter_map(move |(offset, character)| {
        if let Some(open) = quote {
            if escaped {
                escaped = false;
            } else if character == '\\' && open == '"' {
                escaped = true;
            } else if character == open {
                quote = None;
            }
            return None;
        }
        match character {
            '"' | '\'' => quote = Some(character),
            ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let at = At {
            offset,
            character,
            depth,
        };
        if matches!(character, '[' | '{') {
            depth += 1;
        }
        Some(at)
    })
}

fn unquoted(value: &str) -> &str {
    value.trim().trim_matches(['"', '\''])
}

#[cfg(test)]
mod tests {
    use super::{Dependency, Kind, Manifest};

    fn dependencies(text: &str) -> Vec<(Kind, String)> {
        let all = Manifest::parse(text).dependencies();
        all.into_iter()
            .map(|dependency| (dependency.kind, dependency.name))
            .collect()
    }

    #[test]
    fn every_way_to_write_a_dependency_is_read() {
        let text = r#"
            [package]
            name = "x" # not a dependency
            description = "a # in a string, = too, and a \" that [ does not end it"
            [dependencies]
            dotted.workspace = true
            plain = "1.0"
            inline = { version = "1", features = [
                "a", # a comment in an array, with ]
                "b",
            ] }
            "quoted" = "1"
            [dependencies.table]
            version = "1"
            features = ["a"]
            [target.'cfg(unix)'.dependencies]
            on_unix = "1"
            [target."cfg(windows)".build-dependencies]
            on_windows = { version = "1" }
            [dev-dependencies]
            tested = "1"
            [lints]
            workspace = true
        "#;
        let normal = ["dotted", "plain", "inline", "quoted", "table", "on_unix"];
        let mut expected: Vec<_> = normal.map(|name| (Kind::Normal, name.to_owned())).into();
        expected.push((Kind::Build, "on_windows".to_owned()));
        expected.push((Kind::Dev, "tested".to_owned()));
        assert_eq!(dependencies(text), expected);
    }

    #[test]
    fn a_renamed_dependency_keeps_its_real_name() {
        for text in [
            "[dependencies]\nalias = { version = \"1\", package = \"real\" }",
            "[dependencies.alias]\nversion = \"1\"\npackage = \"real\"",
            "dependencies = { alias = { version = \"1\", package = \"real\" } }",
            "[dependencies]\nalias.version = \"1\"\nalias.package = \"real\"",
        ] {
            let expected = Dependency {
                kind: Kind::Normal,
                name: "alias".to_owned(),
                renamed_from: Some("real".to_owned()),
            };
            assert_eq!(Manifest::parse(text).dependencies(), [expected], "{text}");
        }
    }

    #[test]
    fn arrays_and_arrays_of_tables_are_read() {
        let manifest = Manifest::parse(
            "members = [\n  \"a\", # first\n  \"b/c\",\n]\n[[bench]]\nname = \"x\"\n[[bench]]\nname = 'y'\n",
        );
        assert_eq!(manifest.strings(&["members"]), ["a", "b/c"]);
        assert_eq!(
            manifest.values(&["bench", "name"]).collect::<Vec<_>>(),
            ["x", "y"]
        );
        assert_eq!(manifest.value(&["bench", "path"]), None);
    }
}
