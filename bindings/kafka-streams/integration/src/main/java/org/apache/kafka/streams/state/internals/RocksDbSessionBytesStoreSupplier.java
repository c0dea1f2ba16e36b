package org.apache.kafka.streams.state.internals;

import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.kstream.EmitStrategy;

/** In place of the class of this name. */
public class RocksDbSessionBytesStoreSupplier extends ShadowSessionSupplier {
    public RocksDbSessionBytesStoreSupplier(String name, long retention) {
        super(name, retention, EmitStrategy.onWindowUpdate(), DslStoreFormat.PLAIN);
    }
}
