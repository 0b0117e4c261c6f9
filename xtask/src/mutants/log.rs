//! Bugs in the checkpoint log and the store around it.

use super::{Mutant, SIM, STORAGE};

const LOG: &str = "storage/src/log.rs";
const STATE: &str = "storage/src/log/state.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        file: LOG,
        from: "if Entry::decode(there, mine.number)?.nonce == mine.nonce {",
        to: "if Entry::decode(there, mine.number).is_ok() {",
        test: STORAGE,
        why: "who lost a race for an entry takes it for his own",
    },
    Mutant {
        file: LOG,
        from: "Some(there) if there.nonce == entry.previous => {}",
        to: "Some(_) => {}",
        test: STORAGE,
        why: "an entry counts that follows another one than its writer read",
    },
    Mutant {
        file: LOG,
        from: "        let next = get(&self.blobs, entry.number + 1).await?;
        Ok(next.is_some_and(|next| next.previous == entry.nonce))",
        to: "        Ok(above.is_some())",
        test: STORAGE,
        why: "who slept through a trim wins a freed number",
    },
    Mutant {
        file: LOG,
        from: "            // The reply may be all that was lost.
            Err(e) if !e.is_without_effect() =>",
        to: "            // The reply may be all that was lost.
            Err(e) if e.is_without_effect() =>",
        test: STORAGE,
        why: "an append that took effect and lost its reply is reported as failed",
    },
    Mutant {
        file: LOG,
        from: "            nonce: !first.nonce,",
        to: "            nonce: first.nonce,",
        test: STORAGE,
        why: "nobody can tell whether a decision or the one that gives it up was taken",
    },
    Mutant {
        file: LOG,
        from: "        self.settle().await?;
        if self.state.generation()",
        to: "        if self.state.generation()",
        test: STORAGE,
        why: "one decides again without knowing what became of the last decision",
    },
    Mutant {
        file: STATE,
        from: "if other || self.discarded.contains_key(&id) {",
        to: "if other {",
        test: STORAGE,
        why: "a checkpoint whose files may be deleted is completed",
    },
    Mutant {
        file: STATE,
        from: ".filter(|id| Some(*id) <= committed && !in_use.contains(id))",
        to: ".filter(|id| !in_use.contains(id))",
        test: STORAGE,
        why: "a checkpoint is dropped whose transactions may still have to be committed",
    },
    Mutant {
        file: STATE,
        from: "            .chain(discarded)\n",
        to: "            .chain(std::iter::empty()).inspect(|_| { let _ = &discarded; })\n",
        test: STORAGE,
        why: "a discarded checkpoint is forgotten while files of it are left",
    },
    Mutant {
        file: STATE,
        from: "self.next_id = self.next_id.max(Some(entry.next_id));",
        to: "self.next_id = Some(entry.next_id);",
        test: STORAGE,
        why: "ids of an older generation are given out again",
    },
    Mutant {
        file: "storage/src/store.rs",
        from: "        self.blobs.sync(&layout::checkpoint(id)).await?;\n",
        to: "",
        test: STORAGE,
        why: "a checkpoint is completed whose files a power cut can take",
    },
    Mutant {
        file: "storage/src/store.rs",
        from: ".fold(self.state().next_id(), CheckpointId::max);",
        to: ".fold(self.state().next_id(), |next, _| next);",
        test: STORAGE,
        why: "an attempt reuses the id of a checkpoint that another one had begun",
    },
    Mutant {
        file: "storage/src/store/leadership.rs",
        from: "Some(newest) if newest.generation == self.generation => Ok(()),",
        to: "Some(newest) if newest.generation >= self.generation => Ok(()),",
        test: STORAGE,
        why: "a process that was replaced believes to lead",
    },
    Mutant {
        file: "storage/src/store/deletion.rs",
        from: "if !self.is_named(&object) {",
        to: "if !object.is_empty() {",
        test: STORAGE,
        why: "a file is deleted that a retained checkpoint shares",
    },
    Mutant {
        file: "storage/src/store/deletion.rs",
        from: "            return Ok(Fate::Completed);",
        to: "            return Ok(Fate::Discarded);",
        test: SIM,
        why: "a checkpoint that the log holds is treated as failed",
    },
];
