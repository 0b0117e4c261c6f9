//! A sink into a directory: a transaction is a file, and a rename commits it.
//!
//! ```text
//!   .pending/<job>/<uid>/<generation>/<subtask>-<counter>   written, prepared
//!            <job>/<uid>/<generation>/<subtask>-<counter>   committed
//! ```
//!
//! The fence is the newest generation below `.pending`: the older ones are removed, and whoever still
//! writes there can neither begin nor commit a transaction.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use cutwater_barrier::{CheckpointId, Generation, Time};
use cutwater_sink_2pc::{
    Committer, CommitterContext, Error, Flushed, Guarantee, Input, Prepared, Result, Sink, Verdict,
    Writer, WriterContext,
};

/// Lines of text in the files of a directory.
#[derive(Clone, Debug)]
pub struct Lines {
    directory: PathBuf,
}

impl Lines {
    /// Lines below `directory`.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
        }
    }

    /// All committed lines, sorted.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn read(&self) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        let mut directories = vec![self.directory.clone()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory)? {
                let path = entry?.path();
                if path.is_file() {
                    lines.extend(fs::read_to_string(path)?.lines().map(str::to_owned));
                } else if path != self.pending() {
                    directories.push(path);
                }
            }
        }
        lines.sort();
        Ok(lines)
    }

    fn pending(&self) -> PathBuf {
        self.directory.join(".pending")
    }

    /// Where the transaction of a token is before and after the commit.
    fn paths(&self, token: &[u8]) -> (PathBuf, PathBuf) {
        let name = String::from_utf8_lossy(token);
        (self.pending().join(&*name), self.directory.join(&*name))
    }

    /// Makes the name `path` durable, with all directories that it is in.
    fn sync(&self, path: &Path) -> io::Result<()> {
        let directories = path.ancestors().skip(1);
        for directory in directories.take_while(|path| path.starts_with(&self.directory)) {
            File::open(directory)?.sync_all()?;
        }
        Ok(())
    }

    /// The generations of `sink` that may have something pending, after `own` was added.
    fn enter(&self, sink: &str, own: Generation) -> Result<Vec<Generation>> {
        let directory = self.pending().join(sink);
        let enter = || {
            fs::create_dir_all(directory.join(own.to_string()))?;
            let entries = fs::read_dir(&directory)?.collect::<io::Result<Vec<_>>>()?;
            let names = entries.iter().map(fs::DirEntry::file_name);
            let numbers = names.filter_map(|name| name.to_str()?.parse().ok());
            io::Result::Ok(numbers.map(Generation::new).collect::<Vec<_>>())
        };
        let generations = enter().map_err(|e| Error::new("entering a generation", e))?;
        match generations.iter().max() {
            Some(newer) if *newer > own => Err(Error::fenced("entering a generation", *newer)),
            _ => Ok(generations),
        }
    }
}

impl Sink for Lines {
    type Record = String;
    type Writer = LinesWriter;
    type Committer = LinesCommitter;

    fn guarantee(&self) -> Guarantee {
        Guarantee::AtomicPerTransaction
    }

    fn transaction_timeout(&self) -> Option<Duration> {
        None
    }

    async fn writer(&self, context: WriterContext, _: Vec<Vec<u8>>) -> Result<LinesWriter> {
        let WriterContext {
            job,
            uid,
            generation,
            subtask,
            ..
        } = context;
        self.enter(&format!("{job}/{uid}"), generation)?;
        Ok(LinesWriter {
            sink: self.clone(),
            prefix: format!("{job}/{uid}/{generation}/{subtask}"),
            counter: 0,
            lines: String::new(),
        })
    }

    async fn committer(&self, context: CommitterContext) -> Result<LinesCommitter> {
        let name = format!("{}/{}", context.job, context.uid);
        Ok(LinesCommitter {
            sink: self.clone(),
            name,
        })
    }
}

/// Collects lines, and writes them to a file at the barrier.
#[derive(Debug)]
pub struct LinesWriter {
    sink: Lines,
    /// Of the tokens.
    prefix: String,
    counter: u64,
    lines: String,
}

impl Writer for LinesWriter {
    type Record = String;

    async fn write(&mut self, _: Time, batch: &mut Vec<String>) -> Result<()> {
        for line in batch.drain(..) {
            self.lines.push_str(&line);
            self.lines.push('\n');
        }
        Ok(())
    }

    async fn prepare(&mut self, _: Time, checkpoint: CheckpointId, _: Input) -> Result<Flushed> {
        if self.lines.is_empty() {
            return Ok(Flushed::default());
        }
        let token = format!("{}-{}", self.prefix, self.counter).into_bytes();
        self.counter += 1;
        let (path, _) = self.sink.paths(&token);
        let store = || {
            let mut file = File::create_new(&path)?;
            file.write_all(self.lines.as_bytes())?;
            file.sync_all()?;
            self.sink.sync(&path)
        };
        store().map_err(|e| Error::new("writing a file", e))?;
        self.lines.clear();
        Ok(Flushed::new(vec![Prepared::new(checkpoint, token)]))
    }

    async fn released(&mut self, _: CheckpointId) -> Result<()> {
        Ok(()) // No name is used twice.
    }
}

/// Renames files.
#[derive(Debug)]
pub struct LinesCommitter {
    sink: Lines,
    /// Of the sink within the directory.
    name: String,
}

impl LinesCommitter {
    /// What `act` on a pending file leads to.
    fn judge(
        &self,
        prepared: &Prepared,
        act: impl Fn(&Path, &Path) -> io::Result<Verdict>,
    ) -> Verdict {
        let (pending, committed) = self.sink.paths(&prepared.token);
        match act(&pending, &committed) {
            Ok(verdict) => verdict,
            Err(e) if e.kind() == ErrorKind::NotFound => match committed.try_exists() {
                Ok(true) => Verdict::AlreadyCommitted,
                Ok(false) => Verdict::Lost(Error::new("committing a file", e)),
                Err(e) => Verdict::Unknown(Error::new("looking for a file", e)),
            },
            Err(e) => Verdict::Unknown(Error::new("committing a file", e)),
        }
    }
}

impl Committer for LinesCommitter {
    async fn commit(&mut self, prepared: &[Prepared]) -> Vec<Verdict> {
        let commit = |pending: &Path, committed: &Path| {
            if let Some(parent) = committed.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::rename(pending, committed)?;
            self.sink.sync(committed)?;
            Ok(Verdict::Committed)
        };
        prepared.iter().map(|one| self.judge(one, commit)).collect()
    }

    async fn probe(&mut self, prepared: &[Prepared]) -> Vec<Verdict> {
        let look = |pending: &Path, _: &Path| {
            fs::metadata(pending)?;
            Ok(Verdict::NotCommitted(Error::new(
                "probing",
                "the file is pending",
            )))
        };
        prepared.iter().map(|one| self.judge(one, look)).collect()
    }

    async fn abort(&mut self, prepared: &[Prepared]) -> Result<()> {
        for one in prepared {
            match fs::remove_file(self.sink.paths(&one.token).0) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(Error::new("aborting", e)),
                _ => {}
            }
        }
        Ok(())
    }

    async fn fence(&mut self, generation: Generation) -> Result<()> {
        let generations = self.sink.enter(&self.name, generation)?;
        for older in generations.into_iter().filter(|older| *older < generation) {
            let directory = self.sink.pending().join(&self.name).join(older.to_string());
            fs::remove_dir_all(directory).map_err(|e| Error::new("removing a generation", e))?;
        }
        Ok(())
    }

    async fn sweep(&mut self) -> Result<()> {
        Ok(()) // The fence has left nothing.
    }
}
