//! Slots and tags: linear probing over one slice of optional entries.

use std::num::NonZeroU64;

use cutwater_keygroups::KeyHash;

/// The hash as it stands in a slot. Bit 0 is always set, which makes an `Option<Entry>` as large as
/// an `Entry`.
///
/// As wide as the hash, although a region tells its keys apart by less: the compiler then puts it in
/// front of key and value, so whoever has read the tags of a slot and of the next one has the whole
/// entry in the cache.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Tag(NonZeroU64);

/// Bits of a tag that choose the slot in a region of full size; the directory uses those above.
const SLOT_BITS: u32 = 9;

/// Bits of a tag that are left for the directory: the upper half of the hash chose the group.
pub(crate) const DIRECTORY_BITS: u32 = 32 - 1 - SLOT_BITS;

impl Tag {
    #[inline]
    pub(crate) fn of(hash: KeyHash) -> Self {
        Self(NonZeroU64::MIN | hash.0)
    }

    #[inline]
    pub(crate) fn directory_bits(self) -> usize {
        (KeyHash(self.0.get()).lower() >> (1 + SLOT_BITS)) as usize
    }

    #[inline]
    fn slot_bits(self) -> usize {
        (KeyHash(self.0.get()).lower() >> 1) as usize
    }
}

/// Tag, key and value.
///
/// A tuple, because the standard library copies a slice of these as one block where key and value
/// are plain data; it clones a generic struct that derives `Copy` one by one, and branches at each empty slot.
pub(crate) type Entry<K, V> = (Tag, K, V);

/// A power of two of slots, at least one of them empty, so that each probe ends.
pub(crate) type Slots<K, V> = Vec<Option<Entry<K, V>>>;

/// Slots of a region of full size, a power of two: about 12 KiB, the bytes that the first write
/// after a snapshot copies. 512 for a `u64` key and an `i64` value.
pub(crate) const fn slots_max<K, V>() -> usize {
    const BYTES: usize = 12 * 1024;
    let mut slots = SLOTS_MIN;
    while slots < 1 << SLOT_BITS && 2 * slots * size_of::<Option<Entry<K, V>>>() <= BYTES {
        slots *= 2;
    }
    slots
}

/// Slots of the first region of a group, so that 32768 groups with one key each stay small.
pub(crate) const SLOTS_MIN: usize = 8;

pub(crate) fn empty_slots<K, V>(count: usize) -> Slots<K, V> {
    (0..count).map(|_| None).collect()
}

/// Where an entry would like to be among `count` slots.
#[inline]
pub(crate) fn home(tag: Tag, count: usize) -> usize {
    tag.slot_bits() & (count - 1)
}

/// The slot of `key`.
#[inline]
pub(crate) fn probe<K: Eq, V>(slots: &[Option<Entry<K, V>>], tag: Tag, key: &K) -> Option<usize> {
    let mut at = home(tag, slots.len());
    while let Some((found, found_key, _)) = &slots[at] {
        if *found == tag && found_key == key {
            return Some(at);
        }
        at = (at + 1) & (slots.len() - 1);
    }
    None
}

/// The first slot with this tag, which nearly always is that of the key.
#[inline]
pub(crate) fn probe_tag<K, V>(slots: &[Option<Entry<K, V>>], tag: Tag) -> Option<usize> {
    let mut at = home(tag, slots.len());
    while let Some((found, ..)) = &slots[at] {
        if *found == tag {
            return Some(at);
        }
        at = (at + 1) & (slots.len() - 1);
    }
    None
}

/// The slot for a new entry.
#[inline]
pub(crate) fn first_empty<K, V>(slots: &[Option<Entry<K, V>>], tag: Tag) -> usize {
    let mut at = home(tag, slots.len());
    while slots[at].is_some() {
        at = (at + 1) & (slots.len() - 1);
    }
    at
}

/// Moves later entries of the run back, so that no search stops at the empty slot `gap` too early.
pub(crate) fn close_gap<K, V>(slots: &mut [Option<Entry<K, V>>], mut gap: usize) {
    let mask = slots.len() - 1;
    let mut at = (gap + 1) & mask;
    while let Some((tag, ..)) = &slots[at] {
        let from_home = at.wrapping_sub(home(*tag, slots.len())) & mask;
        if from_home >= at.wrapping_sub(gap) & mask {
            slots[gap] = slots[at].take();
            gap = at;
        }
        at = (at + 1) & mask;
    }
}
