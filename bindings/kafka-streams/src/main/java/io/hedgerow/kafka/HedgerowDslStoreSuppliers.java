package io.hedgerow.kafka;

import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.state.DslKeyValueParams;
import org.apache.kafka.streams.state.DslSessionParams;
import org.apache.kafka.streams.state.DslStoreSuppliers;
import org.apache.kafka.streams.state.DslWindowParams;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/**
 * Puts all stores of the DSL that name no supplier on Hedgerow:
 *
 * <pre>{@code
 * dsl.store.suppliers.class=io.hedgerow.kafka.HedgerowDslStoreSuppliers
 * }</pre>
 *
 * A store for results of closed windows gets an index by time. Streams does not ask this class for
 * versioned stores: see {@link Hedgerow#versionedKeyValueStore}.
 */
public final class HedgerowDslStoreSuppliers implements DslStoreSuppliers {
    @Override
    public KeyValueBytesStoreSupplier keyValueStore(DslKeyValueParams params) {
        switch (params.dslStoreFormat()) {
            case HEADERS:
                return Hedgerow.keyValueStoreWithHeaders(params.name());
            case TIMESTAMPED:
                return Hedgerow.timestampedKeyValueStore(params.name());
            default:
                return Hedgerow.keyValueStore(params.name());
        }
    }

    @Override
    public WindowBytesStoreSupplier windowStore(DslWindowParams params) {
        boolean onClose = onClose(params.emitStrategy());
        DslStoreFormat format = params.dslStoreFormat();
        // Streams takes both for windows with timestamps.
        boolean timestamped = format == null || onClose && format == DslStoreFormat.PLAIN;
        return WindowSupplier.of(
                params.name(),
                timestamped ? DslStoreFormat.TIMESTAMPED : format,
                params.retentionPeriod(),
                params.windowSize(),
                params.retainDuplicates(),
                onClose);
    }

    @Override
    public SessionBytesStoreSupplier sessionStore(DslSessionParams params) {
        boolean onClose = onClose(params.emitStrategy());
        return params.storeFormat() == DslStoreFormat.HEADERS
                ? new SessionSupplier.WithHeaders(params.name(), params.retentionPeriod(), onClose)
                : new SessionSupplier(params.name(), params.retentionPeriod(), onClose);
    }

    private static boolean onClose(EmitStrategy strategy) {
        return strategy.type() == EmitStrategy.StrategyType.ON_WINDOW_CLOSE;
    }
}
