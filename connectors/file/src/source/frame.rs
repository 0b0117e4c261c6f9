//! Where a record ends: cuts a byte stream into lines, or into CSV rows whose quoted fields span lines.
//!
//! Invariant: every byte belongs to exactly one frame, so the sum of the frames' bytes is the position.

use std::io::{self, Read};

/// Frames of one byte stream.
pub(crate) struct Frames {
    bytes: Box<dyn Read + Send>,
    /// `buffer[start..end]` is read and not given out.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    is_ended: bool,
    /// The delimiter, if quotes count.
    csv: Option<u8>,
    bytes_max: usize,
}

/// One record as it stands in the file, or one line that belongs to none.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Frame<'a> {
    /// Without the line end.
    pub(crate) content: &'a [u8],
    /// With the line end.
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
    /// Why the content is not a whole record. Then the frame is the first line of it only, so that
    /// skipping it loses no more than that.
    pub(crate) problem: Option<&'static str>,
    /// Nothing follows: the stream ended without a line end.
    pub(crate) is_cut: bool,
}

const READ_BYTES: usize = 64 << 10;

impl Frames {
    pub(crate) fn new(bytes: Box<dyn Read + Send>, csv: Option<u8>, bytes_max: usize) -> Self {
        Self {
            bytes,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            is_ended: false,
            csv,
            bytes_max,
        }
    }

