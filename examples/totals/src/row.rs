//! A row of any file, as far as the chosen columns go.

use std::{fmt, sync::OnceLock};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, IgnoredAny, MapAccess, Visitor},
    ser::SerializeMap,
};

use crate::decimal::Decimal;

/// What the user chose. One choice for the whole process, since `Deserialize` takes no argument.
static COLUMNS: OnceLock<Columns> = OnceLock::new();

/// Which columns are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) key: String,
    pub(crate) sums: Vec<String>,
}

impl Columns {
    /// Makes this the choice of the process.
    ///
    /// # Errors
    ///
    /// If a column is summed twice.
    pub(crate) fn choose(self) -> Result<&'static Self, String> {
        let mut names = self.sums.iter().enumerate();
        if let Some((_, twice)) = names.find(|(at, name)| self.sums[..*at].contains(name)) {
            return Err(format!(
                "the column `{twice}` is summed twice; name it once"
            ));
        }
        Ok(COLUMNS.get_or_init(|| self))
    }

    /// The first chosen column that is not in `header`.
    pub(crate) fn missing(&self, header: &[String]) -> Option<&str> {
        let mut chosen = std::iter::once(&self.key).chain(&self.sums);
        chosen
            .find(|name| !header.contains(name))
            .map(String::as_str)
    }
}

/// The chosen columns of a row. In every format a map from their names, as in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) key: String,
    /// In the order of [`Columns::sums`].
    pub(crate) numbers: Vec<Decimal>,
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let columns = COLUMNS.get().expect("chosen before the first row");
        let mut map = serializer.serialize_map(Some(1 + columns.sums.len()))?;
        map.serialize_entry(&columns.key, &self.key)?;
        for (name, number) in columns.sums.iter().zip(&self.numbers) {
            map.serialize_entry(name, number)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let columns = COLUMNS.get().expect("chosen before the first row");
        deserializer.deserialize_map(RowVisitor(columns))
    }
}

struct RowVisitor(&'static Columns);

impl<'de> Visitor<'de> for RowVisitor {
    type Value = Row;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row under a header")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Row, A::Error> {
        let Columns { key, sums } = self.0;
        let mut found_key = None;
        let mut numbers = vec![None; sums.len()];
        while let Some(name) = map.next_key::<String>()? {
            let place = sums.iter().position(|sum| *sum == name);
            if place.is_none() && name != *key {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let text: String = map.next_value()?;
            if let Some(place) = place {
                let named = |error| A::Error::custom(format!("column {name:?}: {error}"));
                numbers[place] = Some(text.parse().map_err(named)?);
            }
            // A key that is summed too comes twice when it was serialized by us, first as the key.
            if name == *key && found_key.is_none() {
                found_key = Some(text);
            }
        }
        let missing = |name: &String| A::Error::custom(format!("there is no column `{name}`"));
        Ok(Row {
            key: found_key.ok_or_else(|| missing(key))?,
            numbers: std::iter::zip(numbers, sums)
                .map(|(number, name)| number.ok_or_else(|| missing(name)))
                .collect::<Result<_, _>>()?,
        })
    }
}

/// The names of the columns, in place of a row under them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Header(pub(crate) Vec<String>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;

        impl<'de> Visitor<'de> for Names {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a row under a header")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut names = Vec::new();
                while let Some((name, _)) = map.next_entry::<String, IgnoredAny>()? {
                    names.push(name);
                }
                Ok(Header(names))
            }
        }

        deserializer.deserialize_map(Names)
    }
}

#[cfg(test)]
mod tests {
    use super::{Columns, Header, Row};

    fn read<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, csv::Error> {
        let columns = Columns {
            key: "city".to_owned(),
            sums: vec!["paid".to_owned(), "tip".to_owned()],
        };
        columns.choose().unwrap(); // The same in each test, as it is one for the process.
        let mut rows = csv::Reader::from_reader(text.as_bytes());
        rows.deserialize().next().unwrap()
    }

    #[test]
    fn the_chosen_columns_are_found_wherever_they_are() {
        let row: Row = read("tip,x,city,paid\n,1,Bern,2.5\n").unwrap();
        assert_eq!(row.key, "Bern");
        let numbers: Vec<_> = row.numbers.iter().map(ToString::to_string).collect();
        assert_eq!(numbers, ["2.5", "0"]);
    }

    #[test]
    fn a_cell_that_is_no_number_is_named_with_its_column() {
        let error = read::<Row>("tip,city,paid\n1,Bern,much\n").unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("column \"paid\": \"much\" is no number"),
            "{error}"
        );
    }

    #[test]
    fn a_missing_column_is_named() {
        let error = read::<Row>("city,paid\nBern,1\n").unwrap_err().to_string();
        assert!(error.contains("there is no column `tip`"), "{error}");
        let Header(names) = read("city,paid\nBern,1\n").unwrap();
        let columns = Columns {
            key: "city".to_owned(),
            sums: vec!["tip".to_owned()],
        };
        assert_eq!(columns.missing(&names), Some("tip"));
    }

    #[test]
    fn a_row_survives_being_part_of_a_checkpoint() {
        let row: Row = read("tip,city,paid\n0.50,Bern,2\n").unwrap();
        let bytes = postcard::to_allocvec(&row).unwrap();
        assert_eq!(postcard::from_bytes::<Row>(&bytes).unwrap(), row);
    }

    #[test]
    fn a_column_is_summed_once() {
        let columns = Columns {
            key: "city".to_owned(),
            sums: vec!["tip".to_owned(), "tip".to_owned()],
        };
        assert!(
            columns
                .choose()
                .unwrap_err()
                .contains("`tip` is summed twice")
        );
    }
}
