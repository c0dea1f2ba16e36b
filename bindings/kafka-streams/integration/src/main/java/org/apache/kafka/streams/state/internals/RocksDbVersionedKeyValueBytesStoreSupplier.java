package org.apache.kafka.streams.state.internals;

import io.hedgerow.kafka.Hedgerow;
import java.time.Duration;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.VersionedBytesStoreSupplier;

/** In place of the class of this name. */
public class RocksDbVersionedKeyValueBytesStoreSupplier
        extends Shadow<VersionedBytesStoreSupplier, KeyValueStore<Bytes, byte[]>>
        implements VersionedBytesStoreSupplier {
    public RocksDbVersionedKeyValueBytesStoreSupplier(String name, long history) {
        super(Hedgerow.versionedKeyValueStore(name, Duration.ofMillis(history)));
    }

    public RocksDbVersionedKeyValueBytesStoreSupplier(String name, long history, long segment) {
        super(
                Hedgerow.versionedKeyValueStore(
                        name, Duration.ofMillis(history), Duration.ofMillis(segment)));
    }

    @Override
    public long historyRetentionMs() {
        return ours.historyRetentionMs();
    }
}
