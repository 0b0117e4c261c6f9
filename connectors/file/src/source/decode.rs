//! What stands in a frame: a CSV row or a JSON value.

use csv::ByteRecord;
use csv_core::ReadRecordResult;
use serde::de::DeserializeOwned;

/// Decodes the frames of one file.
pub(crate) enum Decoder {
    Csv(Box<Csv>),
    JsonLines,
}

pub(crate) struct Csv {
    parser: csv_core::Reader,
    header: ByteRecord,
    row: ByteRecord,
    fields: Vec<u8>,
    ends: Vec<usize>,
}

impl Decoder {
    pub(crate) fn csv(delimiter: u8, header: &[u8]) -> Self {
        let mut csv = Csv {
            parser: csv_core::ReaderBuilder::new()
                .delimiter(delimiter)
                // Only this: a lone carriage return is content.
                .terminator(csv_core::Terminator::Any(b'\n'))
                .build(),
            header: ByteRecord::new(),
            row: ByteRecord::new(),
            fields: vec![0; 1024],
            ends: vec![0; 64],
        };
        csv.parse(header);
        csv.header = csv.row.clone();
        Self::Csv(Box::new(csv))
    }

    /// The record in `content`, or why there is none.
    pub(crate) fn decode<T: DeserializeOwned>(&mut self, content: &[u8]) -> Result<T, String> {
        match self {
            Self::JsonLines => serde_json::from_slice(content).map_err(|error| {
                let text = error.to_string();
                let reason = text
                    .rsplit_once(" at line ")
                    .map_or(&*text, |(reason, _)| reason);
                format!("{reason} (column {})", error.column())
            }),
            Self::Csv(csv) => {
                csv.parse(content);
                if csv.row.len() != csv.header.len() {
                    return Err(format!(
                        "{} fields, but the header has {}",
                        csv.row.len(),
                        csv.header.len()
                    ));
                }
                csv.row
                    .deserialize(Some(&csv.header))
                    .map_err(|error| csv.reason(&error))
            }
        }
    }
}

impl Csv {
    /// Splits one row into `self.row`.
    fn parse(&mut self, mut input: &[u8]) {
        self.parser.reset();
        let (mut written, mut fields) = (0, 0);
        loop {
            // After the row the input is empty, which tells the parser that it ends there.
            let (result, read, wrote, ended) = self.parser.read_record(
                input,
                &mut self.fields[written..],
                &mut self.ends[fields..],
            );
            input = &input[read..];
            written += wrote;
            fields += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => self.fields.resize(self.fields.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                ReadRecordResult::Record | ReadRecordResult::End => break,
            }
        }
        self.row.clear();
        let mut start = 0;
        for &end in &self.ends[..fields] {
            self.row.push_field(&self.fields[start..end]);
            start = end;
        }
    }

    fn reason(&self, error: &csv::Error) -> String {
        let csv::ErrorKind::Deserialize { err, .. } = error.kind() else {
            return error.to_string();
        };
        let column = err
            .field()
            .and_then(|index| self.header.get(usize::try_from(index).ok()?));
        match column {
            Some(name) => format!("column {:?}: {}", String::from_utf8_lossy(name), err.kind()),
            None => err.kind().to_string(),
        }
    }
}
