//! What a user may set, and what all databases of a process share.

use std::fmt;

use cutwater_keygroups::{KeyGroup, KeyGroupRange};
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, DBCompressionType, LogLevel, Options,
    compaction_filter::Decision,
};

use crate::IsExpired;

/// How RocksDB is set up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RocksOptions {
    /// Bytes of memory for all databases of the process, with their row caches and one shared block
    /// cache. Filters and indexes of blocks are within the block cache.
    pub memory: u64,
    /// Which part of it the block cache gets, in percent. Little, as a row in the row cache
    /// takes a tenth of the block that it came in, and costs nothing to find.
    pub block_cache_percent: u8,
    /// Threads for compactions, all databases together.
    pub background_jobs: u8,
    /// How blocks are compressed.
    pub compression: Compression,
    /// Bits of the Bloom filter per row; 0 for none. 10 let one in a hundred absent rows be looked for.
    pub bloom_bits: u8,
    /// Whether the last level has filters too, nine tenths of the rows. Worth their memory where most
    /// records have a key that never came before; where keys come again, the row is there anyway.
    pub last_level_filters: bool,
    /// Bytes of rows that are compressed, checked, read and cached together.
    pub block_size: u32,
    /// Size of a file. What a checkpoint uploads anew comes in files of about this size, and a rescale reads those
    /// that have rows of its key groups.
    pub file_size: u64,
    /// Size of the first sorted level, beyond which it is compacted into the next, ten times as large.
    pub level_base: u64,
    /// Files of flushes that wait until they are compacted into the first level. Each has to be asked
    /// for a row that is missing in the row cache.
    pub level_zero_files: u8,
    /// Whether files are read through a memory map: faster where they fit into the system's page cache.
    pub mmap_reads: bool,
    /// Databases that a subtask may have side by side after rescales, before neighbours are copied
    /// together. At least 1.
    pub databases_max: u8,
    /// Other options that RocksDB can set while it is running, by its own names.
    pub other: Vec<(String, String)>,
}

impl Default for RocksOptions {
    /// 256 MiB, an eighth of it for blocks; two compactions at once; LZ4; Bloom filters.
    fn default() -> Self {
        Self {
            memory: 256 << 20,
            block_cache_percent: 12,
            background_jobs: 2,
            compression: Compression::Lz4,
            bloom_bits: 10,
            last_level_filters: false,
            block_size: 4 << 10,
            file_size: 8 << 20,
            level_base: 128 << 20,
            level_zero_files: 4,
            mmap_reads: false,
            databases_max: 4,
            other: Vec::new(),
        }
    }
}

impl RocksOptions {
    fn block_cache(&self) -> u64 {
        self.memory / 100 * u64::from(self.block_cache_percent.min(100))
    }

    pub(super) fn row_cache(&self) -> u64 {
        self.memory - self.block_cache()
    }
}

/// How blocks are compressed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all: the fastest to read.
    None,
    /// Fast, and about half the size for most rows.
    #[default]
    Lz4,
    /// Smaller, slower.
    Zstd,
}

/// What all databases of a process have in common.
pub(super) struct Shared {
    options: RocksOptions,
    sorted_files: Options,
}

impl Shared {
    pub(super) fn new(options: RocksOptions) -> Self {
        let bytes = usize::try_from(options.block_cache()).unwrap_or(usize::MAX);
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&Cache::new_lru_cache(bytes));
        blocks.set_block_size(options.block_size as usize);
        blocks.set_cache_index_and_filter_blocks(true);
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
        // In partitions: those of a whole file would push everything else out of a small cache.
        blocks.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
        blocks.set_partition_filters(true);
        blocks.set_pin_top_level_index_and_filter(true);
        if options.bloom_bits > 0 {
            blocks.set_bloom_filter(options.bloom_bits.into(), false);
        }
        let mut sorted_files = Options::default();
        sorted_files.set_block_based_table_factory(&blocks);
        sorted_files.set_optimize_filters_for_hits(!options.last_level_filters);
        sorted_files.set_compression_type(match options.compression {
            Compression::None => DBCompressionType::None,
            Compression::Lz4 => DBCompressionType::Lz4,
            Compression::Zstd => DBCompressionType::Zstd,
        });
        Self {
            options,
            sorted_files,
        }
    }

    pub(super) fn options(&self) -> &RocksOptions {
        &self.options
    }

    /// For sorted files, and for databases that are only read.
    pub(super) fn sorted_files(&self) -> &Options {
        &self.sorted_files
    }

    /// For a database of `groups`: rows of other groups, and such as have expired, are dropped when a compaction comes by.
    pub(super) fn database(&self, groups: KeyGroupRange, is_expired: IsExpired) -> Options {
        let mut options = self.sorted_files.clone();
        options.create_if_missing(true);
        options.set_max_background_jobs(self.options.background_jobs.into());
        options.set_target_file_size_base(self.options.file_size);
        options.set_max_bytes_for_level_base(self.options.level_base);
        let level_zero_files = i32::from(self.options.level_zero_files);
        options.set_level_zero_file_num_compaction_trigger(level_zero_files);
        options.set_max_manifest_file_size(1 << 20); // a checkpoint copies it
        options.set_allow_mmap_reads(self.options.mmap_reads);
        options.set_log_level(LogLevel::Error);
        options.set_keep_log_file_num(1);
        options.set_stats_dump_period_sec(0);
        options.set_stats_persist_period_sec(0);
        options.set_skip_stats_update_on_db_open(true);
        options.set_compaction_filter("of others, or expired", move |_, key, value| {
            let group = key.first_chunk().map(|group| u16::from_be_bytes(*group));
            match group {
                Some(group) if !groups.contains(KeyGroup::new(group)) => Decision::Remove,
                _ if is_expired(key, value) => Decision::Remove,
                _ => Decision::Keep,
            }
        });
        options
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.options.fmt(f)
    }
}
