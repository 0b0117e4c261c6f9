//! Bugs in what decides when a sink commits, asks and undoes.

use super::{Mutant, SIM, SINK};

const MACHINE: &str = "sink-2pc/src/machine.rs";
const PENDING: &str = "sink-2pc/src/machine/pending.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        file: PENDING,
        from: "if prepared.checkpoint <= checkpoint && *standing == Standing::Prepared {",
        to: "if prepared.checkpoint == checkpoint && *standing == Standing::Prepared {",
        test: SINK,
        why: "what rides along with a newer checkpoint is never committed",
    },
    Mutant {
        file: PENDING,
        from: "            .take_while(|(prepared, _)| prepared.checkpoint <= checkpoint)
            .filter",
        to: "            .take_while(|(prepared, _)| prepared.checkpoint < checkpoint)
            .filter",
        test: SIM,
        why: "a checkpoint does not name its own transactions, and a restart loses them",
    },
    Mutant {
        file: PENDING,
        from: "let is_younger = gate.is_some_and(|gate| prepared.checkpoint > gate);",
        to: "let is_younger = gate.is_some_and(|gate| prepared.checkpoint < gate);",
        test: SINK,
        why: "a younger checkpoint becomes visible before an older one",
    },
    Mutant {
        file: PENDING,
        from: "            .filter(|(_, standing)| !matches!(standing, Standing::Undo { .. }))\n",
        to: "",
        test: SINK,
        why: "a checkpoint names what is being undone",
    },
    Mutant {
        file: MACHINE,
        from: "                self.pending.set(&prepared, doubt);",
        to: "                self.pending.remove(&prepared);
                let _ = doubt;",
        test: SIM,
        why: "silence is taken for a yes",
    },
    Mutant {
        file: MACHINE,
        from: "if self.stage == Stage::Recovering && self.pending.oldest_decided().is_none() {",
        to: "if self.stage == Stage::Recovering {",
        test: SIM,
        why: "it sweeps what the restored checkpoint still has to commit",
    },
    Mutant {
        file: MACHINE,
        from: "                self.stage = Stage::Sweeping { failures: 0, at };",
        to: "                self.stage = Stage::Running;
                let _ = at;
                self.effects.push_back(Effect::Ready);",
        test: SINK,
        why: "what older generations left unfinished stays",
    },
    Mutant {
        file: MACHINE,
        from: "&& doubtful.is_none_or(|oldest| checkpoint < oldest)",
        to: "&& doubtful.is_none_or(|oldest| checkpoint <= oldest)",
        test: SINK,
        why: "a checkpoint is noted as committed while one of its transactions is not",
    },
    Mutant {
        file: MACHINE,
        from: "            Some(_) | None if id.0 < self.calls => return Ok(()), // Late: it was given up.\n",
        to: "",
        test: SINK,
        why: "an answer that comes late fails the job",
    },
    Mutant {
        file: MACHINE,
        from: "                if self.retry.is_exhausted(failures) {
                    self.fail(Failure::Refused { prepared, error });
                } else {
                    let at = now + self.retry.delay(failures);
                    self.pending.set(&prepared, Standing::Due { failures, at });",
        to: "                if self.retry.is_exhausted(failures) {
                    self.fail(Failure::Refused { prepared, error });
                } else {
                    self.pending.remove(&prepared);",
        test: SIM,
        why: "a refused commit is not tried again",
    },
    Mutant {
        file: MACHINE,
        from: "            && self.released < Some(oldest)",
        to: "            && self.released <= Some(oldest)",
        test: SINK,
        why: "writers are told twice, or told what they know",
    },
    Mutant {
        file: "sink-2pc/src/unsettled.rs",
        from: "            .retain(|prepared| prepared.checkpoint > checkpoint);",
        to: "            .retain(|prepared| prepared.checkpoint > checkpoint.next());",
        test: SINK,
        why: "a transaction no longer rides with the next checkpoint although none holds it",
    },
    Mutant {
        file: "sink-2pc/src/unsettled.rs",
        from: "        self.prepared.extend(prepared);
        &self.prepared",
        to: "        self.prepared = prepared;
        &self.prepared",
        test: SIM,
        why: "the transactions of a failed checkpoint are in no later one",
    },
    Mutant {
        file: "sink-2pc/src/retry.rs",
        from: "failures >= self.attempts_max",
        to: "failures > self.attempts_max",
        test: SINK,
        why: "it tries once more than allowed",
    },
];
