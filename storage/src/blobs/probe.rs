//! Tries whether a store keeps what [`Blobs`] promises, before a job relies on it.
//!
//! A store may say that it knows conditional puts, and not keep them: of one S3 server, one race in ten
//! of sixteen contenders had several winners. A probe can only find that, never rule it out.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
};

use bytes::Bytes;

use crate::{Blobs, Create, Error, ErrorKind, Result, layout, nonce::Nonces};

/// With one race in ten going wrong, so many of sixteen find it with 88 %.
const RACES: usize = 20;
const CONTENDERS: u8 = 16;

/// Tries whether `blobs` can be a fence: whether it decides who creates an object first, shows at once
/// what was written, and gives a deleted path free. Writes a few small objects below `probe/` and
/// deletes them again.
///
/// # Errors
///
/// `Unsupported` naming what failed, or the error of a call.
pub async fn probe(blobs: &impl Blobs) -> Result<()> {
    let nonces = Nonces::random();
    // Of no generation that leads, so that it is an orphan if this process ends here.
    let new_path = || format!("{}{:016x}-g0", layout::PROBE, nonces.draw());
    let path = new_path();
    let (first, second) = (Bytes::from_static(b"first"), Bytes::from_static(b"second"));

    expect(
        blobs.create(&path, first.clone()).await? == Create::Created,
        "a new object was not created",
    )?;
    let lost = Create::Exists(first.clone());
    expect(
        blobs.create(&path, second.clone()).await? == lost,
        "an object was created twice: no conditional put",
    )?;
    expect(
        blobs.get(&path).await? == Some(first),
        "an object was not there right after it was created",
    )?;
    let listed = blobs.list(layout::PROBE).await?;
    expect(
        listed.iter().any(|blob| blob.path == path),
        "an object was not listed right after it was created",
    )?;
    blobs.delete(&path).await?;
    expect(
        blobs.get(&path).await?.is_none(),
        "an object was still there after it was deleted",
    )?;

    for _ in 0..RACES {
        let path = new_path();
        let contenders =
            (0..CONTENDERS).map(|contender| blobs.create(&path, vec![contender; 16].into()));
        let mut winners = Vec::new();
        let mut seen = Vec::new();
        for (contender, outcome) in (0..CONTENDERS).zip(all(contenders).await) {
            match outcome? {
                Create::Created => winners.push(contender),
                Create::Exists(bytes) => seen.push(bytes),
            }
        }
        blobs.delete(&path).await?;
        let [winner] = winners[..] else {
            return expect(
                false,
                &format!("a race to create an object had {} winners", winners.len()),
            );
        };
        let same = seen.iter().all(|bytes| *bytes == vec![winner; 16]);
        expect(
            same,
            "who lost a race to create an object did not see what the winner wrote",
        )?;
    }
    Ok(())
}

fn expect(holds: bool, otherwise: &str) -> Result<()> {
    if holds {
        return Ok(());
    }
    let reason =
        format!("{otherwise}; a store like this cannot keep two processes apart: choose another");
    Err(Error::new(ErrorKind::Unsupported, "the store", reason))
}

/// Runs futures side by side.
async fn all<F: Future + Send>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
    let mut outputs: Vec<_> = running.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, output) in running.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *output = Some(ready);
            }
        }
        if outputs.iter().all(Option::is_some) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    outputs.into_iter().flatten().collect()
}
