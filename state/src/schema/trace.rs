//! A deserializer that has no input: it answers every request with made-up data and notes it.
//!
//! Each enum is visited once per run with one of its variants, so the type is deserialised again
//! until every variant was seen. Inside a type that contains itself a third time, options and
//! collections are answered empty, so that the walk ends; the text then shows `…`.

use std::{collections::BTreeMap, fmt};

use serde::de::{
    self, DeserializeOwned, DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

/// Deeper than any type that is not endless.
const DEPTH_MAX: usize = 64;

/// The canonical text for `T`.
pub(super) fn trace<T: DeserializeOwned>() -> Result<String, Refused> {
    let mut walk = Walk::default();
    loop {
        let mut text = String::new();
        let seen = walk.seen();
        T::deserialize(Tracer {
            walk: &mut walk,
            text: &mut text,
        })?;
        if walk.enums.values().all(|e| e.seen() == e.names.len()) {
            return Ok(walk.spelled_out(&text, &mut Vec::new()));
        }
        if walk.seen() == seen {
            return Err(Refused(
                "an enum has a variant that cannot be reached".into(),
            ));
        }
    }
}

/// What is known so far, over all runs.
#[derive(Default)]
struct Walk {
    /// Each enum's variants, as far as seen. Texts refer to an enum as `\0name\0`, as later runs
    /// may learn more about it.
    enums: BTreeMap<&'static str, Enum>,
    /// The structs and enums that we are inside of.
    inside: Vec<&'static str>,
    depth: usize,
}

struct Enum {
    names: &'static [&'static str],
    variants: Vec<Variant>,
    /// The variant that was seen to its end first: it contains no enum but such that ended before.
    ends: Option<usize>,
}

impl Enum {
    fn seen(&self) -> usize {
        let seen = |variant: &&Variant| matches!(variant, Variant::Seen(_));
        self.variants.iter().filter(seen).count()
    }
}

#[derive(Clone)]
enum Variant {
    Unseen,
    InProgress,
    Seen(String),
}

impl Walk {
    fn seen(&self) -> usize {
        self.enums.values().map(Enum::seen).sum()
    }

    /// Whether we are inside of a type that contains itself.
    fn is_recursing(&self) -> bool {
        let innermost = self.inside.last();
        self.inside
            .iter()
            .filter(|name| Some(*name) == innermost)
            .count()
            > 2
    }

    /// `text` with each enum in place of the reference to it; inside itself, only its name.
    fn spelled_out<'a>(&'a self, text: &'a str, inside: &mut Vec<&'a str>) -> String {
        let mut out = String::new();
        for (number, part) in text.split('\0').enumerate() {
            match self.enums.get(part) {
                Some(found) if number % 2 == 1 && !inside.contains(&part) => {
                    inside.push(part);
                    let variants = found.variants.iter().map(|variant| match variant {
                        Variant::Seen(text) => self.spelled_out(text, inside),
                        Variant::Unseen | Variant::InProgress => "…".to_owned(),
                    });
                    let variants = variants.collect::<Vec<_>>().join(", ");
                    inside.pop();
                    out += &format!("enum {part} {{ {variants} }}");
                }
                _ => out += part,
            }
        }
        out
    }
}

struct Tracer<'a> {
    walk: &'a mut Walk,
    text: &'a mut String,
}

/// Why a type cannot be traced.
#[derive(Debug)]
pub(super) struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl de::Error for Refused {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Self(reason.to_string())
    }
}

