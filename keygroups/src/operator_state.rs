//! Redistribution of operator state, which has no key: three ways, as in Flink.
//!
//! `old` has an entry for each old subtask, by number. A subtask that reported no state has an
//! empty entry, and the rest is restored all the same (case F091).

use alloc::vec::Vec;

/// Deals the elements of a split list out to `parallelism` subtasks.
///
/// Each gets as many as any other, or one more, in the order in which the old subtasks had them
/// (case F088). If the number of subtasks stays, so does every element (F087).
///
/// # Panics
///
/// If `parallelism` is 0: the elements would be lost.
pub fn split<T>(old: Vec<Vec<T>>, parallelism: u16) -> Vec<Vec<T>> {
    assert!(parallelism > 0, "a job has at least one subtask");
    let parallelism = usize::from(parallelism);
    if old.len() == parallelism {
        return old;
    }
    let count: usize = old.iter().map(Vec::len).sum();
    let mut elements = old.into_iter().flatten();
    (0..parallelism)
        .map(|subtask| {
            let one_more = usize::from(subtask < count % parallelism);
            elements
                .by_ref()
                .take(count / parallelism + one_more)
                .collect()
        })
        .collect()
}

/// Gives all elements of a union list to each of `parallelism` subtasks, in the order of the old
/// subtasks (case F089).
pub fn union<T: Clone>(old: Vec<Vec<T>>, parallelism: u16) -> Vec<Vec<T>> {
    let all: Vec<T> = old.into_iter().flatten().collect();
    core::iter::repeat_n(all, usize::from(parallelism)).collect()
}

/// Gives each of `parallelism` subtasks one copy of a broadcast state, which is the same in every
/// old subtask.
///
/// A subtask gets its own copy where there is one; the others take turns at those there are, so
/// that not all read the same object (case F090). `None` for all if no old subtask has a copy.
pub fn broadcast<T: Clone>(old: &[Option<T>], parallelism: u16) -> Vec<Option<T>> {
    let copies: Vec<&T> = old.iter().flatten().collect();
    let copy_for = |subtask: usize| {
        let own = old.get(subtask).and_then(Option::as_ref);
        own.or_else(|| Some(copies[subtask.checked_rem(copies.len())?]))
            .cloned()
    };
    (0..usize::from(parallelism)).map(copy_for).collect()
}
