//! Records in flight: how those of an edge become part of a checkpoint, and how they come back.
//!
//! A barrier that overtakes leaves records behind that belong to the checkpoint; so does a loop,
//! whose records never stop circling. They are saved as the records that entered the edge, without
//! key or hash, and re-enter it through its exchange, which deals them out for the new parallelism:
//! by key group, or to anybody.
//!
//! Order: what one subtask sent comes back in the order it was sent, ahead of everything new.

use cutwater_state::Schema;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    BoxError,
    exchange::Keyed,
    stage::{AnyStage, TaskError, Visit},
    stream::Record,
};

/// What an edge carries: a record, and perhaps what the exchange found out about it.
pub(crate) trait Carried: Send + 'static {
    type Record: Record;

    fn record(&self) -> &Self::Record;
}

impl<T: Record> Carried for T {
    type Record = T;

    fn record(&self) -> &T {
        self
    }
}

impl<K: Send + 'static, T: Record> Carried for Keyed<K, T> {
    type Record = T;

    fn record(&self) -> &T {
        &self.record
    }
}

/// The first byte of what is saved of a channel; the records follow in postcard, one after the other.
pub(crate) const VERSION: u8 = 1;

/// Records taken out of a channel's way, to be written by another thread.
pub(crate) trait Captured: Send {
    fn records(&self) -> u64;

    /// Appends the records' postcard forms.
    fn encode(&self, to: &mut Vec<u8>) -> Result<(), BoxError>;
}

impl<T: Serialize + Send> Captured for Vec<T> {
    fn records(&self) -> u64 {
        self.len() as u64
    }

    fn encode(&self, to: &mut Vec<u8>) -> Result<(), BoxError> {
        for record in self {
            *to = postcard::to_extend(record, std::mem::take(to))?;
        }
        Ok(())
    }
}

/// Copies the records of a batch.
pub(crate) fn copy<C: Carried>(batch: &[C]) -> Box<dyn Captured> {
    let records = batch.iter().map(|carried| carried.record().clone());
    Box::new(records.collect::<Vec<C::Record>>())
}

/// What saved records of type `T` look like: reading them as another type would yield nonsense.
pub(crate) fn schema<T: DeserializeOwned>() -> String {
    // A type without a schema can still be told by its name.
    Schema::of::<T>().map_or_else(
        |_| std::any::type_name::<T>().to_owned(),
        |schema| schema.to_string(),
    )
}

/// Sends `records` saved records through an edge's exchange.
pub(crate) fn replay<T: Record>(
    bytes: &[u8],
    records: u64,
    exchange: AnyStage,
) -> Result<(), BoxError> {
    let mut exchange = exchange.typed::<T>();
    let [VERSION, rest @ ..] = bytes else {
        return Err("it is in no known format".into());
    };
    let mut rest = rest;
    let mut batch = Vec::new();
    for _ in 0..records {
        let (record, after) = postcard::take_from_bytes(rest)?;
        batch.push(record);
        rest = after;
    }
    if !rest.is_empty() {
        let message = format!("{} bytes follow the last of {records} records", rest.len());
        return Err(message.into());
    }
    let sent = exchange
        .process(&mut batch)
        .and_then(|()| exchange.visit(&mut Visit::Flush));
    sent.map_err(|error| match error {
        TaskError::Closed => "the attempt has ended".into(),
        TaskError::Failed(error) => error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_records_are_encoded_one_after_the_other() {
        let captured = copy(&[(1_u8, "a".to_owned()), (2, "bc".to_owned())]);
        let mut bytes = Vec::new();
        captured.encode(&mut bytes).unwrap();
        assert_eq!(captured.records(), 2);
        assert_eq!(bytes, [1, 1, b'a', 2, 2, b'b', b'c']);
    }
}
