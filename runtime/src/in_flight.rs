//! Records in flight: how those of an edge become part of a checkpoint, and how they come back.
//!
//! A barrier that overtakes leaves records behind that belong to the checkpoint; so does a loop,
//! whose records never stop circling. They are saved as the records that entered the edge, without
//! key or hash, and re-enter it through its exchange, which deals them out for the new parallelism:
//! by key group, or to anybody.
//!
//! They are encoded at once, by the task that has them: a pass over bytes that are about to be read
//! anyway costs it less than a copy of each record would.
//!
//! Order: what one subtask sent comes back in the order it was sent, ahead of everything new.

use std::mem;

use cutwater_state::Schema;
use serde::de::DeserializeOwned;

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

/// The records of one channel that belong to a checkpoint, in the order in which they were sent.
#[derive(Debug)]
pub(crate) struct Saved {
    records: u64,
    /// As the store gets them; or why one of them could not be encoded, which fails the checkpoint, not
    /// the task.
    bytes: postcard::Result<Vec<u8>>,
}

impl Default for Saved {
    fn default() -> Self {
        Self {
            records: 0,
            bytes: Ok(vec![VERSION]),
        }
    }
}

impl Saved {
    /// Adds the records of a batch.
    pub(crate) fn save<C: Carried>(&mut self, batch: &[C]) {
        self.records += batch.len() as u64;
        let before = mem::replace(&mut self.bytes, Ok(Vec::new()));
        self.bytes = before.and_then(|before| {
            let mut batch = batch.iter();
            batch.try_fold(before, |bytes, carried| {
                postcard::to_extend(carried.record(), bytes)
            })
        });
    }

    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    pub(crate) fn into_bytes(self) -> postcard::Result<Vec<u8>> {
        self.bytes
    }
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
    fn saved_records_are_encoded_one_after_the_other() {
        let mut saved = Saved::default();
        saved.save(&[(1_u8, "a".to_owned())]);
        saved.save(&[(2_u8, "bc".to_owned())]);
        assert_eq!(saved.records(), 2);
        let bytes = saved.into_bytes().unwrap();
        assert_eq!(bytes, [VERSION, 1, 1, b'a', 2, 2, b'b', b'c']);
    }

    #[derive(Clone, serde::Deserialize)]
    struct Unspeakable;

    impl serde::Serialize for Unspeakable {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("cannot be encoded"))
        }
    }

    #[test]
    fn a_record_that_cannot_be_encoded_is_not_forgotten() {
        let mut saved = Saved::default();
        saved.save(&[Unspeakable]);
        saved.save::<Unspeakable>(&[]);
        assert!(saved.into_bytes().is_err());
    }
}
