//! Reading the next pieces while those before them are worked on.
//!
//! A restore that reads, then decodes, then reads again lets the processor and the store wait for each other in turn.

use std::{
    sync::mpsc::{self, Receiver},
    thread,
};

/// So many pieces are read at the same time: a store that is far away answers late, but answers many at once.
const READERS: usize = 4;

/// So many pieces of each reader wait, beside one that it reads.
const READY: usize = 1;

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
        let readers: Vec<Receiver<R>> = (0..READERS.min(items.len()))
            .map(|first| {
                let (sender, receiver) = mpsc::sync_channel(READY);
                let mine = items.iter().skip(first).step_by(READERS).map(&read);
                // Nobody wants more once `work` has failed.
                scope.spawn(move || {
                    mine.map(|piece| sender.send(piece))
                        .all(|sent| sent.is_ok())
                });
                receiver
            })
            .collect();
        for (item, reader) in items.iter().zip(readers.iter().cycle()) {
            // If the reader panics, this ends early, and the scope panics.
            let Ok(piece) = reader.recv() else { break };
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

    const AHEAD: usize = READERS * (READY + 1);

    #[test]
    fn every_item_comes_once_and_in_order() {
        for count in [0, 1, 2, READERS, READERS + 1, 50] {
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
            // Those that were worked on, and of each reader those that are ready and one that is read or waits for room.
            assert!(reads.load(Ordering::SeqCst) <= item + 1 + AHEAD);
            if item == 10 { Err("no") } else { Ok(()) }
        });
        assert_eq!(failed, Err("no"));
        assert!(reads.into_inner() <= 11 + AHEAD);
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
