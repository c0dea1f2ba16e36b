package org.apache.kafka.streams.state.internals;

import io.hedgerow.kafka.Hedgerow;
import java.time.Duration;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.VersionedBytesStoreSupplier;

/** In place of the class of this name. */
public class RocksDbVersionedKeyValueBytesStoreSupplier implements VersionedBytesStoreSupplier {
    private final VersionedBytesStoreSupplier ours;

    public RocksDbVersionedKeyValueBytesStoreSupplier(String name, long history) {
        ours = Hedgerow.versionedKeyValueStore(name, Duration.ofMillis(history));
    }

    public RocksDbVersionedKeyValueBytesStoreSupplier(String name, long history, long segment) {
        ours =
                Hedgerow.versionedKeyValueStore(
                        name, Duration.ofMillis(history), Duration.ofMillis(segment));
    }

    @Override
    public String name() {
        return ours.name();
    }

    @Override
    public KeyValueStore<Bytes, byte[]> get() {
        return ours.get();
    }

    @Override
    public String metricsScope() {
        return ours.metricsScope();
    }

    @Override
    public long historyRetentionMs() {
        return ours.historyRetentionMs();
    }
}
