package io.hedgerow;

import static io.hedgerow.EngineTest.b;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** A mistake of a caller is an exception, and forgotten objects are collected. */
@Timeout(120)
class SafetyTest {
    private static final int SMALL = 8 << 20;

    @TempDir Path dir;

    private Hedgerow open() {
        return Hedgerow.open(dir.resolve("db"), new Options().memoryBudget(SMALL));
    }

    private static void refused(Executable call) {
        assertThrows(IllegalStateException.class, call);
    }

    private static void fill(Keyspace keyspace, int entries) {
        Batch batch = keyspace.database().batch();
        for (int i = 0; i < entries; i++) {
            batch.put(keyspace, b(String.format("%08d", i)), new byte[100]);
        }
        batch.commit();
    }

    /** The keys that {@link #fill} writes. */
    private static List<byte[]> keys(int count) {
        return IntStream.range(0, count)
                .mapToObj(i -> b(String.format("%08d", i)))
                .collect(Collectors.toList());
    }

    @Test
    void whatAClosedDatabaseMadeIsClosed() {
        Hedgerow db = open();
        Keyspace keyspace = db.keyspace("k");
        fill(keyspace, 10_000);
        Snapshot snapshot = db.snapshot();
        IndexedBatch batch = db.indexedBatch();
        Transaction transaction = db.transaction();
        Batch plain = db.batch().put(keyspace, b("a"), b("1"));
        EntryIterator entries = keyspace.iterate(KeyRange.all());
        BulkLoad load = keyspace.bulkLoad();
        Map<Bytes, Bytes> map = keyspace.asMap();
        entries.next();
        db.close();
        db.close();
        assertFalse(db.isOpen());
        refused(() -> keyspace.get(b("a")));
        refused(() -> keyspace.put(b("a"), b("1")));
        refused(() -> keyspace.iterate(KeyRange.all()));
        refused(() -> keyspace.getAsync(b("a")));
        refused(() -> keyspace.flush());
        refused(() -> snapshot.view(keyspace).get(b("a")));
        refused(() -> batch.view(keyspace).get(b("a")));
        refused(() -> batch.put(keyspace, b("a"), b("1")).commit());
        refused(transaction::commit);
        refused(plain::commit);
        refused(load::finish);
        refused(() -> map.get(Bytes.EMPTY));
        refused(db::snapshot);
        refused(db::batch);
        refused(() -> entries.forEachRemaining(entry -> {}));
        entries.close();
        snapshot.close();
        batch.close();
        transaction.close();
        load.close();
        assertEquals("Keyspace(closed)", keyspace.toString());
    }

    @Test
    void whatIsClosedStaysClosed() {
        try (Hedgerow db = open()) {
            Keyspace keyspace = db.keyspace("k");
            fill(keyspace, 10_000);
            Snapshot snapshot = db.snapshot();
            EntryIterator outlives = snapshot.view(keyspace).iterate(KeyRange.all());
            snapshot.close();
            snapshot.close();
            refused(() -> snapshot.view(keyspace).get(b("a")));
            assertEquals(10_000, outlives.toList().size());
            EntryIterator entries = keyspace.iterate(KeyRange.all());
            entries.close();
            entries.close();
            refused(entries::hasNext);
            IndexedBatch batch = db.indexedBatch();
            batch.commit();
            refused(batch::commit);
            refused(() -> batch.view(keyspace).get(b("a")));
            batch.close();
            db.dropKeyspace("k");
            refused(() -> keyspace.get(b("a")));
            assertThrows(NullPointerException.class, () -> db.batch().put(keyspace, null, b("")));
            assertThrows(IllegalArgumentException.class, () -> keyspace.get((byte[]) null));
        }
    }

    @Test
    void thingsOfAnotherDatabaseAreRefused() {
        try (Hedgerow db = open();
                Hedgerow other = Hedgerow.open(dir.resolve("other"))) {
            Keyspace keyspace = db.keyspace("k");
            Keyspace foreign = other.keyspace("k");
            assertThrows(
                    IllegalArgumentException.class, () -> db.batch().put(foreign, b("a"), b("1")));
            try (Snapshot snapshot = other.snapshot()) {
                assertThrows(
                        IllegalArgumentException.class, () -> snapshot.view(keyspace).get(b("a")));
            }
            try (IndexedBatch batch = other.indexedBatch()) {
                assertThrows(
                        IllegalArgumentException.class, () -> batch.view(keyspace).get(b("a")));
            }
        }
    }

