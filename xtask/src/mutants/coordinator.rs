//! Bugs in what decides for the job: when to trigger, what counts, who is told.

use super::{BARRIER, Mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        file: "barrier/src/coordinate/coordinator.rs",
        from: "if generation != self.generation {\n            return self.leave(checkpoint, report);",
        to: "if generation > self.generation {\n            return self.leave(checkpoint, report);",
        test: BARRIER,
        why: "an acknowledgement of an attempt that was replaced counts",
    },
    Mutant {
        file: "barrier/src/coordinate/coordinator.rs",
        from: "!pending.deciding && pending.involves(task)",
        to: "pending.involves(task)",
        test: BARRIER,
        why: "a late decline aborts a checkpoint whose decision is under way",
    },
    Mutant {
        file: "barrier/src/coordinate/pending.rs",
        from: "Some(Part::Acked) => Ack::Double(report),",
        to: "Some(Part::Acked) => Ack::Foreign(report),",
        test: BARRIER,
        why: "the double of an acknowledgement has the files of a live checkpoint deleted",
    },
    Mutant {
        file: "barrier/src/coordinate/pending.rs",
        from: "            && self.barrier.kind == Kind::Checkpoint
            && !self.barrier",
        to: "            && !self.barrier",
        test: BARRIER,
        why: "a savepoint is given up because a checkpoint was faster",
    },
    Mutant {
        file: "barrier/src/coordinate/pending.rs",
        from: "&& last < Some(self.barrier.checkpoint)",
        to: "&& last <= Some(self.barrier.checkpoint)",
        test: BARRIER,
        why: "a task's part is not waited for although it is on the way",
    },
    Mutant {
        file: "barrier/src/coordinate/pending.rs",
        from: "(self.missing > 0).then_some(self.deadline)",
        to: "(self.missing > 1).then_some(self.deadline)",
        test: BARRIER,
        why: "a checkpoint that misses one part waits forever",
    },
    Mutant {
        file: "barrier/src/coordinate/begin.rs",
        from: "        if self.pending.values().any(|pending| pending.deciding) {
            return;
        }",
        to: "",
        test: BARRIER,
        why: "two decisions are under way, and the log may take the newer one first",
    },
    Mutant {
        file: "barrier/src/coordinate/begin.rs",
        from: "        self.next = self.next.next();\n",
        to: "        if kind == Kind::Checkpoint {
            self.next = self.next.next();
        }\n",
        test: BARRIER,
        why: "the checkpoint after a savepoint has the same id",
    },
    Mutant {
        file: "barrier/src/coordinate/begin.rs",
        from: "            self.phase = Phase::Ending;\n",
        to: "",
        test: BARRIER,
        why: "a job that is being stopped begins more checkpoints",
    },
    Mutant {
        file: "barrier/src/coordinate/begin.rs",
        from: "(Phase::Active { .. }, Some(task)) => Some(Refusal::NotRunning { task }),",
        to: "(Phase::Active { .. }, Some(_)) => None,",
        test: BARRIER,
        why: "a request waits for tasks that may never run, and nobody is told",
    },
    Mutant {
        file: "barrier/src/coordinate/end.rs",
        from: "                NotDurable::Failed => self.discard(checkpoint, report),
                NotDurable::Unknown | NotDurable::Fenced => self.leave(checkpoint, report),",
        to: "                NotDurable::Failed | NotDurable::Unknown => self.discard(checkpoint, report),
                NotDurable::Fenced => self.leave(checkpoint, report),",
        test: BARRIER,
        why: "the files of a checkpoint that may be complete are deleted",
    },
    Mutant {
        file: "barrier/src/coordinate/end.rs",
        from: "Abort::NotDurable(NotDurable::Unknown) => Some(JobFailure::Undecided { checkpoint }),",
        to: "Abort::NotDurable(NotDurable::Unknown) => None,",
        test: BARRIER,
        why: "the attempt goes on without knowing what the log says",
    },
    Mutant {
        file: "barrier/src/coordinate/end.rs",
        from: "        self.dead.add(checkpoint);\n",
        to: "",
        test: BARRIER,
        why: "what a late acknowledgement brings for a dead checkpoint is never deleted",
    },
    Mutant {
        file: "barrier/src/coordinate/end.rs",
        from: "self.latest = self.latest.max(Some(checkpoint));",
        to: "self.latest = Some(checkpoint);",
        test: BARRIER,
        why: "a slow savepoint makes the newest completed checkpoint an older one",
    },
    Mutant {
        file: "barrier/src/coordinate/end.rs",
        from: "            && self.pending.is_empty()\n",
        to: "",
        test: BARRIER,
        why: "the job ends while a savepoint is in progress",
    },
    Mutant {
        file: "barrier/src/coordinate/failures.rs",
        from: "self.in_a_row > self.tolerable",
        to: "self.in_a_row >= self.tolerable",
        test: BARRIER,
        why: "the job fails one failure early",
    },
    Mutant {
        file: "barrier/src/coordinate/failures.rs",
        from: "        self.in_a_row = 0;\n",
        to: "",
        test: BARRIER,
        why: "failures that are not in a row add up",
    },
    Mutant {
        file: "barrier/src/coordinate/config.rs",
        from: "Mode::AlignedFor(_) | Mode::Unaligned => 1,",
        to: "Mode::AlignedFor(_) | Mode::Unaligned => self.concurrent_max.max(1),",
        test: BARRIER,
        why: "two unaligned checkpoints are in progress, and tasks give up one for the other",
    },
    Mutant {
        file: "barrier/src/coordinate/plan.rs",
        from: ".all(|&input| finished(input)))",
        to: ".any(|&input| finished(input)))",
        test: BARRIER,
        why: "sources are not triggered, and tasks are that still have input",
    },
    Mutant {
        file: "barrier/src/coordinate/tasks.rs",
        from: "*current = state.max(*current);",
        to: "*current = state;",
        test: BARRIER,
        why: "a message that comes late leads a task back",
    },
    Mutant {
        file: "barrier/src/coordinate/requests.rs",
        from: "waiting.rank() <= request.rank()",
        to: "waiting.rank() < request.rank()",
        test: BARRIER,
        why: "who came last is served first",
    },
    Mutant {
        file: "barrier/src/coordinate/schedule.rs",
        from: "self.next.max(paused.filter(|_| self.next.is_some()))",
        to: "self.next",
        test: BARRIER,
        why: "there is no pause between checkpoints",
    },
    Mutant {
        file: "barrier/src/coordinate/coordinator.rs",
        from: "                self.effects.extend(pending.take_triggers(&self.tasks.plan));\n",
        to: "",
        test: BARRIER,
        why: "a barrier that a finished task would have forwarded is injected by nobody",
    },
];
