package io.hedgerow;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentNavigableMap;
import java.util.function.LongToIntFunction;

/**
 * A named map from keys to values, of a database. A key has at most 64 KiB, a value at most 64 MiB.
 * Made by {@link Hedgerow#keyspace(String)}. It needs no closing: it ends with its database, or
 * when it is dropped.
 *
 * <p>Writes are buffered: they survive the end of the process at once, and that of the machine
 * after the next {@link Hedgerow#sync}. Those of a {@link Batch} may be synced one by one.
 */
public final class Keyspace extends ReadView {
    final Hedgerow db;
    final Ref ref;

    Keyspace(Hedgerow db, long handle) {
        this.db = db;
        ref = new Ref(this, Ref.KEYSPACE, handle);
    }

    @Override
    int kind() {
        return 0;
    }

    @Override
    long source() {
        return 0;
    }

    @Override
    Keyspace keyspace() {
        return this;
    }

    /** The database. */
    public Hedgerow database() {
        return db;
    }

    // ---- writes ----

    /** Gives a key a value. */
    public void put(byte[] key, byte[] value) {
        write(keyspace -> put0(keyspace, key, value));
    }

    /**
     * Gives a key a value. Both are the remaining bytes of direct buffers, whose positions stay.
     */
    public void put(ByteBuffer key, ByteBuffer value) {
        write(
                keyspace ->
                        putDirect0(
                                keyspace,
                                direct(key),
                                key.position(),
                                key.remaining(),
                                direct(value),
                                value.position(),
                                value.remaining()));
    }

    /** Gives a key a value for a time, in milliseconds. */
    public void put(byte[] key, byte[] value, Duration time) {
        write(keyspace -> putExpiring0(keyspace, key, value, Expiry.AFTER, time.toMillis()));
    }

    /** Gives a key a value until a moment, to the millisecond. */
    public void put(byte[] key, byte[] value, Instant until) {
        write(keyspace -> putExpiring0(keyspace, key, value, Expiry.AT, until.toEpochMilli()));
    }

    /** Deletes a key, if it has a value. */
    public void delete(byte[] key) {
        write(keyspace -> delete0(keyspace, key));
    }

    /**
     * Has the keyspace's merge operator combine the value of a key with an operand. Reads nothing.
     *
     * @throws UnsupportedOperationException if the layout names no operator
     */
    public void merge(byte[] key, byte[] operand) {
        write(keyspace -> merge0(keyspace, key, operand));
    }

    /**
     * Deletes all keys of a range. Cost: as a put, whatever the range holds.
     *
     * @throws UnsupportedOperationException if the layout has no such ranges
     */
    public void deleteRange(KeyRange range) {
        write(keyspace -> deleteRange0(keyspace, range.from, range.to, range.flags));
    }

    /** Deletes all keys that begin with some bytes. Cost: as a put. */
    public void deletePrefix(byte[] prefix) {
        deleteRange(KeyRange.prefix(prefix));
    }

    /**
     * Makes a write. While it would wait for a flush, waits for that first, which an interrupt ends
     * before anything is written.
     */
    private void write(LongToIntFunction write) {
        while (write.applyAsInt(ref.get()) != 0) {
            db.awaitMemory();
        }
    }

    /** Deletes all keys. Cost: a sync of the log, whatever the keyspace holds. */
    public void clear() {
        clearAsync().await();
    }

    /** Deletes all keys, as {@link #clear} does. It cannot be cut short. */
    public Call<Void> clearAsync() {
        return Calls.start(id -> clear0(id, ref.get()));
    }

    // ---- writes that depend on the value, each atomic ----

    /** Gives a key a value, and returns the one before; null if it had none. Keeps its expiry. */
    public byte[] getAndPut(byte[] key, byte[] value) {
        return getAndSet0(ref.get(), key, Objects.requireNonNull(value));
    }

    /** Deletes a key, and returns its value; null if it had none. */
    public byte[] getAndDelete(byte[] key) {
        return getAndSet0(ref.get(), key, null);
    }

    /**
     * Gives a key that has a value another one, and returns the one before; null if it had none.
     */
    public byte[] replace(byte[] key, byte[] value) {
        return replace0(ref.get(), key, value);
    }

    /** Gives a key without a value one, and returns null; otherwise returns its value. */
    public byte[] putIfAbsent(byte[] key, byte[] value) {
        return putIfAbsent0(ref.get(), key, value);
    }

