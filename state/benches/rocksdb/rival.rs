//! RocksDB as it is commonly used.

use std::path::Path;

use cutwater_keygroups::Key;
use cutwater_state::rocksdb::{Compression, RocksOptions};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Options, WaitForCompactOptions, WriteOptions,
};

use crate::MAX;

/// One get and one put per record through the same crate, with the same memory: three quarters of it a
/// block cache, the rest memtables.
pub(crate) struct Rival {
    db: DB,
    write: WriteOptions,
}

impl Rival {
    /// As RocksDB comes, with LZ4.
    pub(crate) fn plain(path: &Path, keys: u64, memory: u64) -> Self {
        let mut options = Options::default();
        options.set_compression_type(DBCompressionType::Lz4);
        Self::filled(path, keys, memory, options, BlockBasedOptions::default())
    }

    /// With the options of ours that make reads faster.
    pub(crate) fn tuned(path: &Path, keys: u64, ours: &RocksOptions) -> Self {
        let mut options = Options::default();
        options.set_allow_mmap_reads(ours.mmap_reads);
        options.set_compression_type(match ours.compression {
            Compression::None => DBCompressionType::None,
            _ => DBCompressionType::Lz4,
        });
        let mut blocks = BlockBasedOptions::default();
        blocks.set_bloom_filter(ours.bloom_bits.into(), false);
        Self::filled(path, keys, ours.memory, options, blocks)
    }

    fn filled(
        path: &Path,
        keys: u64,
        memory: u64,
        mut options: Options,
        mut blocks: BlockBasedOptions,
    ) -> Self {
        let memory = usize::try_from(memory).unwrap();
        blocks.set_block_cache(&Cache::new_lru_cache(memory / 4 * 3));
        options.create_if_missing(true);
        options.set_block_based_table_factory(&blocks);
        options.set_write_buffer_size((memory / 8).min(64 << 20));
        options.set_max_background_jobs(2);
        let mut write = WriteOptions::default();
        write.disable_wal(true);
        let db = DB::open(&options, path).unwrap();
        for key in 0..keys {
            db.put_opt(row(key), 0_i64.to_le_bytes(), &write).unwrap();
        }
        db.wait_for_compact(&WaitForCompactOptions::default())
            .unwrap();
        Self { db, write }
    }

    pub(crate) fn add(&self, key: u64) {
        let row = row(key);
        let found = self.db.get_pinned(row).unwrap();
        let value = found.map_or(0, |v| i64::from_le_bytes((*v).try_into().unwrap()));
        let value = (value + 1).to_le_bytes();
        self.db.put_opt(row, value, &self.write).unwrap();
    }
}

/// Key group and key, as Flink has them.
fn row(key: u64) -> [u8; 10] {
    let group = u64::GROUPING.group(key.key_hash(), MAX);
    let mut row = [0; 10];
    row[..2].copy_from_slice(&group.get().to_be_bytes());
    row[2..].copy_from_slice(&key.to_be_bytes());
    row
}
