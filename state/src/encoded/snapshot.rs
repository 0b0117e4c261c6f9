//! Snapshots of rows: as the backend's own files, or in the canonical form.

use std::{
    mem,
    ops::ControlFlow,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    Manifest, RowStore, RowsCheckpoint, RowsFile, Ticket,
    manifest::MAGIC,
    row_key::{self, HEAD},
    store::backend_failed,
};
use crate::{
    BoxError, Error, ErrorKind, NewFile, Result, Snapshot, Store,
    expiry::Left,
    format,
    place::Place,
    snapshot::{Frozen, Writer},
};

/// A frozen view to be flushed and written as the backend's files.
pub(crate) struct RowsTask {
    pub(crate) manifest: Manifest,
    pub(crate) ticket: Ticket,
}

impl RowsTask {
    pub(crate) fn run(self, store: &mut dyn Store) -> Result<Snapshot> {
        let Self {
            mut manifest,
            ticket,
        } = self;
        let rows = Arc::clone(ticket.store());
        let checkpoint = ticket.checkpoint()?;
        let mut bytes_new = 0;
        for (number, file) in checkpoint.files().iter().enumerate() {
            let stored = put(&*checkpoint, number, file, &rows, store);
            bytes_new += stored.map_err(|error| {
                let message = format!("operator `{}`: storing `{}`", manifest.head.uid, file.name);
                Error::new(ErrorKind::Io, message).with_source(error)
            })?;
        }
        manifest.files = checkpoint.files().to_vec();
        manifest.description = checkpoint.description();
        let files = &manifest.files;
        let snapshot = Snapshot {
            checkpoint: manifest.head.checkpoint(),
            groups: manifest.head.groups(),
            manifest: format::sealed(MAGIC, &manifest)?,
            files: files.iter().map(|file| file.name.clone()).collect(),
            bytes_new,
            bytes_full: files.iter().map(|file| file.length).sum(),
        };
        let named = manifest.files.into_iter().map(|f| (f.name, f.length));
        rows.shared_files().written(snapshot.checkpoint, named);
        Ok(snapshot)
    }
}

/// Stores a file, unless a confirmed snapshot has it. Returns the bytes that were stored.
fn put(
    checkpoint: &dyn RowsCheckpoint,
    number: usize,
    file: &RowsFile,
    rows: &RowStore,
    store: &mut dyn Store,
) -> Result<u64, BoxError> {
    let RowsFile { name, length } = file;
    let is_confirmed = rows.shared_files().contains(name, *length);
    if is_confirmed && store.reuse(name)? {
        return Ok(0);
    }
    let reader = checkpoint.open(number)?;
    store.store(NewFile::read_from(name.clone(), *length, reader))?;
    Ok(*length)
}

/// The rows of one state, to be written in the canonical form: that of memory state.
pub(crate) struct CanonicalRows {
    place: Place,
    flush: Arc<Flush>,
}

/// A flush that several states are to be read from.
enum ToFlush {
    Ticket(Ticket),
    Written(Arc<dyn RowsCheckpoint>),
    Failed,
}

/// A flush of several states, written when the first of them is.
pub(crate) struct Flush(Mutex<ToFlush>);

impl Flush {
    pub(crate) fn new(ticket: Ticket) -> Arc<Self> {
        Arc::new(Self(Mutex::new(ToFlush::Ticket(ticket))))
    }

    fn checkpoint(&self) -> Result<Arc<dyn RowsCheckpoint>> {
        let mut to_flush = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match mem::replace(&mut *to_flush, ToFlush::Failed) {
            ToFlush::Ticket(ticket) => {
                let written: Arc<dyn RowsCheckpoint> = ticket.checkpoint()?.into();
                *to_flush = ToFlush::Written(Arc::clone(&written));
                Ok(written)
            }
            ToFlush::Written(written) => {
                *to_flush = ToFlush::Written(Arc::clone(&written));
                Ok(written)
            }
            ToFlush::Failed => unreachable!("a snapshot ends with its first error"),
        }
    }
}

impl CanonicalRows {
    pub(crate) fn boxed(place: Place, flush: Arc<Flush>) -> Box<dyn Frozen> {
        Box::new(Self { place, flush })
    }
}

impl Frozen for CanonicalRows {
    fn write(self: Box<Self>, out: &mut Writer<'_>) -> Result<()> {
        let checkpoint = self.flush.checkpoint()?;
        let store = self.place.store().expect("its rows are in one");
        let left = store.expired().of(self.place.id());
        for number in 0..self.place.count() {
            let group = self.place.group_at(number);
            let (from, to) = row_key::range(group, self.place.id());
            let mut result = Ok(());
            let scanned = checkpoint.scan(&from, &to, &mut |key, value| {
                result = out.entries(group, &[(key, value)], |(key, value), bytes| {
                    let left = left.as_ref().map_or(Left::All, |left| left(value));
                    let value = match &left {
                        Left::All => value,
                        Left::Some(some) => &some[..],
                        Left::Nothing => return Ok(false),
                    };
                    bytes.extend(&key[HEAD..]);
                    bytes.extend(value);
                    Ok(true)
                });
                match result {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            });
            scanned.map_err(|error| backend_failed(&self.place, "scanning rows", error))?;
            result?;
        }
        Ok(())
    }
}
