//! Bugs in what task and snapshots share: what is settled, kept, given, noted.

use super::Mutant;

const STATE: &[&str] = &[
    "test",
    "--package",
    "cutwater-state",
    "--lib",
    "--test",
    "model",
    "--test",
    "incremental",
];

const BLOCKS: &str = "state/src/table/blocks/mod.rs";
const FROZEN: &str = "state/src/table/blocks/frozen.rs";
const KEPT: &str = "state/src/table/blocks/kept.rs";
const NOTED: &str = "state/src/table/blocks/noted.rs";
const SETTLE: &str = "state/src/table/blocks/settle.rs";
const SLOT: &str = "state/src/table/blocks/slot.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        file: BLOCKS,
        from: "        self.settle(number);\n        self.notes.fall();\n",
        to: "        self.settle(number);\n",
        test: STATE,
        why: "a pointer is followed to where an entry was",
    },
    Mutant {
        file: BLOCKS,
        from: "        self.epoch += 1;\n        self.notes.fall();\n",
        to: "        self.epoch += 1;\n",
        test: STATE,
        why: "a write reaches a snapshot taken before it",
    },
    Mutant {
        file: NOTED,
        from: "block.settled != *epoch",
        to: "block.settled > *epoch",
        test: STATE,
        why: "a block is written to that a snapshot still needs",
    },
    Mutant {
        file: NOTED,
        from: "if self.good_for >= needed {",
        to: "if self.good_for > GoodFor::Nothing {",
        test: STATE,
        why: "what may be read is written to",
    },
    Mutant {
        file: FROZEN,
        from: "self.base.is_none() || self.slot(number).is_provided()",
        to: "self.base.is_none()",
        test: STATE,
        why: "what was changed before and after the snapshot is not in it",
    },
    Mutant {
        file: FROZEN,
        from: "self.base.is_none_or(|base| written > base)",
        to: "self.base.is_none_or(|base| written > base + 1)",
        test: STATE,
        why: "what was changed right after the base is not in the snapshot",
    },
    Mutant {
        file: SETTLE,
        from: "cell.written.store(self.epoch, Ordering::Release);",
        to: "",
        test: STATE,
        why: "the writer does not know what has changed",
    },
    Mutant {
        file: SETTLE,
        from: "self.notes.fall(); // they would",
        to: "// they would",
        test: STATE,
        why: "a value is read that was changed since",
    },
    Mutant {
        file: SETTLE,
        from: "usize::from(block.kept) < KEPT_MAX",
        to: "usize::from(block.kept) <= KEPT_MAX",
        test: STATE,
        why: "there is no room for what is to be kept",
    },
    Mutant {
        file: SETTLE,
        from: "            if keeper.is_some() {\n                return None;\n            }\n",
        to: "",
        test: STATE,
        why: "one of two snapshots sees what was changed after it",
    },
    Mutant {
        file: SETTLE,
        from: "self.put_later(number, at, value); // a user",
        to: "drop(value); // a user",
        test: STATE,
        why: "a change is lost where another one's value cannot be cloned",
    },
    Mutant {
        file: SETTLE,
        from: "self.recycle.copy_with(block.entries(), Some(last))",
        to: "self.recycle.copy_with(block.entries(), None)",
        test: STATE,
        why: "what was kept is not in the copy",
    },
    Mutant {
        file: SETTLE,
        from: "        self.put_pending();\n        if self.copies_left == 0",
        to: "        if self.copies_left == 0",
        test: STATE,
        why: "a value that was lent is lost when another one is",
    },
    Mutant {
        file: SETTLE,
        from: "_ => (side.kept().add(), 1),",
        to: "_ => (side.kept().add(), block.kept + 1),",
        test: STATE,
        why: "what was kept for an earlier snapshot counts for this one",
    },
    Mutant {
        file: KEPT,
        from: "few.iter().rev()",
        to: "few.iter()",
        test: STATE,
        why: "a snapshot has a value that was changed once since",
    },
    Mutant {
        file: SLOT,
        from: "        } else if !state.is_null() && kept.is_none() {",
        to: "        } else if !state.is_null() {",
        test: STATE,
        why: "blocks of which values were kept are not written",
    },
    Mutant {
        file: BLOCKS,
        from: "pub(crate) fn freeze(&mut self, base: Option<u64>) -> Frozen<K, V> {\n        self.put_pending();",
        to: "pub(crate) fn freeze(&mut self, base: Option<u64>) -> Frozen<K, V> {",
        test: STATE,
        why: "a snapshot lacks the last change before it",
    },
    Mutant {
        file: BLOCKS,
        from: ") -> R {\n        self.put_pending();",
        to: ") -> R {",
        test: STATE,
        why: "a change goes to an entry that has moved",
    },
    Mutant {
        file: NOTED,
        from: "pub(crate) fn forget(&mut self) {\n        self.put_pending();",
        to: "pub(crate) fn forget(&mut self) {",
        test: STATE,
        why: "a prefetch finds a value as it was before it was changed",
    },
    Mutant {
        file: FROZEN,
        from: "if let Some(given) = slot.provide(copy) {\n                    self.recycle.done_with(given);\n                }",
        to: "slot.give(super::slot::State::Reading, copy);",
        test: STATE,
        why: "a block that the task left to the writer has values that were changed",
    },
];
