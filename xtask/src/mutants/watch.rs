//! Runs a command that may never end.

use std::{
    io::Read,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// How a command ended.
pub(super) enum Ended {
    Well,
    /// With what it said.
    Badly(String),
    /// It was stopped after too long a time.
    NotAtAll,
}

#[expect(
    clippy::disallowed_methods,
    reason = "a tool that waits for other programs"
)]
pub(super) fn watch(command: &mut Command, time_max: Duration) -> Result<Ended, String> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    group(command);
    let failed = |error: std::io::Error| format!("cargo cannot be started: {error}");
    let mut child = command.spawn().map_err(failed)?;
    let stdout = child.stdout.take().expect("piped");
    let stderr = child.stderr.take().expect("piped");
    let started = Instant::now();
    thread::scope(|scope| {
        let stdout = scope.spawn(|| said(stdout));
        let stderr = scope.spawn(|| said(stderr));
        let status = loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                break Some(status);
            }
            if started.elapsed() > time_max {
                stop(&mut child);
                break None;
            }
            thread::sleep(Duration::from_millis(20));
        };
        let output = [stdout, stderr].map(|reader| reader.join().unwrap_or_default());
        Ok(match status {
            None => Ended::NotAtAll,
            Some(status) if status.success() => Ended::Well,
            Some(_) => Ended::Badly(output.join("\n")),
        })
    })
}

fn said(mut from: impl Read) -> String {
    let mut bytes = Vec::new();
    // What was said until then is enough.
    let _broken_pipe = from.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Makes what the command starts stoppable along with it.
#[cfg(unix)]
fn group(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

#[cfg(not(unix))]
fn group(_: &mut Command) {}

fn stop(child: &mut Child) {
    if cfg!(unix) {
        let group = format!("-{}", child.id());
        let _gone_meanwhile = Command::new("kill").args(["-KILL", "--", &group]).status();
    }
    let _gone_meanwhile = child.kill();
    let _reaped = child.wait();
}
