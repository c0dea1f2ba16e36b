package io.hedgerow.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.hedgerow.EntryIterator;
import io.hedgerow.KeyRange;
import io.hedgerow.Keyspace;
import io.hedgerow.Options;
import io.hedgerow.SharedHedgerow;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.StreamsException;
import org.apache.kafka.streams.errors.TaskCorruptedException;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.internals.StateDirectory;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreSupplier;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.internals.LegacyCheckpointingStateStore;
import org.apache.kafka.streams.state.internals.WindowKeySchema;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Where state lives, what outlives a process, and what Streams' own suite leaves out. */
class StoreTest extends StoreFixture {
    /** A process is killed while it writes and commits: its offsets are never ahead of its data. */
    @Test
    void offsetsAndDataOutliveAKill() throws Exception {
        Process child =
                new ProcessBuilder(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "-cp",
                                System.getProperty("java.class.path"),
                                Child.class.getName(),
                                state.toString())
                        .redirectErrorStream(true)
                        .redirectOutput(state.resolve("output").toFile())
                        .start();
        Path enough = state.resolve("enough");
        for (int i = 0; !Files.exists(enough); i++) {
            assertTrue(child.isAlive() && i < 3000, () -> "the child did not write");
            Thread.sleep(20);
        }
        child.destroyForcibly().waitFor();
        KeyValueStore<Bytes, byte[]> store = open("counts");
        long offset = store.committedOffset(FIRST);
        assertTrue(offset >= Child.ENOUGH, "offset " + offset);
        for (long i = 0; i <= offset; i++) {
            assertArrayEquals(key("v" + i).get(), store.get(key("k" + i)), "k" + i);
        }
        store.close();
    }

    /** A process that is killed. */
    public static final class Child {
        private static final long ENOUGH = 2000;

        private Child() {}

        public static void main(String[] arguments) throws IOException {
            StoreTest test = new StoreTest();
            test.state = Path.of(arguments[0]);
            test.configure();
            KeyValueStore<Bytes, byte[]> store = test.open("counts");
            for (long i = 0; ; i++) {
                store.put(key("k" + i), key("v" + i).get());
                store.commit(Map.of(FIRST, i));
                if (i == ENOUGH) {
                    Files.createFile(test.state.resolve("enough"));
                }
            }
        }
    }

    @Test
    void aClosedStoreOpensWithItsOffsets() throws IOException {
        KeyValueStore<Bytes, byte[]> store = open("counts");
        store.put(key("a"), new byte[] {1});
        store.commit(Map.of(FIRST, 7L, SECOND, 9L));
        store.commit(Collections.singletonMap(SECOND, null));
        store.close();
        store.close();
        KeyValueStore<Bytes, byte[]> again = open("counts");
        assertArrayEquals(new byte[] {1}, again.get(key("a")));
        assertEquals(7L, again.committedOffset(FIRST));
        assertNull(again.committedOffset(SECOND));
        again.commit(Map.of());
        assertNull(again.committedOffset(FIRST));
        again.close();
    }

    @Test
    void aStoreWhoseTaskWasWipedIsEmpty() throws IOException {
        KeyValueStore<Bytes, byte[]> store = open("counts");
        store.put(key("a"), new byte[] {1});
        store.commit(Map.of(FIRST, 7L));
        store.close();
        Files.delete(state.resolve("shop/0_1/hedgerow/counts"));
        KeyValueStore<Bytes, byte[]> again = open("counts");
        assertNull(again.get(key("a")));
        assertNull(again.committedOffset(FIRST));
        again.close();
        try (SharedHedgerow db = SharedHedgerow.open(database(), new Options())) {
            List<String> stores = new ArrayList<>(db.database().keyspaceNames());
            stores.removeIf(it -> it.startsWith("~"));
            assertEquals(1, stores.size(), stores.toString());
        }
    }

