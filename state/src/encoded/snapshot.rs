//! Snapshots of rows: as the backend's own files, or in the canonical form.

use std::{
    io::Read,
    ops::ControlFlow,
    sync::{Arc, Mutex, PoisonError},
};

use cutwater_barrier::CheckpointId;
use cutwater_keygroups::KeyGroupRange;

use super::{
    Manifest, RowsCheckpoint, Ticket,
    manifest::MAGIC,
    row_key::{self, HEAD},
    store::backend_failed,
};
use crate::{
    BoxError, Error, ErrorKind, NewFile, Result, Snapshot, format,
    place::Place,
    snapshot::{Frozen, Writer},
};

/// A frozen view to be flushed and written as the backend's files.
pub(crate) struct RowsTask {
    pub(crate) manifest: Manifest,
    pub(crate) ticket: Ticket,
}

impl RowsTask {
    pub(crate) fn run(
        self,
        store: &mut dyn FnMut(NewFile) -> Result<(), BoxError>,
    ) -> Result<Snapshot> {
        let Self {
            mut manifest,
            ticket,
        } = self;
        let checkpoint = ticket.checkpoint()?;
        let uid = &manifest.uid;
        for (number, file) in checkpoint.files().iter().enumerate() {
            let failed = |error: BoxError| {
                let message = format!("operator `{uid}`: storing `{}`", file.name);
                Error::new(ErrorKind::Io, message).with_source(error)
            };
            let mut bytes = Vec::new();
            let mut reader = checkpoint.open(number).map_err(failed)?;
            reader
                .read_to_end(&mut bytes)
                .map_err(|e| failed(e.into()))?;
            store(NewFile {
                name: file.name.clone(),
                bytes,
            })
            .map_err(failed)?;
        }
        manifest.files = checkpoint.files().to_vec();
        manifest.description = checkpoint.description();
        let bytes = manifest.files.iter().map(|file| file.length).sum();
        Ok(Snapshot {
            checkpoint: CheckpointId::new(manifest.checkpoint),
            groups: KeyGroupRange::new(manifest.groups.0, manifest.groups.1),
            manifest: format::sealed(MAGIC, &manifest)?,
            files: manifest.files.into_iter().map(|file| file.name).collect(),
            bytes_new: bytes,
            bytes_full: bytes,
        })
    }
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
        match std::mem::replace(&mut *to_flush, ToFlush::Failed) {
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
    pub(crate) fn new(place: Place, flush: Arc<Flush>) -> Self {
        Self { place, flush }
    }
}

impl Frozen for CanonicalRows {
    fn write(self: Box<Self>, out: &mut Writer<'_>) -> Result<()> {
        let checkpoint = self.flush.checkpoint()?;
        for number in 0..self.place.count() {
            let group = self.place.group_at(number);
            let (from, to) = row_key::range(group, self.place.id());
            let mut result = Ok(());
            let scanned = checkpoint.scan(&from, &to, &mut |key, value| {
                result = out.entries(group, &[(key, value)], |(key, value), bytes| {
                    bytes.extend(&key[HEAD..]);
                    bytes.extend(*value);
                    Ok(())
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
