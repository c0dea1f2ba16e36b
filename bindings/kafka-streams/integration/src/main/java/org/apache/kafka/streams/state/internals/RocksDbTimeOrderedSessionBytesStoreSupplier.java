package org.apache.kafka.streams.state.internals;

import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.kstream.EmitStrategy;

/** In place of the class of this name. */
public class RocksDbTimeOrderedSessionBytesStoreSupplier extends ShadowSessionSupplier {
    public RocksDbTimeOrderedSessionBytesStoreSupplier(String name, long retention, boolean indexed) {
        super(name, retention, EmitStrategy.onWindowClose(), DslStoreFormat.PLAIN);
    }
}
