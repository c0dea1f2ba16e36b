package io.hedgerow.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.hedgerow.Options;
import io.hedgerow.SharedHedgerow;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.TaskCorruptedException;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.StateDirectory;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreSupplier;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.internals.LegacyCheckpointingStateStore;
import org.apache.kafka.test.MockInternalProcessorContext;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Where state lives, what outlives a process, and what Streams' own suite leaves out. */
class StoreTest {
    private static final TopicPartition FIRST = new TopicPartition("changelog", 0);
    private static final TopicPartition SECOND = new TopicPartition("changelog", 1);
    private static final TaskId TASK = new TaskId(0, 1);

    @TempDir Path state;
    private final Map<String, Object> configs = new HashMap<>();

    @BeforeEach
    void configure() {
        configs.put(StreamsConfig.APPLICATION_ID_CONFIG, "shop");
        configs.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        configs.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        configs.put(ProcessDatabase.MEMORY, "16777216");
    }

    private Path database() {
        return state.resolve(".hedgerow-shop");
    }

    private KeyValueStore<Bytes, byte[]> open(String name) throws IOException {
        return open(Hedgerow.keyValueStore(name));
    }

    private <S extends StateStore> S open(StoreSupplier<S> supplier) throws IOException {
        Path directory = Files.createDirectories(state.resolve("shop").resolve(TASK.toString()));
        Properties properties = new Properties();
        properties.putAll(configs);
        MockInternalProcessorContext<?, ?> context =
                new MockInternalProcessorContext<>(properties, TASK, directory.toFile());
        S store = supplier.get();
        store.init(context, store);
        return store;
    }

    private static Bytes key(String text) {
        return Bytes.wrap(text.getBytes());
    }

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

    /** Streams before 4.3 left such a file: its offsets are those of stores of RocksDB. */
    @Test
    void theOffsetsOfACheckpointFileAreNotThoseOfAStore() throws IOException {
        KeyValueStore<Bytes, byte[]> store = open("counts");
        Files.writeString(state.resolve("shop/0_1/.checkpoint"), "0\n1\nchangelog 0 7\n");
        StateDirectory directories =
                new StateDirectory(new StreamsConfig(configs), Time.SYSTEM, true, false);
        LegacyCheckpointingStateStore.migrateLegacyOffsets(
                "", directories, TASK, Map.of(FIRST, store));
        assertFalse(Files.exists(state.resolve("shop/0_1/.checkpoint")));
        assertNull(store.committedOffset(FIRST), "everything is restored");
        store.commit(Map.of(FIRST, 3L));
        assertEquals(3L, store.committedOffset(FIRST));
        store.close();
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

    /** Streams 4.4 would not wipe a store with writes of a transaction that was aborted. */
    @Test
    void transactionalStoresAreRefusedUnderExactlyOnce() throws IOException {
        configs.put("enable.transactional.statestores", "true");
        open("counts").close();
        configs.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        assertThrows(ConfigException.class, () -> open("counts"));
    }

    private static final StoreSupplier<WindowStore<Bytes, byte[]>> WINDOWS =
            Hedgerow.windowStore("windows", Duration.ofHours(1), Duration.ofMinutes(1), false);

    /** Writes stores with an offset. Their entries are in the log. */
    private void fill() throws IOException {
        Random random = new Random(1);
        KeyValueStore<Bytes, byte[]> counts = open("counts");
        WindowStore<Bytes, byte[]> windows = open(WINDOWS);
        for (int i = 0; i < 20_000; i++) {
            byte[] value = new byte[100];
            random.nextBytes(value);
            counts.put(key("k" + i), value);
            windows.put(key("k" + i), value, i);
        }
        for (StateStore store : List.of(counts, windows)) {
            store.commit(Map.of(FIRST, 20_000L));
            store.close();
        }
    }

    private void flush() {
        try (SharedHedgerow db = SharedHedgerow.open(database(), new Options())) {
            db.database().flush().await();
        }
    }

    private void checkRestores() throws IOException {
        KeyValueStore<Bytes, byte[]> counts = open("counts");
        WindowStore<Bytes, byte[]> windows = open(WINDOWS);
        assertNull(counts.get(key("k1")));
        assertNull(windows.fetch(key("k1"), 1));
        for (StateStore store : List.of(counts, windows)) {
            assertNull(store.committedOffset(FIRST), "everything is restored");
            store.close();
        }
    }

    /** The store gives its state up, and is empty when it is opened again. */
    @Test
    void aDamagedTableEndsInARestore() throws IOException {
        fill();
        flush();
        damage(100_000, ".table");
        KeyValueStore<Bytes, byte[]> counts = open("counts");
        WindowStore<Bytes, byte[]> windows = open(WINDOWS);
        checkGivesUp(counts::all);
        checkGivesUp(windows::all);
        assertThrows(TaskCorruptedException.class, () -> counts.put(key("new"), new byte[] {1}));
        assertThrows(TaskCorruptedException.class, () -> windows.put(key("new"), new byte[] {1}, 0));
        counts.close();
        windows.close();
        checkRestores();
    }

    private static void checkGivesUp(Supplier<KeyValueIterator<?, byte[]>> read) {
        TaskCorruptedException e =
                assertThrows(
                        TaskCorruptedException.class,
                        () -> {
                            try (KeyValueIterator<?, byte[]> all = read.get()) {
                                all.forEachRemaining(it -> {});
                            }
                        });
        assertEquals(Set.of(TASK), e.corruptedTasks());
    }

    /** A database that cannot be opened, or whose offsets are damaged, is kept beside a new one. */
    @ParameterizedTest
    @ValueSource(strings = {"MANIFEST", ".log", ".table"})
    void aDamagedDatabaseEndsInARestore(String file) throws IOException {
        fill();
        if (file.equals(".table")) {
            flush();
        }
        List<Path> damaged = damage(1, file);
        checkRestores();
        try (Stream<Path> beside = Files.list(state)) {
            List<Path> aside =
                    beside.filter(it -> it.toString().contains(".hedgerow-shop.damaged-"))
                            .collect(Collectors.toList());
            assertEquals(1, aside.size(), aside.toString());
            for (Path it : damaged) {
                assertTrue(Files.exists(aside.get(0).resolve(database().relativize(it))), it.toString());
            }
        }
    }

    /** A machine that crashed may have an empty file of an identity. */
    @Test
    void anEmptyIdentityEndsInARestore() throws IOException {
        fill();
        Files.write(state.resolve("shop/0_1/hedgerow/counts"), new byte[0]);
        Files.write(state.resolve("shop/0_1/hedgerow/windows"), new byte[] {(byte) 0xff, 7});
        checkRestores();
    }

    /** Changes bytes of every file of at least a size whose name has an end. */
    private List<Path> damage(long bytesMin, String end) throws IOException {
        List<Path> damaged = new ArrayList<>();
        try (Stream<Path> files = Files.walk(database())) {
            for (Path file : (Iterable<Path>) files.filter(Files::isRegularFile)::iterator) {
                if (file.toString().endsWith(end) && Files.size(file) >= bytesMin) {
                    byte[] bytes = Files.readAllBytes(file);
                    for (int i = Math.min(100, bytes.length / 4); i < bytes.length / 2; i += 100) {
                        bytes[i] ^= 0x55;
                    }
                    Files.write(file, bytes);
                    damaged.add(file);
                }
            }
        }
        assertFalse(damaged.isEmpty(), "there should be a file");
        return damaged;
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
}
