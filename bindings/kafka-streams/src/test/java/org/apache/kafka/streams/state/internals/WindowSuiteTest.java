package org.apache.kafka.streams.state.internals;

import io.hedgerow.kafka.Hedgerow;
import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/** Streams' own suite for window stores. It must be in this package. */
class WindowSuiteTest extends AbstractWindowBytesStoreTest {
    @Override
    <K, V> WindowStore<K, V> buildWindowStore(
            long retention, long size, boolean duplicates, Serde<K> keys, Serde<V> values) {
        return Stores.windowStoreBuilder(
                        Hedgerow.windowStore(
                                "windows", Duration.ofMillis(retention), Duration.ofMillis(size), duplicates),
                        keys,
                        values)
                .build();
    }
}
