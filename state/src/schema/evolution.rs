//! Whether bytes that were written under one schema can be read under another one.

/// Whether values of the schema `old` have the same bytes under `new`, and mean the same: they are equal,
/// or enums have got more variants at their ends.
pub(super) fn reads(new: &str, old: &str) -> bool {
    let (mut new, mut old) = (words(new), words(old));
    // For each brace that is open in both, whether it is an enum's.
    let mut enums = Vec::new();
    let mut last = "";
    loop {
        let (ours, theirs) = (new.next(), old.next());
        let added = ours == Some(",") && theirs == Some("}") && enums.last() == Some(&true);
        match theirs {
            _ if added => {
                skip_to_end(&mut new);
                enums.pop();
            }
            _ if ours != theirs => return false,
            Some("{") => enums.push(last.starts_with("enum ")),
            Some("}") => drop(enums.pop()),
            Some(word) => last = word,
            None => return true,
        }
    }
}

/// Skips what follows up to the end of the braces that it is in.
fn skip_to_end<'a>(words: &mut impl Iterator<Item = &'a str>) {
    let mut open = 1;
    while open > 0 {
        match words.next() {
            Some("{") => open += 1,
            Some("}") => open -= 1,
            Some(_) => {}
            None => return,
        }
    }
}

/// The words of a schema, each sign being one.
fn words(schema: &str) -> impl Iterator<Item = &str> {
    let signs = |c| {
        matches!(
            c,
            '{' | '}' | '(' | ')' | '<' | '>' | '[' | ']' | ',' | ':' | ';'
        )
    };
    let parts = schema.split_inclusive(signs).flat_map(move |part| {
        let word = part.trim_end_matches(signs);
        [word.trim(), &part[word.len()..]]
    });
    parts.filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::reads;

    #[test]
    fn equal_schemas_are_read() {
        for schema in ["i64", "map<string, seq<u64>>", "rfc3339 text", ""] {
            assert!(reads(schema, schema));
        }
        assert!(!reads("i64", "u64"));
        assert!(!reads("(i64, i64)", "i64"));
        assert!(!reads("i64", "(i64, i64)"));
    }

    #[test]
    fn variants_may_be_added_at_the_end() {
        let old = "seq<enum Event { Tick, Moved { by: u32 } }>";
        let add = |more: &str| format!("seq<enum Event {{ Tick, Moved {{ by: u32 }}{more} }}>");
        assert!(reads(&add(", Gone"), old));
        assert!(reads(
            &add(", Named { a: option<u8>, b: u8 }, At(u8, u8)"),
            old
        ));
        assert!(!reads(old, &add(", Gone")), "they may be stored");
        assert!(!reads(
            "seq<enum Event { Gone, Tick, Moved { by: u32 } }>",
            old
        ));
        assert!(!reads("seq<enum Event { Tick, Moved { by: u64 } }>", old));
    }

    #[test]
    fn fields_may_not_be_added() {
        let old = "enum Event { Moved { by: u32 } }";
        assert!(!reads("enum Event { Moved { by: u32, at: u64 } }", old));
        assert!(!reads("struct T { a: u8, b: u8 }", "struct T { a: u8 }"));
    }

    #[test]
    fn variants_may_be_added_in_several_places() {
        let (old, new) = (
            "struct S { a: enum A { X }, b: enum B { Y(enum A { X }), Z } }",
            "struct S { a: enum A { X, W }, b: enum B { Y(enum A { X, W }), Z, V } }",
        );
        assert!(reads(new, old));
        assert!(!reads(old, new));
    }
}
