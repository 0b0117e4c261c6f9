//! Manifests of version 1, which knew neither namespaces nor elements that expire.

use serde::Deserialize;

use super::{File, Head, Kind, Section, Shape, State};

pub(super) const MAGIC: &[u8; 8] = b"CWSTATE\x01";

#[derive(Deserialize)]
pub(super) struct Manifest {
    checkpoint: u64,
    uid: String,
    max_parallelism: u16,
    groups: (u16, u16),
    grouping: String,
    key_type: String,
    files: Vec<File>,
    states: Vec<StateV1>,
}

#[derive(Deserialize)]
struct StateV1 {
    name: String,
    kind: Kind,
    schema: String,
    sections: Vec<Section>,
}

impl From<Manifest> for super::Manifest {
    fn from(old: Manifest) -> Self {
        Self {
            head: Head {
                checkpoint: old.checkpoint,
                uid: old.uid,
                max_parallelism: old.max_parallelism,
                groups: old.groups,
                grouping: old.grouping,
                key: String::new(),
                key_type: old.key_type,
            },
            files: old.files,
            states: old.states.into_iter().map(State::from).collect(),
            indexes: Vec::new(),
        }
    }
}

impl From<StateV1> for State {
    fn from(old: StateV1) -> Self {
        Self {
            name: old.name,
            shape: Shape {
                kind: old.kind,
                schema: old.schema,
                namespace: "()".to_owned(),
                stamped: false,
            },
            sections: old.sections,
        }
    }
}