    /** Otherwise the first start would drop the state of all stores. */
    @Test
    void aStateDirectoryMayBeMoved() throws IOException {
        Path parent = state;
        state = Files.createDirectory(parent.resolve("here"));
        configure();
        KeyValueStore<Bytes, byte[]> store = open("counts");
        store.put(key("a"), new byte[] {1});
        store.commit(Map.of(FIRST, 7L));
        store.close();
        Files.move(state, parent.resolve("there"));
        state = parent.resolve("there");
        configure();
        KeyValueStore<Bytes, byte[]> moved = open("counts");
        assertArrayEquals(new byte[] {1}, moved.get(key("a")));
        assertEquals(7L, moved.committedOffset(FIRST));
        moved.close();
    }

    /** The directory above a link is not that above its target. */
    @Test
    void aStateDirectoryMayBeBehindALink() throws IOException {
        Files.createDirectories(state.resolve("deep/inner"));
        Files.createSymbolicLink(state.resolve("link"), state.resolve("deep/inner"));
        state = state.resolve("link/../there");
        configure();
        for (byte[] expected : new byte[][] {null, {1}}) {
            KeyValueStore<Bytes, byte[]> store = open("counts");
            assertArrayEquals(expected, store.get(key("a")));
            store.put(key("a"), new byte[] {1});
            store.close();
        }
    }

    /** Earlier versions stored the whole path. */
    @Test
    void aStoreWithAnAbsolutePathIsKept() throws IOException {
        KeyValueStore<Bytes, byte[]> store = open("counts");
        store.put(key("a"), new byte[] {1});
        store.close();
        Path marker = state.resolve("shop/0_1/hedgerow/counts");
        String identity = Files.readString(marker);
        try (SharedHedgerow db = SharedHedgerow.open(database(), new Options())) {
            db.database().keyspace("~offsets")
                    .put(key(identity + "\0marker").get(), key(marker.toString()).get());
        }
        KeyValueStore<Bytes, byte[]> again = open("counts");
        assertArrayEquals(new byte[] {1}, again.get(key("a")));
        again.close();
    }

    /** A window store without a window has no keyspace, whose name would tell. */
    @Test
    void theOffsetsOfAStoreThatWasWipedAreDropped() throws IOException {
        WindowStore<Bytes, byte[]> windows = open(WINDOWS);
        windows.committedOffset(FIRST);
        windows.commit(Map.of(FIRST, 7L));
        windows.close();
        Files.delete(state.resolve("shop/0_1/hedgerow/windows"));
        KeyValueStore<Bytes, byte[]> store = open("counts");
        Set<String> identities = new HashSet<>();
        try (SharedHedgerow db = SharedHedgerow.open(database(), new Options())) {
            db.database().keyspace("~offsets").iterate(KeyRange.all())
                    .forEachRemaining(it -> identities.add(StoreIdentity.of(it.key())));
        }
        String counts = Files.readString(state.resolve("shop/0_1/hedgerow/counts"));
        assertEquals(Set.of(counts), identities);
        store.close();
    }

    /** The name of a keyspace has an identity and a segment, too. */
    @Test
    void aNameThatIsTooLongIsRefusedByName() throws IOException {
        open("n".repeat(214)).close();
        StreamsException refused =
                assertThrows(StreamsException.class, () -> open("n".repeat(215)));
        assertTrue(refused.getMessage().contains("at most 214 bytes"), refused.getMessage());
        Duration hour = Duration.ofHours(1);
        SessionStore<Bytes, byte[]> longest = open(Hedgerow.sessionStore("s".repeat(194), hour));
        longest.put(new Windowed<>(key("a"), new SessionWindow(0, 1)), new byte[] {1});
        longest.close();
        assertThrows(
                StreamsException.class, () -> open(Hedgerow.sessionStore("s".repeat(195), hour)));
    }

