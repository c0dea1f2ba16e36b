package io.hedgerow.kafka;

import java.util.Objects;
import java.util.function.Function;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;

/**
 * Suppliers of stores on Hedgerow, in place of those of {@link org.apache.kafka.streams.state.Stores}.
 *
 * <pre>{@code
 * Stores.keyValueStoreBuilder(Hedgerow.keyValueStore("counts"), Serdes.String(), Serdes.Long());
 * table.aggregate(..., Materialized.as(Hedgerow.timestampedKeyValueStore("sums")));
 * }</pre>
 */
public final class Hedgerow {
    private Hedgerow() {}

    /** Supplies key-value stores, for {@link org.apache.kafka.streams.state.Stores#keyValueStoreBuilder}. */
    public static KeyValueBytesStoreSupplier keyValueStore(String name) {
        return new Supplier(name, HedgerowKeyValueStore::new);
    }

    /**
     * Supplies key-value stores with timestamps, for {@link
     * org.apache.kafka.streams.state.Stores#timestampedKeyValueStoreBuilder} and for {@code
     * Materialized.as}.
     */
    public static KeyValueBytesStoreSupplier timestampedKeyValueStore(String name) {
        return new Supplier(name, Timestamped::new);
    }

    /** Supplies key-value stores with timestamps and headers. */
    public static KeyValueBytesStoreSupplier keyValueStoreWithHeaders(String name) {
        return new Supplier(name, WithHeaders::new);
    }

    private static final class Supplier implements KeyValueBytesStoreSupplier {
        private final String name;
        private final Function<String, KeyValueStore<Bytes, byte[]>> make;

        Supplier(String name, Function<String, KeyValueStore<Bytes, byte[]>> make) {
            this.name = Objects.requireNonNull(name, "name cannot be null");
            this.make = make;
        }

        @Override
        public String name() {
            return name;
        }

        @Override
        public KeyValueStore<Bytes, byte[]> get() {
            return make.apply(name);
        }

        @Override
        public String metricsScope() {
            return "hedgerow";
        }
    }

    /** A store whose values begin with a timestamp. */
    private static final class Timestamped extends HedgerowKeyValueStore
            implements TimestampedBytesStore {
        Timestamped(String name) {
            super(name);
        }
    }

    /** A store whose values begin with headers and a timestamp. The stores above it answer queries. */
    private static final class WithHeaders extends HedgerowKeyValueStore implements HeadersBytesStore {
        WithHeaders(String name) {
            super(name);
        }

        @Override
        public <R> QueryResult<R> query(Query<R> query, PositionBound bound, QueryConfig config) {
            Position position = getPosition();
            synchronized (position) {
                QueryResult<R> result = QueryResult.forUnknownQueryType(query, this);
                if (config.isCollectExecutionInfo()) {
                    result.addExecutionInfo("Not handled in " + getClass());
                }
                result.setPosition(position.copy());
                return result;
            }
        }
    }
}
