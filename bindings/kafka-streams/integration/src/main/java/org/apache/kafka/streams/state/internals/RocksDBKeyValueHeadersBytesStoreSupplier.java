package org.apache.kafka.streams.state.internals;

import io.hedgerow.kafka.Hedgerow;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;

/** In place of the class of this name. */
public class RocksDBKeyValueHeadersBytesStoreSupplier
        extends Shadow<KeyValueBytesStoreSupplier, KeyValueStore<Bytes, byte[]>>
        implements KeyValueBytesStoreSupplier, HeadersBytesStoreSupplier {
    public RocksDBKeyValueHeadersBytesStoreSupplier(String name) {
        super(Hedgerow.keyValueStoreWithHeaders(name));
    }
}
