//! Reading the next pieces while those before them are worked on.
//!
//! A restore that reads, then decodes, then reads again lets the processor and the store wait for each other in turn.

use std::{sync::mpsc, thread};

/// So many pieces wait, beside one that is being read. More readers would be in the way of the other subtasks of a machine
/// that restores from its own disk (measured: two are slower than one there).
const READY: usize = 1;

/// Calls `work` with each item and with what `read` makes of it, in order, until it fails. Items are read in another
/// thread, a few ahead.
pub(crate) fn read_ahead<T: Sync, R: Send, E>(
    items: &[T],
    read: impl Fn(&T) -> R + Send,
    mut work: impl FnMut(&T, R) -> Result<(), E>,
) -> Result<(), E> {
    if let [item] = items {
        return work(item, read(item));
    }
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(READY);
        scope.spawn(move || {
            // Nobody wants more once `work` has failed.
            items
                .iter()
                .map(read)
                .try_for_each(|piece| sender.send(piece))
        });
        // If the reader panics, this ends early, and the scope panics.
        let mut pieces = items.iter().zip(receiver);
        pieces.try_for_each(|(item, piece)| work(item, piece))
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
        for count in [0, 1, 2, 20] {
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
            // Those that were worked on, that are ready, and one that is read or waits for room.
            assert!(reads.load(Ordering::SeqCst) <= item + 1 + READY + 1);
            if item == 10 { Err("no") } else { Ok(()) }
        });
        assert_eq!(failed, Err("no"));
        assert!(reads.into_inner() <= 11 + READY + 1);
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