    /** A store cannot read another format, segments or index: everything is restored. */
    @Test
    void aStoreOfAnotherFormatIsEmpty() throws IOException {
        Duration hour = Duration.ofHours(1);
        Duration size = Duration.ofMinutes(1);
        List<StoreSupplier<?>> formats =
                List.of(
                        Hedgerow.keyValueStore("counts"),
                        Hedgerow.timestampedKeyValueStore("counts"),
                        Hedgerow.keyValueStoreWithHeaders("counts"),
                        Hedgerow.versionedKeyValueStore("counts", hour),
                        Hedgerow.windowStore("counts", hour, size, false),
                        Hedgerow.windowStore("counts", hour.multipliedBy(2), size, false),
                        Hedgerow.timestampedWindowStore("counts", hour, size, false),
                        Hedgerow.windowStoreWithHeaders("counts", hour, size, false),
                        WindowSupplier.of("counts", DslStoreFormat.HEADERS, hour, size, false, true),
                        Hedgerow.sessionStore("counts", hour),
                        Hedgerow.sessionStoreWithHeaders("counts", hour));
        for (StoreSupplier<?> format : formats) {
            for (Long expected : Arrays.asList(null, 7L)) {
                StateStore store = open(format);
                assertEquals(expected, store.committedOffset(FIRST), () -> "of " + store.getClass());
                store.commit(Map.of(FIRST, 7L));
                store.close();
            }
        }
    }

    @Test
    void aStoreOfUnknownFormatIsEmpty() throws IOException {
        KeyValueStore<Bytes, byte[]> store = open("counts");
        store.put(key("a"), new byte[] {1});
        store.commit(Map.of(FIRST, 7L));
        store.close();
        String identity = Files.readString(state.resolve("shop/0_1/hedgerow/counts"));
        try (SharedHedgerow db = SharedHedgerow.open(database(), new Options())) {
            db.database().keyspace("~offsets").delete(key(identity + "\0format").get());
        }
        KeyValueStore<Bytes, byte[]> again = open("counts");
        assertNull(again.get(key("a")));
        assertNull(again.committedOffset(FIRST));
        again.close();
    }

    /** Streams before 4.3 left such a file. With no other state beside it, it is taken for ours. */
    @Test
    void theOffsetsOfACheckpointFileAreTaken() throws IOException {
        for (long offset : new long[] {7, 5}) {
            for (String name : List.of("counts", "sums")) {
                KeyValueStore<Bytes, byte[]> store = open(name);
                handOver(store, offset);
                assertEquals(offset, store.committedOffset(FIRST), name);
                store.close();
            }
        }
    }

    /** The same file beside stores of RocksDB, or of a store whose state was given up. */
    @ParameterizedTest
    @ValueSource(strings = {"rocksdb", "counts", "hedgerow/counts"})
    void theOffsetsOfACheckpointFileAreNotThoseOfAnEmptiedStore(String state) throws IOException {
        Path before = this.state.resolve("shop/0_1").resolve(state);
        if (state.startsWith("hedgerow")) {
            KeyValueStore<Bytes, byte[]> store = open("counts");
            store.put(key("a"), new byte[] {1});
            store.close();
            try (ProcessDatabase db = ProcessDatabase.open(context)) {
                StoreIdentity.forget(db, Files.readString(before));
            }
        } else {
            Files.createDirectories(before);
        }
        KeyValueStore<Bytes, byte[]> store = open("counts");
        handOver(store, 7);
        assertNull(store.committedOffset(FIRST), "everything is restored");
        store.commit(Map.of(FIRST, 3L));
        assertEquals(3L, store.committedOffset(FIRST));
        store.close();
    }

    /**
     * Hands the offset of a file of before 4.3 over, as Streams does behind the opening of a task.
     */
    private void handOver(KeyValueStore<Bytes, byte[]> store, long offset) throws IOException {
        Path file = state.resolve("shop/0_1/.checkpoint");
        Files.writeString(file, "0\n1\nchangelog 0 " + offset + "\n");
        StateDirectory directories =
                new StateDirectory(new StreamsConfig(configs), Time.SYSTEM, true, false);
        LegacyCheckpointingStateStore.migrateLegacyOffsets(
                "", directories, TASK, Map.of(FIRST, store));
        assertFalse(Files.exists(file));
    }

