package io.hedgerow.kafka;

import java.time.Duration;
import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.VersionedBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/**
 * Suppliers of stores on Hedgerow, in place of those of {@link
 * org.apache.kafka.streams.state.Stores}.
 *
 * <pre>{@code
 * Stores.keyValueStoreBuilder(Hedgerow.keyValueStore("counts"), Serdes.String(), Serdes.Long());
 * table.aggregate(..., Materialized.as(Hedgerow.timestampedKeyValueStore("sums")));
 * }</pre>
 */
public final class Hedgerow {
    private Hedgerow() {}

    /**
     * Supplies key-value stores, for {@link
     * org.apache.kafka.streams.state.Stores#keyValueStoreBuilder}.
     */
    public static KeyValueBytesStoreSupplier keyValueStore(String name) {
        return new Supplier.KeyValue(name, HedgerowKeyValueStore.Plain::new);
    }

    /**
     * Supplies key-value stores with timestamps, for {@link
     * org.apache.kafka.streams.state.Stores#timestampedKeyValueStoreBuilder} and for {@code
     * Materialized.as}.
     */
    public static KeyValueBytesStoreSupplier timestampedKeyValueStore(String name) {
        return new Supplier.KeyValue(name, HedgerowKeyValueStore.Timestamped::new);
    }

    /** Supplies key-value stores with timestamps and headers. */
    public static KeyValueBytesStoreSupplier keyValueStoreWithHeaders(String name) {
        return new Supplier.WithHeaders(name);
    }

    /**
     * Supplies versioned key-value stores, whose segments are a 24th of the history, at least 2
     * seconds.
     *
     * @param history the time for which old versions can be read
     */
    public static VersionedBytesStoreSupplier versionedKeyValueStore(String name, Duration history) {
        return new VersionedSupplier(name, history);
    }

    /**
     * Supplies versioned key-value stores.
     *
     * @param history the time for which old versions can be read
     * @param segment the interval of time of a segment: what expires at a time
     */
    public static VersionedBytesStoreSupplier versionedKeyValueStore(
            String name, Duration history, Duration segment) {
        return new VersionedSupplier(name, history, segment);
    }

    /**
     * Supplies window stores.
     *
     * @param retention the time that entries are kept, at least the size
     * @param size the size of windows
     * @param retainDuplicates true to keep several values for a key and a window, as joins do
     */
    public static WindowBytesStoreSupplier windowStore(
            String name, Duration retention, Duration size, boolean retainDuplicates) {
        return WindowSupplier.of(name, DslStoreFormat.PLAIN, retention, size, retainDuplicates, false);
    }

    /** Supplies window stores with timestamps. */
    public static WindowBytesStoreSupplier timestampedWindowStore(
            String name, Duration retention, Duration size, boolean retainDuplicates) {
        return WindowSupplier.of(
                name, DslStoreFormat.TIMESTAMPED, retention, size, retainDuplicates, false);
    }

    /** Supplies window stores with timestamps and headers. */
    public static WindowBytesStoreSupplier windowStoreWithHeaders(
            String name, Duration retention, Duration size, boolean retainDuplicates) {
        return WindowSupplier.of(
                name, DslStoreFormat.HEADERS, retention, size, retainDuplicates, false);
    }

    /** Supplies session stores. */
    public static SessionBytesStoreSupplier sessionStore(String name, Duration retention) {
        return new SessionSupplier(name, retention, false);
    }

    /** Supplies session stores with headers. */
    public static SessionBytesStoreSupplier sessionStoreWithHeaders(String name, Duration retention) {
        return new SessionSupplier.WithHeaders(name, retention, false);
    }
}
