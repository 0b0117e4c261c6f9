//! What a sink has to get right besides the five windows.

use super::{
    Check, Target,
    rig::{Durable, Rig, ensure, told, zombie_committer},
    watched::Lose,
    windows::{at_most, exactly, nothing_unfinished},
};
use crate::{Committer, Event, Input, Prepared, Verdict};

pub(super) async fn run<T: Target>(
    check: Check,
    open: &mut impl FnMut() -> T,
) -> Result<(), String> {
    let target = &open();
    match check {
        Check::MessageLost => {
            message_lost(target, Lose::Request).await?;
            message_lost(&open(), Lose::Reply).await
        }
        Check::Abort => abort(target).await,
        Check::Decline => decline(target).await,
        Check::Zombie => {
            zombie(target, 10).await?;
            zombie(&open(), 0).await // With no transaction open, the zombie begins a new one.
        }
        Check::Rescale => rescale(target).await,
        Check::Empty => empty(target).await,
        Check::Neighbour => neighbour(target).await,
        Check::Window1 | Check::Window2 | Check::Window3 | Check::Window4 | Check::Window5 => {
            unreachable!("the windows are in a file of their own")
        }
    }
}

async fn message_lost<T: Target>(target: &T, lose: Lose) -> Result<(), String> {
    let mut rig = Rig::start(target, Durable::new("exam", 0), 2).await?;
    rig.write(10).await?;
    *rig.lose.lock().expect("no holder panics") = lose;
    rig.checkpoint(Input::Ended).await?;
    exactly(target, 10, &format!("when the {lose:?} was lost")).await
}

async fn abort<T: Target>(target: &T) -> Result<(), String> {
    let mut rig = Rig::start(target, Durable::new("exam", 0), 2).await?;
    rig.write(10).await?;
    let cut = rig.prepare(Input::Ended).await?;
    let event = Event::RolledBack(cut.checkpoint);
    rig.driver.handle(rig.now(), event).map_err(told)?;
    rig.settle().await?;
    exactly(target, 0, "after an abort").await?;

    let mut committer = zombie_committer(target, &rig.durable).await?;
    committer.abort(&cut.prepared).await.map_err(told)?;
    for verdict in committer.probe(&cut.prepared).await {
        is_no_success(&verdict, "a probe after an abort")?;
    }
    for verdict in committer.commit(&cut.prepared).await {
        is_no_success(&verdict, "a commit after an abort")?;
    }
    exactly(target, 0, "after a commit of what was aborted").await?;

    let mut rig = Rig::start(target, rig.crash(), 2).await?;
    rig.write(10).await?;
    rig.checkpoint(Input::Ended).await?;
    exactly(target, 10, "when the aborted records were replayed").await
}

/// Gone is gone, or at least nobody knows: another try cannot succeed.
fn is_no_success(verdict: &Verdict, asked: &str) -> Result<(), String> {
    ensure(
        matches!(verdict, Verdict::Lost(_) | Verdict::Unknown(_)),
        || format!("{asked} must answer Lost (or Unknown), and answered {verdict:?}"),
    )
}

async fn decline<T: Target>(target: &T) -> Result<(), String> {
    let mut rig = Rig::start(target, Durable::new("exam", 0), 2).await?;
    rig.write(10).await?;
    let cut = rig.prepare(Input::Continues).await?;
    let event = Event::NotCompleted(cut.checkpoint);
    rig.driver.handle(rig.now(), event).map_err(told)?;
    rig.settle().await?;
    exactly(target, 0, "after a checkpoint that failed").await?;
    rig.write(10).await?;
    let cut = rig.prepare(Input::Ended).await?;
    rig.complete(cut);
    let rig = Rig::start(target, rig.crash(), 1).await?;
    drop(rig);
    exactly(target, 20, "after the next checkpoint").await
}

/// The zombie has written `open` records since it prepared.
async fn zombie<T: Target>(target: &T, open: u64) -> Result<(), String> {
    let mut old = Rig::start(target, Durable::new("exam", 0), 2).await?;
    old.write(10).await?;
    old.checkpoint(Input::Continues).await?;
    old.checkpoint(Input::Continues).await?; // Names nothing, so nothing is committed again.
    old.write(10).await?;
    let early = old.prepare(Input::Continues).await?;
    old.write(open).await?;
    let mut committer = zombie_committer(target, &old.durable).await?;

    // The successor restores the checkpoint before `early`, while the old one goes on.
    let mut new = Rig::start(target, old.durable.clone(), 3).await?;
    let late = match old.write(2).await {
        Ok(()) => old.prepare(Input::Ended).await,
        Err(refused) => Err(refused),
    };
    let late = late.map_or_else(|_refused| Vec::new(), |cut| cut.prepared);
    for (prepared, name) in [(early.prepared, "before"), (late, "after")] {
        let of_zombie: Vec<Prepared> = prepared
            .into_iter()
            .filter(|one| one.checkpoint >= early.checkpoint)
            .collect();
        if of_zombie.is_empty() {
            continue;
        }
        for verdict in committer.commit(&of_zombie).await {
            ensure(
                !matches!(verdict, Verdict::Committed | Verdict::AlreadyCommitted),
                || format!("what a zombie prepared {name} the fence was answered {verdict:?}"),
            )?;
        }
    }
    at_most(target, 10, "after a zombie's commit").await?;

    new.write(20).await?;
    new.checkpoint(Input::Ended).await?;
    exactly(target, 30, "at the end of the successor").await?;
    drop(old);
    exactly(target, 30, "when the zombie was gone").await
}

async fn rescale<T: Target>(target: &T) -> Result<(), String> {
    let mut durable = Durable::new("exam", 0);
    // Two generations of four die, the second before it has restored anything of the first.
    for _ in 0..2 {
        let mut rig = Rig::start(target, durable, 4).await?;
        rig.write(20).await?;
        rig.prepare(Input::Continues).await?;
        rig.write(20).await?;
        durable = rig.crash();
    }
    let rig = Rig::start(target, durable, 2).await?;
    nothing_unfinished(target).await?;
    let mut rig = Rig::start(target, rig.crash(), 2).await?;
    rig.write(40).await?;
    rig.checkpoint(Input::Ended).await?;
    exactly(target, 40, "at the end").await
}

async fn empty<T: Target>(target: &T) -> Result<(), String> {
    let mut rig = Rig::start(target, Durable::new("exam", 0), 2).await?;
    for input in [Input::Continues, Input::Continues, Input::Ended] {
        let cut = rig.prepare(input).await?;
        let count = cut.prepared.len();
        ensure(count == 0, || {
            format!("a checkpoint without records has {count} transactions")
        })?;
        rig.complete(cut);
        rig.commit().await?;
    }
    exactly(target, 0, "without records").await
}

async fn neighbour<T: Target>(target: &T) -> Result<(), String> {
    let mut first = Rig::start(target, Durable::new("exam", 0), 2).await?;
    first.write(10).await?;
    let cut = first.prepare(Input::Ended).await?;
    let mut second = Rig::start(target, Durable::new("exam-2", 10), 2).await?;
    second.write(10).await?;
    second.checkpoint(Input::Ended).await?;
    first.complete(cut);
    first.commit().await?;
    exactly(target, 20, "of two jobs with one target").await
}
