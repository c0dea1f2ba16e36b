package io.hedgerow.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.errors.TaskCorruptedException;
import org.apache.kafka.streams.errors.TaskMigratedException;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Damaged files end in a restore of the store that they are of, never in a wrong result. */
class DamageTest extends StoreFixture {
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

    /** Writes a store with an offset, so small that its memtable is flushed once. */
    private static void fill(KeyValueStore<Bytes, byte[]> store) {
        Random random = new Random(1);
        byte[] value = new byte[100];
        for (int i = 0; i < 5000; i++) {
            random.nextBytes(value);
            store.put(key("k" + i), value);
        }
        store.commit(Map.of(FIRST, 5000L));
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

    /**
     * For a corrupted task Streams would commit the transaction that its other tasks share with it,
     * and process the records of this one again.
     */
    @Test
    void underExactlyOnceATransactionIsNotCommitted() throws IOException {
        configs.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        fill();
        flush();
        damage(100_000, ".table");
        KeyValueStore<Bytes, byte[]> counts = open("counts");
        WindowStore<Bytes, byte[]> windows = open(WINDOWS);
        assertThrows(TaskMigratedException.class, () -> counts.all().forEachRemaining(it -> {}));
        assertThrows(TaskMigratedException.class, () -> counts.put(key("new"), new byte[] {1}));
        assertThrows(TaskMigratedException.class, () -> windows.all().forEachRemaining(it -> {}));
        // Outside of transactions.
        assertThrows(TaskCorruptedException.class, () -> counts.commit(Map.of(FIRST, 1L)));
        assertThrows(TaskCorruptedException.class, () -> counts.committedOffset(FIRST));
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

    @Test
    void aDamagedGlobalStoreIsFilledAgain() throws IOException {
        KeyValueStore<Bytes, byte[]> filled = openGlobal("names");
        fill(filled);
        filled.close();
        flush();
        damage(100_000, ".table");
        KeyValueStore<Bytes, byte[]> store = openGlobal("names");
        // Streams knows no task of this number, and would have nothing to restore.
        assertThrows(
                ProcessorStateException.class, () -> store.all().forEachRemaining(it -> {}));
        store.close();
        KeyValueStore<Bytes, byte[]> again = openGlobal("names");
        assertNull(again.committedOffset(FIRST));
        assertNull(again.get(key("k1")));
        again.close();
    }

    /**
     * A merge fails, so a flush finds no room, so all memory is in use. Whoever writes next gets
     * that error.
     */
    @Test
    void theDamageOfAStoreLeavesTheOthersAlone() throws IOException {
        KeyValueStore<Bytes, byte[]> filled = open("counts");
        fill(filled);
        filled.close();
        // One run of level 0, which the first merge reads.
        flush();
        damage(100_000, ".table");
        // Small runs and few writes: each is delayed while merges are behind.
        configs.put(ProcessDatabase.DESIGN + ".counts", "memtable-bytes = 262144");
        KeyValueStore<Bytes, byte[]> counts = open("counts");
        KeyValueStore<Bytes, byte[]> sums = open("sums");
        Random random = new Random(2);
        byte[] value = new byte[200_000];
        TaskCorruptedException told = null;
        int i = 0;
        for (; told == null; i++) {
            assertTrue(i < 1000, "nobody met the damage");
            random.nextBytes(value);
            try {
                // It is never read.
                counts.put(key("k" + i), value);
            } catch (TaskCorruptedException e) {
                told = e;
            }
            for (int j = 0; j < 5; j++) {
                sums.put(key("k" + i + "-" + j), new byte[] {(byte) j});
            }
        }
        assertEquals(Set.of(TASK), told.corruptedTasks());
        assertTrue(told.getCause().getMessage().contains("of store counts are damaged"));
        sums.commit(Map.of(FIRST, 7L));
        sums.close();
        counts.close();
        KeyValueStore<Bytes, byte[]> kept = open("sums");
        assertEquals(7L, kept.committedOffset(FIRST));
        for (int k = 0; k < i; k++) {
            assertArrayEquals(new byte[] {4}, kept.get(key("k" + k + "-4")), "k" + k);
        }
        kept.close();
        KeyValueStore<Bytes, byte[]> restored = open("counts");
        assertNull(restored.committedOffset(FIRST));
        assertNull(restored.get(key("k0")));
        restored.close();
    }

    private HedgerowVersionedStore openVersioned() throws IOException {
        return open(new HedgerowVersionedStore("old", 60_000, 60_000), TASK);
    }

    /** Streams would end the client for a failure of the restore itself. */
    @Test
    void damageThatARestoreMeetsIsToldByTheNextCommit() throws IOException {
        HedgerowVersionedStore filled = openVersioned();
        Random random = new Random(1);
        byte[] value = new byte[100];
        for (int i = 0; i < 20_000; i++) {
            random.nextBytes(value);
            filled.put(key("k" + i), value, i);
        }
        filled.commit(Map.of(FIRST, 20_000L));
        filled.close();
        flush();
        damage(100_000, ".table");
        HedgerowVersionedStore store = openVersioned();
        assertEquals(20_000L, store.committedOffset(FIRST));
        for (int from = 0; from < 20_000; from += 1000) {
            List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
            for (int i = from; i < from + 1000; i++) {
                records.add(record(key("k" + i).get(), value, 20_000 + i));
            }
            restore(store, records);
        }
        TaskCorruptedException told =
                assertThrows(
                        TaskCorruptedException.class, () -> store.commit(Map.of(FIRST, 40_000L)));
        assertEquals(Set.of(TASK), told.corruptedTasks());
        store.close();
        HedgerowVersionedStore again = openVersioned();
        assertNull(again.committedOffset(FIRST));
        assertNull(again.get(key("k1")));
        again.close();
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
}