    /** Streams deletes the directory of a task that moved away; its disk is free within an hour. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void theStateOfATaskThatMovedIsDropped(boolean commits) throws IOException {
        KeyValueStore<Bytes, byte[]> moved = open("moved");
        moved.put(key("a"), new byte[] {1});
        moved.close();
        KeyValueStore<Bytes, byte[]> store = open("counts");
        store.put(key("a"), new byte[] {1});
        Files.delete(state.resolve("shop/0_1/hedgerow/moved"));
        try (SharedHedgerow db = SharedHedgerow.open(database(), new Options())) {
            for (long minutes : new long[] {59, 61}) {
                ProcessDatabase.clock = () -> System.nanoTime() + TimeUnit.MINUTES.toNanos(minutes);
                if (commits) {
                    store.commit(Map.of(FIRST, minutes));
                }
                for (int i = 0; i < 1000 && !commits; i++) {
                    store.put(key("a"), new byte[] {2});
                }
                assertEquals(
                        minutes > 60,
                        db.database().keyspaceNames().stream().noneMatch(it -> it.contains("moved")),
                        "after " + minutes + " minutes");
            }
        } finally {
            ProcessDatabase.clock = System::nanoTime;
        }
        assertNotNull(store.get(key("a")));
        store.close();
    }

    @Test
    void anUncleanStoreIsCorruptUnderExactlyOnce() throws IOException {
        configs.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        KeyValueStore<Bytes, byte[]> store = open("counts");
        assertThrows(TaskCorruptedException.class, () -> open("counts"));
        store.close();
        open("counts").close();
    }

    /** Streams fills a global store with committed records, and would fail at every start. */
    @Test
    void anUncleanGlobalStoreOpensUnderExactlyOnce() throws IOException {
        configs.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        KeyValueStore<Bytes, byte[]> killed = openGlobal("names");
        killed.committedOffset(FIRST);
        killed.put(key("a"), new byte[] {1});
        killed.commit(Map.of(FIRST, 7L));
        KeyValueStore<Bytes, byte[]> store = openGlobal("names");
        assertEquals(7L, store.committedOffset(FIRST));
        assertArrayEquals(new byte[] {1}, store.get(key("a")));
        store.close();
        killed.close();
    }

    /** Streams 4.4 would not wipe a store with writes of a transaction that was aborted. */
    @Test
    void transactionalStoresAreRefusedUnderExactlyOnce() throws IOException {
        configs.put("enable.transactional.statestores", "true");
        open("counts").close();
        configs.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        assertThrows(ConfigException.class, () -> open("counts"));
    }

    /** A store writes 4 MiB at a time. */
    @Test
    void aRestoreOfThreeBatchesIsWhole() throws IOException {
        int count = 3 * 64;
        List<ConsumerRecord<byte[], byte[]>> entries = new ArrayList<>();
        List<ConsumerRecord<byte[], byte[]>> starts = new ArrayList<>();
        List<ConsumerRecord<byte[], byte[]>> versions = new ArrayList<>();
        Random random = new Random(3);
        for (int i = 0; i < count; i++) {
            byte[] value = new byte[64 << 10];
            random.nextBytes(value);
            entries.add(record(key("k" + i).get(), value, i));
            Bytes window = WindowKeySchema.toStoreKeyBinary(key("k" + i), i, 0);
            starts.add(record(window.get(), value, i));
            // Versions of a key are in several batches.
            versions.add(record(key("k" + i % 50).get(), value, i));
        }
        KeyValueStore<Bytes, byte[]> counts = open("counts");
        restore(counts, entries);
        WindowStore<Bytes, byte[]> windows = open(WINDOWS);
        restore(windows, starts);
        HedgerowVersionedStore old = open(new HedgerowVersionedStore("old", 60_000, 60_000), TASK);
        restore(old, versions);
        for (int i = 0; i < count; i++) {
            byte[] value = entries.get(i).value();
            assertArrayEquals(value, counts.get(key("k" + i)), "k" + i);
            assertArrayEquals(value, windows.fetch(key("k" + i), i), "window of k" + i);
            assertArrayEquals(value, old.get(key("k" + i % 50), i).value(), "version " + i);
        }
        counts.close();
        windows.close();
        old.close();
    }

