package io.hedgerow.kafka;

import java.time.Duration;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.VersionedBytesStoreSupplier;
import org.apache.kafka.streams.state.internals.VersionedKeyValueToBytesStoreAdapter;

/** Supplies versioned stores. */
final class VersionedSupplier extends Supplier<KeyValueStore<Bytes, byte[]>>
        implements VersionedBytesStoreSupplier {
    private static final long SEGMENTS = 24;
    private static final long INTERVAL_MIN = 2_000;

    private final long history;
    private final long interval;

    VersionedSupplier(String name, Duration history) {
        super(name);
        this.history = millis(history, "historyRetention");
        interval = Math.max(this.history / SEGMENTS, INTERVAL_MIN);
    }

    VersionedSupplier(String name, Duration history, Duration interval) {
        super(name);
        this.history = millis(history, "historyRetention");
        this.interval = millis(interval, "segmentInterval");
        if (this.interval < 1) {
            throw new IllegalArgumentException("segmentInterval cannot be zero or negative");
        }
    }

    @Override
    public KeyValueStore<Bytes, byte[]> get() {
        return new VersionedKeyValueToBytesStoreAdapter(
                new HedgerowVersionedStore(name(), history, interval));
    }

    @Override
    public long historyRetentionMs() {
        return history;
    }
}
