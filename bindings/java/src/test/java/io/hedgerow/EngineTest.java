package io.hedgerow;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ReadOnlyBufferException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The work of the binding with the engine. */
class EngineTest {
    @TempDir Path dir;
    private Hedgerow db;
    private Keyspace letters;

    @BeforeEach
    void open() {
        db = Hedgerow.open(dir.resolve("db"), new Options().memoryBudget(16 << 20));
        letters = db.keyspace("letters");
    }

    @AfterEach
    void close() {
        db.close();
    }

    static byte[] b(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    private void putAll(String... keys) {
        for (String key : keys) {
            letters.put(b(key), b(key.toUpperCase()));
        }
    }

    private static String keys(EntryIterator entries) {
        return entries.toList().stream().map(it -> text(it.key())).collect(Collectors.joining(" "));
    }

    private String keys(KeyRange range) {
        return keys(letters.iterate(range));
    }

    @Test
    void aKeyHasItsLastValue() {
        assertNull(letters.get(b("a")));
        letters.put(b("a"), b("1"));
        letters.put(b("a"), b("2"));
        letters.put(b(""), b("empty keys are keys"));
        letters.put(b("z"), b(""));
        assertEquals("2", text(letters.get(b("a"))));
        assertEquals("empty keys are keys", text(letters.get(b(""))));
        assertArrayEquals(new byte[0], letters.get(b("z")));
        letters.delete(b("a"));
        assertNull(letters.get(b("a")));
        assertFalse(letters.contains(b("a")));
        assertTrue(letters.contains(b("z")));
        assertEquals(Arrays.asList(null, ""), letters.multiGet(List.of(b("a"), b("z"))).stream()
                .map(EngineTest::text).collect(Collectors.toList()));
    }

    @Test
    void longAndManyValuesCross() {
        byte[] value = new byte[5 << 20];
        value[value.length - 1] = 7;
        letters.put(b("long"), value);
        assertArrayEquals(value, letters.get(b("long")));
        for (int i = 0; i < 20_000; i++) {
            letters.put(b(String.format("%06d", i)), b("v" + i));
        }
        int[] next = {0};
        letters.iterate(KeyRange.from(b("0")).to(b("1"))).forEachRemaining(entry -> {
            assertEquals(String.format("%06d", next[0]), text(entry.key()));
            assertEquals("v" + next[0]++, text(entry.value()));
        });
        assertEquals(20_000, next[0]);
    }

    @Test
    void directBuffersCross() {
        ByteBuffer key = ByteBuffer.allocateDirect(8).put(b("xkeyx")).position(1).limit(4);
        ByteBuffer value = ByteBuffer.allocateDirect(8).put(b("value")).flip();
        letters.put(key, value);
        assertEquals("value", text(letters.get(b("key"))));
        ByteBuffer found = ByteBuffer.allocateDirect(8);
        assertEquals(5, letters.get(key, found));
        assertEquals(5, found.position());
        ByteBuffer small = ByteBuffer.allocateDirect(3);
        assertEquals(5, letters.get(key, small));
        assertEquals('l', small.get(2));
        assertEquals(-1, letters.get(value, found));
        assertThrows(IllegalArgumentException.class, () -> letters.get(ByteBuffer.allocate(1), found));
    }

    @Test
    void rangesAreReadBothWays() {
        putAll("a", "ab", "b", "c", "d");
        assertEquals("a ab b c d", keys(KeyRange.all()));
        assertEquals("d c b ab a", keys(KeyRange.all().reversed()));
        assertEquals("ab b", keys(KeyRange.from(b("ab")).to(b("c"))));
        assertEquals("c b", keys(KeyRange.after(b("ab")).through(b("c")).reversed()));
        assertEquals("a ab", keys(KeyRange.prefix(b("a"))));
        assertEquals("", keys(KeyRange.from(b("c")).to(b("a"))));
        assertEquals("a ab b", keys(KeyRange.all().to(b("c")).keysOnly()));
        assertEquals("a", text(letters.first().get().key()));
        assertEquals("d", text(letters.last().get().key()));
        assertEquals(Optional.empty(), letters.first(KeyRange.after(b("d"))));
        assertEquals(3, letters.count(KeyRange.from(b("ab")).through(b("c"))));
        try (EntryIterator entries = letters.iterate(KeyRange.all())) {
            assertEquals("a", text(entries.peekKey()));
            assertEquals("A", text(entries.next().value()));
            assertEquals("ab", text(entries.peekKey()));
        }
    }

    @Test
    void aRangeIsDeletedByOneWrite() {
        putAll("a", "ab", "b", "c", "d");
        letters.deleteRange(KeyRange.from(b("b")).to(b("d")));
        assertEquals("a ab d", keys(KeyRange.all()));
        letters.deletePrefix(b("a"));
        assertEquals("d", keys(KeyRange.all()));
        letters.clear();
        assertEquals("", keys(KeyRange.all()));
    }

    @Test
    void conditionalWritesAreAtomic() throws Exception {
        assertNull(letters.putIfAbsent(b("a"), b("1")));
        assertEquals("1", text(letters.putIfAbsent(b("a"), b("2"))));
        assertEquals("1", text(letters.getAndPut(b("a"), b("3"))));
        assertNull(letters.replace(b("none"), b("4")));
        assertEquals("3", text(letters.replace(b("a"), b("4"))));
        assertFalse(letters.compareAndSet(b("a"), b("3"), b("5")));
        assertTrue(letters.compareAndSet(b("a"), b("4"), null));
        assertTrue(letters.compareAndSet(b("a"), null, b("0")));
        List<Thread> threads = new ArrayList<>();
        for (int thread = 0; thread < 4; thread++) {
            threads.add(new Thread(() -> {
                for (int i = 0; i < 500; i++) {
                    byte[] old;
                    do {
                        old = letters.get(b("a"));
                    } while (!letters.compareAndSet(
                            b("a"), old, b("" + (Integer.parseInt(text(old)) + 1))));
                }
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        assertEquals("2000", text(letters.getAndDelete(b("a"))));
        assertNull(letters.get(b("a")));
    }

    @Test
    void aBatchIsAllOrNothing() {
        Keyspace others = db.keyspace("others", "hashed hash:2");
        Batch batch = db.batch();
        batch.put(letters, b("a"), b("1")).put(others, b("b"), b("2")).delete(letters, b("c"));
        assertEquals(3, batch.size());
        assertNull(letters.get(b("a")));
        batch.commit(true);
        assertEquals("1", text(letters.get(b("a"))));
        assertEquals("2", text(others.get(b("b"))));
        assertEquals(0, batch.size());
        batch.put(letters, b("a"), b("3")).put(letters, new byte[70_000], b("too long"));
        assertThrows(IllegalArgumentException.class, batch::commit);
        assertEquals("1", text(letters.get(b("a"))));
        batch.clear();
        batch.deleteRange(letters, KeyRange.all()).put(letters, b("d"), b("4")).commit();
        assertEquals("d", keys(KeyRange.all()));
    }

    @Test
    void aBatchOfOwnWritesReadsThem() {
        putAll("a", "b");
        try (IndexedBatch batch = db.indexedBatch()) {
            batch.put(letters, b("c"), b("C")).delete(letters, b("a"));
            assertEquals("b c", keys(batch.view(letters).iterate(KeyRange.all())));
            IndexedBatch.Savepoint savepoint = batch.savepoint();
            batch.deletePrefix(letters, b("b"));
            assertEquals("c", keys(batch.view(letters).iterate(KeyRange.all())));
            batch.rollBackTo(savepoint);
            assertEquals("a b", keys(KeyRange.all()));
            assertTrue(batch.memoryBytes() > 0);
            batch.commit();
        }
        assertEquals("b c", keys(KeyRange.all()));
    }

    @Test
    void aConflictNamesTheKey() {
        letters.put(b("balance"), b("1"));
        try (Transaction first = db.transaction()) {
            first.view(letters).get(b("balance"));
            first.put(letters, b("balance"), b("2"));
            letters.put(b("balance"), b("3"));
            ConflictException e = assertThrows(ConflictException.class, first::commit);
            assertEquals(Optional.of("letters"), e.keyspace());
            assertEquals(Optional.of(Bytes.utf8("balance")), e.key());
        }
        int[] attempts = {0};
        int result = db.transact(transaction -> {
            int old = Integer.parseInt(text(transaction.view(letters).get(b("balance"))));
            if (attempts[0]++ == 0) {
                letters.put(b("balance"), b("10"));
            }
            transaction.put(letters, b("balance"), b("" + (old + 1)));
            return old;
        });
        assertEquals(10, result);
        assertEquals(2, attempts[0]);
        assertEquals("11", text(letters.get(b("balance"))));
    }

    @Test
    void aSnapshotStaysAsItWas() {
        putAll("a", "b");
        try (Snapshot snapshot = db.snapshot()) {
            letters.delete(b("a"));
            putAll("c");
            assertEquals("a b", keys(snapshot.view(letters).iterate(KeyRange.all())));
            assertEquals("b a", keys(snapshot.view(letters).iterate(KeyRange.all().reversed())));
            assertEquals("A", text(snapshot.view(letters).get(b("a"))));
            assertNull(snapshot.view(letters).get(b("c")));
        }
        assertEquals("b c", keys(KeyRange.all()));
    }

    @Test
    void operandsAreMerged() {
        Keyspace lists = db.keyspace("lists", "merge:append");
        lists.merge(b("a"), b("1"));
        lists.merge(b("a"), b("2"));
        db.batch().merge(lists, b("a"), b("3")).commit();
        assertEquals("123", text(lists.get(b("a"))));
        assertThrows(UnsupportedOperationException.class, () -> letters.merge(b("a"), b("1")));
    }

    @Test
    void valuesExpire() throws Exception {
        Instant until = Instant.now().plusSeconds(3600);
        letters.put(b("a"), b("1"), until);
        assertEquals(until.toEpochMilli(), letters.expiry(b("a")).get().toEpochMilli());
        assertTrue(letters.persist(b("a")));
        assertEquals(Optional.empty(), letters.expiry(b("a")));
        assertTrue(letters.expire(b("a"), Duration.ofMillis(1)));
        assertFalse(letters.expire(b("none"), Duration.ofMillis(1)));
        for (int i = 0; letters.get(b("a")) != null; i++) {
            assertTrue(i < 1000, "a value of a millisecond is still there");
            Thread.sleep(10);
        }
        letters.setTimeToLive(Duration.ofHours(1));
        assertEquals(Optional.of(Duration.ofHours(1)), letters.timeToLive());
        letters.put(b("b"), b("2"));
        assertTrue(letters.expiry(b("b")).isPresent());
    }

    @Test
    void asynchronousCallsAnswer() throws Exception {
        List<CompletableFuture<Void>> puts = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            puts.add(letters.putAsync(b("k" + i), b("v" + i)));
        }
        CompletableFuture.allOf(puts.toArray(new CompletableFuture<?>[0])).get();
        for (int i = 0; i < 1000; i++) {
            assertEquals("v" + i, text(letters.getAsync(b("k" + i)).get()));
        }
        assertNull(letters.getAsync(b("none")).get());
        db.flush().await();
        db.close();
        open();
        List<CompletableFuture<byte[]>> gets = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            gets.add(letters.getAsync(b("k" + i)));
        }
        for (int i = 0; i < 1000; i++) {
            assertEquals("v" + i, text(gets.get(i).get()));
        }
        letters.deleteAsync(b("k1")).get();
        db.batch().put(letters, b("k2"), b("w")).commitAsync(true).get();
        db.barrier().get();
        List<byte[]> values = letters.multiGetAsync(List.of(b("k1"), b("k2"))).get();
        assertNull(values.get(0));
        assertEquals("w", text(values.get(1)));
        assertEquals("k0", text(letters.scanAsync(KeyRange.all(), 3).get().get(0).key()));
        CompletableFuture<Void> refused = letters.putAsync(new byte[70_000], b("too long"));
        CompletionException e = assertThrows(CompletionException.class, refused::join);
        assertTrue(e.getCause() instanceof IllegalArgumentException, e.toString());
    }

    @Test
    void sortedEntriesAreLoaded() {
        try (BulkLoad load = letters.bulkLoad()) {
            for (int i = 0; i < 100_000; i++) {
                load.put(b(String.format("%06d", i)), b("value of " + i));
            }
            assertNull(letters.get(b("000001")));
            assertEquals(100_000, load.finish().entries());
        }
        assertEquals("value of 99999", text(letters.get(b("099999"))));
        assertEquals(100_000, letters.count(KeyRange.all()));
        try (BulkLoad load = letters.bulkLoad()) {
            load.put(b("b"), b("1"));
            load.put(b("a"), b("2"));
            IllegalArgumentException e = assertThrows(IllegalArgumentException.class, load::finish);
            assertTrue(e.getMessage().contains("a"), e.getMessage());
        }
        try (BulkLoad load = letters.bulkLoad()) {
            load.put(b("given up"), b("1"));
        }
        assertEquals(100_000, letters.count(KeyRange.all()));
    }

    @Test
    void copiesOpenLikeOthers() {
        putAll("a", "b");
        Backups backups = new Backups(dir.resolve("backups"));
        Backup backup = backups.create(db).await();
        db.checkpoint(dir.resolve("copy")).await();
        letters.clear();
        assertEquals(1, backups.list().size());
        assertEquals(backup.id(), backups.verify().await().id());
        backups.restore(dir.resolve("restored")).await();
        for (String copy : List.of("copy", "restored")) {
            try (Hedgerow other = Hedgerow.open(dir.resolve(copy))) {
                assertEquals("B", text(other.keyspace("letters").get(b("b"))));
            }
        }
        assertEquals(0, backups.prune(1));
    }

    @Test
    void theDatabaseTellsAboutItself() {
        putAll("a", "b");
        db.flush().await();
        letters.compact(KeyRange.all()).await();
        letters.waitUntilMerged().await();
        assertEquals(2, db.verify().await().entries());
        assertEquals(2L, db.stats().get("puts"));
        assertEquals("letters", db.stats().get("keyspaces.letters.name"));
        assertTrue(db.statsJson().startsWith("{"));
        assertTrue(db.prometheus().contains("hedgerow_"));
        assertEquals("sorted", letters.layout());
        assertTrue(letters.design().contains("filter"));
        assertEquals(2, letters.approximateEntries(KeyRange.all()));
        assertTrue(letters.approximateBytes(KeyRange.all()) > 0);
    }

    @Test
    void keyspacesAreMadeAndDropped() {
        db.keyspaces(List.of("x", "y"), "hashed", "");
        assertEquals(List.of("letters", "x", "y"), db.keyspaceNames());
        db.renameKeyspace("x", "z");
        db.dropKeyspace("y");
        assertEquals(List.of("letters", "z"), db.keyspaceNames());
        assertEquals("hashed", db.existingKeyspace("z").get().layout());
        assertEquals(Optional.empty(), db.existingKeyspace("y"));
        assertThrows(IllegalArgumentException.class, () -> db.keyspace("letters", "hashed"));
        assertThrows(IllegalArgumentException.class, () -> db.keyspace("n", "upside-down"));
    }

    @Test
    void aDirectoryHasOneWriter() {
        assertTrue(Hedgerow.exists(dir.resolve("db")));
        assertThrows(LockedException.class, () -> Hedgerow.open(dir.resolve("db")));
        Options none = new Options().createIfMissing(false);
        assertThrows(IllegalArgumentException.class, () -> Hedgerow.open(dir.resolve("no"), none));
        Options wrong = new Options().set("speed", "high");
        assertThrows(IllegalArgumentException.class, () -> Hedgerow.open(dir.resolve("no"), wrong));
        db.close();
        Hedgerow.destroy(dir.resolve("db"));
        assertFalse(Hedgerow.exists(dir.resolve("db")));
    }

    @Test
    void sharesOpenAndCloseADatabaseOnce() {
        Path shared = dir.resolve("shared");
        SharedHedgerow first = SharedHedgerow.open(shared, new Options());
        SharedHedgerow second = SharedHedgerow.open(shared.resolve("../shared"), new Options());
        assertSame(first.database(), second.database());
        first.close();
        first.close();
        assertThrows(IllegalStateException.class, first::database);
        Hedgerow open = second.database();
        assertTrue(open.isOpen());
        second.close();
        assertFalse(open.isOpen());
        try (SharedHedgerow third = SharedHedgerow.open(shared, new Options())) {
            assertNotSame(open, third.database());
        }
    }

    @Test
    void whatDependsOnACallMayWaitForAnother() throws Exception {
        // Some of the flushes are not done when the dependent comes.
        for (int round = 0; round < 20; round++) {
            putAll("a" + round);
            db.flush()
                    .thenRun(() -> letters.compact(KeyRange.all()).join())
                    .get(60, TimeUnit.SECONDS);
        }
        Hedgerow refusing =
                Hedgerow.open(
                        dir.resolve("refusing"),
                        new Options()
                                .executor(
                                        task -> {
                                            throw new RejectedExecutionException("no");
                                        }));
        try (refusing) {
            CompletableFuture<Void> put = refusing.keyspace("k").putAsync(b("a"), b("1"));
            CompletionException failed = assertThrows(CompletionException.class, put::join);
            assertTrue(failed.getCause() instanceof RejectedExecutionException, failed.toString());
            refusing.flush().get(60, TimeUnit.SECONDS);
        }
    }

    @Test
    void aValueIsNotCopiedIntoABufferThatIsReadOnly() {
        putAll("a");
        ByteBuffer key = ByteBuffer.allocateDirect(1).put(b("a")).flip();
        ByteBuffer value = ByteBuffer.allocateDirect(10);
        assertThrows(
                ReadOnlyBufferException.class, () -> letters.get(key, value.asReadOnlyBuffer()));
        assertEquals(1, letters.get(key, value));
    }
}
