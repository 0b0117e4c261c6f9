//! Where the keys of the coming batch are, so that each access need not search again.
//!
//! A prefetch looks for every key's entry anyway. It leaves the places here, in the order of the batch, and
//! an access takes the next one whose hash is its own. A hint may be out of date (an entry moved, a
//! block split, another batch): whoever takes it compares the key that is there now.

use std::cell::Cell;

use cutwater_keygroups::KeyHash;

/// A place that was right when the batch was prefetched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hint {
    pub(crate) hash: KeyHash,
    pub(crate) block: u32,
    /// [`NOWHERE`] if the key was not there.
    pub(crate) at: u32,
}

/// No position in a block.
const NOWHERE: u32 = u32::MAX;

/// The places of one batch.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    hints: Vec<Hint>,
    /// The last one taken: a record may access its key's state several times.
    at: Cell<usize>,
}

impl Hints {
    pub(crate) fn clear(&mut self) {
        self.hints.clear();
        self.at.set(0);
    }

    pub(crate) fn len(&self) -> usize {
        self.hints.len()
    }

    /// Adds the block where `hash` belongs; where in it is to be found out.
    #[inline]
    pub(crate) fn push(&mut self, hash: KeyHash, block: usize) {
        if let Ok(block) = u32::try_from(block) {
            let at = NOWHERE;
            self.hints.push(Hint { hash, block, at });
        }
    }

    /// Those from number `start` on.
    pub(crate) fn since(&mut self, start: usize) -> &mut [Hint] {
        &mut self.hints[start..]
    }

    /// The hint for an access to `hash`, if it is the last one taken or the one after.
    #[inline]
    pub(crate) fn next_for(&self, hash: KeyHash) -> Option<Hint> {
        let at = self.at.get();
        let last = self.hints.get(at)?;
        if last.hash == hash {
            return Some(*last);
        }
        let next = self.hints.get(at + 1)?;
        if next.hash == hash {
            self.at.set(at + 1);
            return Some(*next);
        }
        None
    }
}
