//! A store of the checkpoints of one operator, which keeps the newest and deletes what nothing names.

use std::collections::{BTreeMap, BTreeSet};

use cutwater_state::{BoxError, NewFile, Restored, Snapshot, Store};

/// Everything that is stored.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// What snapshots that are being written name, by checkpoint.
    pub(crate) in_progress: BTreeMap<u64, BTreeSet<String>>,
    /// The newest completed checkpoint, and what the subtasks stored for it.
    pub(crate) completed: Option<(u64, Vec<Snapshot>)>,
}

impl Files {
    /// Where subtasks store their files of a checkpoint; after `left` files it fails.
    pub(crate) fn writer(&mut self, checkpoint: u64, left: usize) -> Writer<'_> {
        self.in_progress.entry(checkpoint).or_default();
        Writer {
            files: self,
            checkpoint,
            left,
        }
    }

    pub(crate) fn complete(&mut self, checkpoint: u64, snapshots: Vec<Snapshot>) {
        self.completed = Some((checkpoint, snapshots));
        self.in_progress = self.in_progress.split_off(&(checkpoint + 1));
        self.delete_unnamed();
    }

    pub(crate) fn fail(&mut self, checkpoint: u64) {
        self.in_progress.remove(&checkpoint);
        self.delete_unnamed();
    }

    fn delete_unnamed(&mut self) {
        let completed = self.completed.iter().flat_map(|(_, snapshots)| snapshots);
        let named = completed.flat_map(|snapshot| &snapshot.files);
        let named = named.chain(self.in_progress.values().flatten());
        let named: BTreeSet<String> = named.cloned().collect();
        self.files.retain(|name, _| named.contains(name));
    }

    /// What the newest checkpoint has of each subtask, with nothing but its own files.
    pub(crate) fn restored(&self) -> Vec<Restored> {
        let (_, snapshots) = self.completed.as_ref().expect("one is complete");
        let restored = snapshots.iter().map(|snapshot| {
            let files = snapshot.files.iter();
            let files = files.map(|name| (name.clone(), self.files[name].clone()));
            Restored::new(snapshot.manifest.clone(), files.collect::<BTreeMap<_, _>>())
        });
        restored.collect()
    }
}

pub(crate) struct Writer<'a> {
    files: &'a mut Files,
    checkpoint: u64,
    left: usize,
}

impl Writer<'_> {
    fn name(&mut self, name: &str) {
        let named = self.files.in_progress.get_mut(&self.checkpoint);
        named.expect("made with the writer").insert(name.to_owned());
    }
}

impl Store for Writer<'_> {
    fn store(&mut self, file: NewFile) -> Result<(), BoxError> {
        self.left = self.left.checked_sub(1).ok_or("disk full")?;
        self.name(&file.name);
        let bytes = file.content.into_bytes()?;
        assert_eq!(bytes.len() as u64, file.length);
        let before = self.files.files.insert(file.name, bytes);
        assert!(before.is_none(), "names are unique");
        Ok(())
    }

    /// Files of the newest completed checkpoint are there, and those promised to others for as long.
    fn reuse(&mut self, name: &str) -> Result<bool, BoxError> {
        let is_there = self.files.files.contains_key(name);
        if is_there {
            self.name(name);
        }
        Ok(is_there)
    }
}
