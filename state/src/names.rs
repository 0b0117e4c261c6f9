//! What a state is called, and was called before: how it is found among the restored ones.

use std::fmt;

use crate::{Error, ErrorKind, Result};

/// The names of one state; of all states, no two share one.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    name: String,
    formerly: Vec<String>,
}

impl Names {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            formerly: Vec::new(),
        }
    }

    pub(crate) fn add_former(&mut self, name: String) {
        self.formerly.push(name);
    }

    /// The present one.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn contain(&self, name: &str) -> bool {
        self.name == name || self.formerly.iter().any(|former| former == name)
    }

    /// Refuses names that are `taken`.
    pub(crate) fn check_free<'a>(
        &self,
        place: &impl fmt::Display,
        mut taken: impl Iterator<Item = &'a Self>,
    ) -> Result<()> {
        let shared = |other: &Self| {
            let mut names = other.formerly.iter().chain([&other.name]);
            names.find(|name| self.contain(name)).cloned()
        };
        let Some(name) = taken.find_map(shared) else {
            return Ok(());
        };
        let message = format!(
            "{place}: `{name}` is or was the name of another state; give each state its own name"
        );
        Err(Error::new(ErrorKind::Invalid, message))
    }

    /// The one of the restored `states` that had one of these names.
    pub(crate) fn find<'a, S>(
        &self,
        place: &impl fmt::Display,
        states: impl IntoIterator<Item = &'a S>,
        name_of: impl Fn(&S) -> &str,
    ) -> Result<Option<&'a S>> {
        let mut found = states
            .into_iter()
            .filter(|state| self.contain(name_of(state)));
        let first = found.next();
        if let (Some(first), Some(second)) = (first, found.next()) {
            let message = format!(
                "{place}: it was called `{}` or `{}`, and the snapshot has both; leave one of the names out",
                name_of(first),
                name_of(second)
            );
            return Err(Error::new(ErrorKind::Incompatible, message));
        }
        Ok(first)
    }

    /// Those of the `restored` names that none of the `declared` states has, sorted.
    pub(crate) fn undeclared<'a>(
        restored: impl Iterator<Item = &'a str>,
        declared: impl Iterator<Item = &'a Self> + Clone,
    ) -> Vec<&'a str> {
        let mut names: Vec<_> = restored
            .filter(|name| !declared.clone().any(|names| names.contain(name)))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}
