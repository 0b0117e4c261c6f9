//! The index at the end of a file of images, and which images of several files count.

use std::collections::BTreeMap;

use cutwater_keygroups::{KeyGroup, KeyGroupRange};
use serde::{Deserialize, Serialize};

use crate::{
    Result,
    format::{self, Manifest, Section},
    read_ahead::read_ahead,
};

/// One image: the entries of a block. Images stand one after the other, so where each begins follows.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Indexed {
    /// Which of the manifest's states.
    pub(crate) state: u32,
    pub(crate) block: u32,
    pub(crate) group: u16,
    pub(crate) length: u64,
    pub(crate) entries: u64,
    pub(crate) crc32c: u32,
}

/// Finds the images that count, and lists them in the manifest as the sections of their states; of those
/// of the key groups `groups` only. `read` reads the index of a file, by its place in the manifest.
pub(crate) fn resolve(
    manifest: &mut Manifest,
    groups: KeyGroupRange,
    read: impl Fn(&Manifest, usize) -> Result<Vec<Indexed>> + Sync,
) -> Result<()> {
    let mut newest = BTreeMap::new();
    let files: Vec<usize> = (0..manifest.indexes.len()).collect();
    let read = |file: &usize| read(manifest, *file);
    read_ahead(&files, read, |&file, images| {
        let mut offset = format::MAGIC.len() as u64;
        for image in images? {
            let section = Section {
                group: image.group,
                file: u32::try_from(file).expect("fewer than 2^32 files"),
                offset,
                length: image.length,
                entries: image.entries,
                crc32c: image.crc32c,
            };
            offset = offset.saturating_add(image.length);
            if groups.contains(KeyGroup::new(image.group)) {
                newest.insert((image.state, image.block), section);
            }
        }
        Ok(())
    })?;
    for ((state, _), section) in newest {
        if let Some(state) = manifest.states.get_mut(state as usize) {
            state.sections.push(section);
        }
    }
    for state in &mut manifest.states {
        // So that what stands side by side is read at once.
        let place = |section: &Section| (section.file, section.offset);
        state.sections.sort_unstable_by_key(place);
    }
    Ok(())
}
