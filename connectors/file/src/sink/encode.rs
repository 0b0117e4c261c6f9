//! Records as the bytes of a file.

use std::{fmt, marker::PhantomData};

use cutwater_sink_2pc::{Error, Result};
use serde::Serialize;

/// A file format to which records can be appended. After any record the file is whole, as a restart
/// may cut it there and go on.
pub trait Encode: Clone + Send + Sync + 'static {
    /// What is encoded.
    type Record: Send;

    /// The extension of the files, without a dot.
    fn extension(&self) -> &str;

    /// What stands at the start of each file. Always the same, so that files can be joined.
    fn header(&self) -> Vec<u8>;

    /// Appends the bytes of `records` to `bytes`.
    fn encode(&self, records: &[Self::Record], bytes: &mut Vec<u8>) -> Result<()>;
}

/// One JSON value per line.
pub struct JsonLines<T>(PhantomData<fn(T)>);

impl<T> JsonLines<T> {
    /// The format.
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: Serialize + Send + 'static> Encode for JsonLines<T> {
    type Record = T;

    fn extension(&self) -> &str {
        "jsonl"
    }

    fn header(&self) -> Vec<u8> {
        Vec::new()
    }

    fn encode(&self, records: &[T], bytes: &mut Vec<u8>) -> Result<()> {
        for record in records {
            serde_json::to_writer(&mut *bytes, record)
                .map_err(|error| Error::new("encoding a record as JSON", error))?;
            bytes.push(b'\n');
        }
        Ok(())
    }
}

/// CSV with a header row, quoted where needed. A record is serialized to as many fields as there are
/// columns; others are refused.
pub struct Csv<T> {
    columns: Vec<String>,
    record: PhantomData<fn(T)>,
}

impl<T> Csv<T> {
    /// The format, with the columns' names.
    pub fn new<C: Into<String>>(columns: impl IntoIterator<Item = C>) -> Self {
        Self {
            columns: columns.into_iter().map(Into::into).collect(),
            record: PhantomData,
        }
    }
}

impl<T: Serialize + Send + 'static> Encode for Csv<T> {
    type Record = T;

    fn extension(&self) -> &str {
        "csv"
    }

    fn header(&self) -> Vec<u8> {
        let mut csv = csv::Writer::from_writer(Vec::new());
        csv.write_record(&self.columns)
            .expect("writing to memory succeeds");
        csv.into_inner().expect("writing to memory succeeds")
    }

    fn encode(&self, records: &[T], bytes: &mut Vec<u8>) -> Result<()> {
        let start = bytes.len();
        let mut encode = || -> csv::Result<()> {
            let mut csv = csv::WriterBuilder::new()
                .has_headers(false)
                .from_writer(&mut *bytes);
            // It is cut off again below; the writer holds all rows to its number of fields.
            csv.write_record(&self.columns)?;
            for record in records {
                csv.serialize(record)?;
            }
            csv.flush()?;
            Ok(())
        };
        let outcome = encode();
        if outcome.is_err() {
            bytes.truncate(start);
        } else {
            bytes.drain(start..start + self.header().len());
        }
        outcome.map_err(|error| Error::new("encoding a record as CSV", error))
    }
}

impl<T> Default for JsonLines<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for JsonLines<T> {
    fn clone(&self) -> Self {
        Self::new()
    }
}

impl<T> Clone for Csv<T> {
    fn clone(&self) -> Self {
        Self::new(self.columns.clone())
    }
}

impl<T> fmt::Debug for JsonLines<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JsonLines")
    }
}

impl<T> fmt::Debug for Csv<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Csv").field(&self.columns).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_quotes_and_holds_rows_to_the_header() {
        let csv = Csv::new(["name", "n"]);
        let mut bytes = b"before\n".to_vec();
        csv.encode(&[("a,b", 1), ("c", 2)], &mut bytes).unwrap();
        assert_eq!(bytes, b"before\n\"a,b\",1\nc,2\n");
        assert_eq!(csv.header(), b"name,n\n");

        let csv = Csv::new(["name"]);
        assert!(csv.encode(&[("a", 1)], &mut bytes).is_err());
        assert_eq!(bytes, b"before\n\"a,b\",1\nc,2\n");
    }

    #[test]
    fn json_lines_escape_line_ends() {
        let mut bytes = Vec::new();
        JsonLines::new().encode(&["a\nb", "c"], &mut bytes).unwrap();
        assert_eq!(bytes, b"\"a\\nb\"\n\"c\"\n");
    }
}