    /**
     * Gives a key the value {@code next} if its value is {@code expected}; null is no value.
     *
     * @return true if it was
     */
    public boolean compareAndSet(byte[] key, byte[] expected, byte[] next) {
        return compareAndSet0(ref.get(), key, expected, next) != 0;
    }

    // ---- expiry ----

    /** The moment at which the value of a key expires; empty if it has none, or does not expire. */
    public Optional<Instant> expiry(byte[] key) {
        long millis = expiry0(ref.get(), key);
        return millis < 0 ? Optional.empty() : Optional.of(Instant.ofEpochMilli(millis));
    }

    /** Has the value of a key expire after a time. Returns false if it has no value. */
    public boolean expire(byte[] key, Duration time) {
        return setExpiry0(ref.get(), key, Expiry.AFTER, time.toMillis()) != 0;
    }

    /** Has the value of a key expire at a moment. Returns false if it has no value. */
    public boolean expire(byte[] key, Instant at) {
        return setExpiry0(ref.get(), key, Expiry.AT, at.toEpochMilli()) != 0;
    }

    /** Has the value of a key stay. Returns false if it has no value. */
    public boolean persist(byte[] key) {
        return setExpiry0(ref.get(), key, Expiry.NEVER, 0) != 0;
    }

    /** The time that values live that are put without one; empty if they stay. */
    public Optional<Duration> timeToLive() {
        long millis = timeToLive0(ref.get());
        return millis < 0 ? Optional.empty() : Optional.of(Duration.ofMillis(millis));
    }

    /** Sets the time that later values live that are put without one; null if they stay. */
    public void setTimeToLive(Duration time) {
        long millis = time == null ? -1 : time.toMillis();
        Calls.start(id -> setTimeToLive0(id, ref.get(), millis)).await();
    }

    // ---- asynchronous calls ----

    /** The value of a key; null if it has none. What memory knows is answered at once. */
    public CompletableFuture<byte[]> getAsync(byte[] key) {
        return Calls.startOrAnswer(id -> getAsync0(id, ref.get(), key), db.executor);
    }

    /** The values of several keys, in their order, null for those without one. */
    public CompletableFuture<List<byte[]>> multiGetAsync(List<byte[]> keys) {
        byte[] packed = pack(keys);
        return Calls.start(
                id -> multiGetAsync0(id, ref.get(), packed), ReadView::values, db.executor);
    }

    /** Gives a key a value. Writes of a key take effect in the order of their calls. */
    public CompletableFuture<Void> putAsync(byte[] key, byte[] value) {
        return Calls.start(
                id -> putAsync0(id, ref.get(), key, value), answer -> null, db.executor);
    }

    /** Deletes a key. */
    public CompletableFuture<Void> deleteAsync(byte[] key) {
        return Calls.start(id -> deleteAsync0(id, ref.get(), key), answer -> null, db.executor);
    }

    /**
     * The first entries of a range, from its beginning.
     *
     * @param range read forward
     * @param entriesMax the number of entries
     */
    public CompletableFuture<List<Entry>> scanAsync(KeyRange range, int entriesMax) {
        if ((range.flags & ~(KeyRange.FROM_INCLUDED | KeyRange.TO_INCLUDED)) != 0) {
            throw new UnsupportedOperationException("expected a range forward, found " + range);
        }
        return Calls.start(
                id -> scanAsync0(id, ref.get(), range.from, range.to, range.flags, entriesMax),
                block -> EntryIterator.of(block).toList(),
                db.executor);
    }

    // ---- bulk loads ----

    /**
     * Begins to load sorted entries into tables, past the log and the memtables. Nothing is visible
     * before it ends, and then everything. Cost: each entry is written once.
     */
    public BulkLoad bulkLoad() {
        return new BulkLoad(this);
    }

    // ---- maintenance ----

    /** Writes the entries of all memtables to tables. */
    public Call<Void> flush() {
        return Calls.start(id -> flush0(id, ref.get()));
    }

    /** Merges all tables of a range. Tells its progress and can be cancelled. */
    public Call<Void> compact(KeyRange range) {
        return Calls.start(id -> compact0(id, ref.get(), range.from, range.to, range.flags));
    }

    /** Waits until background work has nothing left to merge. */
    public Call<Void> waitUntilMerged() {
        return Calls.start(id -> waitUntilMerged0(id, ref.get()));
    }

    /**
     * Gives the keyspace another design, as text; its trees take the new shape in the background.
     */
    public void retune(String design) {
        Calls.start(id -> retune0(id, ref.get(), utf8(design))).await();
    }

    /** Has the keyspace choose its design by its own operations, or no longer. */
    public void setSelfTuning(boolean on) {
        setSelfTuning0(ref.get(), on ? 1 : 0);
    }

