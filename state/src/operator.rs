//! Operator state: what belongs to a subtask, not to a key; dealt out anew when their number changes.
//!
//! | kind | a subtask sees | after P → P' subtasks |
//! |---|---|---|
//! | list | its own elements | all elements in order, cut into P' even parts; untouched if P' = P |
//! | union | its own elements | every subtask gets all elements of all |
//! | broadcast | the same map everywhere | its own copy; a new subtask that of an old one |

use std::{
    any::Any,
    collections::BTreeMap,
    fmt, mem,
    ops::{Index, IndexMut},
};

use cutwater_keygroups::operator_state;
use serde::{Deserialize, Serialize};

use crate::{
    Data, Descriptor, Error, ErrorKind, Handle, Result, Schema, format,
    names::Names,
    schema::{Migration, Reading},
};

/// Starts each snapshot; the last byte is the version.
const MAGIC: &[u8; 8] = b"CWOPSTA\x01";

/// The operator states of one subtask: plain vectors and maps, declared by name.
///
/// ```
/// use cutwater_state::OperatorStates;
///
/// let mut states = OperatorStates::new("files");
/// let pending = states.list::<String>("pending")?;
/// states[pending].extend(["a".to_owned(), "b".to_owned()]);
/// let bytes = states.snapshot()?;
///
/// // Two subtasks go on where one stopped.
/// let mut second = OperatorStates::restore("files", 1, 2, [bytes])?;
/// let pending = second.list::<String>("pending")?;
/// assert_eq!(second[pending], ["b"]);
/// # Ok::<(), cutwater_state::Error>(())
/// ```
pub struct OperatorStates {
    uid: String,
    states: Vec<Declared>,
    /// This subtask, out of how many.
    subtask: u16,
    parallelism: u16,
    /// For each old subtask, its states.
    old: Vec<Vec<Stored>>,
}

struct Declared {
    names: Names,
    kind: Kind,
    schema: Schema,
    state: Box<dyn OperatorState>,
}

/// One state as it stands in a snapshot.
#[derive(Debug, Deserialize, Serialize)]
struct Stored {
    name: String,
    kind: Kind,
    schema: String,
    /// Each element as postcard; of a broadcast map, each entry.
    elements: Vec<Vec<u8>>,
}

impl Stored {
    /// The elements, as those of a state declared with `kind` and `schema`.
    fn read<T: Data>(
        &self,
        place: &str,
        kind: Kind,
        schema: &Schema,
        older: &[Migration<T>],
    ) -> Result<Vec<T>> {
        let reading = Reading::of(&self.schema, schema, older);
        let Some(reading) = reading.filter(|_| self.kind == kind) else {
            let message = format!(
                "{place}: restored as {} state of `{}`, declared as {} state of `{schema}`; say how to \
                 convert it with `Descriptor::migrate_from`, give a changed state a new name, or restore \
                 with the program that wrote it",
                self.kind.name(),
                self.schema,
                kind.name(),
            );
            return Err(Error::new(ErrorKind::Incompatible, message));
        };
        let elements = self.elements.iter();
        let elements = elements.map(|bytes| reading.value(&mut &bytes[..]));
        elements.collect::<Result<_, _>>().map_err(|e| {
            let message = format!("{place}: an element does not decode");
            Error::new(ErrorKind::Corrupt, message).with_source(e)
        })
    }
}

#[derive(Debug, Deserialize, Serialize)]
struct Snapshot {
    uid: String,
    states: Vec<Stored>,
}

/// In the order of their numbers in the format.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
enum Kind {
    List,
    Union,
    Broadcast,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Union => "union",
            Self::Broadcast => "broadcast",
        }
    }
}

impl OperatorStates {
    /// No states yet, of the operator `uid`.
    pub fn new(uid: &str) -> Self {
        Self {
            uid: uid.to_owned(),
            states: Vec::new(),
            subtask: 0,
            parallelism: 1,
            old: Vec::new(),
        }
    }

