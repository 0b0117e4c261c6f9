//! The five windows: stop exactly there, restart at another parallelism, count.

use super::{
    Check, Target,
    rig::{Durable, Rig, ensure},
};
use crate::{Input, Prepared};

/// Parallelism before and after the stop.
const RESCALES: [(u16, u16); 5] = [(1, 1), (2, 2), (2, 3), (4, 2), (3, 1)];

/// Records before the checkpoint that is stopped at, up to it, and until the end.
const EARLIER: u64 = 12;
const UP_TO_STOP: u64 = 24;
const ALL: u64 = 36;

pub(super) async fn run<T: Target>(
    window: Check,
    open: &mut impl FnMut() -> T,
) -> Result<(), String> {
    for (before, after) in RESCALES {
        for input in [Input::Continues, Input::Ended] {
            let stopped = Stopped { window, input };
            let outcome = stopped.run(&open(), before, after).await;
            outcome.map_err(|seen| format!("{before} → {after} subtasks, {input:?}: {seen}"))?;
        }
    }
    Ok(())
}

struct Stopped {
    window: Check,
    input: Input,
}

impl Stopped {
    async fn run<T: Target>(&self, target: &T, before: u16, after: u16) -> Result<(), String> {
        let mut rig = Rig::start(target, Durable::new("exam", 0), before).await?;
        rig.write(EARLIER).await?;
        rig.checkpoint(Input::Continues).await?;
        // This one names nothing, so each window sees only its own transactions again.
        rig.checkpoint(Input::Continues).await?;
        rig.write(UP_TO_STOP - EARLIER).await?;
        let durable = self.stop(rig).await?;
        let named = durable.prepared();
        at_most(target, durable.position(), "after the stop").await?;

        let mut rig = Rig::start(target, durable, after).await?;
        let position = rig.durable.position();
        at_most(target, position, "after the restart").await?;
        if self.is_completed() && self.input == Input::Ended {
            exactly(
                target,
                position,
                "when the restored checkpoint was committed",
            )
            .await?;
        }
        rig.write(ALL - position).await?;
        rig.checkpoint(Input::Ended).await?;
        exactly(target, ALL, "at the end").await?;

        let durable = rig.crash();
        if self.window == Check::Window4 {
            attempted_twice(&durable, &named)?;
        }
        if matches!(self.window, Check::Window4 | Check::Window5) {
            committed_once(&durable)?;
        }
        if self.window == Check::Window5 {
            // Once more, from a checkpoint that holds no state which a sweep would have to spare.
            let rig = Rig::start(target, durable, after).await?;
            drop(rig);
            exactly(target, ALL, "after one more restart").await?;
            nothing_unfinished(target).await?;
        }
        Ok(())
    }

    fn is_completed(&self) -> bool {
        !matches!(self.window, Check::Window1 | Check::Window2)
    }

    async fn stop<T: Target>(&self, mut rig: Rig<'_, T>) -> Result<Durable, String> {
        if self.window == Check::Window1 {
            return Ok(rig.crash());
        }
        let cut = rig.prepare(self.input).await?;
        if self.window == Check::Window2 {
            return Ok(rig.crash());
        }
        rig.complete(cut);
        match self.window {
            Check::Window3 => {}
            Check::Window4 => rig.commit_and_lose_the_reply().await?,
            _ => {
                rig.commit().await?;
                if self.input == Input::Continues {
                    // Pending is cleared by the next checkpoint, which does not complete.
                    rig.write(1).await?;
                    rig.prepare(Input::Continues).await?;
                }
            }
        }
        Ok(rig.crash())
    }
}

fn attempted_twice(durable: &Durable, named: &[Prepared]) -> Result<(), String> {
    let counts = durable.ledger.counts();
    for prepared in named {
        let attempts = counts.get(prepared).map_or(0, |counts| counts.attempts);
        ensure(attempts >= 2, || {
            format!("the reply to a commit was lost, and there were {attempts} attempts")
        })?;
    }
    Ok(())
}

fn committed_once(durable: &Durable) -> Result<(), String> {
    for (prepared, counts) in durable.ledger.counts() {
        ensure(counts.commits == 1, || {
            format!(
                "a transaction of checkpoint {} was Committed {} times in {} attempts: the first is \
                 Committed, all others AlreadyCommitted",
                prepared.checkpoint, counts.commits, counts.attempts
            )
        })?;
    }
    Ok(())
}

/// Everything up to `position` can be visible, once, and nothing else.
pub(super) async fn at_most<T: Target>(
    target: &T,
    position: u64,
    when: &str,
) -> Result<(), String> {
    let mut seen = target.visible().await;
    seen.sort_unstable();
    if let Some(twice) = seen.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("{when}: record {} is visible twice", twice[0]));
    }
    match seen.iter().find(|id| **id >= position) {
        None => Ok(()),
        Some(id) => Err(format!(
            "{when}: record {id} is visible, and only those before {position} are in a completed \
             checkpoint"
        )),
    }
}

/// Everything up to `position` is visible, once, and nothing else.
pub(super) async fn exactly<T: Target>(
    target: &T,
    position: u64,
    when: &str,
) -> Result<(), String> {
    at_most(target, position, when).await?;
    let seen = target.visible().await;
    match (0..position).find(|id| !seen.contains(id)) {
        None => Ok(()),
        Some(id) => Err(format!("{when}: record {id} is missing")),
    }
}

pub(super) async fn nothing_unfinished<T: Target>(target: &T) -> Result<(), String> {
    let unfinished = target.unfinished().await;
    ensure(unfinished.is_empty(), || {
        format!("after the sweep of the last restart this is left: {unfinished:?}")
    })
}
