package org.apache.kafka.streams.state.internals;

import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;

/** In place of the class of this name. */
public class RocksDbSessionHeadersBytesStoreSupplier extends ShadowSessionSupplier implements HeadersBytesStoreSupplier {
    public RocksDbSessionHeadersBytesStoreSupplier(String name, long retention) {
        super(name, retention, EmitStrategy.onWindowUpdate(), DslStoreFormat.HEADERS);
    }
}
