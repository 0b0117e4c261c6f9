//! What the job reads, keeps and writes: a flight, an aircraft's totals, an update of them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// A row of a log, as far as the job looks at it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Flight {
    /// The aircraft. `NA`, where nobody knows, is a key like any other.
    pub(crate) tailnum: String,
    /// Miles.
    pub(crate) distance: Known<u64>,
    /// Local time as `hhmm`. A flight that never departed was cancelled.
    pub(crate) dep_time: Known<u16>,
    /// Minutes; early departures are negative.
    pub(crate) dep_delay: Known<i64>,
}

/// A number, or the `NA` that the logs have where there is none.
///
/// Text in every format, so that what was serialized can be read back, also where a format does not
/// say what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known<T>(pub(crate) Option<T>);

impl<T: fmt::Display> Serialize for Known<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(number) => serializer.collect_str(number),
            None => serializer.serialize_str("NA"),
        }
    }
}

impl<'de, T: FromStr> Deserialize<'de> for Known<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "NA" {
            return Ok(Self(None));
        }
        match text.parse() {
            Ok(number) => Ok(Self(Some(number))),
            Err(_) => Err(D::Error::custom(format!("{text:?} is no number, nor NA"))),
        }
    }
}

/// The state of one aircraft.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub(crate) flights: u64,
    pub(crate) distance_miles: u64,
    pub(crate) dep_delay_minutes: i64,
    pub(crate) cancelled: u64,
}

impl Totals {
    /// Counts one more flight.
    pub(crate) fn add(&mut self, flight: &Flight) {
        self.flights += 1;
        self.distance_miles += flight.distance.0.unwrap_or(0);
        self.dep_delay_minutes += flight.dep_delay.0.unwrap_or(0);
        self.cancelled += u64::from(flight.dep_time.0.is_none());
    }
}

/// A line of the output, and of `expected-by-tailnum.csv`: an aircraft's totals after a flight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Update {
    pub(crate) tailnum: String,
    /// Also the number of this update among those of the aircraft, from 1.
    pub(crate) flights: u64,
    pub(crate) distance_miles: u64,
    pub(crate) dep_delay_minutes: i64,
    pub(crate) cancelled: u64,
}

impl Update {
    pub(crate) fn new(tailnum: String, totals: Totals) -> Self {
        let Totals {
            flights,
            distance_miles,
            dep_delay_minutes,
            cancelled,
        } = totals;
        Self {
            tailnum,
            flights,
            distance_miles,
            dep_delay_minutes,
            cancelled,
        }
    }

    pub(crate) fn totals(&self) -> Totals {
        Totals {
            flights: self.flights,
            distance_miles: self.distance_miles,
            dep_delay_minutes: self.dep_delay_minutes,
            cancelled: self.cancelled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Flight, Known, Totals};

    fn read(row: &str) -> Result<Flight, csv::Error> {
        let text = format!("tailnum,origin,distance,dep_time,dep_delay\n{row}\n");
        let mut rows = csv::Reader::from_reader(text.as_bytes());
        rows.deserialize().next().unwrap()
    }

    #[test]
    fn a_flight_without_departure_is_cancelled_and_adds_no_delay() {
        let mut totals = Totals::default();
        totals.add(&read("N1,EWR,1400,517,-4").unwrap());
        totals.add(&read("N1,EWR,200,NA,NA").unwrap());
        let expected = Totals {
            flights: 2,
            distance_miles: 1600,
            dep_delay_minutes: -4,
            cancelled: 1,
        };
        assert_eq!(totals, expected);
    }

    #[test]
    fn an_unknown_tail_number_is_a_key() {
        assert_eq!(read("NA,EWR,200,NA,NA").unwrap().tailnum, "NA");
    }

    #[test]
    fn what_is_neither_number_nor_na_is_refused() {
        let error = read("N1,EWR,far,517,0").unwrap_err().to_string();
        assert!(error.contains("\"far\" is no number, nor NA"), "{error}");
    }

    #[test]
    fn a_flight_survives_being_part_of_a_checkpoint() {
        let flight = read("N1,EWR,200,NA,-3").unwrap();
        assert_eq!(flight.dep_delay, Known(Some(-3)));
        let bytes = postcard::to_allocvec(&flight).unwrap();
        assert_eq!(postcard::from_bytes::<Flight>(&bytes).unwrap(), flight);
    }
}
