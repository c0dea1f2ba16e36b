package io.hedgerow;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;

/**
 * An open database: a directory of keyspaces, which share one memory budget, one log and one set of
 * threads.
 *
 * <pre>{@code
 * try (Hedgerow db = Hedgerow.open(Path.of("data"))) {
 *     Keyspace users = db.keyspace("users");
 *     users.put("ada".getBytes(), "1815".getBytes());
 *     try (EntryIterator all = users.iterate(KeyRange.all())) {
 *         all.forEachRemaining(System.out::println);
 *     }
 * }
 * }</pre>
 */
public final class Hedgerow implements AutoCloseable {
    static {
        NativeLibrary.load();
    }

    private static final String SORTED = "sorted";
    /** The attempts of a transaction after which it waits, and the longest wait. */
    private static final int ATTEMPTS_AT_ONCE = 2;

    private static final long WAIT_NANOS_MAX = 2_000_000;

    final Ref ref;
    final Executor executor;
    private final Path dir;

    private Hedgerow(Path dir, Executor executor, long handle) {
        this.dir = dir;
        this.executor = executor;
        ref = new Ref(this, Ref.DATABASE, handle);
    }

    /** Opens or creates a database with a memory budget of 256 MiB. */
    public static Hedgerow open(Path dir) {
        return open(dir, new Options());
    }

    /**
     * Opens or creates a database. Replays the writes that only its log has.
     *
     * @throws LockedException if it is open for writing
     * @throws CorruptionException if its files are damaged
     * @throws IllegalArgumentException for an option out of bounds, or a database that does not
     *     exist and must not be created
     * @throws InterruptedCallException if the thread is interrupted
     */
    public static Hedgerow open(Path dir, Options options) {
        byte[] packed = options.pack();
        Executor executor = options.executor;
        Call<Hedgerow> opening =
                Calls.start(
                        id -> open0(id, path(dir), packed),
                        handle -> new Hedgerow(dir, executor, new Unpacker(handle).nextLong()),
                        null);
        try {
            return opening.await();
        } catch (InterruptedCallException e) {
            opening.thenAccept(Hedgerow::close);
            throw e;
        }
    }

    /** Returns true if a directory has a database, also a damaged one. */
    public static boolean exists(Path dir) {
        return exists0(path(dir)) != 0;
    }

    /** Removes the files of a database, and nothing else. It must not be open. */
    public static void destroy(Path dir) {
        Calls.start(id -> destroy0(id, path(dir))).await();
    }

    // ---- keyspaces ----

    /** Opens or creates a keyspace whose keys are sorted. */
    public Keyspace keyspace(String name) {
        return keyspace(name, SORTED);
    }

    /**
     * Opens or creates a keyspace with a layout: an order of keys ({@code sorted}, {@code
     * semi-sorted:8}, {@code hashed}), a partitioning ({@code hash:4}) and a merge operator ({@code
     * merge:append}), all optional.
     *
     * @throws IllegalArgumentException if it exists with another layout
     */
    public Keyspace keyspace(String name, String layout) {
        return new Keyspace(
                this,
                keyspace0(ref.get(), Keyspace.utf8(name), Keyspace.utf8(layout), null));
    }

    /**
     * Opens or creates a keyspace with a layout and a design: lines such as {@code filter =
     * bloom:10}.
     */
    public Keyspace keyspace(String name, String layout, String design) {
        byte[] text = Keyspace.utf8(design);
        return new Keyspace(
                this,
                keyspace0(ref.get(), Keyspace.utf8(name), Keyspace.utf8(layout), text));
    }

    /** Opens several keyspaces, and creates the missing ones together. Cost: one sync for all. */
    public List<Keyspace> keyspaces(Collection<String> names, String layout, String design) {
        Packer packed = new Packer(32 * names.size());
        names.forEach(packed::add);
        Unpacker handles =
                new Unpacker(
                        createKeyspaces0(
                                ref.get(),
                                packed.toArray(),
                                Keyspace.utf8(layout),
                                Keyspace.utf8(design)));
        List<Keyspace> keyspaces = new ArrayList<>();
        while (handles.hasNext()) {
            keyspaces.add(new Keyspace(this, handles.nextLong()));
        }
        return keyspaces;
    }

