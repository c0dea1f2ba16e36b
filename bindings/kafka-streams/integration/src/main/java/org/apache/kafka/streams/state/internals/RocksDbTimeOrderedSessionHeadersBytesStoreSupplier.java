package org.apache.kafka.streams.state.internals;

import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;

/** In place of the class of this name. */
public class RocksDbTimeOrderedSessionHeadersBytesStoreSupplier extends ShadowSessionSupplier implements HeadersBytesStoreSupplier {
    public RocksDbTimeOrderedSessionHeadersBytesStoreSupplier(String name, long retention, boolean indexed) {
        super(name, retention, EmitStrategy.onWindowClose(), DslStoreFormat.HEADERS);
    }
}