    @Test
    void storesOfAProcessShareADatabase() throws IOException {
        KeyValueStore<Bytes, byte[]> counts = open("counts");
        KeyValueStore<Bytes, byte[]> sums = open("sums");
        counts.put(key("a"), new byte[] {1});
        sums.put(key("a"), new byte[] {2});
        counts.close();
        assertArrayEquals(new byte[] {2}, sums.get(key("a")));
        sums.close();
        assertTrue(Files.isDirectory(database()));
    }

    @Test
    void iteratorsShowTheStoreAsItWas() throws IOException {
        KeyValueStore<Bytes, byte[]> store = open("counts");
        store.putAll(List.of(
                KeyValue.pair(key("a"), new byte[] {1}),
                KeyValue.pair(key("b"), new byte[] {2}),
                KeyValue.pair(key("c"), new byte[] {3})));
        KeyValueIterator<Bytes, byte[]> range = store.reverseRange(key("a"), key("b"));
        store.delete(key("b"));
        assertEquals(key("b"), range.peekNextKey());
        assertEquals(key("b"), range.next().key);
        assertEquals(key("a"), range.next().key);
        assertFalse(range.hasNext());
        KeyValueIterator<Bytes, byte[]> left = store.all();
        store.close();
        assertThrows(InvalidStateStoreException.class, left::hasNext);
        assertThrows(InvalidStateStoreException.class, () -> store.get(key("a")));
    }

    /** A query of another thread may make one while the store is being closed. */
    @Test
    void anIteratorOfAClosedStoreIsClosed() throws IOException {
        HedgerowStore store = (HedgerowStore) open("counts");
        try (SharedHedgerow db = SharedHedgerow.open(database(), new Options())) {
            String name = store.keyspaces().iterator().next().name();
            EntryIterator entries = db.database().keyspace(name).iterate(KeyRange.all());
            store.close();
            assertThrows(
                    InvalidStateStoreException.class, () -> new StoreIterator(store, entries));
            assertThrows(IllegalStateException.class, entries::hasNext);
            assertThrows(
                    InvalidStateStoreException.class,
                    () -> new SegmentIterator(store, List.<Keyspace>of().iterator(), null, null));
        }
    }

    /** A store for results of closed windows found none that ends behind the time. */
    @Test
    void sessionsAreFoundByTheirStart() throws IOException {
        for (boolean byTime : new boolean[] {false, true}) {
            SessionStore<Bytes, byte[]> store =
                    open(new SessionSupplier("sessions-" + byTime, Duration.ofHours(1), byTime));
            store.put(new Windowed<>(key("a"), new SessionWindow(50, 200)), new byte[] {1});
            store.put(new Windowed<>(key("b"), new SessionWindow(60, 70)), new byte[] {2});
            store.put(new Windowed<>(key("c"), new SessionWindow(101, 102)), new byte[] {3});
            Set<Bytes> found = new HashSet<>();
            try (KeyValueIterator<Windowed<Bytes>, byte[]> sessions =
                    store.findSessions((Bytes) null, null, 0L, 100L)) {
                sessions.forEachRemaining(it -> found.add(it.key.key()));
            }
            assertEquals(Set.of(key("a"), key("b")), found, "by time: " + byTime);
            store.close();
        }
    }
}
