//! What goes round: a number that is halved when it is even, and tripled plus one when it is odd.
//!
//! All that were ever tried fall to 1 in the end (Collatz, 1937), up and down like a hailstone.

use serde::{Deserialize, Serialize};

/// A number on its way down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hailstone {
    /// Where it began.
    pub(crate) start: u64,
    /// How many numbers it has been, with this one.
    pub(crate) step: u64,
    pub(crate) number: u64,
}

impl Hailstone {
    pub(crate) fn new(start: u64) -> Self {
        Self {
            start,
            step: 1,
            number: start,
        }
    }

    /// The number after this one, if it has not come down to 1.
    pub(crate) fn next(self) -> Option<Self> {
        let number = match self.number {
            0 | 1 => return None,
            even if even.is_multiple_of(2) => even / 2,
            odd => 3 * odd + 1,
        };
        Some(Self {
            step: self.step + 1,
            number,
            ..self
        })
    }

    /// This one and all that come after it.
    pub(crate) fn path(self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self), |hailstone| hailstone.next())
    }
}

/// A line of the output: a hailstone has been at a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Visit {
    pub(crate) start: u64,
    pub(crate) step: u64,
    pub(crate) number: u64,
    /// How many hailstones have been at the number, with this one.
    pub(crate) visit: u64,
}

impl Visit {
    pub(crate) fn new(hailstone: Hailstone, visit: u64) -> Self {
        let Hailstone {
            start,
            step,
            number,
        } = hailstone;
        Self {
            start,
            step,
            number,
            visit,
        }
    }

    pub(crate) fn hailstone(self) -> Hailstone {
        Hailstone {
            start: self.start,
            step: self.step,
            number: self.number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Hailstone;

    fn numbers(start: u64) -> Vec<u64> {
        let path = Hailstone::new(start).path();
        path.map(|hailstone| hailstone.number).collect()
    }

    #[test]
    fn a_hailstone_rises_and_falls_to_one() {
        assert_eq!(numbers(1), [1]);
        assert_eq!(numbers(6), [6, 3, 10, 5, 16, 8, 4, 2, 1]);
        assert_eq!(numbers(27).len(), 112);
        assert_eq!(numbers(27).into_iter().max(), Some(9232));
    }

    #[test]
    fn steps_count_from_one() {
        let steps: Vec<_> = Hailstone::new(4).path().map(|each| each.step).collect();
        assert_eq!(steps, [1, 2, 3]);
    }
}