impl Tracer<'_> {
    /// A tracer for a part, whose text is the caller's to place.
    fn part<'b, 'de, S: DeserializeSeed<'de>>(
        walk: &'b mut Walk,
        seed: S,
        text: &'b mut String,
    ) -> Result<S::Value, Refused> {
        if walk.depth == DEPTH_MAX {
            return Err(Refused("the type nests without end".into()));
        }
        walk.depth += 1;
        let value = seed.deserialize(Tracer {
            walk: &mut *walk,
            text,
        })?;
        walk.depth -= 1;
        Ok(value)
    }

    /// Notes the fields that `visitor` takes, between `open` and `close`.
    fn fields<'de, V: Visitor<'de>>(
        self,
        names: Option<&'static [&'static str]>,
        count: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let mut parts = Parts {
            walk: self.walk,
            left: count,
            texts: Vec::new(),
        };
        let value = visitor.visit_seq(&mut parts)?;
        let texts = parts.texts;
        *self.text += &match names {
            Some(names) => {
                let named = names
                    .iter()
                    .zip(texts)
                    .map(|(name, text)| format!("{name}: {text}"));
                format!("{{ {} }}", named.collect::<Vec<_>>().join(", "))
            }
            None => match texts.first() {
                Some(first) if texts.len() > 3 && texts.iter().all(|text| text == first) => {
                    format!("[{first}; {}]", texts.len())
                }
                _ => format!("({})", texts.join(", ")),
            },
        };
        Ok(value)
    }

    /// Runs `body` inside of the named type.
    fn named<R>(
        self,
        name: &'static str,
        body: impl FnOnce(Tracer<'_>) -> Result<R, Refused>,
    ) -> Result<R, Refused> {
        self.walk.inside.push(name);
        let value = body(Tracer {
            walk: &mut *self.walk,
            text: self.text,
        })?;
        self.walk.inside.pop();
        Ok(value)
    }
}

macro_rules! primitives {
    ($($method:ident $text:literal => $visit:ident($($value:expr)?);)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
            *self.text += $text;
            visitor.$visit($($value)?)
        })*
    };
}

