//! The `unsafe` code of `cutwater-state`, run by tools that find what tests do not. A crate of its own,
//! so that each tool builds what it needs and no more:
//!
//! | `cargo xtask test` | what runs | what it would find |
//! |---|---|---|
//! | `loom` | the module of `state` with the `unsafe` code, task against writers | an interleaving in which both touch one buffer |
//! | `asan` | random operations on whole states, with values that own memory | memory used after it was freed, freed twice, or lost |

#[cfg(loom)]
#[path = "../../src/table/blocks/mod.rs"]
mod blocks;
