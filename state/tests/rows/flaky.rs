//! A byte backend that fails when it is told to, and counts what it is asked for.

use std::{
    ops::Sub,
    sync::{Arc, Mutex},
};

use cutwater_keygroups::KeyGroupRange;
use cutwater_state::{
    BoxError, ByteBackend, EachRow, Ingest, IsExpired, OldRows, Rows, RowsCheckpoint,
    testkit::SortedRows,
};

/// What fails next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    Put,
    Finish,
    Checkpoint,
    Get,
    /// A value that is found is not what was written.
    Garble,
}

#[derive(Debug)]
pub(crate) struct Flaky {
    rows: SortedRows,
    told: Told,
}

/// What the backend was told, and how often it was asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told(Arc<Mutex<(Option<Fault>, Gets)>>);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gets {
    calls: usize,
    keys: usize,
}

impl Sub for Gets {
    type Output = (usize, usize);

    fn sub(self, earlier: Self) -> (usize, usize) {
        (self.calls - earlier.calls, self.keys - earlier.keys)
    }
}

impl Told {
    pub(crate) fn next(&self, fault: Fault) {
        self.0.lock().unwrap().0 = Some(fault);
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap().0 = None;
    }

    pub(crate) fn gets(&self) -> Gets {
        self.0.lock().unwrap().1
    }

    fn asked(&self, keys: usize) {
        let gets = &mut self.0.lock().unwrap().1;
        (gets.calls, gets.keys) = (gets.calls + 1, gets.keys + keys);
    }

    fn is(&self, fault: Fault) -> bool {
        self.0
            .lock()
            .unwrap()
            .0
            .take_if(|next| *next == fault)
            .is_some()
    }

    fn check(&self, fault: Fault) -> Result<(), BoxError> {
        if self.is(fault) {
            Err("no space left on device".into())
        } else {
            Ok(())
        }
    }
}

impl Flaky {
    pub(crate) fn new(memory: u64) -> (Self, Told) {
        let (rows, told) = (SortedRows::new(memory), Told::default());
        let flaky = Self {
            rows,
            told: told.clone(),
        };
        (flaky, told)
    }
}

impl ByteBackend for Flaky {
    fn name(&self) -> &'static str {
        "flaky"
    }

    fn memory(&self) -> u64 {
        self.rows.memory()
    }

    fn open(
        &self,
        uid: &str,
        groups: KeyGroupRange,
        old: &[OldRows],
        is_expired: IsExpired,
    ) -> Result<Box<dyn Rows>, BoxError> {
        Ok(Box::new(FlakyRows {
            rows: self.rows.open(uid, groups, old, is_expired)?,
            told: self.told.clone(),
        }))
    }
}

struct FlakyRows {
    rows: Box<dyn Rows>,
    told: Told,
}

impl Rows for FlakyRows {
    fn get_many(
        &self,
        keys: &[&[u8]],
        found: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), BoxError> {
        self.told.asked(keys.len());
        self.told.check(Fault::Get)?;
        let is_garbled = self.told.is(Fault::Garble);
        self.rows.get_many(keys, &mut |number, value| {
            found(number, if is_garbled { &[9, 9] } else { value });
        })
    }

    fn ingest(&self) -> Result<Box<dyn Ingest + '_>, BoxError> {
        Ok(Box::new(FlakyBatch {
            batch: self.rows.ingest()?,
            told: &self.told,
        }))
    }

    fn scan(&self, from: &[u8], to: &[u8], each: &mut EachRow<'_>) -> Result<(), BoxError> {
        self.rows.scan(from, to, each)
    }

    fn checkpoint(&self) -> Result<Box<dyn RowsCheckpoint>, BoxError> {
        self.told.check(Fault::Checkpoint)?;
        self.rows.checkpoint()
    }
}

struct FlakyBatch<'a> {
    batch: Box<dyn Ingest + 'a>,
    told: &'a Told,
}

impl Ingest for FlakyBatch<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), BoxError> {
        self.told.check(Fault::Put)?;
        self.batch.put(key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), BoxError> {
        self.batch.delete(key)
    }

    fn finish(self: Box<Self>) -> Result<(), BoxError> {
        self.told.check(Fault::Finish)?;
        self.batch.finish()
    }
}
