//! Bugs in the checkpoint log and the store around it.

use super::{Mutant, STORAGE};

const LOG: &str = "storage/src/log.rs";
const STATE: &str = "storage/src/log/state.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        file: LOG,
        from: "if there.nonce == mine.nonce || there.nonce == instead_of(mine.nonce) {",
        to: "if there.number == mine.number {",
        test: STORAGE,
        why: "who lost a race for an entry takes it for his own",
    },
    Mutant {
        file: LOG,
        from: "if there.nonce == mine.nonce || there.nonce == instead_of(mine.nonce) {",
        to: "if there.nonce == mine.nonce {",
        test: STORAGE,
        why: "what gave up a completion looks like a successor's entry, and the process stops",
    },
    Mutant {
        file: LOG,
        from: "let open = tried_twice || tried == Tried::Before || !e.is_without_effect();",
        to: "let open = tried_twice || !e.is_without_effect();",
        test: STORAGE,
        why: "a full store makes an open append look like a successor's, and the process stops",
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
        from: "        self.settle().await?;
        if self.state.generation()",
        to: "        if self.state.generation()",
        test: STORAGE,
        why: "one decides again without knowing what became of the last decision",
    },
    Mutant {
        file: LOG,
        from: "next_id: decision.next_id().max(self.state.next_id()),",
        to: "next_id: decision.next_id(),",
        test: STORAGE,
        why: "once the log is trimmed, ids are given out again that failed checkpoints had",
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
        test: STORAGE,
        why: "a checkpoint that the log holds is treated as failed",
    },
];
