//! `cutwater verify`: every checksum and reference of every checkpoint.

use std::{io::Write, process::ExitCode};

use cutwater_storage::CheckpointStore;
use indicatif::{ProgressBar, ProgressStyle};

use crate::{Failure, list, text};

/// Compares everything with its checksum; fails if anything is damaged, naming it.
pub(crate) async fn run(
    store: &mut CheckpointStore,
    out: &mut impl Write,
) -> Result<ExitCode, Failure> {
    // On standard error, and only if that is a terminal.
    let bar = ProgressBar::new(expected_bytes(store).await);
    bar.set_style(style());
    let (mut objects, mut bytes, mut faults) = (0_u64, 0, Vec::new());
    let result = store
        .verify(|verified| {
            bar.set_message(verified.object);
            bar.inc(verified.bytes);
            objects += 1;
            bytes += verified.bytes;
            faults.extend(
                verified
                    .result
                    .err()
                    .map(|error| (verified.checkpoint, error)),
            );
        })
        .await;
    bar.finish_and_clear();
    result?;
    for (checkpoint, error) in &faults {
        writeln!(out, "checkpoint {checkpoint} is damaged: {error}")?;
    }
    let checkpoints = store.list().count();
    let looked_at = format!(
        "{checkpoints} checkpoints, {objects} objects, {}",
        text::bytes(bytes)
    );
    if faults.is_empty() {
        writeln!(out, "{looked_at}: everything is intact.")?;
        Ok(ExitCode::SUCCESS)
    } else {
        writeln!(out, "{looked_at}: {} damaged.", faults.len())?;
        Ok(ExitCode::FAILURE)
    }
}

/// How many bytes there are to read; what cannot be read is left out here and found by `verify`.
async fn expected_bytes(store: &CheckpointStore) -> u64 {
    let mut bytes = 0;
    for completed in store.list() {
        if let Ok(metadata) = store.load(completed.checkpoint).await {
            bytes += list::size(completed, &metadata);
        }
    }
    bytes
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} ({eta}) {msg}")
        .expect("a constant")
}
