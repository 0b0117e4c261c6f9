//! Timers: in order, once each, and in the group of their keys.

mod common;

use std::collections::BTreeSet;

use common::{MAX, Stored, all};
use cutwater_keygroups::{Key, KeyGroupRange, key};
use cutwater_state::{Handle, Keyed, KeyedStates, Restored, Result, Timer, Timers, Timestamp};
use proptest::prelude::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

struct Subtask {
    states: KeyedStates<u64>,
    timers: Handle<Timers<u64>>,
}

impl Subtask {
    fn new(groups: KeyGroupRange, old: impl IntoIterator<Item = Restored>) -> Self {
        let mut states = KeyedStates::restore("op", groups, MAX, old).unwrap();
        let timers = states.timers("timers").unwrap();
        Self { states, timers }
    }

    fn timers(&mut self) -> &mut Timers<u64> {
        &mut self.states[self.timers]
    }

    fn due(&mut self, now: i64) -> Vec<(i64, u64)> {
        let mut due = Vec::new();
        while let Some(Timer { time, key, .. }) = self.timers().pop_due(at(now)).unwrap() {
            due.push((time.millis(), key));
        }
        due
    }
}

/// F103, F104: a timer is one time for one key, set twice or not; it fires once, in order, or not at all.
#[test]
fn timers_fire_once_and_in_order() -> Result<()> {
    let mut task = Subtask::new(all(), []);
    let timers = task.timers();
    for key in [3, 1, 2] {
        assert!(timers.set(Keyed::new(&key), at(20))?);
        assert!(!timers.set(Keyed::new(&key), at(20))?, "it is set already");
        assert!(timers.set(Keyed::new(&key), at(10 * i64::try_from(key).unwrap()))? == (key != 2));
    }
    assert!(timers.delete(Keyed::new(&1), at(20))?);
    assert!(!timers.delete(Keyed::new(&1), at(20))?);
    assert!(timers.is_set(Keyed::new(&2), at(20))?);
    assert!(!timers.is_set(Keyed::new(&2), at(10))?);
    assert_eq!(timers.next_due(), Some(at(10)));
    assert_eq!(task.due(9), []);
    assert_eq!(task.due(25), [(10, 1), (20, 2), (20, 3)]);
    assert_eq!(task.due(25), []);
    assert_eq!(task.timers().next_due(), Some(at(30)));
    Ok(())
}

/// F104: an operator that sets a timer whenever one fires has one, however often it does.
#[test]
fn setting_one_anew_whenever_it_fires_keeps_one() -> Result<()> {
    let mut task = Subtask::new(all(), []);
    task.timers().set(Keyed::new(&7), at(0))?;
    for now in 0..1000 {
        assert_eq!(task.due(now), [(now, 7)]);
        task.timers().set(Keyed::new(&7), at(now + 1))?;
        assert_eq!(task.timers().iter().count(), 1);
    }
    assert_eq!(task.timers().iter().count(), 1);
    let restored = Stored::of(&mut task.states).restored();
    assert_eq!(Subtask::new(all(), [restored]).due(i64::MAX), [(1000, 7)]);
    Ok(())
}

