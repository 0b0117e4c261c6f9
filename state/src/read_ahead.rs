//! Reading several pieces at once while those before them are worked on.
//!
//! A restore is bound by the processor and by where the files are in turn, if it reads, then decodes, then reads
//! again; and a store across a network answers a single reader slowly.

use std::{sync::mpsc, thread};

/// So many readers there are. Each has one piece, which it reads or holds ready. More would be in the way of the other
/// subtasks of a machine that restores from its own disk.
const READERS: usize = 2;

/// Calls `work` with each item and with what `read` makes of it, in order, until it fails. Items are read in other
/// threads, a few ahead.
pub(crate) fn read_ahead<T: Sync, R: Send, E>(
    items: &[T],
    read: impl Fn(&T) -> R + Sync,
    mut work: impl FnMut(&T, R) -> Result<(), E>,
) -> Result<(), E> {
    if let [item] = items {
        return work(item, read(item));
    }
    thread::scope(|scope| {
        let read = &read;
        let readers: Vec<_> = (0..READERS.min(items.len()))
            .map(|first| {
                let (sender, receiver) = mpsc::sync_channel(0);
                scope.spawn(move || {
                    let mine = items.iter().skip(first).step_by(READERS);
                    // Nobody wants more once `work` has failed.
                    mine.map(read).try_for_each(|piece| sender.send(piece))
                });
                receiver
            })
            .collect();
        for (item, reader) in items.iter().zip(readers.iter().cycle()) {
            let Ok(piece) = reader.recv() else {
                break; // the reader has panicked, and this scope will
            };
            work(item, piece)?;
        }
        Ok(())
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    #[test]
    fn every_item_comes_once_and_in_order() {
        for count in [0, 1, 2, READERS, 5 * READERS + 1] {
            let items: Vec<usize> = (0..count).collect();
            let mut seen = Vec::new();
            let all = read_ahead(
                &items,
                |item| item * 10,
                |&item, read| {
                    assert_eq!(read, item * 10);
                    seen.push(item);
                    Ok::<_, ()>(())
                },
            );
            assert_eq!((all, seen), (Ok(()), items));
        }
    }

    #[test]
    fn nothing_is_read_far_ahead_and_nothing_more_after_a_failure() {
        let items: Vec<usize> = (0..1000).collect();
        let reads = AtomicUsize::new(0);
        let read = |_: &usize| reads.fetch_add(1, Ordering::SeqCst);
        let failed = read_ahead(&items, read, |&item, _| {
            // Of each reader one piece that is ready or under way, and of those who were served another.
            assert!(reads.load(Ordering::SeqCst) <= item + 1 + READERS);
            if item == 10 { Err("no") } else { Ok(()) }
        });
        assert_eq!(failed, Err("no"));
        assert!(reads.into_inner() <= 11 + READERS);
    }

    #[test]
    fn a_reader_that_panics_takes_the_caller_along() {
        let items: Vec<usize> = (0..100).collect();
        let read = |item: &usize| assert_ne!(*item, 20, "it cannot be read");
        let result = catch_unwind(AssertUnwindSafe(|| {
            read_ahead(&items, read, |_, ()| Ok::<_, ()>(()))
        }));
        result.expect_err("the panic is passed on");
    }
}
