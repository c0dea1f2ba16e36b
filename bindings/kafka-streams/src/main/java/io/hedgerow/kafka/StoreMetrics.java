package io.hedgerow.kafka;

import io.hedgerow.KeyRange;
import io.hedgerow.Keyspace;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongSupplier;
import java.util.function.ToLongFunction;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.Sensor.RecordingLevel;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.internals.ProcessorContextUtils;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;

/**
 * The metrics of a store under the names that RocksDB's have, so that charts keep their queries: group
 * {@code stream-state-metrics}, tag {@code hedgerow-state-id}. Those of the cache, of memory and of
 * stalls are of the whole database, which the stores of the process share.
 */
final class StoreMetrics {
    private static final String[] STALLS = {"memtables", "level0", "merge_debt", "log"};

    private final StreamsMetricsImpl metrics;
    private final StateStoreContext context;
    private final HedgerowStore store;
    private final List<MetricName> names = new ArrayList<>();

    private StoreMetrics(StateStoreContext context, HedgerowStore store) {
        this.context = context;
        this.store = store;
        metrics = ProcessorContextUtils.metricsImpl(context);
    }

    static StoreMetrics register(StateStoreContext context, HedgerowStore store) {
        StoreMetrics all = new StoreMetrics(context, store);
        all.sum("size-all-mem-tables", "memtables in bytes", it -> number(it, "memtable_bytes"));
        all.sum("cur-size-all-mem-tables", "memtables in bytes", it -> number(it, "memtable_bytes"));
        all.sum("total-sst-files-size", "tables in bytes", it -> number(it, "table_bytes"));
        all.sum("live-sst-files-size", "tables in bytes", it -> number(it, "table_bytes"));
        all.sum(
                "estimate-num-keys",
                "the estimated number of keys",
                it -> it.approximateEntries(KeyRange.all()));
        all.sum(
                "estimate-pending-compaction-bytes",
                "bytes that merges have to rewrite",
                it -> number(it, "debt_bytes"));
        all.add(
                "compaction-pending",
                "1 if merges have something to rewrite, else 0",
                () -> store.keyspaces().stream().anyMatch(it -> number(it, "debt_bytes") > 0) ? 1 : 0);
        all.shared("bytes-written-total", "bytes of keys and values that were written, of all stores", "user_bytes");
        all.shared("memtable-bytes-flushed-total", "bytes that flushes have written, of all stores", "flush_bytes");
        all.shared("block-cache-usage", "the page cache in bytes, of all stores", "memory.page_cache");
        all.shared("block-cache-capacity", "the budget in bytes, of all stores", "memory.budget");
        all.shared(
                "estimate-table-readers-mem", "indexes and filters in bytes, of all stores",
                "memory.indexes", "memory.filters");
        all.add("write-stall-duration-total", "stalls in milliseconds, of all stores", all::stalls);
        return all;
    }

    private long stalls() {
        long micros = 0;
        for (String stall : STALLS) {
            micros += ((Number) store.database.stats().get("stalls." + stall + ".total_us")).longValue();
        }
        return micros / 1000;
    }

    private void shared(String name, String description, String... paths) {
        add(name, description, () -> {
            long sum = 0;
            for (String path : paths) {
                sum += ((Number) store.database.stats().get(path)).longValue();
            }
            return sum;
        });
    }

    private void sum(String name, String description, ToLongFunction<Keyspace> of) {
        add(name, description, () -> store.keyspaces().stream().mapToLong(of).sum());
    }

    private static long number(Keyspace keyspace, String path) {
        return ((Number) keyspace.stats().get(path)).longValue();
    }

    /** Adds a gauge, which is 0 while the store is not open. */
    private void add(String name, String description, LongSupplier value) {
        names.add(
                metrics.addStoreLevelMutableMetric(
                        context.taskId().toString(),
                        Supplier.SCOPE,
                        store.name,
                        name,
                        "Hedgerow: " + description,
                        RecordingLevel.INFO,
                        (config, now) -> BigInteger.valueOf(read(value))));
    }

    private long read(LongSupplier value) {
        try {
            return store.isOpen() ? value.getAsLong() : 0;
        } catch (IllegalStateException e) {
            // It was closed, or a segment was dropped, meanwhile.
            return 0;
        }
    }

    void remove() {
        names.forEach(metrics::removeMetric);
    }
}