    /// As [`new`](Self::new), for subtask `subtask` of `parallelism`, with states to come from
    /// `old` as they are declared: the snapshots of all old subtasks, in order, without bytes for those
    /// that had none.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](ErrorKind::Corrupt) bytes; [`Incompatible`](ErrorKind::Incompatible) if they are of
    /// another operator uid.
    ///
    /// # Panics
    ///
    /// Unless `subtask` is less than `parallelism`.
    pub fn restore(
        uid: &str,
        subtask: u16,
        parallelism: u16,
        old: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Result<Self> {
        assert!(subtask < parallelism, "subtasks are numbered from 0");
        let old = old.into_iter().enumerate();
        let old = old.map(|(number, bytes)| open(uid, number, bytes.as_ref()));
        Ok(Self {
            subtask,
            parallelism,
            old: old.collect::<Result<_>>()?,
            ..Self::new(uid)
        })
    }

    /// The bytes of an operator that has a single list state, called `name`, with these elements: such
    /// as what a sink's writer hands to its successors.
    ///
    /// # Errors
    ///
    /// As for [`list`](Self::list) and [`snapshot`](Self::snapshot).
    pub fn snapshot_list<T: Data>(
        uid: &str,
        name: impl Into<Descriptor<T>>,
        elements: Vec<T>,
    ) -> Result<Vec<u8>> {
        let mut states = Self::new(uid);
        let list = states.list(name)?;
        states[list] = elements;
        states.snapshot()
    }

    /// What [`snapshot_list`](Self::snapshot_list) wrote in all old subtasks, dealt out anew: the share
    /// of subtask `subtask` of `parallelism`.
    ///
    /// # Errors
    ///
    /// As for [`restore`](Self::restore) and [`list`](Self::list).
    ///
    /// # Panics
    ///
    /// Unless `subtask` is less than `parallelism`.
    pub fn restore_list<T: Data>(
        uid: &str,
        name: impl Into<Descriptor<T>>,
        subtask: u16,
        parallelism: u16,
        old: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Result<Vec<T>> {
        let mut states = Self::restore(uid, subtask, parallelism, old)?;
        let list = states.list(name)?;
        Ok(mem::take(&mut states[list]))
    }

    /// Declares a list whose elements are dealt out evenly when the number of subtasks changes.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the name is taken, or no schema can be derived for `T`.
    /// [`Incompatible`](ErrorKind::Incompatible) if the state was restored with another kind or
    /// schema, with both in the message. [`Corrupt`](ErrorKind::Corrupt) from reading.
    pub fn list<T: Data>(
        &mut self,
        descriptor: impl Into<Descriptor<T>>,
    ) -> Result<Handle<Vec<T>>> {
        self.declare(descriptor.into(), Kind::List)
    }

    /// Declares a list of which every subtask gets all elements of all subtasks on restore.
    ///
    /// # Errors
    ///
    /// As for [`list`](Self::list).
    pub fn union<T: Data>(
        &mut self,
        descriptor: impl Into<Descriptor<T>>,
    ) -> Result<Handle<Vec<T>>> {
        self.declare(descriptor.into(), Kind::Union)
    }

    /// Declares a map that is the same in every subtask, which is for the operator to see to.
    ///
    /// # Errors
    ///
    /// As for [`list`](Self::list).
    pub fn broadcast<K: Data + Ord, V: Data>(
        &mut self,
        descriptor: impl Into<Descriptor<(K, V)>>,
    ) -> Result<Handle<BTreeMap<K, V>>> {
        self.declare(descriptor.into(), Kind::Broadcast)
    }

    /// Names that were restored and not declared (yet), sorted. Going on without them loses them at
    /// the next snapshot.
    pub fn undeclared(&self) -> Vec<&str> {
        let restored = self.old.iter().flatten().map(|stored| stored.name.as_str());
        Names::undeclared(restored, self.names())
    }

    /// All states as bytes, for the checkpoint's metadata; no bytes if all are empty.
    ///
    /// They are serialised here, in the task's thread: operator state is small (splits, positions,
    /// rules). What is large belongs under a key.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if a value refuses to be serialised.
    pub fn snapshot(&self) -> Result<Vec<u8>> {
        let store = |declared: &Declared| {
            let elements = declared.state.elements().map_err(|e| {
                let message = format!(
                    "{}: a value refuses to be serialised",
                    self.place(declared.names.name())
                );
                Error::new(ErrorKind::Invalid, message).with_source(e)
            })?;
            Ok(Stored {
                name: declared.names.name().to_owned(),
                kind: declared.kind,
                schema: declared.schema.to_string(),
                elements,
            })
        };
        let states = self.states.iter().map(store).collect::<Result<Vec<_>>>()?;
        if states.iter().all(|state| state.elements.is_empty()) {
            return Ok(Vec::new());
        }
        let uid = self.uid.clone();
        format::sealed(MAGIC, &Snapshot { uid, states })
    }

    fn names(&self) -> impl Iterator<Item = &Names> + Clone {
        self.states.iter().map(|declared| &declared.names)
    }

    fn declare<S: TypedState>(
        &mut self,
        descriptor: Descriptor<S::Element>,
        kind: Kind,
    ) -> Result<Handle<S>> {
        let place = self.place(descriptor.names.name());
        descriptor.names.check_free(&place, self.names())?;
        let schema = descriptor.schema(&place)?;
        let elements = self.restored(&descriptor, kind, &schema)?;
        self.states.push(Declared {
            names: descriptor.names,
            kind,
            schema,
            state: Box::new(elements.into_iter().collect::<S>()),
        });
        Ok(Handle::new(self.states.len() - 1))
    }

    /// This subtask's share of what was restored under the descriptor's names.
    fn restored<T: Data>(
        &self,
        descriptor: &Descriptor<T>,
        kind: Kind,
        schema: &Schema,
    ) -> Result<Vec<T>> {
        let place = self.place(descriptor.names.name());
        let old = self.old.iter().map(|states| {
            let stored = descriptor
                .names
                .find(&place, states, |stored| &stored.name)?;
            let stored =
                stored.map(|stored| stored.read(&place, kind, schema, &descriptor.migrations));
            stored.transpose()
        });
        let old: Vec<Option<Vec<T>>> = old.collect::<Result<_>>()?;
        let own = usize::from(self.subtask);
        let elements =
            |old: Vec<Option<_>>| old.into_iter().map(Option::unwrap_or_default).collect();
        Ok(match kind {
            Kind::List => operator_state::split(elements(old), self.parallelism).swap_remove(own),
            Kind::Union => old.into_iter().flatten().flatten().collect(),
            Kind::Broadcast => operator_state::broadcast(&old, self.parallelism)
                .swap_remove(own)
                .unwrap_or_default(),
        })
    }

    fn place(&self, state: &str) -> String {
        format!("operator `{}`, operator state `{state}`", self.uid)
    }
}

fn open(uid: &str, subtask: usize, bytes: &[u8]) -> Result<Vec<Stored>> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let what = format!("operator `{uid}`: operator state of old subtask {subtask}");
    let snapshot: Snapshot = format::unsealed(MAGIC, bytes, &what)?;
    if snapshot.uid == uid {
        return Ok(snapshot.states);
    }
    let message = format!(
        "{what}: it is of operator `{}`; restore it there",
        snapshot.uid
    );
    Err(Error::new(ErrorKind::Incompatible, message))
}

impl<S: OperatorState> Index<Handle<S>> for OperatorStates {
    type Output = S;

