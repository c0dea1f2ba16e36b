package org.apache.kafka.streams.state.internals;

import io.hedgerow.kafka.HedgerowDslStoreSuppliers;
import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.state.DslWindowParams;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/** Streams' own suite for window stores, with the stores for results of closed windows. */
class WindowByTimeSuiteTest extends AbstractWindowBytesStoreTest {
    @Override
    <K, V> WindowStore<K, V> buildWindowStore(
            long retention, long size, boolean duplicates, Serde<K> keys, Serde<V> values) {
        DslWindowParams params =
                new DslWindowParams(
                        "windows",
                        Duration.ofMillis(retention),
                        Duration.ofMillis(size),
                        duplicates,
                        EmitStrategy.onWindowClose(),
                        false,
                        DslStoreFormat.TIMESTAMPED);
        return Stores.windowStoreBuilder(
                        new HedgerowDslStoreSuppliers().windowStore(params), keys, values)
                .build();
    }
}