/// B37: timers of all groups fire, half of them before and half of them after a rescale from one
/// subtask to two and back; none twice, none never, each where its key is.
#[test]
fn timers_go_with_their_keys() -> Result<()> {
    let mut task = Subtask::new(all(), []);
    for key in 0..500 {
        task.timers().set(Keyed::new(&key), at(10))?;
        task.timers().set(Keyed::new(&key), at(20))?;
    }
    assert_eq!(task.due(10).len(), 500);
    let old = Stored::of(&mut task.states).restored();
    let mut fired = BTreeSet::new();
    let mut halves = Vec::new();
    for groups in [KeyGroupRange::new(0, 6), KeyGroupRange::new(6, 12)] {
        let mut half = Subtask::new(groups, [old.clone()]);
        for key in 0..500 {
            if groups.contains(u64::GROUPING.group(key.key_hash(), MAX)) {
                half.timers().set(Keyed::new(&key), at(30))?;
            }
        }
        for (time, key) in half.due(20) {
            assert!(groups.contains(u64::GROUPING.group(key.key_hash(), MAX)));
            assert_eq!(time, 20);
            assert!(fired.insert(key), "{key} fired twice");
        }
        halves.push(Stored::of(&mut half.states).restored());
    }
    assert_eq!(fired.len(), 500);
    let due = Subtask::new(all(), halves).due(i64::MAX);
    assert_eq!(due, (0..500).map(|key| (30, key)).collect::<Vec<_>>());
    Ok(())
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Window {
    start: i64,
    end: i64,
}

key!(Window { start, end });

/// B38: two session windows with timers grow into one, which has what they had and one timer, also
/// after a restore.
#[test]
fn merged_windows_have_one_timer() -> Result<()> {
    let [w1, w2, merged] = [(0, 10), (5, 15), (0, 15)].map(|(start, end)| Window { start, end });
    let declare = |states: &mut KeyedStates<u64>| {
        let sum = states
            .namespaced::<Window>()
            .reducing("sum", |sum: &mut u64, n| *sum += n)?;
        Ok::<_, cutwater_state::Error>((sum, states.namespaced::<Window>().timers("timers")?))
    };
    let mut states = KeyedStates::<u64>::new("op", all(), MAX);
    let (sum, timers) = declare(&mut states)?;
    let keyed = Keyed::new(&7);
    for (window, n) in [(w1, 1), (w2, 2)] {
        states[sum].add(keyed.at(window), n)?;
        states[timers].set(keyed.at(window), at(window.end))?;
    }
    states[sum].merge(keyed, merged, [w1, w2])?;
    for window in [w1, w2] {
        assert!(states[timers].delete(keyed.at(window), at(window.end))?);
    }
    states[timers].set(keyed.at(merged), at(merged.end))?;

    let old = Stored::of(&mut states).restored();
    let mut states = KeyedStates::<u64>::restore("op", all(), MAX, [old])?;
    let (sum, timers) = declare(&mut states)?;
    let timer = states[timers].pop_due(Timestamp::MAX)?.unwrap();
    let window = timer.namespace;
    assert_eq!((timer.time, window), (at(15), merged));
    assert_eq!(states[sum].get(keyed.at(window))?, Some(&3));
    assert_eq!(states[timers].pop_due(Timestamp::MAX)?, None);
    Ok(())
}

#[derive(Clone, Debug)]
enum Step {
    Set(u64, i64),
    Delete(u64, i64),
    Due(i64),
    Restore,
}

fn step() -> impl Strategy<Value = Step> {
    let (key, time) = (|| 0..50_u64, || 0..60_i64);
    prop_oneof![
        20 => (key(), time()).prop_map(|(key, time)| Step::Set(key, time)),
        10 => (key(), time()).prop_map(|(key, time)| Step::Delete(key, time)),
        1 => time().prop_map(Step::Due),
        1 => Just(Step::Restore),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// F103: against a sorted set, with restores in between.
    #[test]
    fn random_operations_equal_a_sorted_set(steps in prop::collection::vec(step(), 0..400)) {
        let mut task = Subtask::new(all(), []);
        let mut reference = BTreeSet::new();
        for step in steps {
            match step {
                Step::Set(key, time) => {
                    let is_new = task.timers().set(Keyed::new(&key), at(time)).unwrap();
                    prop_assert_eq!(is_new, reference.insert((time, key)));
                }
                Step::Delete(key, time) => {
                    let was_set = task.timers().delete(Keyed::new(&key), at(time)).unwrap();
                    prop_assert_eq!(was_set, reference.remove(&(time, key)));
                }
                Step::Due(now) => {
                    let later = reference.split_off(&(now + 1, 0));
                    let due: Vec<_> = reference.into_iter().collect();
                    reference = later;
                    prop_assert_eq!(task.due(now), due);
                }
                Step::Restore => {
                    let old = Stored::of(&mut task.states).restored();
                    task = Subtask::new(all(), [old]);
                }
            }
        }
        prop_assert_eq!(task.due(i64::MAX), reference.into_iter().collect::<Vec<_>>());
    }
}
