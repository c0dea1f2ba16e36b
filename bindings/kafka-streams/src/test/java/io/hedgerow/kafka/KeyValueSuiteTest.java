package io.hedgerow.kafka;

import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.internals.AbstractKeyValueStoreTest;

/** Streams' own suite for key-value stores. */
class KeyValueSuiteTest extends AbstractKeyValueStoreTest {
    @Override
    @SuppressWarnings("unchecked")
    protected <K, V> KeyValueStore<K, V> createKeyValueStore(StateStoreContext context) {
        KeyValueStore<K, V> store =
                Stores.keyValueStoreBuilder(
                                Hedgerow.keyValueStore("my-store"),
                                (Serde<K>) context.keySerde(),
                                (Serde<V>) context.valueSerde())
                        .build();
        store.init(context, store);
        return store;
    }
}
