//! Incremental snapshots: of each block of a table an image, the newest of which counts.
//!
//! ```text
//! base    file 1: a b c d e f        image = the entries of one block, file = images and their index
//! next    file 2:   b'    e'         b and e were written to since the base: 4 of file 1's 6 count
//! next    file 3: a'b"c'             and now 2: less than half, so d and f move as well:
//!                 d f                file 1 is let go of
//! ```
//!
//! A snapshot stores the images of the blocks that were written to since its base, and names the files of the
//! base again in which images still count. To let go of files that are mostly out of date, it also stores
//! what counts in them anew, as long as that is
//!
//! - at most [`MOVED_PER_DEAD`] bytes for each byte that goes out of date with this snapshot, and one file's
//!   worth more: so consolidation is spread over the snapshots that make it necessary;
//! - not being changed by the task at that moment, which then does so for the next snapshot anyway.
//!
//! So the files of a snapshot have at most three times the bytes that count in them, plus four files' worth; and
//! a snapshot stores at most three times the bytes of the blocks that changed, plus a file's worth. A restore
//! reads the indexes, and of the images those that count.

pub(crate) mod index;
#[cfg(test)]
mod tests;
pub(crate) mod writer;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    format::{self, Index},
    snapshot::FILE_BYTES,
    table::BlockId,
};

/// So many bytes are moved at most for each that goes out of date. One would do to keep up: a file that
/// is let go of has more dead bytes than live ones.
const MOVED_PER_DEAD: u64 = 2;

/// So many files at least may be named, however little is in them.
const FILES_MIN: u64 = 32;

/// About what an image takes in its file's index. It counts as part of the image, so that an empty one, which
/// says that older ones do not count, keeps its file as well.
const INDEXED_BYTES: u64 = 20;

/// The images that a snapshot consists of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Images {
    /// When each state was frozen.
    epochs: Vec<u64>,
    /// By state and number of the block, the image that counts.
    blocks: Vec<Vec<Option<Image>>>,
    /// By rising number: the later ones count.
    files: BTreeMap<u32, ImageFile>,
}

#[derive(Clone, Copy, Debug)]
struct Image {
    file: u32,
    group: u16,
    bytes: u64,
}

/// A file of images.
#[derive(Clone, Debug)]
pub(crate) struct ImageFile {
    pub(crate) name: String,
    pub(crate) length: u64,
    pub(crate) index: Index,
    /// Bytes of the images that count.
    live: u64,
}

impl Images {
    /// The epoch in which the table of a state was frozen; `None` if it was not there yet.
    pub(crate) fn epoch(&self, state: usize) -> Option<u64> {
        self.epochs.get(state).copied()
    }

    pub(crate) fn set_epochs(&mut self, epochs: Vec<u64>) {
        self.epochs = epochs;
    }

    /// The files, oldest first.
    pub(crate) fn files(&self) -> impl Iterator<Item = &ImageFile> {
        self.files.values()
    }

    pub(crate) fn files_by_number(&self) -> impl Iterator<Item = (u32, &ImageFile)> {
        self.files.iter().map(|(number, file)| (*number, file))
    }

    /// The number of the next file to be added.
    pub(crate) fn next_file(&self) -> u32 {
        let last = self.files.last_key_value();
        last.map_or(0, |(number, _)| number + 1)
    }

    /// Images of these blocks do not count any more. Returns how many bytes that are.
    pub(crate) fn outdate(&mut self, state: usize, blocks: &[BlockId]) -> u64 {
        let before = self.live();
        for block in blocks {
            self.set(state, *block, None);
        }
        self.files.retain(|_, file| file.live > 0);
        before - self.live()
    }

    /// Adds a file with the images of these blocks, which count from now on.
    pub(crate) fn add(
        &mut self,
        file: format::File,
        index: Index,
        images: impl IntoIterator<Item = (usize, BlockId, u64)>,
    ) {
        let number = self.next_file();
        let file = ImageFile {
            name: file.name,
            length: file.length,
            index,
            live: 0,
        };
        self.files.insert(number, file);
        for (state, block, bytes) in images {
            let image = Image {
                file: number,
                group: block.group,
                bytes,
            };
            self.set(state, block, Some(image));
        }
        self.files.retain(|_, file| file.live > 0);
    }

    /// The files to let go of, if `dead` bytes have just gone out of date: first those with the least in them
    /// that counts, as much as may be moved; then small ones, if there are too many.
    pub(crate) fn to_empty(&self, dead: u64) -> BTreeSet<u32> {
        let mut left = MOVED_PER_DEAD * dead + FILE_BYTES as u64;
        let mut take = |file: &ImageFile| {
            let fits = file.live <= left;
            left -= if fits { file.live } else { 0 };
            fits
        };
        let mut emptied = BTreeSet::new();
        let mut sparse: Vec<_> = self
            .files
            .iter()
            .filter(|(_, file)| file.is_sparse())
            .collect();
        sparse.sort_by_key(|(_, file)| file.live * 1024 / file.length);
        for (number, _) in sparse.into_iter().take_while(|(_, file)| take(file)) {
            emptied.insert(*number);
        }
        let files_max = FILES_MIN + 2 * self.live() / FILE_BYTES as u64;
        let count = (self.files.len() - emptied.len()) as u64;
        if count > files_max {
            let rest = self
                .files
                .iter()
                .filter(|(number, _)| !emptied.contains(number));
            let mut small: Vec<_> = rest.collect();
            small.sort_by_key(|(_, file)| file.live);
            // A quarter more than need be, so that it is not every snapshot's turn.
            let most = usize::try_from(count - files_max * 3 / 4).unwrap_or(usize::MAX);
            let small = small
                .into_iter()
                .take(most)
                .take_while(|(_, file)| take(file));
            emptied.extend(small.map(|(number, _)| *number));
        }
        emptied
    }

    /// The blocks of a state whose images are in these files.
    pub(crate) fn blocks_in(&self, state: usize, files: &BTreeSet<u32>) -> Vec<BlockId> {
        if files.is_empty() {
            return Vec::new();
        }
        let images = self.blocks.get(state).into_iter().flatten();
        let images = (0..).zip(images).filter_map(|(number, image)| {
            let image = image.as_ref()?;
            files.contains(&image.file).then_some(BlockId {
                group: image.group,
                number,
            })
        });
        images.collect()
    }

    fn set(&mut self, state: usize, block: BlockId, image: Option<Image>) {
        if self.blocks.len() <= state {
            self.blocks.resize_with(state + 1, Vec::new);
        }
        let (blocks, number) = (&mut self.blocks[state], block.number as usize);
        if blocks.len() <= number {
            blocks.resize(number + 1, None);
        }
        if let Some(old) = blocks[number].take() {
            let file = self.files.get_mut(&old.file);
            file.expect("a file with an image that counts").live -= old.bytes + INDEXED_BYTES;
        }
        if let Some(new) = &image {
            let file = self.files.get_mut(&new.file);
            file.expect("added just now").live += new.bytes + INDEXED_BYTES;
        }
        self.blocks[state][number] = image;
    }

    fn live(&self) -> u64 {
        self.files.values().map(|file| file.live).sum()
    }
}

impl ImageFile {
    /// Whether less than half of it counts.
    fn is_sparse(&self) -> bool {
        2 * self.live < self.length
    }
}