    /** An existing keyspace of any layout. */
    public Optional<Keyspace> existingKeyspace(String name) {
        long handle = existingKeyspace0(ref.get(), Keyspace.utf8(name));
        return handle == 0 ? Optional.empty() : Optional.of(new Keyspace(this, handle));
    }

    /** The names of all keyspaces, sorted. */
    public List<String> keyspaceNames() {
        List<String> names = new ArrayList<>();
        for (Unpacker packed = new Unpacker(keyspaces0(ref.get())); packed.hasNext(); ) {
            names.add(packed.nextText());
        }
        return names;
    }

    /** Drops a keyspace with everything in it, durably. Later calls with it are refused. */
    public void dropKeyspace(String name) {
        Calls.start(id -> dropKeyspace0(id, ref.get(), Keyspace.utf8(name))).await();
    }

    /** Gives a keyspace another name, durably. What was made from it stays in use. */
    public void renameKeyspace(String from, String to) {
        byte[] old = Keyspace.utf8(from);
        Calls.start(id -> renameKeyspace0(id, ref.get(), old, Keyspace.utf8(to))).await();
    }

    // ---- batches, snapshots and transactions ----

    /** An empty batch of writes. */
    public Batch batch() {
        ref.get();
        return new Batch(this);
    }

    /** An empty batch that reads its own writes, of at most 64 MiB. */
    public IndexedBatch indexedBatch() {
        return indexedBatch(Transaction.Options.serializable().memoryBytesMax);
    }

    /** An empty batch that reads its own writes, of at most these bytes of memory. */
    public IndexedBatch indexedBatch(long memoryBytesMax) {
        return new IndexedBatch(this, ownBatch0(ref.get(), 0, 0, memoryBytesMax));
    }

    /** Begins a serializable transaction. */
    public Transaction transaction() {
        return transaction(Transaction.Options.serializable());
    }

    /** Begins a transaction. */
    public Transaction transaction(Transaction.Options options) {
        int isolation = options.snapshotIsolation ? 2 : 1;
        int sync = options.sync ? 1 : 0;
        long handle = ownBatch0(ref.get(), isolation, sync, options.memoryBytesMax);
        return new Transaction(this, handle, options.sync);
    }

    /**
     * Calls a function with a transaction and commits it, again and again until nobody comes first.
     */
    public <T> T transact(Function<Transaction, T> body) {
        return transact(Transaction.Options.serializable(), body);
    }

    /**
     * Calls a function with a transaction and commits it, again and again until nobody comes first.
     *
     * @throws ConflictException after the attempts that the options allow
     */
    public <T> T transact(Transaction.Options options, Function<Transaction, T> body) {
        for (int attempts = 1; ; attempts++) {
            try (Transaction transaction = transaction(options)) {
                T result = body.apply(transaction);
                transaction.commit();
                return result;
            } catch (ConflictException e) {
                if (attempts >= options.attemptsMax) {
                    throw e;
                }
            }
            if (attempts > ATTEMPTS_AT_ONCE) {
                long longest = Math.min(20_000L << Math.min(attempts, 10), WAIT_NANOS_MAX);
                LockSupport.parkNanos(ThreadLocalRandom.current().nextLong(longest / 2, longest));
            }
        }
    }

    /** The state of all keyspaces now. */
    public Snapshot snapshot() {
        return new Snapshot(this, snapshot0(ref.get()));
    }

    // ---- the whole database ----

    /** Makes everything written so far durable. */
    public void sync() {
        syncAsync().await();
    }

    /** Makes everything written so far durable. */
    public Call<Void> syncAsync() {
        return Calls.start(id -> sync0(id, ref.get()));
    }

    /** Ends when all asynchronous calls made before have ended. */
    public CompletableFuture<Void> barrier() {
        return Calls.start(id -> barrier0(id, ref.get()), answer -> null, executor);
    }