    /// # Panics
    ///
    /// If the handle is of another registry, and no state of the same type stands at its number here.
    fn index(&self, handle: Handle<S>) -> &S {
        let state: &dyn Any = &*self.states[handle.number()].state;
        state.downcast_ref().expect("a handle of this registry")
    }
}

impl<S: OperatorState> IndexMut<Handle<S>> for OperatorStates {
    /// # Panics
    ///
    /// As [`index`](Self::index).
    fn index_mut(&mut self, handle: Handle<S>) -> &mut S {
        let state: &mut dyn Any = &mut *self.states[handle.number()].state;
        state.downcast_mut().expect("a handle of this registry")
    }
}

impl fmt::Debug for OperatorStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.states.iter().map(|declared| declared.names.name());
        f.debug_struct("OperatorStates")
            .field("uid", &self.uid)
            .field("states", &names.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// A state in the registry, its type erased.
pub(crate) trait OperatorState: Any + Send {
    fn elements(&self) -> Result<Vec<Vec<u8>>, postcard::Error>;
}

/// A state with its type: what it is declared with.
pub(crate) trait TypedState: OperatorState + FromIterator<Self::Element> {
    /// What the schema is about.
    type Element: Data;
}

impl<T: Data> OperatorState for Vec<T> {
    fn elements(&self) -> Result<Vec<Vec<u8>>, postcard::Error> {
        self.iter().map(postcard::to_stdvec).collect()
    }
}

impl<T: Data> TypedState for Vec<T> {
    type Element = T;
}

impl<K: Data + Ord, V: Data> OperatorState for BTreeMap<K, V> {
    fn elements(&self) -> Result<Vec<Vec<u8>>, postcard::Error> {
        self.iter()
            .map(|entry| postcard::to_stdvec(&entry))
            .collect()
    }
}

impl<K: Data + Ord, V: Data> TypedState for BTreeMap<K, V> {
    type Element = (K, V);
}