    /// The next frame, `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Frame<'_>>> {
        let mut scan = Scan::new(self.csv);
        let found = loop {
            if let Some(end) = scan.run(&self.buffer[self.start..self.end]) {
                break Some(end);
            }
            // Before reading on: what is longer than the bound stays out of memory.
            if self.is_ended || self.end - self.start > self.bytes_max {
                break None;
            }
            self.fill()?;
        };
        let held = &self.buffer[self.start..self.end];
        let (length, problem) = match found {
            _ if held.is_empty() => return Ok(None),
            Some(end) if end <= self.bytes_max => (end, None),
            None if self.is_ended && !scan.is_quoted() => (held.len(), None),
            _ => {
                let problem = if self.is_ended && found.is_none() {
                    "a quoted field is not closed before the end of the file"
                } else if scan.lines > 0 {
                    "longer than the longest record allowed; perhaps a quote is not closed"
                } else {
                    "longer than the longest record allowed"
                };
                return self.first_line(problem);
            }
        };
        let frame = &self.buffer[self.start..self.start + length];
        self.start += length;
        Ok(Some(Frame {
            content: strip(frame),
            bytes: length as u64,
            lines: scan.lines + u64::from(found.is_none()),
            problem,
            is_cut: found.is_none(),
        }))
    }

    /// Gives the first line away as a problem. Of a line that is itself too long only the start is
    /// kept; the rest is read over.
    fn first_line(&mut self, problem: &'static str) -> io::Result<Option<Frame<'_>>> {
        let mut passed = 0;
        loop {
            let held = &self.buffer[self.start..self.end];
            if let Some(at) = held.iter().position(|&byte| byte == b'\n') {
                self.start += at + 1;
                passed += at as u64 + 1;
                break;
            }
            passed += held.len() as u64;
            self.start = self.end;
            if self.is_ended {
                break;
            }
            self.fill()?;
        }
        Ok(Some(Frame {
            content: &[],
            bytes: passed,
            lines: 1,
            problem: Some(problem),
            is_cut: self.is_ended && self.start == self.end,
        }))
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.buffer.len() < self.end + READ_BYTES {
            let length = (self.end + READ_BYTES).max(self.buffer.len() * 2);
            self.buffer.resize(length, 0);
        }
        loop {
            match self.bytes.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.is_ended = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}

fn strip(frame: &[u8]) -> &[u8] {
    let Some(line) = frame.strip_suffix(b"\n") else {
        return frame;
    };
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Looks for the end of one frame, over bytes that come in pieces. Jumps from one byte that matters to
/// the next.
struct Scan {
    csv: Option<u8>,
    state: Field,
    /// Bytes looked at.
    at: usize,
    /// Line ends seen.
    lines: u64,
}

/// Where in a CSV field the scan stands, as RFC 4180 and the `csv` crate see it: a quote opens a field
/// only at its start, and a doubled one inside is a character.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Field {
    Bare,
    Quoted,
    /// After a quote within quotes: the end of the field, or half of a doubled quote.
    Quote,
}

impl Scan {
    fn new(csv: Option<u8>) -> Self {
        Self {
            csv,
            state: Field::Bare,
            at: 0,
            lines: 0,
        }
    }

    fn is_quoted(&self) -> bool {
        self.state == Field::Quoted
    }

    /// Goes on where the last call stopped. `held` starts where the frame does. The end of the frame,
    /// if it is in there.
    fn run(&mut self, held: &[u8]) -> Option<usize> {
        while self.at < held.len() {
            let rest = &held[self.at..];
            let found = match (self.state, self.csv) {
                (Field::Bare, None) => memchr::memchr(b'\n', rest),
                (Field::Bare, Some(_)) => memchr::memchr2(b'\n', b'"', rest),
                (Field::Quoted, _) => memchr::memchr(b'"', rest),
                (Field::Quote, _) => Some(0),
            };
            if self.state == Field::Quoted {
                let passed = &rest[..found.unwrap_or(rest.len())];
                self.lines += memchr::memchr_iter(b'\n', passed).count() as u64;
            }
            let Some(found) = found else {
                self.at = held.len();
                break;
            };
            self.at += found + 1;
            self.state = match (self.state, rest[found]) {
                (Field::Quoted, _) => Field::Quote,
                (_, b'\n') => {
                    self.lines += 1;
                    return Some(self.at);
                }
                (Field::Quote, b'"') => Field::Quoted,
                (Field::Bare, b'"') if self.is_field_start(held) => Field::Quoted,
                _ => Field::Bare,
            };
        }
        None
    }

    /// Whether the byte before `at` is the first of a field.
    fn is_field_start(&self, held: &[u8]) -> bool {
        let before = self.at.checked_sub(2).map(|before| held[before]);
        before.is_none() || before == self.csv
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes in pieces of `step`.
    struct Pieces(Vec<u8>, usize, usize);

    impl Read for Pieces {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let end = self.0.len().min(self.1 + self.2.min(into.len()));
            let piece = &self.0[self.1..end];
            into[..piece.len()].copy_from_slice(piece);
            self.1 = end;
            Ok(piece.len())
        }
    }

    /// The frames as text, problems as `!`, each with its number of lines.
    fn check(csv: bool, text: &str, max: usize, expected: &[(&str, u64)]) {
        for step in [1, 2, 3, 1000] {
            let bytes = Box::new(Pieces(text.as_bytes().to_vec(), 0, step));
            let mut frames = Frames::new(bytes, csv.then_some(b','), max);
            let mut found = Vec::new();
            let mut total = 0;
            while let Some(frame) = frames.next().unwrap() {
                let content = String::from_utf8(frame.content.to_vec()).unwrap();
                total += frame.bytes;
                found.push(match frame.problem {
                    None => (content, frame.lines),
                    Some(_) => ("!".to_owned(), frame.lines),
                });
            }
            let found: Vec<(&str, u64)> = found.iter().map(|(s, n)| (s.as_str(), *n)).collect();
            assert_eq!(found, expected, "{text:?} in pieces of {step}");
            assert_eq!(total, text.len() as u64, "every byte is in one frame");
        }
    }

    #[test]
    fn lines_end_with_or_without_carriage_return_and_at_the_end() {
        check(false, "", 99, &[]);
        check(
            false,
            "a\r\nb\n\nc",
            99,
            &[("a", 1), ("b", 1), ("", 1), ("c", 1)],
        );
    }

    #[test]
    fn a_quoted_field_spans_lines_and_a_quote_in_the_middle_does_not_open_one() {
        check(
            true,
            "a,\"b\nc\"\"\n\",d\ne\"f,g\n\"h\"i\"\nj",
            99,
            &[
                ("a,\"b\nc\"\"\n\",d", 3),
                ("e\"f,g", 1),
                ("\"h\"i\"", 1),
                ("j", 1),
            ],
        );
        check(true, "\"a\"", 99, &[("\"a\"", 1)]);
    }

    #[test]
    fn an_unclosed_quote_costs_its_own_line_only() {
        check(
            true,
            "a\n\"b\nc\nd",
            99,
            &[("a", 1), ("!", 1), ("c", 1), ("d", 1)],
        );
        check(true, "a\n\"b", 99, &[("a", 1), ("!", 1)]);
    }

    #[test]
    fn a_record_over_the_bound_costs_its_own_line_only() {
        check(false, "aaaa\nb\n", 3, &[("!", 1), ("b", 1)]);
        check(false, "b\naaaa", 3, &[("b", 1), ("!", 1)]);
        check(
            true,
            "\"a\nb\nc\nd\ne\nf\n",
            6,
            &[("!", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 1), ("f", 1)],
        );
    }
}
