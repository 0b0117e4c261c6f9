//! Rows that were stored as another type, read and kept anew.

use std::ops::ControlFlow;

use cutwater_keygroups::{KeyGroup, KeyGroupRange};

use super::{
    row_key::{self, HEAD},
    store::backend_failed,
};
use crate::{Result, keyed_table::AnyTable, place::Place, restore::Unreadable};

/// Loads the state's rows in `groups` as the table reads them now: each goes to the row cache as a change, and
/// from there back to the store.
pub(crate) fn migrate<K>(
    place: &Place,
    groups: KeyGroupRange,
    table: &mut dyn AnyTable<K>,
) -> Result<()> {
    let store = place.store().expect("its rows are in one");
    let owned = place.groups().intersection(groups);
    for group in owned.start()..owned.end() {
        let (from, to) = row_key::range(group, place.id());
        let mut result = Ok(());
        let scanned = store.rows().scan(&from, &to, &mut |key, value| {
            let entry = [&key[HEAD..], value].concat();
            let mut rest = &entry[..];
            result = table.load(KeyGroup::new(group), 1, &mut rest);
            match result {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        scanned.map_err(|error| backend_failed(place, "scanning rows", error))?;
        result.map_err(|reason| match reason {
            Unreadable::Key => place.corrupt("a row", "its key does not decode"),
            Unreadable::Value(error) => {
                let corrupt = place.corrupt("a row", "its value does not decode as the older type");
                corrupt.with_source(error)
            }
            Unreadable::NotKept(error) => error,
        })?;
    }
    Ok(())
}
