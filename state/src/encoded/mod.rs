//! States whose rows are bytes in a backend: larger than memory, or kept somewhere else.
//!
//! ```text
//! ValueState … ─ KeyedTable ─┬─ Table                       typed memory, nothing else
//!                            └─ Cache ─ RowStore ─ dyn Rows    typed rows in memory over a ByteBackend's
//! ```
//!
//! The states are the same on both roads. On this one reads may miss and so fail, and a snapshot is a
//! checkpoint of the backend: files that it shares with the ones before.

mod backend;
mod batch;
mod cache;
mod expired;
mod manifest;
mod migrate;
mod row;
mod row_key;
mod share;
mod snapshot;
mod store;

pub use backend::{
    ByteBackend, EachRow, Ingest, IsExpired, OldRows, Rows, RowsCheckpoint, RowsFile,
};
pub(crate) use cache::Cache;
pub(crate) use expired::Expired;
pub(crate) use manifest::{Manifest, OldStates, StoredState, is_of_rows};
pub(crate) use migrate::migrate;
pub(crate) use row_key::StateId;
pub(crate) use share::Budget;
pub(crate) use snapshot::{CanonicalRows, Flush, RowsTask};
pub(crate) use store::{FrozenRows, RowStore, Ticket, backend_failed};
