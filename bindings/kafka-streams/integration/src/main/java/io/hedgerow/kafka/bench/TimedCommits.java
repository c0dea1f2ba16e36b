package io.hedgerow.kafka.bench;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.DslKeyValueParams;
import org.apache.kafka.streams.state.DslSessionParams;
import org.apache.kafka.streams.state.DslStoreSuppliers;
import org.apache.kafka.streams.state.DslWindowParams;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/**
 * The key-value stores of another class of suppliers, whose commits are timed. Every call of a
 * store takes a detour, so rates are not comparable with those of other runs.
 */
public final class TimedCommits implements DslStoreSuppliers {
    /** Microseconds of each commit of a store. */
    static final Latencies MICROS = new Latencies();
    /** The suppliers that make the stores. */
    static DslStoreSuppliers suppliers;

    @Override
    public KeyValueBytesStoreSupplier keyValueStore(DslKeyValueParams params) {
        KeyValueBytesStoreSupplier timed = suppliers.keyValueStore(params);
        return new KeyValueBytesStoreSupplier() {
            @Override
            public String name() {
                return timed.name();
            }

            @Override
            public KeyValueStore<Bytes, byte[]> get() {
                return time(timed.get());
            }

            @Override
            public String metricsScope() {
                return timed.metricsScope();
            }
        };
    }

    @SuppressWarnings("unchecked")
    private static KeyValueStore<Bytes, byte[]> time(KeyValueStore<Bytes, byte[]> store) {
        Class<?>[] interfaces = {KeyValueStore.class, TimestampedBytesStore.class};
        return (KeyValueStore<Bytes, byte[]>) Proxy.newProxyInstance(
                TimedCommits.class.getClassLoader(),
                interfaces,
                (proxy, method, arguments) -> {
                    long began = System.nanoTime();
                    try {
                        return method.invoke(store, arguments);
                    } catch (InvocationTargetException e) {
                        throw e.getCause();
                    } finally {
                        if (method.getName().equals("commit")) {
                            MICROS.add((System.nanoTime() - began) / 1e3);
                        }
                    }
                });
    }

    @Override
    public WindowBytesStoreSupplier windowStore(DslWindowParams params) {
        return suppliers.windowStore(params);
    }

    @Override
    public SessionBytesStoreSupplier sessionStore(DslSessionParams params) {
        return suppliers.sessionStore(params);
    }
}
