package io.hedgerow.kafka;

import java.time.Duration;
import java.util.Objects;
import java.util.function.Function;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreSupplier;

/** The part that all suppliers have in common. */
abstract class Supplier<S extends StateStore>
        implements StoreSupplier<S> {
    /** The scope of the metrics of all stores. Their tag is {@code hedgerow-state-id}. */
    static final String SCOPE = "hedgerow";

    private final String name;

    Supplier(String name) {
        this.name = Objects.requireNonNull(name, "name cannot be null");
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public String metricsScope() {
        return SCOPE;
    }

    /** A time in milliseconds, which must not be negative. */
    static long millis(Duration time, String what) {
        Objects.requireNonNull(time, what + " cannot be null");
        if (time.isNegative()) {
            throw new IllegalArgumentException(what + " cannot be negative, found " + time);
        }
        try {
            return time.toMillis();
        } catch (ArithmeticException e) {
            throw new IllegalArgumentException(
                    what + " must be less than 2^63 milliseconds, found " + time, e);
        }
    }

    /** The interval of segments for a retention, as Streams has it. */
    static long segmentInterval(long retention) {
        return Math.max(retention / 2, 60_000);
    }

    /** Supplies key-value stores. */
    static class KeyValue extends Supplier<KeyValueStore<Bytes, byte[]>>
            implements KeyValueBytesStoreSupplier {
        private final Function<String, KeyValueStore<Bytes, byte[]>> make;

        KeyValue(String name, Function<String, KeyValueStore<Bytes, byte[]>> make) {
            super(name);
            this.make = make;
        }

        @Override
        public KeyValueStore<Bytes, byte[]> get() {
            return make.apply(name());
        }
    }

    /** Supplies key-value stores with headers, which Streams asks the supplier about, too. */
    static final class WithHeaders extends KeyValue implements HeadersBytesStoreSupplier {
        WithHeaders(String name) {
            super(name, HedgerowKeyValueStore.WithHeaders::new);
        }
    }
}
