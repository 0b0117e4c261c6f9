//! Bugs in what decides in each task: aligner and its channels, tracker, what is over.

use super::{BARRIER, Mutant, SIM};

const ALIGNER: &str = "barrier/src/align/aligner.rs";
const CHANNELS: &str = "barrier/src/align/channels.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        file: ALIGNER,
        from: "self.give_up(checkpoint, AbortReason::Subsumed);\n                return false;",
        to: "return true;",
        test: BARRIER,
        why: "a barrier of an older checkpoint counts for the newer one",
    },
    Mutant {
        file: ALIGNER,
        from: "self.give_up(checkpoint, AbortReason::Subsumed);\n                return false;",
        to: "return false;",
        test: BARRIER,
        why: "an obsolete checkpoint begins once the newer one is given up, without the barrier it has lost",
    },
    Mutant {
        file: ALIGNER,
        from: "        effects.push_back(Effect::Forward(barrier));
        effects.push_back(Effect::Snapshot(barrier));",
        to: "        effects.push_back(Effect::Snapshot(barrier));
        effects.push_back(Effect::Forward(barrier));",
        test: BARRIER,
        why: "downstream waits for this task's snapshot",
    },
    Mutant {
        file: ALIGNER,
        from: "barrier.mode == Mode::Unaligned && self.channels.may_be_overtaken();",
        to: "barrier.mode == Mode::Unaligned;",
        test: SIM,
        why: "an edge that cannot be re-routed is overtaken",
    },
    Mutant {
        file: ALIGNER,
        from: "let overtakes = barrier.mode == Mode::Unaligned &&",
        to: "let overtakes = barrier.mode != Mode::Aligned &&",
        test: BARRIER,
        why: "a checkpoint that is to align for a while does not",
    },
    Mutant {
        file: ALIGNER,
        from: "is_some_and(|at| now >= at)",
        to: "is_some_and(|at| now > at)",
        test: BARRIER,
        why: "woken at its deadline it does nothing, and is woken again and again",
    },
    Mutant {
        file: ALIGNER,
        from: "Phase::Aligning { barrier, .. } => barrier.overtakes_at(),",
        to: "Phase::Aligning { .. } => None,",
        test: BARRIER,
        why: "nobody wakes it to switch",
    },
    Mutant {
        file: ALIGNER,
        from: "                barrier.mode = Mode::Unaligned;
            }
            let overtakes",
        to: "            }
            let overtakes",
        test: BARRIER,
        why: "it never switches, and tasks downstream do not know",
    },
    Mutant {
        file: ALIGNER,
        from: "&& upstream.mode == Mode::Unaligned",
        to: "&& upstream.mode == Mode::Aligned",
        test: BARRIER,
        why: "it does not follow an upstream task that has switched",
    },
    Mutant {
        file: ALIGNER,
        from: "Phase::Aligning { .. } => Status::Arrived,",
        to: "Phase::Aligning { .. } => Status::Open,",
        test: BARRIER,
        why: "a channel that delivered its barrier is not held back",
    },
    Mutant {
        file: ALIGNER,
        from: "            self.over.add_up_to(barrier.checkpoint);
            self.phase = Phase::Idle;",
        to: "            self.phase = Phase::Idle;",
        test: BARRIER,
        why: "a late message begins a checkpoint again that was acknowledged",
    },
    Mutant {
        file: ALIGNER,
        from: "Some(current) => self.give_up(current, AbortReason::Subsumed),",
        to: "Some(_) => return false,",
        test: BARRIER,
        why: "a checkpoint whose barriers are lost blocks all newer ones",
    },
    Mutant {
        file: ALIGNER,
        from: "if !is_current && self.over",
        to: "if self.over",
        test: BARRIER,
        why: "after many aborts a checkpoint in progress counts as over, and its blocked channels for the next",
    },
    Mutant {
        file: ALIGNER,
        from: "self.channels.status(channel) == Status::Recording,",
        to: "false,",
        test: BARRIER,
        why: "what follows the barrier of an aborted checkpoint is recorded for one that cannot complete",
    },
    Mutant {
        file: ALIGNER,
        from: "if !(is_current && matches!(self.phase, Phase::Recording { .. })) {",
        to: "if is_current && !matches!(self.phase, Phase::Recording { .. }) {",
        test: BARRIER,
        why: "downstream waits for the barrier of a checkpoint given up before it came",
    },
    Mutant {
        file: ALIGNER,
        from: "                self.channels.set(channel, Status::Open);
                self.effects.push_back(Effect::Capture {",
        to: "                self.effects.push_back(Effect::Capture {",
        test: SIM,
        why: "a captured channel is recorded on, and the checkpoint is never acknowledged",
    },
    Mutant {
        file: ALIGNER,
        from: "                self.effects.push_back(Effect::Capture {
                    checkpoint,
                    channel,
                });
            }
            _ =>",
        to: "            }
            _ =>",
        test: SIM,
        why: "what a late barrier has overtaken is in no checkpoint",
    },
    Mutant {
        file: CHANNELS,
        from: "Status::Announced => (Status::Open, AtCut::Captured),",
        to: "Status::Announced => (Status::Open, AtCut::Nothing),",
        test: SIM,
        why: "what was overtaken before the cut is in no checkpoint",
    },
    Mutant {
        file: CHANNELS,
        from: "Status::Open => (Status::Recording, AtCut::Nothing),",
        to: "Status::Open => (Status::Open, AtCut::Nothing),",
        test: SIM,
        why: "what is read after the cut and was sent before it is in no checkpoint; loops lose theirs",
    },
    Mutant {
        file: CHANNELS,
        from: "self.input != Input::Feedback && !matches!",
        to: "!matches!",
        test: SIM,
        why: "the head of a loop waits for a barrier that only it can send",
    },
    Mutant {
        file: CHANNELS,
        from: "!matches!(self.status, Status::Arrived | Status::Finished)",
        to: "!matches!(self.status, Status::Arrived)",
        test: BARRIER,
        why: "a channel that has ended is waited for",
    },
    Mutant {
        file: CHANNELS,
        from: "            if status != Status::Finished {
                self.set(channel, Status::Open);
            }",
        to: "            self.set(channel, Status::Open);",
        test: BARRIER,
        why: "an abort brings a channel that has ended back to life",
    },
    Mutant {
        file: CHANNELS,
        from: "(&mut self.open_strict, is_open && one.input == Input::Strict),",
        to: "(&mut self.open_strict, is_open && one.input == Input::Feedback),",
        test: SIM,
        why: "a strict edge is not waited for, and its records are lost at a rescale",
    },
];

