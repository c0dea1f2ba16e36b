package org.apache.kafka.streams.state.internals;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.hedgerow.kafka.HedgerowDslStoreSuppliers;
import java.io.File;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.state.DslSessionParams;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.junit.jupiter.api.Test;

/** Streams' own suite for session stores. It must be in this package. */
abstract class SessionSuite extends AbstractSessionBytesStoreTest {
    abstract EmitStrategy emitStrategy();

    @Override
    <K, V> SessionStore<K, V> buildSessionStore(long retention, Serde<K> keys, Serde<V> values) {
        DslSessionParams params =
                new DslSessionParams(
                        "sessions", Duration.ofMillis(retention), emitStrategy(), DslStoreFormat.PLAIN);
        return Stores.sessionStoreBuilder(
                        new HedgerowDslStoreSuppliers().sessionStore(params), keys, values)
                .build();
    }

    /**
     * The suite closes the store, and reads and restores it all the same. Ours is wiped and opened
     * again when it is closed, as Streams does.
     */
    @Test
    @Override
    @SuppressWarnings("unchecked")
    public void shouldRestore() {
        SessionStore<String, Long> store = sessionStore;
        InvocationHandler wiping =
                (proxy, method, arguments) -> {
                    Object result;
                    try {
                        result = method.invoke(store, arguments);
                    } catch (InvocationTargetException e) {
                        throw e.getCause();
                    }
                    if (method.getName().equals("close")) {
                        assertTrue(new File(context.stateDir(), "hedgerow/sessions").delete());
                        store.init(context, store);
                    }
                    return result;
                };
        sessionStore =
                (SessionStore<String, Long>)
                        Proxy.newProxyInstance(
                                getClass().getClassLoader(),
                                new Class<?>[] {SessionStore.class},
                                wiping);
        super.shouldRestore();
        sessionStore = store;
    }
}
