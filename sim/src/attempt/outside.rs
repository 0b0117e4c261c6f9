//! What an attempt has under way in the store and in the external system.

use cutwater_barrier::coordinate::{Decline, Event};
use cutwater_sink_2pc::Failure;

use super::Attempt;
use crate::{
    committing::Progress,
    env::Env,
    keeper::{Keep, Kept},
    process::Over,
    task::Notice,
};

impl Attempt {
    pub(super) fn some_upload_goes_on(&mut self, env: &mut Env) -> bool {
        if self.uploads.is_empty() {
            return false;
        }
        let index = env.random.index(self.uploads.len());
        let Some(done) = self.uploads[index].doing.step() else {
            return true;
        };
        let upload = self.uploads.swap_remove(index);
        let (task, checkpoint) = (upload.task, upload.checkpoint);
        match done {
            Ok(part) => {
                env.coverage.add("files named again", part.reused);
                env.coverage
                    .add("files to be named again and gone", part.gone);
                self.tasks[task.0].written(checkpoint, &part);
                self.reports.push(Event::Acked {
                    generation: self.generation,
                    checkpoint,
                    task,
                    part,
                    stats: upload.stats,
                });
            }
            Err(_) => self.decline(task, checkpoint, Decline::Failed),
        }
        true
    }

    pub(super) fn keeper_goes_on(&mut self, env: &mut Env) -> bool {
        if self.keeper.is_idle() {
            return false;
        }
        let Some(kept) = self.keeper.step() else {
            return true;
        };
        env.note(|| format!("log > {}", brief(&kept)));
        if kept.may_have_decided() {
            env.audit();
        }
        match kept {
            Kept::Completed(checkpoint) => self.tell(env, Event::Decided { checkpoint }),
            Kept::NotCompleted {
                checkpoint,
                reason,
                reports,
            } => self.tell(
                env,
                Event::NotDecided {
                    checkpoint,
                    reason,
                    reports,
                },
            ),
            Kept::Leads(checkpoint, then) => self.completed(env, checkpoint, then),
            Kept::Committed(checkpoint) => {
                self.noted = self.noted.max(Some(checkpoint));
                self.keeper.ask(Keep::Tidy);
            }
            Kept::Discarded | Kept::Tidied => {
                let checkpoints = self.keeper.cleaning();
                self.tell(env, Event::Cleaning { checkpoints });
            }
            Kept::Fenced => self.end(Over::Fenced),
            Kept::Failed => self.end(Over::Failed),
        }
        true
    }

    pub(super) fn some_committer_goes_on(&mut self, env: &mut Env) -> bool {
        let mut busy = self.committers.values_mut();
        let Some(committer) = busy.find(|committer| committer.is_busy(env.now)) else {
            return false;
        };
        match committer.step(env.now) {
            None => {}
            Some(Progress::AllCommitted) => {
                let all = self.committers.values().map(|one| one.committed).min();
                let all = all.flatten().filter(|all| self.noted < Some(*all));
                if let Some(all) = all {
                    self.keeper.ask(Keep::Committed(all));
                }
            }
            Some(Progress::Released { before }) => self.notify_all(Notice::Released(before)),
            Some(Progress::Failed(Failure::Lost { prepared, .. })) => {
                panic!("the external system has lost {prepared:?}, which a checkpoint names")
            }
            Some(Progress::Failed(Failure::Fenced { .. })) => self.end(Over::Fenced),
            Some(Progress::Failed(_)) => self.end(Over::Failed),
        }
        true
    }
}

fn brief(kept: &Kept) -> String {
    match kept {
        Kept::NotCompleted {
            checkpoint, reason, ..
        } => format!("NotCompleted {checkpoint} {reason:?}"),
        kept => format!("{kept:?}"),
    }
}
