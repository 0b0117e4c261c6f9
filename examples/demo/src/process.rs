//! A run as the demo sees it: a child process, its events, and its end.
//!
//! Invariant: the child is gone when its [`Process`] is.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use cutwater_runtime::BoxError;

use crate::{event::Event, run::Run};

/// A run that says nothing for so long is stuck. Checkpoints are a fraction of a second apart.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// How much of its log a failed run shows.
const SHOWN_MAX: u64 = 4096;

/// A running child.
pub(crate) struct Process {
    child: Child,
    /// The child ends when this does. Kept apart, as waiting for a child closes what it still has.
    _stdin: ChildStdin,
    events: Receiver<String>,
    /// Its standard error.
    log: PathBuf,
    started: Instant,
}

impl Process {
    /// Starts `run` in a process of its own, with its log at `log`.
    #[expect(
        clippy::disallowed_methods,
        reason = "a thread to wait for lines with a bound, and a watch for the table"
    )]
    pub(crate) fn start(run: &Run, log: &Path) -> Result<Self, BoxError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(run.arguments());
        let started = Instant::now();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(log)?)
            .spawn()?;
        let stdin = child.stdin.take().expect("it was piped");
        let lines = BufReader::new(child.stdout.take().expect("it was piped")).lines();
        let (sender, events) = mpsc::channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            child,
            _stdin: stdin,
            events,
            log: log.to_owned(),
            started,
        })
    }

    /// The next event, and when it came after the start.
    ///
    /// # Errors
    ///
    /// If there is none: the child has ended, or is stuck.
    pub(crate) fn next(&mut self) -> Result<(Event, Duration), BoxError> {
        match self.events.recv_timeout(SILENCE_MAX) {
            Ok(line) => {
                let event = serde_json::from_str(&line)
                    .map_err(|error| format!("a run said {line:?}, which is no event: {error}"))?;
                Ok((event, self.started.elapsed()))
            }
            Err(RecvTimeoutError::Timeout) => {
                let seconds = SILENCE_MAX.as_secs();
                Err(self
                    .failure(&format!("said nothing for {seconds} s"))
                    .into())
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait()?;
                Err(self
                    .failure(&format!("ended unexpectedly: {status}"))
                    .into())
            }
        }
    }

    /// Kills the child with SIGKILL, and waits until the system has buried it.
    pub(crate) fn kill(mut self) -> Result<(), BoxError> {
        self.child.kill()?;
        let status = self.child.wait()?;
        if was_killed(status) {
            Ok(())
        } else {
            Err(self
                .failure(&format!("ended before its kill: {status}"))
                .into())
        }
    }

    /// Waits for the end of a child that has finished its work.
    pub(crate) fn finish(mut self) -> Result<(), BoxError> {
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(self
                .failure(&format!("finished, and then failed: {status}"))
                .into())
        }
    }

    fn failure(&self, what: &str) -> String {
        let log = self.log.display();
        let said = end_of(&self.log).unwrap_or_else(|error| format!("({log}: {error})"));
        format!(
            "the run {what}; the end of its log {log}:\n{}",
            said.trim_end()
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already; that is all we want.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

#[cfg(unix)]
fn was_killed(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;

    status.signal() == Some(9) // SIGKILL
}

#[cfg(not(unix))]
fn was_killed(status: ExitStatus) -> bool {
    !status.success()
}

fn end_of(log: &Path) -> std::io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(SHOWN_MAX)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
