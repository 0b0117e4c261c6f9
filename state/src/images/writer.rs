//! Writing the images of a snapshot: what has changed since its base, and what moves.

use std::{collections::BTreeSet, mem};

use super::{Images, index::Indexed};
use crate::{
    Error, ErrorKind, NewFile, Result, Snapshot, Store,
    format::{self, File, Head, Index, MAGIC, Manifest},
    snapshot::{FILE_BYTES, FrozenBlocks, not_serialisable, stored},
    table::BlockId,
};

/// Writes images into files, and keeps account of which ones count.
pub(crate) struct ImageWriter<'a> {
    manifest: Manifest,
    images: Images,
    store: &'a mut dyn Store,
    /// Which of the manifest's states is being written.
    state: usize,
    /// The file being filled; empty if none is.
    bytes: Vec<u8>,
    /// What is in it.
    indexed: Vec<Indexed>,
    /// Whether there are older images, which an empty one must outdate.
    has_base: bool,
    /// Names of the files that belong to the snapshot already, and the bytes in the new ones.
    settled: BTreeSet<String>,
    bytes_new: u64,
    new: usize,
}

impl<'a> ImageWriter<'a> {
    pub(crate) fn new(manifest: Manifest, base: Images, store: &'a mut dyn Store) -> Self {
        let has_base = base.files().next().is_some();
        Self {
            manifest,
            has_base,
            images: base,
            store,
            state: 0,
            bytes: Vec::new(),
            indexed: Vec::new(),
            settled: BTreeSet::new(),
            bytes_new: 0,
            new: 0,
        }
    }

    /// Writes all states, and returns what refers to them.
    pub(crate) fn run(mut self, states: Vec<Box<dyn FrozenBlocks>>) -> Result<(Snapshot, Images)> {
        let epochs = states.iter().map(|state| state.epoch()).collect();
        let mut blocks: Vec<_> = states.iter().map(|state| state.wanted()).collect();
        let wanted = blocks.iter().enumerate();
        let dead = wanted.map(|(state, wanted)| self.images.outdate(state, wanted));
        let dead = dead.sum();
        let emptied = self.images.to_empty(dead);
        self.reuse(&emptied)?; // before anything is written for nothing
        for (state, blocks) in blocks.iter_mut().enumerate() {
            blocks.extend(self.images.blocks_in(state, &emptied));
            blocks.sort_unstable();
        }
        for (number, state) in states.into_iter().enumerate() {
            self.state = number;
            state.write_images(mem::take(&mut blocks[number]), &mut self)?;
        }
        self.finish_file()?;
        self.images.set_epochs(epochs);
        self.finish()
    }

    /// Writes the image of a block: of each entry, what `encode` writes, unless it says that there is nothing
    /// to write.
    pub(crate) fn image<E>(
        &mut self,
        block: BlockId,
        group: u16,
        entries: &[E],
        mut encode: impl FnMut(&E, &mut Vec<u8>) -> Result<bool, postcard::Error>,
    ) -> Result<()> {
        if entries.is_empty() && !self.has_base {
            return Ok(());
        }
        if self.bytes.is_empty() {
            self.bytes.reserve_exact(FILE_BYTES + FILE_BYTES / 16);
            self.bytes.extend(MAGIC);
        }
        let start = self.bytes.len();
        let mut written = 0;
        for entry in entries {
            let is_written = encode(entry, &mut self.bytes)
                .map_err(|e| not_serialisable(&self.manifest, self.state, e))?;
            written += u64::from(is_written);
        }
        self.indexed.push(Indexed {
            state: u32::try_from(self.state).expect("fewer than 2^32 states"),
            block: block.number,
            group,
            length: (self.bytes.len() - start) as u64,
            entries: written,
            crc32c: crc32c::crc32c(&self.bytes[start..]),
        });
        if self.bytes.len() >= FILE_BYTES {
            self.finish_file()?;
        }
        Ok(())
    }

    fn finish_file(&mut self) -> Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let (mut bytes, indexed) = (mem::take(&mut self.bytes), mem::take(&mut self.indexed));
        let offset = bytes.len();
        bytes = postcard::to_extend(&indexed, bytes)
            .map_err(|e| not_serialisable(&self.manifest, self.state, e))?;
        let index = Index {
            offset: offset as u64,
            crc32c: crc32c::crc32c(&bytes[offset..]),
        };
        let Head {
            checkpoint, groups, ..
        } = &self.manifest.head;
        let file = File {
            // Unique among all subtasks, which have no group in common.
            name: format!("keyed-{checkpoint}-{}-{}", groups.0, self.new),
            length: bytes.len() as u64,
        };
        let name = file.name.clone();
        self.new += 1;
        self.bytes_new += file.length;
        self.settled.insert(name.clone());
        let first = groups.0;
        let images = indexed.into_iter().map(|image| {
            let block = BlockId {
                group: image.group - first,
                number: image.block,
            };
            (image.state as usize, block, image.length)
        });
        self.images.add(file, index, images);
        stored(
            &self.manifest,
            &name,
            self.store.store(NewFile::new(name.clone(), bytes)),
        )
    }

    /// Names the files of the base again, but for those that are being `emptied`.
    fn reuse(&mut self, emptied: &BTreeSet<u32>) -> Result<()> {
        for (number, file) in self.images.files_by_number() {
            let name = &file.name;
            if emptied.contains(&number) || self.settled.contains(name) {
                continue;
            }
            if !stored(&self.manifest, name, self.store.reuse(name))? {
                let message = format!(
                    "operator `{}`: `{name}` was to be used again and is no longer retained, as several \
                     checkpoints are under way; the next snapshot stores everything",
                    self.manifest.head.uid
                );
                return Err(Error::new(ErrorKind::Outdated, message));
            }
            self.settled.insert(name.clone());
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(Snapshot, Images)> {
        self.reuse(&BTreeSet::new())?; // also what could not be emptied
        for file in self.images.files() {
            self.manifest.indexes.push(file.index);
            self.manifest.files.push(File {
                name: file.name.clone(),
                length: file.length,
            });
        }
        let Manifest { head, files, .. } = &self.manifest;
        let snapshot = Snapshot {
            checkpoint: head.checkpoint(),
            groups: head.groups(),
            manifest: format::sealed(MAGIC, &self.manifest)?,
            files: files.iter().map(|file| file.name.clone()).collect(),
            bytes_new: self.bytes_new,
            bytes_full: files.iter().map(|file| file.length).sum(),
        };
        Ok((snapshot, self.images))
    }
}
