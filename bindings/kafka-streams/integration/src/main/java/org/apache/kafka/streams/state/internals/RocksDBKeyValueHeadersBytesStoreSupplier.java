package org.apache.kafka.streams.state.internals;

import io.hedgerow.kafka.Hedgerow;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;

/** In place of the class of this name. */
public class RocksDBKeyValueHeadersBytesStoreSupplier implements KeyValueBytesStoreSupplier, HeadersBytesStoreSupplier {
    private final KeyValueBytesStoreSupplier ours;

    public RocksDBKeyValueHeadersBytesStoreSupplier(String name) {
        ours = Hedgerow.keyValueStoreWithHeaders(name);
    }

    @Override
    public String name() {
        return ours.name();
    }

    @Override
    public KeyValueStore<Bytes, byte[]> get() {
        return ours.get();
    }

    @Override
    public String metricsScope() {
        return ours.metricsScope();
    }
}
