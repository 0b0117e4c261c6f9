//! Buffer debloating: as many records in flight as their receiver takes in a given time, no more.
//!
//! An aligned barrier waits for the records queued before it. Bounded in records, that wait is short
//! for a fast receiver and endless for a slow one; bounded by the receiver's own pace, it is about the
//! target for both (Flink: FLIP-183, `taskmanager.network.memory.buffer-debloat`).

use std::time::{Duration, Instant};

/// How often the bound is set anew: often enough to follow a change, seldom enough to cost nothing.
const WINDOW: Duration = Duration::from_millis(50);

/// How much of the newest window counts against those before.
const WEIGHT: f64 = 0.3;

/// A bound within this factor of the one in force is not worth telling.
const NEAR: f64 = 1.25;

/// Measures how fast a task takes records while it has some.
#[derive(Debug)]
pub(crate) struct Debloat {
    target: Duration,
    channels: usize,
    /// Records a channel may hold at most, however fast they are taken.
    most: usize,
    window: Window,
    /// Records per second, over past windows.
    rate: Option<f64>,
    limit: usize,
}

#[derive(Debug, Default)]
struct Window {
    start: Option<Instant>,
    records: usize,
    idle: Duration,
}

impl Debloat {
    /// Begins with a bound of `first` and never goes beyond `most`, both in records per channel.
    pub(crate) fn new(target: Duration, channels: usize, first: usize, most: usize) -> Self {
        Self {
            target,
            channels: channels.max(1),
            most,
            window: Window::default(),
            rate: None,
            limit: first,
        }
    }

    #[inline]
    pub(crate) fn took(&mut self, records: usize) {
        self.window.records += records;
    }

    /// The task had nothing to read. Waiting for room downstream is not idling: it is the pace.
    pub(crate) fn idled(&mut self, idle: Duration) {
        self.window.idle += idle;
    }

    /// The new bound on the records in each channel, if it has to change.
    #[inline]
    pub(crate) fn limit(&mut self, now: Instant) -> Option<usize> {
        let start = *self.window.start.get_or_insert(now);
        let elapsed = now.saturating_duration_since(start);
        if elapsed < WINDOW {
            return None;
        }
        self.close_window(elapsed, now)
    }

    fn close_window(&mut self, elapsed: Duration, now: Instant) -> Option<usize> {
        let busy = elapsed.saturating_sub(self.window.idle);
        let records = self.window.records;
        self.window = Window {
            start: Some(now),
            ..Window::default()
        };
        if records == 0 {
            return None; // nothing waits in the channels either
        }
        // Mostly idle means fast: a bound that was right for slower records must not keep it so.
        let measured = records as f64 / busy.max(Duration::from_micros(1)).as_secs_f64();
        let rate = self
            .rate
            .map_or(measured, |rate| rate + WEIGHT * (measured - rate));
        self.rate = Some(rate);
        let fitting = rate * self.target.as_secs_f64() / self.channels as f64;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "what is too much is cut off"
        )]
        let limit = (fitting as usize).clamp(1, self.most);
        let (old, new) = (self.limit as f64, limit as f64);
        if new < old * NEAR && old < new * NEAR {
            return None;
        }
        self.limit = limit;
        Some(limit)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "an instant to count from")]
mod tests {
    use super::*;

    /// What a receiver that takes a record each `cost` has set after a second.
    fn limit_at(cost: Duration, channels: usize) -> usize {
        let mut debloat = Debloat::new(Duration::from_millis(100), channels, 1024, 8192);
        let mut now = Instant::now();
        let mut limit = 1024;
        for _ in 0..1_000_000 / cost.as_micros().max(1) {
            debloat.took(1);
            now += cost;
            limit = debloat.limit(now).unwrap_or(limit);
        }
        limit
    }

    #[test]
    fn a_channel_holds_what_is_taken_within_the_target() {
        assert!((80..=120).contains(&limit_at(Duration::from_millis(1), 1)));
        assert!((40..=60).contains(&limit_at(Duration::from_millis(1), 2)));
        assert_eq!(limit_at(Duration::from_millis(300), 1), 1);
        assert_eq!(limit_at(Duration::from_micros(1), 1), 8192);
    }

    #[test]
    fn idle_time_does_not_count_as_slowness() {
        let mut debloat = Debloat::new(Duration::from_millis(100), 1, 8192, 8192);
        let mut now = Instant::now();
        assert_eq!(debloat.limit(now), None);
        debloat.took(1_000);
        debloat.idled(Duration::from_millis(90));
        now += Duration::from_millis(100);
        // 1000 records in 10 ms of work are 10,000 in the 100 ms of the target: no bound at all.
        assert_eq!(debloat.limit(now), None);
    }
}
