//! The half beside the coordinator: gives files their visible name, and shuts older generations out.
//!
//! A commit is a hard link, which unlike a rename never replaces what is there, then the removal of
//! the staged name. What is on disk answers the verdict:
//!
//! | staged | visible | verdict |
//! |---|---|---|
//! | yes | no | link it: committed |
//! | yes | the same file | already committed: a crash came between the two steps |
//! | yes | another file | not committed: somebody else's file is in the way |
//! | no | with the recorded length and hash | already committed |
//! | no | with others | lost: what became visible was changed |
//! | no | no | lost: aborted, swept by a newer generation, or moved away too early |

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use cutwater_barrier::Generation;
use cutwater_sink_2pc::{Committer, Error, Prepared, Result, Verdict};

use super::{
    disk::Disk,
    layout::{Layout, names_in},
    part::Part,
};

/// Commits the files of all subtasks.
#[derive(Debug)]
pub struct FileCommitter {
    disk: Disk,
    layout: Layout,
    generation: Generation,
    /// Generation and name of the open files that writers will take over.
    restored: BTreeSet<(Generation, String)>,
}

/// What the disk says about a transaction.
enum Found {
    Staged,
    /// Both names, one file.
    Both,
    Visible,
    InTheWay,
    Changed,
    Gone,
}

const COMMITTING: &str = "committing a file";

impl FileCommitter {
    pub(super) fn open(
        disk: Disk,
        layout: Layout,
        generation: Generation,
        restored: &[Vec<u8>],
    ) -> Result<Self> {
        let mut names = BTreeSet::new();
        for piece in restored {
            let part = Part::decode(piece)?;
            names.insert((part.generation, part.name));
        }
        Ok(Self {
            disk,
            layout,
            generation,
            restored: names,
        })
    }

    fn staged(&self, part: &Part) -> PathBuf {
        self.layout.staging(part.generation).join(&part.name)
    }

    fn find(&self, part: &Part) -> io::Result<Found> {
        let target = self.layout.target(&part.name);
        // The staged name first: it only ever goes away, and after the other has come.
        let staged = identity(&self.staged(part))?;
        let visible = identity(&target)?;
        Ok(match (staged, visible) {
            (Some(_), None) => Found::Staged,
            (Some(staged), Some(visible)) if staged == visible => Found::Both,
            (Some(_), Some(_)) => Found::InTheWay,
            (None, Some(_)) if part.is_at(&target)? => Found::Visible,
            (None, Some(_)) => Found::Changed,
            (None, None) => Found::Gone,
        })
    }