    /** Calls every native method with arguments that no Java class here passes. */
    @Test
    void nativeMethodsTakeAnything() throws Exception {
        try (Hedgerow db = open()) {
            Keyspace keyspace = db.keyspace("k");
            fill(keyspace, 100);
            Object[] receivers = {
                db, keyspace, db.batch(), db.indexedBatch(), keyspace.iterate(KeyRange.all()),
                keyspace.bulkLoad(), new Backups(dir.resolve("backups"))
            };
            Class<?>[] classes = {
                Hedgerow.class, Keyspace.class, ReadView.class, Batch.class, IndexedBatch.class,
                EntryIterator.class, BulkLoad.class, Backups.class, Ref.class, Calls.class
            };
            Random random = new Random(7);
            int calls = 0;
            for (Class<?> type : classes) {
                for (Method method : type.getDeclaredMethods()) {
                    // One waits for answers, two would write outside of this test's folder.
                    if (!Modifier.isNative(method.getModifiers())
                            || List.of("take0", "checkpoint0", "restore0").contains(method.getName())) {
                        continue;
                    }
                    for (int round = 0; round < 200; round++) {
                        call(method, type, receivers, random);
                        calls++;
                    }
                }
            }
            assertTrue(calls > 10_000, "native calls: " + calls);
            assertEquals(100, keyspace.count(KeyRange.all()));
            keyspace.put(b("a"), b("1"));
        }
    }

    private void call(Method method, Class<?> type, Object[] receivers, Random random)
            throws Exception {
        method.setAccessible(true);
        Object receiver = null;
        for (Object each : receivers) {
            receiver = type.isInstance(each) ? each : receiver;
        }
        Class<?>[] parameters = method.getParameterTypes();
        Object[] arguments = new Object[parameters.length];
        for (int i = 0; i < arguments.length; i++) {
            arguments[i] = anything(parameters[i], random);
        }
        try {
            method.invoke(receiver, arguments);
        } catch (InvocationTargetException e) {
            assertTrue(e.getCause() instanceof RuntimeException, () -> method + ": " + e.getCause());
            String message = e.getCause().getMessage();
            assertFalse(message.contains("a defect of this library"), () -> method + ": " + message);
        }
    }

    private static Object anything(Class<?> type, Random random) {
        if (type == long.class) {
            long[] numbers = {0, -1, 1, Long.MAX_VALUE, Long.MIN_VALUE, random.nextLong()};
            return numbers[random.nextInt(numbers.length)];
        }
        if (type == int.class) {
            int[] numbers = {0, -1, 1, Integer.MAX_VALUE, Integer.MIN_VALUE, random.nextInt(64)};
            return numbers[random.nextInt(numbers.length)];
        }
        if (type == byte[].class) {
            byte[] bytes = new byte[random.nextInt(64)];
            random.nextBytes(bytes);
            return random.nextInt(4) == 0 ? null : bytes;
        }
        ByteBuffer[] buffers = {null, ByteBuffer.allocate(8), ByteBuffer.allocateDirect(8)};
        return buffers[random.nextInt(buffers.length)];
    }

