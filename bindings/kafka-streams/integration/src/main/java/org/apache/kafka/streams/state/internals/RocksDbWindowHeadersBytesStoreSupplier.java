package org.apache.kafka.streams.state.internals;

import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;

/** In place of the class of this name. */
public class RocksDbWindowHeadersBytesStoreSupplier extends RocksDbWindowBytesStoreSupplier
        implements HeadersBytesStoreSupplier {
    public RocksDbWindowHeadersBytesStoreSupplier(
            String name, long retention, long segmentInterval, long size, boolean retainDuplicates) {
        super(
                name,
                retention,
                segmentInterval,
                size,
                retainDuplicates,
                WindowStoreTypes.TIMESTAMPED_WINDOW_STORE_WITH_HEADERS);
    }
}
