//! Bugs in the kinds of keyed state: namespaces, timers, expiry, evolution.

use super::Mutant;

const STATE: &[&str] = &[
    "test",
    "--package",
    "cutwater-state",
    "--lib",
    "--test",
    "kinds",
    "--test",
    "timers",
    "--test",
    "ttl",
    "--test",
    "evolution",
];

const KEY: &str = "state/src/key.rs";
const KEYED_TABLE: &str = "state/src/keyed_table.rs";
const TABLE: &str = "state/src/table/mod.rs";
const READ_AHEAD: &str = "state/src/read_ahead.rs";
const LOAD: &str = "state/src/table/load.rs";
const INDEX: &str = "state/src/table/index.rs";
const TIMERS: &str = "state/src/timers.rs";
const TTL: &str = "state/src/ttl.rs";
const EXPIRY: &str = "state/src/expiry.rs";
const SINGLE: &str = "state/src/single.rs";
const LIST: &str = "state/src/list.rs";
const MAP: &str = "state/src/map.rs";
const EVOLUTION: &str = "state/src/schema/evolution.rs";
const MIGRATION: &str = "state/src/schema/migration.rs";
const CHECK: &str = "state/src/schema/check.rs";
const NAMES: &str = "state/src/names.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        file: KEY,
        from: "KeyHash(upper | u64::from(both.lower()))",
        to: "KeyHash(both.0 | upper & 0)",
        test: STATE,
        why: "a window of a key is in another group than the key",
    },
    Mutant {
        file: TABLE,
        from: "at >> self.header(number as usize).depth == 0",
        to: "at >> self.header(number as usize).depth < 2",
        test: STATE,
        why: "a namespace is found several times",
    },
    Mutant {
        file: TIMERS,
        from: "self.next_due().is_none_or(|next| next > now)",
        to: "self.next_due().is_none_or(|next| next >= now)",
        test: STATE,
        why: "a timer fires late",
    },
    Mutant {
        file: TIMERS,
        from: "        if was_set {",
        to: "        if !was_set {",
        test: STATE,
        why: "a deleted timer fires",
    },
    Mutant {
        file: TTL,
        from: "end.is_some_and(|end| end <= now)",
        to: "end.is_none_or(|end| end <= now)",
        test: STATE,
        why: "what lives longest expires at once (B35)",
    },
    Mutant {
        file: TTL,
        from: "let stamp = stamp.unwrap_or(self.now);",
        to: "let stamp = stamp.unwrap_or(Timestamp::MIN);",
        test: STATE,
        why: "what had no stamp is gone when it begins to expire",
    },
    Mutant {
        file: TTL,
        from: "        of.stamp = self.now;\n",
        to: "",
        test: STATE,
        why: "a write in place does not count",
    },
    Mutant {
        file: TTL,
        from: "let visible = slot.take_if(|of| self.is_visible(of));",
        to: "let visible = slot.take();",
        test: STATE,
        why: "an update sees what has expired",
    },
    Mutant {
        file: EXPIRY,
        from: "Left::Nothing => is_any_gone = true,",
        to: "Left::Nothing => {}",
        test: STATE,
        why: "what has expired stays for ever",
    },
    Mutant {
        file: EXPIRY,
        from: "self.next += 1;",
        to: "",
        test: STATE,
        why: "only the first block is ever swept",
    },
    Mutant {
        file: KEYED_TABLE,
        from: "Left::Nothing => return Ok(false),",
        to: "Left::Nothing => stored,",
        test: STATE,
        why: "a snapshot has what has expired",
    },
    Mutant {
        file: SINGLE,
        from: "            if !lifetime.is_over(&of) {",
        to: "            {",
        test: STATE,
        why: "what has expired comes back in a merged window",
    },
    Mutant {
        file: LIST,
        from: "Ok(elements.filter(|of| lifetime.is_visible(of)).map(L::get))",
        to: "Ok(elements.map(L::get))",
        test: STATE,
        why: "a list shows elements that have expired",
    },
    Mutant {
        file: MAP,
        from: "let visible = former.filter(|of| lifetime.is_visible(of));",
        to: "let visible = former;",
        test: STATE,
        why: "a map returns an entry that has expired",
    },
    Mutant {
        file: EVOLUTION,
        from: "&& enums.last() == Some(&true);",
        to: ";",
        test: STATE,
        why: "a struct with a field more is read from bytes that lack it",
    },
    Mutant {
        file: MIGRATION,
        from: "let stamp = self.stamped.then(|| take(bytes)).transpose()?;",
        to: "let stamp = None;",
        test: STATE,
        why: "stamps are read as values when expiry is switched off (B35)",
    },
    Mutant {
        file: CHECK,
        from: "|| stored.namespace != declared.namespace {",
        to: "{",
        test: STATE,
        why: "windows are read as something else",
    },
    Mutant {
        file: NAMES,
        from: ".filter(|state| self.contain(name_of(state)));",
        to: ".filter(|state| self.name == name_of(state));",
        test: STATE,
        why: "a renamed state starts empty",
    },
    Mutant {
        file: LOAD,
        from: "key(one) == key(other)",
        to: "one > other && key(one) == key(other)",
        test: STATE,
        why: "a key that a snapshot has twice stands in the table twice",
    },
    Mutant {
        file: LOAD,
        from: "if depth < common && expected > Self::FULL / 2",
        to: "if depth > common && expected > Self::FULL / 2",
        test: STATE,
        why: "what was a block is cut by another measure when it is restored",
    },
    Mutant {
        file: TABLE,
        from: "key.is(found).then_some(Spot::At(number, at))",
        to: "Some(Spot::At(number, at))",
        test: STATE,
        why: "a hint that is out of date is believed",
    },
    Mutant {
        file: INDEX,
        from: "gap = if was_full {",
        to: "gap = if was_full && number > 64 {",
        test: STATE,
        why: "after a removal, keys of an index are not found any more",
    },
    Mutant {
        file: TABLE,
        from: "key.is(found).then_some(Spot::Noted(note))",
        to: "Some(Spot::Noted(note))",
        test: STATE,
        why: "another key with the same hash is taken for this one",
    },
    Mutant {
        file: READ_AHEAD,
        from: "items.iter().zip(readers.iter().cycle())",
        to: "items.iter().skip(1).zip(readers.iter().cycle())",
        test: STATE,
        why: "pieces of a snapshot are taken for each other",
    },
];
