//! Bringing elements into the order of their key groups, as a snapshot needs them.

use alloc::{vec, vec::Vec};

use crate::{KeyGroup, KeyGroupRange, WrongGroup};

/// Where each key group of a range begins, in a slice or in a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GroupOffsets {
    range: KeyGroupRange,
    offsets: Vec<u64>,
}

impl GroupOffsets {
    /// Every group of `range` at offset 0.
    pub fn new(range: KeyGroupRange) -> Self {
        Self {
            range,
            offsets: vec![0; range.len()],
        }
    }

    /// The groups that have an offset.
    pub fn range(&self) -> KeyGroupRange {
        self.range
    }

    /// Where `group` begins.
    ///
    /// # Errors
    ///
    /// If it is not in the range.
    pub fn get(&self, group: KeyGroup) -> Result<u64, WrongGroup> {
        self.place(group).map(|place| self.offsets[place])
    }

    /// Says where `group` begins.
    ///
    /// # Errors
    ///
    /// If it is not in the range.
    pub fn set(&mut self, group: KeyGroup, offset: u64) -> Result<(), WrongGroup> {
        let place = self.place(group)?;
        self.offsets[place] = offset;
        Ok(())
    }

    /// The groups with their offsets, in order.
    pub fn iter(&self) -> impl Iterator<Item = (KeyGroup, u64)> {
        self.range.into_iter().zip(self.offsets.iter().copied())
    }

    /// The offsets of the groups that are in `other` too.
    #[must_use]
    pub fn intersection(&self, other: KeyGroupRange) -> Self {
        let range = self.range.intersection(other);
        let kept = self.iter().filter(|(group, _)| range.contains(*group));
        Self {
            range,
            offsets: kept.map(|(_, offset)| offset).collect(),
        }
    }

    fn place(&self, group: KeyGroup) -> Result<usize, WrongGroup> {
        self.range.check(group)?;
        Ok(usize::from(group.get() - self.range.start()))
    }
}

/// Sorts `elements` by key group, in place, and says at which index each group begins.
///
/// Elements of one group keep their order (case F081). Linear in their number; needs a word for
/// each beside the slice, and calls `group_of` twice for each.
///
/// # Errors
///
/// If an element's group is not in `range`. Nothing has moved then.
pub fn partition_by_group<T>(
    elements: &mut [T],
    range: KeyGroupRange,
    group_of: impl Fn(&T) -> KeyGroup,
) -> Result<GroupOffsets, WrongGroup> {
    let mut counts = GroupOffsets::new(range);
    for element in &*elements {
        let place = counts.place(group_of(element))?;
        counts.offsets[place] += 1;
    }
    let mut next = Vec::with_capacity(range.len());
    let mut begins = counts;
    let mut before = 0;
    for offset in &mut begins.offsets {
        let count = core::mem::replace(offset, before as u64);
        next.push(before);
        before += usize::try_from(count).expect("not more than there are elements");
    }
    let mut destinations = Vec::with_capacity(elements.len());
    for element in &*elements {
        let next = &mut next[begins.place(group_of(element))?];
        destinations.push(*next);
        *next += 1;
    }
    // Each swap brings one element home.
    for at in 0..elements.len() {
        while destinations[at] != at {
            let home = destinations[at];
            elements.swap(at, home);
            destinations.swap(at, home);
        }
    }
    Ok(begins)
}
