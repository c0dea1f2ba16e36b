package org.apache.kafka.streams.state.internals;

import io.hedgerow.kafka.Hedgerow;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;

/** In place of the class of this name. */
public class RocksDBKeyValueBytesStoreSupplier
        extends Shadow<KeyValueBytesStoreSupplier, KeyValueStore<Bytes, byte[]>>
        implements KeyValueBytesStoreSupplier {
    public RocksDBKeyValueBytesStoreSupplier(String name, boolean timestamped) {
        super(timestamped ? Hedgerow.timestampedKeyValueStore(name) : Hedgerow.keyValueStore(name));
    }
}