    @Test
    void aDatabaseIsClosedWhileThreadsUseIt() throws Exception {
        for (int round = 0; round < 5; round++) {
            Hedgerow db = open();
            Keyspace keyspace = db.keyspace("k");
            fill(keyspace, 5_000);
            AtomicReference<Throwable> wrong = new AtomicReference<>();
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < 6; i++) {
                int kind = i;
                Thread thread = new Thread(() -> {
                    try {
                        for (int n = 0; ; n++) {
                            use(db, keyspace, kind, b(String.format("%08d", n % 5_000)));
                        }
                    } catch (IllegalStateException e) {
                        // The database is closed.
                    } catch (Throwable e) {
                        wrong.set(e);
                    }
                });
                threads.add(thread);
                thread.start();
            }
            Thread.sleep(100);
            db.close();
            for (Thread thread : threads) {
                thread.join();
            }
            if (wrong.get() != null) {
                throw new AssertionError(wrong.get());
            }
        }
    }

    private static void use(Hedgerow db, Keyspace keyspace, int kind, byte[] key) {
        switch (kind) {
            case 0:
                keyspace.get(key);
                break;
            case 1:
                keyspace.put(key, key);
                break;
            case 2:
                keyspace.iterate(KeyRange.all()).toList();
                break;
            case 3:
                try (Snapshot snapshot = db.snapshot()) {
                    snapshot.view(keyspace).get(key);
                }
                break;
            case 4:
                db.batch().put(keyspace, key, key).commit(true);
                break;
            default:
                keyspace.putAsync(key, key).handle((done, failure) -> null).join();
        }
    }

    @Test
    void oneIteratorIsUsedByManyThreads() throws Exception {
        try (Hedgerow db = open()) {
            Keyspace keyspace = db.keyspace("k");
            fill(keyspace, 20_000);
            EntryIterator entries = keyspace.iterate(KeyRange.all());
            List<Thread> threads = new ArrayList<>();
            AtomicBoolean closed = new AtomicBoolean();
            for (int i = 0; i < 4; i++) {
                Thread thread = new Thread(() -> {
                    while (!closed.get()) {
                        try {
                            if (!entries.hasNext()) {
                                return;
                            }
                            entries.next();
                        } catch (RuntimeException e) {
                            // It is for one thread at a time. Nothing else may happen.
                        } catch (OutOfMemoryError e) {
                            // A length that two threads have read together.
                        }
                    }
                });
                threads.add(thread);
                thread.start();
            }
            Thread.sleep(200);
            entries.close();
            closed.set(true);
            for (Thread thread : threads) {
                thread.join();
            }
            assertEquals(20_000, keyspace.count(KeyRange.all()));
        }
    }

    @Test
    void whatIsForgottenIsFreed() throws Exception {
        long before = settled();
        forget();
        for (int i = 0; settled() > before; i++) {
            assertTrue(i < 200, () -> "objects: " + Ref.objects() + ", before: " + before);
        }
        // The lock is free, too.
        open().close();
    }

    private void forget() {
        Hedgerow db = open();
        Keyspace keyspace = db.keyspace("k");
        fill(keyspace, 10_000);
        for (int i = 0; i < 100; i++) {
            keyspace.iterate(KeyRange.all()).next();
            db.snapshot();
            db.indexedBatch();
        }
    }

    private static long settled() throws InterruptedException {
        System.gc();
        Thread.sleep(50);
        return Ref.objects();
    }

    @Test
    void anIteratorKeepsItsDatabase() throws Exception {
        EntryIterator entries = forgottenBehindAnIterator();
        for (int i = 0; i < 5; i++) {
            settled();
        }
        assertEquals(10_000, entries.toList().size());
    }

    private EntryIterator forgottenBehindAnIterator() {
        Keyspace keyspace = open().keyspace("k");
        fill(keyspace, 10_000);
        return keyspace.iterate(KeyRange.all());
    }

    @Test
    void whoWaitsCanBeInterrupted() throws Exception {
        try (Hedgerow db = open()) {
            Keyspace keyspace = db.keyspace("k");
            // A load waits for entries, so it has not ended when the thread begins to wait for it.
            try (BulkLoad load = keyspace.bulkLoad()) {
                Thread.currentThread().interrupt();
                assertThrows(InterruptedCallException.class, load.loading::await);
                assertTrue(Thread.interrupted());
            }
            try (BulkLoad load = keyspace.bulkLoad()) {
                load.loading.cancel(true);
                assertThrows(CancelledException.class, load.loading::await);
            }
        }
    }

    /**
     * Makes a call by an interrupted thread. It may end before it is waited for, so there are many.
     */
    private static void leftByAnInterrupt(Runnable call) {
        for (int attempt = 0; attempt < 1000; attempt++) {
            Thread.currentThread().interrupt();
            try {
                call.run();
            } catch (InterruptedCallException e) {
                assertTrue(Thread.interrupted());
                return;
            }
            assertTrue(Thread.interrupted());
        }
        fail("no call was left");
    }

    private static void comesTrue(BooleanSupplier condition) {
        while (!condition.getAsBoolean()) {
            Thread.onSpinWait();
        }
    }

    @Test
    void anInterruptLeavesTheWorkInTheBackground() {
        Hedgerow db = open();
        Keyspace keyspace = db.keyspace("k");
        byte[] large = new byte[1 << 20];
        Batch batch = db.batch();
        leftByAnInterrupt(() -> batch.put(keyspace, b("a"), large).commit());
        assertEquals(0, batch.bytes());
        comesTrue(() -> keyspace.get(b("a")) != null);
        leftByAnInterrupt(
                () -> {
                    try (IndexedBatch indexed = db.indexedBatch()) {
                        indexed.put(keyspace, b("b"), large).commit();
                    }
                });
        comesTrue(() -> keyspace.get(b("b")) != null);
        leftByAnInterrupt(keyspace::clear);
        comesTrue(() -> keyspace.get(b("a")) == null && keyspace.get(b("b")) == null);
        leftByAnInterrupt(() -> keyspace.retune("policy = tiering:4"));
        comesTrue(() -> keyspace.design().contains("tiering:4"));
        leftByAnInterrupt(
                () -> {
                    db.keyspace("dropped");
                    db.dropKeyspace("dropped");
                });
        comesTrue(() -> db.existingKeyspace("dropped").isEmpty());
        leftByAnInterrupt(
                () -> {
                    keyspace.put(b("s"), b("1"));
                    db.sync();
                });
        Keyspace many = db.keyspace("many");
        fill(many, 20_000);
        Thread.currentThread().interrupt();
        assertThrows(InterruptedCallException.class, () -> many.count(KeyRange.all()));
        assertTrue(Thread.interrupted());
        assertEquals(20_000, many.count(KeyRange.all()));
        Thread.currentThread().interrupt();
        assertThrows(InterruptedCallException.class, () -> many.multiGet(keys(20_000)));
        assertTrue(Thread.interrupted());
        assertEquals(100, many.multiGet(keys(20_000)).get(19_999).length);
        AtomicInteger opened = new AtomicInteger();
        leftByAnInterrupt(() -> openSmall(opened.incrementAndGet()).close());
        // The open that was left has begun, and has ended.
        comesTrue(() -> Hedgerow.exists(dir.resolve("" + opened)));
        comesTrue(() -> opensAndCloses(opened.get()));
        // A small commit and the end of a database are not left.
        Thread.currentThread().interrupt();
        batch.put(keyspace, b("c"), b("1")).commit();
        db.close();
        assertTrue(Thread.interrupted());
        assertFalse(db.isOpen());
        open().close();
    }

    private Hedgerow openSmall(int name) {
        return Hedgerow.open(dir.resolve("" + name), new Options().memoryBudget(SMALL));
    }

    private boolean opensAndCloses(int name) {
        try {
            openSmall(name).close();
            return true;
        } catch (LockedException e) {
            return false;
        }
    }

    /** Writes values until an interrupt ends a wait for memory. Returns the last key. */
    private static String leftWaiting(Consumer<String> write) {
        int[] last = {0};
        Thread.currentThread().interrupt();
        assertThrows(
                InterruptedCallException.class,
                () -> {
                    while (last[0] < 100_000) {
                        write.accept(String.valueOf(++last[0]));
                    }
                });
        assertTrue(Thread.interrupted());
        return String.valueOf(last[0]);
    }

    @Test
    void aLoadThatHasNoRoomIsLeft() {
        Options slow = new Options().set("io_bytes_per_second", "1000000");
        try (Hedgerow db = Hedgerow.open(dir.resolve("db"), slow)) {
            Keyspace keyspace = db.keyspace("k");
            byte[] value = new byte[1000];
            new Random(1).nextBytes(value);
            int[] entries = {0};
            try (BulkLoad load = keyspace.bulkLoad()) {
                Thread.currentThread().interrupt();
                assertThrows(
                        InterruptedCallException.class,
                        () -> {
                            while (entries[0] < 100_000) {
                                load.put(b(String.format("%08d", entries[0])), value);
                                entries[0]++;
                            }
                        });
                assertTrue(Thread.interrupted());
                // The load has not taken the last entry, and goes on.
                load.put(b(String.format("%08d", entries[0])), value);
                assertEquals(entries[0] + 1, load.finish().entries());
            }
            assertEquals(entries[0] + 1, keyspace.count(KeyRange.all()));
        }
    }

    @Test
    void aWriteThatWaitsForMemoryIsLeftUnwritten() {
        // Flushes are slower than writes.
        Options slow = new Options().memoryBudget(4 << 20).set("io_bytes_per_second", "500000");
        try (Hedgerow db = Hedgerow.open(dir.resolve("db"), slow)) {
            Keyspace keyspace = db.keyspace("k");
            byte[] value = new byte[4000];
            new Random(1).nextBytes(value);
            String last = leftWaiting(key -> keyspace.put(b(key), value));
            assertNull(keyspace.get(b(last)));
            keyspace.put(b(last), value);
            assertTrue(keyspace.get(b("1")) != null && keyspace.get(b(last)) != null);

            Batch batch = db.batch();
            last = leftWaiting(key -> batch.put(keyspace, b("batch " + key), value).commit());
            assertNull(keyspace.get(b("batch " + last)));
            batch.commit();
            assertTrue(keyspace.get(b("batch " + last)) != null);

            Transaction[] open = {null};
            last =
                    leftWaiting(
                            key -> {
                                open[0] = db.transaction();
                                open[0].put(keyspace, b("transaction " + key), value).commit();
                            });
            assertNull(keyspace.get(b("transaction " + last)));
            open[0].commit();
            assertTrue(keyspace.get(b("transaction " + last)) != null);
        }
    }

    @Test
    void aDatabaseIsClosedInTheBackground() {
        Hedgerow db = open();
        Keyspace keyspace = db.keyspace("k");
        keyspace.put(b("a"), b("1"));
        Call<Void> closing = db.closeAsync();
        assertFalse(db.isOpen());
        closing.await();
        db.closeAsync().await();
        db.close();
        refused(() -> keyspace.get(b("a")));
        try (Hedgerow again = open()) {
            assertEquals(1, again.keyspace("k").get(b("a")).length);
        }
    }
}
