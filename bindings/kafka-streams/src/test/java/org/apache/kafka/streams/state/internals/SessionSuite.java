package org.apache.kafka.streams.state.internals;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.hedgerow.kafka.HedgerowDslStoreSuppliers;
import java.io.File;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.state.DslSessionParams;
import org.apache.kafka.streams.state.KeyValueIterator;
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

    /** The suite restores to a closed store, which ours refuses. Here it is wiped and opened again. */
    @Test
    @Override
    public void shouldRestore() {
        List<KeyValue<Windowed<String>, Long>> expected = new ArrayList<>();
        List<KeyValue<byte[], byte[]>> changelog = new ArrayList<>();
        for (long end : new long[] {0, 10, 100, 1000}) {
            SessionWindow window = new SessionWindow(end, end);
            expected.add(KeyValue.pair(new Windowed<>("a", window), end));
            sessionStore.put(new Windowed<>("a", window), end);
            changelog.add(
                    KeyValue.pair(
                            SessionKeySchema.toBinary(Bytes.wrap(new byte[] {'a'}), end, end).get(),
                            Serdes.Long().serializer().serialize("", end)));
        }
        sessionStore.close();
        assertTrue(new File(context.stateDir(), "hedgerow/sessions").delete());
        sessionStore = buildSessionStore(10_000, Serdes.String(), Serdes.Long());
        sessionStore.init(context, sessionStore);
        try (KeyValueIterator<Windowed<String>, Long> sessions = sessionStore.fetch("a")) {
            assertFalse(sessions.hasNext());
        }
        context.restore(sessionStore.name(), changelog);
        List<KeyValue<Windowed<String>, Long>> restored = new ArrayList<>();
        try (KeyValueIterator<Windowed<String>, Long> sessions = sessionStore.fetch("a")) {
            sessions.forEachRemaining(restored::add);
        }
        assertEquals(expected, restored);
    }
}