pub(super) const TRACKER: &[Mutant] = &[
    Mutant {
        file: "barrier/src/align/tracker.rs",
        from: "pending.missing -= usize::from(!pending.arrived[channel.0]);",
        to: "pending.missing -= 1;",
        test: BARRIER,
        why: "a channel that delivered its barrier and ended counts twice",
    },
    Mutant {
        file: "barrier/src/align/tracker.rs",
        from: "position(|pending| pending.missing == 0)",
        to: "position(|pending| pending.missing <= 1)",
        test: BARRIER,
        why: "a snapshot is taken with a barrier missing: records are lost, not doubled",
    },
    Mutant {
        file: "barrier/src/align/tracker.rs",
        from: "let barrier = barrier.with_mode(Mode::Aligned);",
        to: "let barrier = barrier.with_mode(barrier.mode);",
        test: BARRIER,
        why: "a barrier overtakes behind a snapshot that has no exact rest to save",
    },
    Mutant {
        file: "barrier/src/align/tracker.rs",
        from: "if self.pending.len() > PENDING_MAX {",
        to: "if self.pending.len() > 100 * PENDING_MAX {",
        test: BARRIER,
        why: "lost barriers pile up",
    },
    Mutant {
        file: "barrier/src/align/tracker.rs",
        from: "            for _ in 0..index {
                let oldest = self.pending[0].checkpoint();
                self.give_up(oldest, AbortReason::Subsumed);
            }",
        to: "            self.pending.rotate_left(index);",
        test: BARRIER,
        why: "older checkpoints whose barriers will not come stay in progress",
    },
    Mutant {
        file: "barrier/src/align/over.rs",
        from: "self.up_to >= Some(checkpoint) || self.ahead.contains(&checkpoint)",
        to: "self.up_to >= Some(checkpoint)",
        test: BARRIER,
        why: "an abort that comes before its barrier is forgotten",
    },
    Mutant {
        file: "barrier/src/align/over.rs",
        from: "self.up_to = self.ahead.pop_first();",
        to: "self.ahead.pop_first();",
        test: BARRIER,
        why: "the oldest of many aborts is forgotten (FLINK-28474)",
    },
    Mutant {
        file: "barrier/src/align/over.rs",
        from: "self.up_to = self.up_to.max(Some(checkpoint));",
        to: "self.up_to = self.up_to.or(Some(checkpoint));",
        test: BARRIER,
        why: "only the first checkpoint settles the older ones",
    },
];
