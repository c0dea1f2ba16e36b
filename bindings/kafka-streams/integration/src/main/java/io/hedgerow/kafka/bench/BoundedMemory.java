package io.hedgerow.kafka.bench;

import java.util.Map;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.Cache;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;
import org.rocksdb.WriteBufferManager;

/**
 * Bounds the memory of all RocksDB instances of a process, with the options that Streams' guide
 * names for it: one cache for all of them, which indexes, filters and memtables are counted
 * against. The guide leaves the numbers open. Here memtables have half of the budget, a tenth of
 * the cache is for indexes and filters, and the sizes of memtables and blocks are those of Streams.
 */
public final class BoundedMemory implements RocksDBConfigSetter {
    static final String BUDGET = "bench.rocksdb.memory.bytes";
    private static final double INDEXES_AND_FILTERS = 0.1;

    private static Cache cache;
    private static WriteBufferManager memtables;

    private static synchronized void share(long budget) {
        if (cache == null) {
            cache = new LRUCache(budget, -1, false, INDEXES_AND_FILTERS);
            memtables = new WriteBufferManager(budget / 2, cache);
        }
    }

    @Override
    public void setConfig(String store, Options options, Map<String, Object> configs) {
        share(Long.parseLong(configs.get(BUDGET).toString()));
        BlockBasedTableConfig tables = (BlockBasedTableConfig) options.tableFormatConfig();
        tables.setBlockCache(cache);
        tables.setCacheIndexAndFilterBlocks(true);
        tables.setCacheIndexAndFilterBlocksWithHighPriority(true);
        tables.setPinTopLevelIndexAndFilter(true);
        options.setWriteBufferManager(memtables);
        options.setTableFormatConfig(tables);
    }

    /** Closes nothing: all stores share the cache. */
    @Override
    public void close(String store, Options options) {}
}