    // ---- facts ----

    /** The name. */
    public String name() {
        return text(name0(ref.get()));
    }

    /** The layout as text. */
    public String layout() {
        return text(layout0(ref.get()));
    }

    /** The design as text: a line for each choice. */
    public String design() {
        return text(design0(ref.get()));
    }

    /** The approximate number of bytes that a range takes on disk and in memtables. */
    public long approximateBytes(KeyRange range) {
        return approximateBytes0(ref.get(), range.from, range.to, range.flags);
    }

    /** The approximate number of entries of a range. Cost: no reads of data. */
    public long approximateEntries(KeyRange range) {
        return approximateEntries0(ref.get(), range.from, range.to, range.flags);
    }

    /** The statistics as JSON. */
    public String statsJson() {
        return text(stats0(ref.get()));
    }

    /**
     * The statistics by path: numbers ({@link Long}, {@link Double}), texts and truth values. A
     * level is named by its index: {@code levels.0.bytes}.
     */
    public Map<String, Object> stats() {
        return Stats.unpack(statsMap0(ref.get()));
    }

    /**
     * The keyspace as a map. It is a view: its methods read and write the keyspace. A method for
     * one key is atomic. Iterators show the entries as they were when the iterator was made. Null
     * is neither a key nor a value. {@code size} reads all keys.
     *
     * <p>An iterator that is not read to its end keeps what it reads until it is garbage collected.
     *
     * @throws UnsupportedOperationException if the layout is not {@code sorted}
     */
    public ConcurrentNavigableMap<Bytes, Bytes> asMap() {
        String layout = layout();
        if (!layout.startsWith("sorted")) {
            throw new UnsupportedOperationException(
                    "expected a keyspace with the layout `sorted`, found `" + layout + "`");
        }
        return new KeyspaceMap(this);
    }

    @Override
    public String toString() {
        try {
            return "Keyspace(" + name() + ")";
        } catch (IllegalStateException e) {
            return "Keyspace(closed)";
        }
    }

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] utf8) {
        return new String(utf8, StandardCharsets.UTF_8);
    }

    /**
     * This and the writes below return 1 if they would wait for a flush, and have written nothing.
     */
    private native int put0(long keyspace, byte[] key, byte[] value);

    private native int putDirect0(
            long keyspace,
            ByteBuffer key,
            int keyAt,
            int keyBytes,
            ByteBuffer value,
            int valueAt,
            int valueBytes);

    private native int putExpiring0(long keyspace, byte[] key, byte[] value, int kind, long millis);

    private native int delete0(long keyspace, byte[] key);

    private native int merge0(long keyspace, byte[] key, byte[] operand);

    private native int deleteRange0(long keyspace, byte[] from, byte[] to, int flags);

    private native void clear0(long id, long keyspace);

    private native byte[] getAndSet0(long keyspace, byte[] key, byte[] value);

    private native byte[] replace0(long keyspace, byte[] key, byte[] value);

    private native byte[] putIfAbsent0(long keyspace, byte[] key, byte[] value);

    private native int compareAndSet0(long keyspace, byte[] key, byte[] expected, byte[] next);

    private native long expiry0(long keyspace, byte[] key);

    private native int setExpiry0(long keyspace, byte[] key, int kind, long millis);

    private native long timeToLive0(long keyspace);

    private native void setTimeToLive0(long id, long keyspace, long millis);

    private native byte[] getAsync0(long id, long keyspace, byte[] key);

    private native void multiGetAsync0(long id, long keyspace, byte[] keys);

    private native void putAsync0(long id, long keyspace, byte[] key, byte[] value);

    private native void deleteAsync0(long id, long keyspace, byte[] key);

    private native void scanAsync0(
            long id, long keyspace, byte[] from, byte[] to, int flags, int entriesMax);

    private native void flush0(long id, long keyspace);

    private native void compact0(long id, long keyspace, byte[] from, byte[] to, int flags);

    private native void waitUntilMerged0(long id, long keyspace);

    private native void retune0(long id, long keyspace, byte[] design);

    private native void setSelfTuning0(long keyspace, int on);

    private native byte[] name0(long keyspace);

    private native byte[] layout0(long keyspace);

    private native byte[] design0(long keyspace);

    private native long approximateBytes0(long keyspace, byte[] from, byte[] to, int flags);

    private native long approximateEntries0(long keyspace, byte[] from, byte[] to, int flags);

    private native byte[] stats0(long keyspace);

    private native byte[] statsMap0(long keyspace);
}
