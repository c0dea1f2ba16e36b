package io.hedgerow.kafka.bench;

import io.hedgerow.kafka.HedgerowDslStoreSuppliers;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers.RocksDBDslStoreSuppliers;
import org.apache.kafka.streams.state.DslStoreSuppliers;

/** The stores that an application has. */
enum Engine {
    HEDGEROW("hedgerow", HedgerowDslStoreSuppliers.class),
    /** RocksDB as Streams has it. */
    ROCKSDB("rocksdb", RocksDBDslStoreSuppliers.class),
    /** RocksDB with the setter of {@link BoundedMemory}. */
    ROCKSDB_BOUNDED("rocksdb-bounded", RocksDBDslStoreSuppliers.class),
    IN_MEMORY("in-memory", InMemoryDslStoreSuppliers.class);

    final String label;
    final Class<? extends DslStoreSuppliers> suppliers;

    Engine(String label, Class<? extends DslStoreSuppliers> suppliers) {
        this.label = label;
        this.suppliers = suppliers;
    }

    static Engine of(String label) {
        return Arrays.stream(values())
                .filter(it -> it.label.equals(label))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException(
                        "expected an engine among hedgerow, rocksdb, rocksdb-bounded and in-memory,"
                                + " found " + label));
    }

    /**
     * Adds what the engine needs to an application's configuration: memory, the design of our
     * stores.
     */
    void configure(Properties config, long budget, String design) {
        config.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, suppliers);
        config.put("hedgerow.memory.bytes", budget);
        config.put("hedgerow.design", design);
        if (this == ROCKSDB_BOUNDED) {
            config.put(BoundedMemory.BUDGET, budget);
            config.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, BoundedMemory.class);
        }
    }
}
