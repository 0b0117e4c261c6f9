//! Sorting by encoded key, with one allocation for all keys and values.

/// Rows with encoded keys: each with a value that is bytes too, which may be empty, and a `T`.
#[derive(Debug)]
pub(crate) struct Batch<T> {
    bytes: Vec<u8>,
    rows: Vec<Row<T>>,
    /// Where the row that is being added starts, and where its key ends if that is known.
    start: usize,
    middle: Option<usize>,
}

#[derive(Debug)]
struct Row<T> {
    /// The first bytes of the key, or of what follows what all keys share: most comparisons end here.
    prefix: u64,
    start: usize,
    /// Where the key ends and the value starts.
    middle: usize,
    end: usize,
    with: T,
}

impl<T> Default for Batch<T> {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            rows: Vec::new(),
            start: 0,
            middle: None,
        }
    }
}

impl<T> Batch<T> {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of all keys and values.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Starts a row: lends what its key is to be appended to.
    pub(crate) fn start(&mut self) -> &mut Vec<u8> {
        (self.start, self.middle) = (self.bytes.len(), None);
        &mut self.bytes
    }

    /// Ends the key: lends what the value is to be appended to.
    pub(crate) fn value(&mut self) -> &mut Vec<u8> {
        self.middle = Some(self.bytes.len());
        &mut self.bytes
    }

    /// Ends the row. All keys of the batch have the first `shared` bytes in common.
    pub(crate) fn finish(&mut self, with: T, shared: usize) {
        let end = self.bytes.len();
        let (start, middle) = (self.start, self.middle.unwrap_or(end));
        let mut prefix = [0; 8];
        for (prefix, byte) in prefix.iter_mut().zip(&self.bytes[start + shared..middle]) {
            *prefix = *byte;
        }
        self.rows.push(Row {
            prefix: u64::from_be_bytes(prefix),
            start,
            middle,
            end,
            with,
        });
    }

    /// Sorts by key.
    pub(crate) fn sort(&mut self) {
        let Self { bytes, rows, .. } = self;
        rows.sort_unstable_by(|a, b| {
            let by_prefix = a.prefix.cmp(&b.prefix);
            by_prefix.then_with(|| a.key(bytes).cmp(b.key(bytes)))
        });
    }

    /// Keeps one of the rows with the same key. They must be sorted.
    pub(crate) fn dedup(&mut self) {
        let Self { bytes, rows, .. } = self;
        rows.dedup_by(|a, b| a.key(bytes) == b.key(bytes));
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.rows.iter().map(|row| row.key(&self.bytes))
    }

    /// Each row: its key, its value, and what came with it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8], &T)> {
        let value = |row: &Row<T>| &self.bytes[row.middle..row.end];
        let rows = self.rows.iter();
        rows.map(move |row| (row.key(&self.bytes), value(row), &row.with))
    }

    /// What came with the rows, in their order. Leaves the batch empty.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.bytes.clear();
        self.rows.drain(..).map(|row| row.with)
    }
}

impl<T> Row<T> {
    fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start..self.middle]
    }
}

#[cfg(test)]
mod tests {
    use super::Batch;

    fn batch(rows: &[(&str, &str)], shared: usize) -> Batch<usize> {
        let mut batch = Batch::default();
        for (number, (key, value)) in rows.iter().enumerate() {
            batch.start().extend(key.as_bytes());
            batch.value().extend(value.as_bytes());
            batch.finish(number, shared);
        }
        batch
    }

    #[test]
    fn rows_are_sorted_by_key_beyond_the_prefix() {
        let keys = ["ab", "abcdefghij", "abcdefghi", "a", "aa\0", "aa"];
        for shared in [0, 1] {
            let mut batch = batch(&keys.map(|key| (key, "x")), shared);
            batch.sort();
            let sorted: Vec<_> = batch
                .iter()
                .map(|(key, _, number)| (key, *number))
                .collect();
            let mut expected: Vec<_> = keys.iter().map(|key| key.as_bytes()).zip(0..).collect();
            expected.sort_unstable();
            assert_eq!(sorted, expected);
        }
    }

    #[test]
    fn one_of_the_rows_with_the_same_key_is_kept_with_its_value() {
        let mut batch = batch(&[("b", "1"), ("a", "2"), ("b", "1")], 0);
        batch.sort();
        batch.dedup();
        let rows: Vec<_> = batch.iter().map(|(key, value, _)| (key, value)).collect();
        assert_eq!(rows, [(&b"a"[..], &b"2"[..]), (b"b", b"1")]);
        assert_eq!(batch.drain().count(), 2);
        assert_eq!(batch.len(), 0);
    }
}