impl<'de> de::Deserializer<'de> for Tracer<'_> {
    type Error = Refused;

    // Ones rather than zeros, for the sake of `NonZero…`.
    primitives! {
        deserialize_bool "bool" => visit_bool(false);
        deserialize_i8 "i8" => visit_i8(1);
        deserialize_i16 "i16" => visit_i16(1);
        deserialize_i32 "i32" => visit_i32(1);
        deserialize_i64 "i64" => visit_i64(1);
        deserialize_i128 "i128" => visit_i128(1);
        deserialize_u8 "u8" => visit_u8(1);
        deserialize_u16 "u16" => visit_u16(1);
        deserialize_u32 "u32" => visit_u32(1);
        deserialize_u64 "u64" => visit_u64(1);
        deserialize_u128 "u128" => visit_u128(1);
        deserialize_f32 "f32" => visit_f32(1.0);
        deserialize_f64 "f64" => visit_f64(1.0);
        deserialize_char "char" => visit_char('a');
        deserialize_str "string" => visit_str("");
        deserialize_string "string" => visit_string(String::new());
        deserialize_bytes "bytes" => visit_bytes(&[]);
        deserialize_byte_buf "bytes" => visit_byte_buf(Vec::new());
        deserialize_unit "unit" => visit_unit();
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        if self.walk.is_recursing() {
            *self.text += "option<…>";
            return visitor.visit_none();
        }
        let mut text = String::new();
        let value = visitor.visit_some(Tracer {
            walk: self.walk,
            text: &mut text,
        })?;
        *self.text += &format!("option<{text}>");
        Ok(value)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let left = usize::from(!self.walk.is_recursing());
        let mut parts = Parts {
            walk: self.walk,
            left,
            texts: Vec::new(),
        };
        let value = visitor.visit_seq(&mut parts)?;
        *self.text += &format!("seq<{}>", parts.texts.join(", "));
        Ok(value)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let left = 2 * usize::from(!self.walk.is_recursing());
        let mut parts = Parts {
            walk: self.walk,
            left,
            texts: Vec::new(),
        };
        let value = visitor.visit_map(&mut parts)?;
        *self.text += &format!("map<{}>", parts.texts.join(", "));
        Ok(value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.fields(None, len, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.named(name, |tracer| {
            *tracer.text += &format!("struct {name}");
            tracer.fields(None, len, visitor)
        })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.named(name, |tracer| {
            let mut text = String::new();
            let value = visitor.visit_newtype_struct(Tracer {
                walk: tracer.walk,
                text: &mut text,
            })?;
            *tracer.text += &format!("struct {name}({text})");
            Ok(value)
        })
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        *self.text += &format!("struct {name}");
        visitor.visit_unit()
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.named(name, |tracer| {
            *tracer.text += &format!("struct {name} ");
            tracer.fields(Some(fields), fields.len(), visitor)
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.named(name, |tracer| {
            let Tracer { walk, text } = tracer;
            let chosen = choose(walk, name, variants)?;
            let mut noted = variants[chosen].to_owned();
            let value = visitor.visit_enum(OneVariant {
                walk: &mut *walk,
                chosen,
                text: &mut noted,
            })?;
            let known = walk.enums.get_mut(name).expect("added by `choose`");
            known.variants[chosen] = Variant::Seen(noted);
            known.ends.get_or_insert(chosen);
            *text += &format!("\0{name}\0");
            Ok(value)
        })
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Refused> {
        Err(Refused(
            "it reads field names, which postcard does not store".into(),
        ))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Refused> {
        Err(Refused(
            "it needs a format that describes itself, which postcard is not".into(),
        ))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_any(visitor)
    }

    fn is_human_readable(&self) -> bool {
        false // as postcard
    }
}

/// The variant to visit in this run: one not seen, or else one that certainly ends.
fn choose(
    walk: &mut Walk,
    name: &'static str,
    names: &'static [&'static str],
) -> Result<usize, Refused> {
    let known = walk.enums.entry(name).or_insert_with(|| Enum {
        names,
        variants: vec![Variant::Unseen; names.len()],
        ends: None,
    });
    if known.names != names {
        return Err(Refused(format!(
            "it has two different enums called `{name}`"
        )));
    }
    let unseen = |variant: &Variant| matches!(variant, Variant::Unseen);
    let chosen = known.variants.iter().position(unseen).or(known.ends);
    let chosen =
        chosen.ok_or_else(|| Refused(format!("enum `{name}` has no variant that ends")))?;
    if let Variant::Unseen = known.variants[chosen] {
        known.variants[chosen] = Variant::InProgress;
    }
    Ok(chosen)
}

/// Elements, fields, or keys and values, as many as are left.
struct Parts<'a> {
    walk: &'a mut Walk,
    left: usize,
    texts: Vec<String>,
}

impl Parts<'_> {
    fn next<'de, S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Refused> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let mut text = String::new();
        let value = Tracer::part(self.walk, seed, &mut text)?;
        self.texts.push(text);
        Ok(Some(value))
    }
}

impl<'de> SeqAccess<'de> for &mut Parts<'_> {
    type Error = Refused;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Refused> {
        self.next(seed)
    }
}

impl<'de> MapAccess<'de> for &mut Parts<'_> {
    type Error = Refused;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Refused> {
        self.next(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Refused> {
        let value = self.next(seed)?;
        value.ok_or_else(|| Refused("a map asked for a value without a key".into()))
    }
}

struct OneVariant<'a> {
    walk: &'a mut Walk,
    chosen: usize,
    text: &'a mut String,
}

impl<'de, 'a> EnumAccess<'de> for OneVariant<'a> {
    type Error = Refused;
    type Variant = Tracer<'a>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Tracer<'a>), Refused> {
        let number = u32::try_from(self.chosen).expect("fewer than 2^32 variants");
        let tag: de::value::U32Deserializer<Refused> = number.into_deserializer();
        let value = seed.deserialize(tag)?;
        Ok((
            value,
            Tracer {
                walk: self.walk,
                text: self.text,
            },
        ))
    }
}

impl<'de> VariantAccess<'de> for Tracer<'_> {
    type Error = Refused;

    fn unit_variant(self) -> Result<(), Refused> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Refused> {
        let mut text = String::new();
        let value = Tracer::part(self.walk, seed, &mut text)?;
        *self.text += &format!("({text})");
        Ok(value)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Refused> {
        self.fields(None, len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        *self.text += " ";
        self.fields(Some(fields), fields.len(), visitor)
    }
}
