package io.hedgerow.kafka;

import io.hedgerow.KeyRange;
import io.hedgerow.Keyspace;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.Sensor.RecordingLevel;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.internals.ProcessorContextUtils;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;

/**
 * The metrics of a store under the names that RocksDB's have, so that charts keep their queries:
 * group {@code stream-state-metrics}, tag {@code hedgerow-state-id}. Those of the cache, of memory
 * and of stalls are of the whole database, which the stores of the process share.
 */
final class StoreMetrics {
    private static final String[] STALLS = {"memtables", "level0", "merge_debt", "log"};

    private final StreamsMetricsImpl metrics;
    private final StateStoreContext context;
    private final HedgerowStore store;
    private final List<MetricName> names = new ArrayList<>();
    /** The statistics of each keyspace, at most a second old; null before the first look. */
    private List<Map<String, Object>> stats;

    private long statsAt;

    private StoreMetrics(StateStoreContext context, HedgerowStore store) {
        this.context = context;
        this.store = store;
        metrics = ProcessorContextUtils.metricsImpl(context);
    }

    static StoreMetrics register(StateStoreContext context, HedgerowStore store) {
        StoreMetrics all = new StoreMetrics(context, store);
        all.sum("size-all-mem-tables", "memtables in bytes", "memtable_bytes");
        all.sum("cur-size-all-mem-tables", "memtables in bytes", "memtable_bytes");
        all.sum("total-sst-files-size", "tables in bytes", "table_bytes");
        all.sum("live-sst-files-size", "tables in bytes", "table_bytes");
        all.sum("estimate-pending-compaction-bytes", "bytes to be merged", "debt_bytes");
        all.add(
                "compaction-pending",
                "1 if merges have something to rewrite, else 0",
                () -> all.ofKeyspaces("debt_bytes") > 0 ? 1 : 0);
        all.add(
                "estimate-num-keys",
                "the estimated number of keys",
                () -> store.keyspaces().stream()
                        .mapToLong(it -> it.approximateEntries(KeyRange.all()))
                        .sum());
        all.shared("block-cache-usage", "the page cache in bytes", "memory.page_cache");
        all.shared("block-cache-capacity", "the budget in bytes", "memory.budget");
        all.shared(
                "estimate-table-readers-mem",
                "indexes and filters in bytes",
                "memory.indexes",
                "memory.filters");
        all.shared("bytes-written-total", "bytes of keys and values written", "user_bytes");
        all.rate("bytes-written-rate", "bytes of keys and values written", "user_bytes");
        all.shared("memtable-bytes-flushed-total", "bytes that flushes wrote", "flush_bytes");
        all.rate("memtable-bytes-flushed-rate", "bytes that flushes wrote", "flush_bytes");
        all.rate("bytes-read-compaction-rate", "bytes that merges read", "merge_read_bytes");
        all.rate("bytes-written-compaction-rate", "bytes that merges wrote", "merge_write_bytes");
        all.add(
                "memtable-hit-ratio",
                "the share of lately read keys that memtables had, of all stores",
                0.0,
                () -> memtableHits(store.database.stats()));
        all.add("write-stall-duration-total", "stalls in milliseconds, of all stores", all::stalls);
        return all;
    }

    private static double memtableHits(DatabaseStats stats) {
        long hits = stats.growth("memtable_hits");
        return hits == 0 ? 0 : (double) hits / stats.growth("gets");
    }

    private long stalls() {
        long micros = 0;
        for (String stall : STALLS) {
            micros += store.database.stats().number("stalls." + stall + ".total_us");
        }
        return micros / 1000;
    }

    private void shared(String name, String description, String... paths) {
        add(name, description + ", of all stores", () -> {
            DatabaseStats stats = store.database.stats();
            return Arrays.stream(paths).mapToLong(stats::number).sum();
        });
    }

    private void rate(String name, String description, String path) {
        add(
                name,
                description + " per second, of all stores",
                0.0,
                () -> store.database.stats().rate(path));
    }

    private void sum(String name, String description, String path) {
        add(name, description, () -> ofKeyspaces(path));
    }

    /** The sum of a number of all keyspaces of the store. */
    private synchronized long ofKeyspaces(String path) {
        long now = ProcessDatabase.clock.getAsLong();
        if (stats == null || now - statsAt >= DatabaseStats.NEW_NANOS) {
            stats = store.keyspaces().stream().map(Keyspace::stats).collect(Collectors.toList());
            statsAt = now;
        }
        return stats.stream().mapToLong(it -> ((Number) it.get(path)).longValue()).sum();
    }

    private void add(String name, String description, LongSupplier value) {
        add(name, description, BigInteger.ZERO, () -> BigInteger.valueOf(value.getAsLong()));
    }

    /**
     * Adds a gauge.
     *
     * @param closed its value while the store is not open
     */
    private <T> void add(String name, String description, T closed, Supplier<T> value) {
        names.add(
                metrics.addStoreLevelMutableMetric(
                        context.taskId().toString(),
                        io.hedgerow.kafka.Supplier.SCOPE,
                        store.name,
                        name,
                        "Hedgerow: " + description,
                        RecordingLevel.INFO,
                        (config, now) -> read(closed, value)));
    }

    private <T> T read(T closed, Supplier<T> value) {
        try {
            return store.isOpen() ? value.get() : closed;
        } catch (IllegalStateException e) {
            // It was closed, or a segment was dropped, meanwhile.
            return closed;
        }
    }

    void remove() {
        names.forEach(metrics::removeMetric);
    }
}
