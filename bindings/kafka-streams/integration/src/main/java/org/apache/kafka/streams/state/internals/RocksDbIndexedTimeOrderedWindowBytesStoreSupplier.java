package org.apache.kafka.streams.state.internals;

import io.hedgerow.kafka.HedgerowDslStoreSuppliers;
import java.time.Duration;
import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.state.DslWindowParams;

/** In place of the class of this name. */
public class RocksDbIndexedTimeOrderedWindowBytesStoreSupplier extends ShadowWindowSupplier {
    RocksDbIndexedTimeOrderedWindowBytesStoreSupplier(
            String name,
            Duration retention,
            Duration size,
            boolean retainDuplicates,
            DslStoreFormat format) {
        super(
                new HedgerowDslStoreSuppliers()
                        .windowStore(
                                new DslWindowParams(
                                        name,
                                        retention,
                                        size,
                                        retainDuplicates,
                                        EmitStrategy.onWindowClose(),
                                        false,
                                        format)));
    }

    public static RocksDbIndexedTimeOrderedWindowBytesStoreSupplier create(
            String name, Duration retention, Duration size, boolean retainDuplicates, boolean indexed) {
        return new RocksDbIndexedTimeOrderedWindowBytesStoreSupplier(
                name, retention, size, retainDuplicates, DslStoreFormat.TIMESTAMPED);
    }
}