    /** Writes the entries of all memtables to tables. */
    public Call<Void> flush() {
        return Calls.start(id -> flush0(id, ref.get()));
    }

    /**
     * Copies the database as it is now into a new directory, which opens like any other. A table on
     * the same file system is linked. It cannot be cut short.
     */
    public Call<Void> checkpoint(Path dir) {
        return Calls.start(id -> checkpoint0(id, ref.get(), path(dir)));
    }

    /** Reads everything and checks every checksum. Tells its progress and can be cancelled. */
    public Call<VerifyReport> verify() {
        return Calls.start(id -> verify0(id, ref.get()), VerifyReport::new, null);
    }

    /** The statistics as JSON. Times are microseconds. */
    public String statsJson() {
        return Keyspace.text(stats0(ref.get()));
    }

    /**
     * The statistics by path: numbers ({@link Long}, {@link Double}), texts and truth values.
     * {@code memory.page_cache}, {@code keyspaces.users.memtable_bytes}.
     */
    public Map<String, Object> stats() {
        return Stats.unpack(statsMap0(ref.get()));
    }

    /** The statistics in the text format of Prometheus. */
    public String prometheus() {
        return Keyspace.text(prometheus0(ref.get()));
    }

    /** The directory that it was opened in. */
    public Path directory() {
        return dir;
    }

    /** Returns true until it is closed. */
    public boolean isOpen() {
        return ref.isOpen();
    }

    /**
     * Makes everything durable and closes the database. What was made from it is closed as well; a
     * call that is running on another thread ends with its result or as {@link
     * IllegalStateException}.
     *
     * <p>An interrupt does not end it: whoever opens the directory next must find the database
     * closed. It takes a sync, and the end of calls and merges that are running. {@link
     * #closeAsync} can be waited for otherwise.
     *
     * @throws StorageException if the log could not be made durable; it is closed all the same
     */
    @Override
    public void close() {
        ref.close();
    }

    /** Closes the database, as {@link #close} does. It cannot be cut short. */
    public Call<Void> closeAsync() {
        long handle = ref.take();
        if (handle == 0) {
            Call<Void> closed = new Call<>(0);
            closed.complete(null);
            return closed;
        }
        try {
            return Calls.start(id -> close0(id, handle));
        } catch (RuntimeException e) {
            ref.putBack(handle);
            throw e;
        }
    }

    /**
     * Waits while a write that begins now would wait for a flush. An interrupt ends that, before
     * anything is written.
     */
    void awaitMemory() {
        while (writesWait0(ref.get()) != 0) {
            long db = ref.get();
            Calls.start(id -> waitForMemory0(id, db)).await();
        }
    }

    @Override
    public String toString() {
        return "Hedgerow(" + dir + ")";
    }

    /** A path in UTF-8. */
    static byte[] path(Path path) {
        return Keyspace.utf8(path.toAbsolutePath().toString());
    }

    private static native void open0(long id, byte[] dir, byte[] options);

    private static native void close0(long id, long db);

    private static native int exists0(byte[] dir);

    private static native void destroy0(long id, byte[] dir);

    private native long keyspace0(long db, byte[] name, byte[] layout, byte[] design);

    private native byte[] createKeyspaces0(long db, byte[] names, byte[] layout, byte[] design);

    private native long existingKeyspace0(long db, byte[] name);

    private native byte[] keyspaces0(long db);

    private native void dropKeyspace0(long id, long db, byte[] name);

    private native void renameKeyspace0(long id, long db, byte[] from, byte[] to);

    private native long ownBatch0(long db, int isolation, int sync, long memoryBytes);

    private native int writesWait0(long db);

    private native void waitForMemory0(long id, long db);

    private native long snapshot0(long db);

    private native void sync0(long id, long db);

    private native void barrier0(long id, long db);

    private native void flush0(long id, long db);

    private native void checkpoint0(long id, long db, byte[] dir);

    private native void verify0(long id, long db);

    private native byte[] stats0(long db);

    private native byte[] statsMap0(long db);

    private native byte[] prometheus0(long db);
}