    fn commit_one(&self, part: &Part) -> io::Result<Verdict> {
        let (staged, target) = (self.staged(part), self.layout.target(&part.name));
        let found = self.find(part)?;
        if let Found::Staged = found {
            if !part.is_at(&staged)? {
                let reason = self.described(part, "the staged file is not what was prepared");
                return Ok(Verdict::Lost(Error::new(COMMITTING, reason)));
            }
            match self.disk.link(&staged, &target) {
                Ok(()) => {}
                // Somebody was faster, another committer or a successor's sweep.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound
                    ) =>
                {
                    let found = self.find(part)?;
                    return self.settle(part, found);
                }
                Err(error) => return Err(error),
            }
            self.disk.sync_directory(self.layout.directory())?;
            self.disk.remove(&staged)?;
            return Ok(Verdict::Committed);
        }
        self.settle(part, found)
    }

    /// The verdict on what is found, and the rest of a commit that was cut off.
    fn settle(&self, part: &Part, found: Found) -> io::Result<Verdict> {
        if let Found::Both = found {
            self.disk.sync_directory(self.layout.directory())?;
            self.disk.remove(&self.staged(part))?;
        }
        Ok(self.verdict(part, &found))
    }

    fn verdict(&self, part: &Part, found: &Found) -> Verdict {
        let error = |reason| Error::new(COMMITTING, self.described(part, reason));
        match found {
            Found::Visible | Found::Both => Verdict::AlreadyCommitted,
            Found::Staged => Verdict::NotCommitted(error("it is staged")),
            Found::InTheWay => Verdict::NotCommitted(error(
                "another file has its name; move that one away, and it can be committed",
            )),
            Found::Changed => Verdict::Lost(error(
                "it became visible and was changed since; put the original back",
            )),
            Found::Gone => match self.layout.newer_fence(self.generation) {
                Ok(Some(newer)) => Verdict::Lost(Error::fenced(COMMITTING, newer)),
                _ => Verdict::Lost(error(
                    "it is neither staged nor visible: aborted, swept by another generation, or \
                     moved away before a later checkpoint was complete; in that case put it back",
                )),
            },
        }
    }

    fn described(&self, part: &Part, reason: &str) -> String {
        format!("{}: {reason}", self.layout.target(&part.name).display())
    }

    fn judge(
        &self,
        prepared: &[Prepared],
        judge: impl Fn(&Part) -> io::Result<Verdict>,
    ) -> Vec<Verdict> {
        let judge = |one: &Prepared| match Part::decode(&one.token) {
            // What a disk does not answer may still have happened.
            Ok(part) => {
                judge(&part).unwrap_or_else(|error| Verdict::Unknown(Error::new(COMMITTING, error)))
            }
            Err(error) => Verdict::Lost(error),
        };
        prepared.iter().map(judge).collect()
    }

    fn raise_fence(&self, generation: Generation) -> io::Result<Option<Generation>> {
        let root = self.layout.root();
        self.disk.create_directories(&root)?;
        for parent in root.ancestors().skip(1).take(2) {
            self.disk.sync_directory(parent)?;
        }
        match self.disk.create(&self.layout.fence(generation)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        self.disk.sync_directory(&root)?;
        let newer = self.layout.newer_fence(generation)?;
        if newer.is_some() {
            return Ok(newer);
        }
        // Taken out of the reach of everybody who knows the old path, open file or not: they can
        // neither create, nor prepare, nor link.
        for staging in self.layout.stagings()? {
            if staging.generation >= generation || staging.is_fenced {
                continue;
            }
            let fenced = self.layout.fenced(staging.generation);
            if identity(&fenced)?.is_none() {
                self.disk.rename(&staging.path, &fenced)?;
            } else {
                // Made anew by a zombie's fence that came late.
                self.empty(&staging.path, |_| false)?;
            }
        }
        // Only here are staging directories made, so a writer that comes late finds none. One that a
        // zombie's fence makes after the look around above is empty, and its writers see the fence.
        self.disk
            .create_directories(&self.layout.staging(generation))?;
        self.disk.sync_directory(&root)?;
        self.probe_links(&self.layout.fence(generation))?;
        Ok(None)
    }

    /// SPEC 0.4: that files can be linked is found out before any is written, not when the first is to
    /// be committed.
    fn probe_links(&self, from: &Path) -> io::Result<()> {
        let probe = self.layout.probe();
        let outcome = self
            .disk
            .remove(&probe) // of an attempt that died here
            .and_then(|_| self.disk.link(from, &probe))
            .and_then(|()| self.disk.remove(&probe));
        outcome.map(|_| ()).map_err(|error| {
            let reason = format!(
                "{}: cannot make a hard link here ({error}); choose a directory on a file system \
                 that has them",
                probe.display()
            );
            io::Error::new(error.kind(), reason)
        })
    }

    fn remove_leftovers(&self) -> io::Result<()> {
        for staging in self.layout.stagings()? {
            if staging.generation < self.generation {
                let keep = |name: &str| {
                    let named = (staging.generation, name.to_owned());
                    staging.is_fenced && self.restored.contains(&named)
                };
                self.empty(&staging.path, keep)?;
            }
        }
        for fence in self.layout.fences()? {
            if fence < self.generation {
                self.disk.remove(&self.layout.fence(fence))?;
            }
        }
        Ok(())
    }

    /// Removes the files in `directory` that are not to `keep`, and itself if none is left.
    fn empty(&self, directory: &Path, keep: impl Fn(&str) -> bool) -> io::Result<()> {
        let mut kept = false;
        for name in names_in(directory)? {
            if keep(&name) {
                kept = true;
            } else {
                self.disk.remove(&directory.join(name))?;
            }
        }
        if !kept {
            match self.disk.remove_directory(directory) {
                // A late file of a zombie. It is as fenced as the others; the next sweep takes it.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                outcome => {
                    outcome?;
                }
            }
        }
        Ok(())
    }
}

impl Committer for FileCommitter {
    async fn commit(&mut self, prepared: &[Prepared]) -> Vec<Verdict> {
        self.judge(prepared, |part| self.commit_one(part))
    }

    async fn probe(&mut self, prepared: &[Prepared]) -> Vec<Verdict> {
        self.judge(prepared, |part| Ok(self.verdict(part, &self.find(part)?)))
    }

    async fn abort(&mut self, prepared: &[Prepared]) -> Result<()> {
        for one in prepared {
            let part = Part::decode(&one.token)?;
            self.disk
                .remove(&self.staged(&part))
                .map_err(|error| Error::new("aborting a file", error))?;
        }
        Ok(())
    }

    async fn fence(&mut self, generation: Generation) -> Result<()> {
        const DOING: &str = "fencing older writers";
        match self.raise_fence(generation) {
            Ok(None) => Ok(()),
            Ok(Some(newer)) => Err(Error::fenced(DOING, newer)),
            Err(error) => Err(Error::new(DOING, error)),
        }
    }

    async fn sweep(&mut self) -> Result<()> {
        const DOING: &str = "sweeping the files of older generations";
        // A successor may have restored another checkpoint, which names what is a leftover here.
        match self.layout.newer_fence(self.generation) {
            Ok(None) => {}
            Ok(Some(newer)) => return Err(Error::fenced(DOING, newer)),
            Err(error) => return Err(Error::new(DOING, error)),
        }
        self.remove_leftovers()
            .map_err(|error| Error::new(DOING, error))
    }
}

/// Which file a path names, if any.
fn identity(path: &Path) -> io::Result<Option<(u64, u64)>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some((metadata.dev(), metadata.ino()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
