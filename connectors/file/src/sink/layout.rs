//! Where things are:
//!
//! ```text
//!   <directory>/<job>.<uid>-<generation>-<subtask>-<number>.jsonl         visible
//!   <directory>/.staging/<job>.<uid>/fence-<generation>                   the fence
//!   <directory>/.staging/<job>.<uid>/<generation>/<the name it will have> open or prepared
//!   <directory>/.staging/<job>.<uid>/<generation>.fenced/…                out of its writers' reach
//! ```

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use cutwater_barrier::Generation;

#[derive(Clone, Debug)]
pub(super) struct Layout {
    directory: PathBuf,
    sink: String,
    extension: String,
}

/// A directory of staged files, as found on disk.
#[derive(Debug)]
pub(super) struct Staging {
    pub(super) generation: Generation,
    pub(super) is_fenced: bool,
    pub(super) path: PathBuf,
}

impl Layout {
    pub(super) fn new(
        directory: &Path,
        job: &str,
        uid: &str,
        extension: &str,
    ) -> Result<Self, String> {
        if job.is_empty() || uid.is_empty() {
            return Err(
                "the job's name and the sink's uid stand in its file names; set both".into(),
            );
        }
        Ok(Self {
            directory: directory.to_owned(),
            sink: format!("{}.{}", escape(job), escape(uid)),
            extension: extension.to_owned(),
        })
    }

    pub(super) fn file_name(&self, generation: Generation, subtask: u16, number: u64) -> String {
        let generation = generation.get();
        format!(
            "{}-{generation:010}-{subtask:05}-{number:010}.{}",
            self.sink, self.extension
        )
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn target(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The directory of this sink's staging directories.
    pub(super) fn root(&self) -> PathBuf {
        self.directory.join(".staging").join(&self.sink)
    }

    pub(super) fn staging(&self, generation: Generation) -> PathBuf {
        self.root().join(format!("{:010}", generation.get()))
    }

    pub(super) fn fenced(&self, generation: Generation) -> PathBuf {
        self.root().join(format!("{:010}.fenced", generation.get()))
    }

    pub(super) fn fence(&self, generation: Generation) -> PathBuf {
        self.root().join(format!("fence-{:010}", generation.get()))
    }

    /// A name to try a link with.
    pub(super) fn probe(&self) -> PathBuf {
        self.root().join("probe")
    }

    /// The fences there are. The newest counts; a lower one that comes later changes nothing.
    pub(super) fn fences(&self) -> io::Result<Vec<Generation>> {
        let fences = self.names()?;
        let fences = fences.iter().filter_map(|name| name.strip_prefix("fence-"));
        Ok(fences.filter_map(generation).collect())
    }

    /// The newest fence, if it is newer than `generation`.
    pub(super) fn newer_fence(&self, generation: Generation) -> io::Result<Option<Generation>> {
        let newest = self.fences()?.into_iter().max();
        Ok(newest.filter(|newest| *newest > generation))
    }

    /// The staging directories there are, oldest first.
    pub(super) fn stagings(&self) -> io::Result<Vec<Staging>> {
        let mut found = Vec::new();
        for name in self.names()? {
            let (digits, is_fenced) = match name.strip_suffix(".fenced") {
                Some(digits) => (digits, true),
                None => (&*name, false),
            };
            if let Some(generation) = generation(digits) {
                found.push(Staging {
                    generation,
                    is_fenced,
                    path: self.root().join(&name),
                });
            }
        }
        found.sort_by_key(|staging| (staging.generation, staging.is_fenced));
        Ok(found)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        names_in(&self.root())
    }
}

/// The names in a directory; none if it is missing. Names that are not UTF-8 are not ours.
pub(super) fn names_in(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

fn generation(digits: &str) -> Option<Generation> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok().map(Generation::new))?
}

/// Injective, so that two sinks never share names, and without `.` and `/`.
fn escape(name: &str) -> String {
    let mut escaped = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => escaped.push(byte.into()),
            _ => escaped.push_str(&format!("%{byte:02x}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_documented_and_sort_by_generation_subtask_and_number() {
        let layout = Layout::new(Path::new("out"), "flights", "totals", "jsonl").unwrap();
        let name = |g, s, n| layout.file_name(Generation::new(g), s, n);
        assert_eq!(
            name(3, 1, 42),
            "flights.totals-0000000003-00001-0000000042.jsonl"
        );
        assert!(name(2, 1, 999) < name(3, 1, 0));
        assert!(name(3, 1, 9) < name(3, 1, 10));
    }

    #[test]
    fn two_sinks_never_share_names_and_none_is_hidden() {
        let sink = |job, uid| Layout::new(Path::new("out"), job, uid, "csv").map(|l| l.sink);
        assert_ne!(sink("a.b", "c"), sink("a", "b.c"));
        assert_eq!(sink(".a/..", "é").unwrap(), "%2ea%2f%2e%2e.%c3%a9");
        assert!(sink("", "a").is_err() && sink("a", "").is_err());
    }
}
