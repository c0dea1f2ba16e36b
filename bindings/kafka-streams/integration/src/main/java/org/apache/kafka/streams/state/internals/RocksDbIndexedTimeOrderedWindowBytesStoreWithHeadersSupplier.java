package org.apache.kafka.streams.state.internals;

import java.time.Duration;
import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;

/** In place of the class of this name. */
public class RocksDbIndexedTimeOrderedWindowBytesStoreWithHeadersSupplier
        extends RocksDbIndexedTimeOrderedWindowBytesStoreSupplier implements HeadersBytesStoreSupplier {
    private RocksDbIndexedTimeOrderedWindowBytesStoreWithHeadersSupplier(
            String name, Duration retention, Duration size, boolean retainDuplicates) {
        super(name, retention, size, retainDuplicates, DslStoreFormat.HEADERS);
    }

    public static RocksDbIndexedTimeOrderedWindowBytesStoreWithHeadersSupplier create(
            String name, Duration retention, Duration size, boolean retainDuplicates, boolean indexed) {
        return new RocksDbIndexedTimeOrderedWindowBytesStoreWithHeadersSupplier(
                name, retention, size, retainDuplicates);
    }
}
